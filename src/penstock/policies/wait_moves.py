"""How wait lists move on, and how tasks and threads wait in them.

Code that changes a limit calls `advance` for the wait list it changed, which grants, calls, moves or reminds the next
entry.  Everything here but `wait` and `block` runs under the process lock.

Invariant: behind an open limit no call waits, but one that was called and is about to look.
Invariant: a call that waits holds nothing, unless it was refused so often that it may reserve slots.
"""

from asyncio import TimerHandle
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.clock import SECOND
from penstock.limits.gate import ON_RELEASE
from penstock.policies import clock
from penstock.policies.clock import NEVER
from penstock.policies.process_lock import lock
from penstock.policies.wait_list import Entry, WaitList
from penstock.policies.waiter import CALLED, GONE, GRANTED, REFUSED, WAITING, Waiter

if TYPE_CHECKING:
    from penstock.policies.limits import JointWaiters


Agenda = list[WaitList | None]


def advance(wait_list: WaitList | None, now: int) -> None:
    """Grant, call, move or remind the next entry of *wait_list*, and of the lists that this touches."""
    agenda = [wait_list]
    while agenda:
        wait_list = agenda.pop()
        while wait_list is not None:
            entry = wait_list.first(now)
            if entry is None:
                if wait_list.admission.wait_lists.get(wait_list.key) is wait_list:
                    del wait_list.admission.wait_lists[wait_list.key]
                break
            shut = entry.shut_by(now)
            if shut is None:
                if not _admit(entry, wait_list, now, agenda):
                    break
            elif shut[0] is wait_list.admission and shut[1] == wait_list.key:
                if shut[2] < ON_RELEASE:
                    entry.head.remind(shut[2], ring)
                break
            else:
                wait_list.pop()
                entry.refused()
                agenda.append(shut[0].join(entry, shut[1]))


def _admit(entry: Entry, wait_list: WaitList, now: int, agenda: Agenda) -> bool:
    """Let *entry* start; tell whether the entry behind it can be looked at."""
    head = entry.head
    if head.until <= now:
        refuse(head, head.why, now, agenda)
        return True
    if wait_list.codel is not None and head.bounded and wait_list.codel.sheds(now - head.joined, now):
        refuse(head, "shed", now, agenda)
        return True
    if entry.timed:
        if head.state == WAITING:
            head.state = CALLED
            if not head.wake():
                leave(head, now, agenda)
                return True
        return False
    wait_list.pop()
    entry.take(now)
    if not head.wake():
        head.state = GONE
        agenda += head.give_back()
    if head.joint is not None:
        _place(head.joint, now, agenda)
    return True


def _place(joint: "JointWaiters", now: int, agenda: Agenda) -> None:
    """Put *joint* into the list of the limit that keeps its first waiter."""
    if joint.size:
        admission, key, _ = joint.shut_by(now) or (*joint.last, 0)
        agenda.append(admission.join(joint, key))


def refuse(waiter: Waiter, reason: str, now: int, agenda: Agenda) -> None:
    """End the wait of *waiter* with a refusal."""
    waiter.reason = reason
    if waiter.joint is not None and waiter.joint.wait_list is not None:
        waiter.admission, waiter.key = waiter.joint.wait_list.admission, waiter.joint.wait_list.key
    _take_out(waiter, now, agenda)
    waiter.state = REFUSED
    waiter.wake()


def refuse_and_advance(waiter: Waiter, reason: str) -> None:
    """End the wait of *waiter* with a refusal, and serve the next."""
    now = clock.now()
    agenda: Agenda = []
    refuse(waiter, reason, now, agenda)
    for wait_list in agenda:
        advance(wait_list, now)


def leave(waiter: Waiter, now: int, agenda: Agenda) -> None:
    """End the wait of *waiter*, and give back what it was granted meanwhile."""
    if waiter.state == GRANTED:
        waiter.state = GONE
        agenda += waiter.give_back()
    elif waiter.state in (WAITING, CALLED):
        _take_out(waiter, now, agenda)
        waiter.state = GONE


