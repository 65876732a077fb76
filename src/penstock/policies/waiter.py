"""A call that waits, in a task or in a thread, and how any thread wakes it."""

import asyncio
from _thread import allocate_lock
from asyncio.events import _get_running_loop as running_loop
from collections.abc import Callable, Hashable, Iterable, Iterator, ValuesView
from contextlib import contextmanager, suppress
from itertools import count
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from penstock.clock import SECOND
from penstock.policies import clock
from penstock.policies.clock import NEVER

if TYPE_CHECKING:
    from penstock.policies.call_admission import CallAdmission
    from penstock.policies.limits import JointWaiters
    from penstock.policies.wait_list import Entry, Shut, WaitList

WAITING: Final = 0
CALLED: Final = 1  # it is next, and looks for itself, since a limit remembers its start when it begins
GRANTED: Final = 2
REFUSED: Final = 3
GONE: Final = 4

# The tasks that run at this moment: one, as long as there is one loop.  Empty where Python keeps them elsewhere.
# `current_task` takes longer than all else on the way in.
running: Final[ValuesView[Any]] = getattr(asyncio.tasks, "_current_tasks", {}).values()


class _NoLoop:
    """What a future that is done needs of a loop."""

    def get_debug(self) -> bool:
        return False


# Can be awaited in any loop, any number of times; there is nothing to wait for.
DONE: Final[Any] = asyncio.Future(loop=_NoLoop())  # type: ignore[arg-type]
DONE.set_result(None)

_next: Final = count(1).__next__


class Wishes(NamedTuple):
    """What a caller asks of its wait: *until* when at most, with which *priority*, in which *group*."""

    until: int = NEVER
    priority: int = 0
    group: Hashable = None


NO_WISHES: Final = Wishes()


# Not known to the garbage collector: a wait list keeps it anyway, and many of them would slow the collector.
class Waiter(msgspec.Struct, eq=False, gc=False):
    """A call in a wait list, by *seq*, from the moment it *joined* until *until* at most."""

    admission: "CallAdmission"
    key: Hashable
    weight: int
    owner: object
    joined: int = 0
    wait_list: "WaitList | None" = None
    loop: asyncio.AbstractEventLoop | None = None
    future: "asyncio.Future[None] | None" = None
    until: int = NEVER
    why: str = "wait_timeout"
    bounded: bool = False
    priority: int = 0
    group: Hashable = None
    seq: int = msgspec.field(default_factory=_next)
    state: int = WAITING
    reason: str = ""
    at: int = 0  # when it was granted
    joint: "JointWaiters | None" = None  # set if its call needs several limits
    signal: Any = None
    alarm: int = NEVER
    thread: int = msgspec.field(default_factory=get_ident)
    timers: list[asyncio.TimerHandle] | None = None

    @property
    def entry(self) -> "Entry":
        """What is in the wait list for it."""
        return self if self.joint is None else self.joint

    @property
    def head(self) -> "Waiter":
        return self

    @property
    def size(self) -> int:
        return 1

    @property
    def timed(self) -> bool:
        return self.admission.timed

    def needs(self, admission: "CallAdmission") -> bool:
        return self.admission is admission

    def all_waiting(self) -> "list[Waiter]":
        return [self]

    def shut_by(self, now: int) -> "Shut | None":
        """Return what keeps it from starting."""
        at = self.admission.opens_at(self.key, self.weight, now)
        return None if at <= now else (self.admission, self.key, at)

    def refused(self) -> None:
        """Nothing: it needs one limit only."""

    def take(self, now: int) -> None:
        self.admission.take(self.key, self.weight, now, self.owner)
        self.state = GRANTED
        self.at = now

    def give_back(self) -> "list[WaitList | None]":
        """Undo `take`, since the call has ended; return the wait lists that can move on."""
        if self.joint is not None:
            return self.joint.give_back(self)
        self.admission.undo(self.key, self.weight, self.at, self.owner)
        return [self.admission.wait_lists.get(self.key)]

    def wake(self) -> bool:
        """Let its task or thread look at its state; tell whether that is possible."""
        if self.signal is not None:
            if self.signal.locked():
                self.signal.release()
            return True
        future = self.future
        if future is None or future.done():
            return False
        try:
            if self.thread == get_ident():
                future.set_result(None)
            elif _woken_together:
                _woken_together[-1].append(self)
            else:
                future.get_loop().call_soon_threadsafe(_finish, (self,))
        except RuntimeError:  # its loop is closed and will never resume it
            return False
        return True

    def ready_to_wait(self) -> None:
        """Make what wakes it: a future in a task, a lock in a thread."""
        if self.loop is not None:
            self.future = self.loop.create_future()
        elif self.signal is None:
            self.signal = allocate_lock()
            self.signal.acquire()

    def remind(self, at: int, ring: Callable[["Waiter"], object]) -> None:
        """Call *ring* with it at the moment *at*."""
        if self.alarm <= at:
            return
        self.alarm = at
        if self.loop is None:
            self.wake()
        else:
            with suppress(RuntimeError):  # its loop is closed and will never resume it
                if self.thread == get_ident():
                    _set_timer(self, at, ring)
                else:
                    self.loop.call_soon_threadsafe(_set_timer, self, at, ring)

    def forget(self) -> None:
        """Cancel every reminder."""
        for timer in self.timers or ():
            timer.cancel()
        self.timers = None


def this_task() -> "asyncio.Task[Any] | None":
    """Return the task that runs in this thread."""
    try:
        (task,) = running
    except (ValueError, RuntimeError):
        return asyncio.current_task()
    found: asyncio.Task[Any] = task
    return found


def myself() -> tuple[object, asyncio.AbstractEventLoop | None]:
    """Return the running task, else the thread, and its event loop if there is one."""
    loop = running_loop()
    if loop is None:
        return get_ident(), None
    return asyncio.current_task(loop) or get_ident(), loop


def _set_timer(waiter: Waiter, at: int, ring: Callable[[Waiter], object]) -> None:
    if waiter.state not in (WAITING, CALLED) or waiter.loop is None:
        return
    timer = waiter.loop.call_later(max(at - clock.now(), 0) / SECOND, ring, waiter)
    waiter.timers = [*(waiter.timers or ()), timer]


# Waiters in the loops of other threads, while the thread that holds the lock wakes many.
_woken_together: Final[list[list[Waiter]]] = []


@contextmanager
def together(unreachable: Callable[[Waiter], object]) -> Iterator[None]:
    """Wake at the end of the block all that are woken in it, each loop once; for use under the lock.

    Waiters whose loops are closed are passed to *unreachable*.
    """
    waiters: list[Waiter] = []
    _woken_together.append(waiters)
    try:
        yield
    finally:
        _woken_together.remove(waiters)
        loops: dict[Any, list[Waiter]] = {}
        for waiter in waiters:
            loops.setdefault(waiter.loop, []).append(waiter)
        for loop, theirs in loops.items():
            try:
                loop.call_soon_threadsafe(_finish, theirs)
            except RuntimeError:
                for waiter in theirs:
                    unreachable(waiter)


def _finish(waiters: Iterable[Waiter]) -> None:
    for waiter in waiters:
        if waiter.future is not None and not waiter.future.done():
            waiter.future.set_result(None)
