"""How a task and how a thread waits.

Cancelled or interrupted at any point, it leaves its line at once; what it was given in the same moment goes on to the
next.
"""

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Final

from penstock.policies import moment
from penstock.policies.deadline import NEVER
from penstock.policies.guard import guard
from penstock.policies.limiter import expire, leave_and_advance, resume, ring
from penstock.policies.waiter import CALLED, GRANTED, WAITING, Waiter

_SECOND: Final = 1_000_000


async def wait(waiter: Waiter, cancelled: Callable[[Waiter], object]) -> bool:
    """Wait in a task; tell whether it was granted."""
    try:
        if waiter.until != NEVER:
            waiter.timers = [*(waiter.timers or ()), _expiry(waiter)]
        while True:
            assert waiter.future is not None  # noqa: S101 - for the type checker
            await waiter.future
            if waiter.state == CALLED:
                waiter.ready_to_wait()
                with guard, guard.lock:
                    resume(waiter)
            if waiter.state != WAITING:
                break
    except BaseException:
        guard.do(leave_and_advance, waiter)
        waiter.forget()
        cancelled(waiter)
        raise
    if waiter.timers is not None:
        waiter.forget()
    return waiter.state == GRANTED


def block(waiter: Waiter, cancelled: Callable[[Waiter], object]) -> bool:
    """Wait in a thread; tell whether it was granted."""
    try:
        while waiter.state in (WAITING, CALLED):
            until = min(waiter.until, waiter.alarm)
            waiter.signal.acquire(timeout=-1 if until == NEVER else max(until - moment.now(), 0) / _SECOND)
            if waiter.state == CALLED:
                with guard, guard.lock:
                    if waiter.state == CALLED:
                        resume(waiter)
            elif waiter.until <= moment.now():
                expire(waiter)
            elif waiter.alarm <= moment.now():
                ring(waiter)
    except BaseException:
        guard.do(leave_and_advance, waiter)
        cancelled(waiter)
        raise
    return waiter.state == GRANTED


def _expiry(waiter: Waiter) -> TimerHandle:
    assert waiter.loop is not None  # noqa: S101 - for the type checker
    return waiter.loop.call_later(max(waiter.until - moment.now(), 0) / _SECOND, expire, waiter)
