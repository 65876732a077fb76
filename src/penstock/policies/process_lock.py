"""The lock behind which all wait lists and slots of a process are.

There is one for all limits, so that a call that must pass several of them passes all in one decision.  It is held for
about a microsecond, and never while users' code runs.

Giving a slot back never waits for the lock, since that may happen in a finalizer that interrupted the thread which
holds it.  What cannot be given back at once is left in `later`, and the thread that unlocks looks there.
"""

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any
from weakref import WeakSet

Work = Callable[..., object]


class DeferringLock:
    """A lock with two queues: work to run while holding it, and callbacks to run after its release.

    Used as `with lock, lock.mutex:`, so that no interrupt comes between locking and the promise to unlock.
    """

    __slots__ = ("later", "mutex", "outbox")

    def __init__(self) -> None:
        self.mutex = Lock()
        self.later: deque[tuple[Work, tuple[Any, ...]]] = deque()
        self.outbox: deque[tuple[Work, tuple[Any, ...]]] = deque()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        if self.later or self.outbox:
            self.catch_up()

    def do(self, work: Work, *args: Any) -> None:
        """Do *work* under the lock: now, or as soon as the thread that holds it unlocks."""
        self.later.append((work, args))
        self.catch_up()

    def catch_up(self) -> None:
        """Do what was left for later, then run the callbacks."""
        while self.later and self.mutex.acquire(blocking=False):
            try:
                with suppress(IndexError):
                    while True:
                        work, args = self.later.popleft()
                        work(*args)
            finally:
                self.mutex.release()
        with suppress(IndexError):
            while True:
                tell, args = self.outbox.popleft()
                tell(*args)


class ForkAware(ABC):
    """An object that forgets its holders and waiters in a forked process, where their threads do not exist."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all holders and waiters."""


lock = DeferringLock()
registry: WeakSet[ForkAware] = WeakSet()


def _after_fork() -> None:
    lock.mutex = Lock()
    lock.later.clear()
    lock.outbox.clear()
    for each in list(registry):
        each.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