def leave_and_advance(waiter: Waiter) -> None:
    """End the wait of *waiter*, and serve the next."""
    now = clock.now()
    agenda: Agenda = []
    leave(waiter, now, agenda)
    for wait_list in agenda:
        advance(wait_list, now)


def _take_out(waiter: Waiter, now: int, agenda: Agenda) -> None:
    joint = waiter.joint
    wait_list = waiter.entry.wait_list
    if joint is not None:
        agenda += joint.remove(waiter, now)
        if wait_list is not None and not joint.size:
            wait_list.discard(joint)
    elif wait_list is not None:
        wait_list.discard(waiter)
        waiter.admission.left(waiter)
    waiter.forget()
    agenda.append(wait_list)


def resume(waiter: Waiter) -> None:
    """Let a waiter that was called take what is there, at this very moment."""
    entry = waiter.entry
    now = clock.now()
    wait_list = entry.wait_list
    assert wait_list is not None  # noqa: S101 - a called waiter is still in its list
    waiter.state = WAITING
    waiter.alarm = NEVER
    agenda: Agenda = [wait_list]
    shut = entry.shut_by(now)
    if shut is None:
        wait_list.remove(entry)
        entry.take(now)
        if waiter.joint is not None:
            _place(waiter.joint, now, agenda)
    elif shut[:2] != (wait_list.admission, wait_list.key):
        # It may have reserved what an elder entry wants that came into this list meanwhile, and stand behind it.
        wait_list.remove(entry)
        entry.refused()
        agenda.append(shut[0].join(entry, shut[1]))
    for each in agenda:
        advance(each, now)


def ring(waiter: Waiter) -> None:
    """Look at the list of *waiter* again, since the time has come."""
    with lock, lock.mutex:
        waiter.alarm = NEVER
        if waiter.state == WAITING:
            advance(waiter.entry.wait_list, clock.now())


def expire(waiter: Waiter) -> None:
    """Refuse *waiter* if it still waits."""
    with lock, lock.mutex:
        if waiter.state in (WAITING, CALLED):
            refuse_and_advance(waiter, waiter.why)


async def wait(waiter: Waiter, cancelled: Callable[[Waiter], object]) -> bool:
    """Wait in a task; tell whether the slot was granted.

    Cancelled at any point, the waiter leaves its list at once; what it was granted in the same moment goes to the next.
    """
    try:
        if waiter.until != NEVER:
            waiter.timers = [*(waiter.timers or ()), _expiry(waiter)]
        while True:
            assert waiter.future is not None  # noqa: S101 - for the type checker
            await waiter.future
            if waiter.state == CALLED:
                waiter.ready_to_wait()
                with lock, lock.mutex:
                    resume(waiter)
            if waiter.state != WAITING:
                break
    except BaseException:
        lock.do(leave_and_advance, waiter)
        waiter.forget()
        cancelled(waiter)
        raise
    if waiter.timers is not None:
        waiter.forget()
    return waiter.state == GRANTED


def block(waiter: Waiter, cancelled: Callable[[Waiter], object]) -> bool:
    """Wait in a thread; tell whether the slot was granted.  Interrupted, it leaves as in `wait`."""
    try:
        while waiter.state in (WAITING, CALLED):
            until = min(waiter.until, waiter.alarm)
            waiter.signal.acquire(timeout=-1 if until == NEVER else max(until - clock.now(), 0) / SECOND)
            if waiter.state == CALLED:
                with lock, lock.mutex:
                    if waiter.state == CALLED:
                        resume(waiter)
            elif waiter.until <= clock.now():
                expire(waiter)
            elif waiter.alarm <= clock.now():
                ring(waiter)
    except BaseException:
        lock.do(leave_and_advance, waiter)
        cancelled(waiter)
        raise
    return waiter.state == GRANTED


def _expiry(waiter: Waiter) -> TimerHandle:
    assert waiter.loop is not None  # noqa: S101 - for the type checker
    return waiter.loop.call_later(max(waiter.until - clock.now(), 0) / SECOND, expire, waiter)
