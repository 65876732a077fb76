"""Who may change what is remembered: one thread at a time in a process.

All lines and slots of a process are behind one lock, so that a call that must pass several limits passes all of
them in one decision.  It is held for about a microsecond and never while anybody's own code runs.

Giving back never waits for the lock, since it may happen in a finalizer that interrupted its holder: what cannot be
given back at once is left in `later`, and whoever unlocks looks there.
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


class Guard:
    """The lock, what is to be done under it when it is free, and what is to be told once it is."""

    __slots__ = ("later", "lock", "outbox")

    def __init__(self) -> None:
        self.lock = Lock()
        self.later: deque[tuple[Work, tuple[Any, ...]]] = deque()
        self.outbox: deque[tuple[Work, tuple[Any, ...]]] = deque()

    # Used as `with guard, guard.lock:`: no interrupt comes between taking the lock and seeing to its release.

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        if self.later or self.outbox:
            self.catch_up()

    def do(self, work: Work, *args: Any) -> None:
        """Do *work* under the lock: now, or as soon as whoever has it lets go."""
        self.later.append((work, args))
        self.catch_up()

    def catch_up(self) -> None:
        """Do what was left for later, then tell what is to be told."""
        while self.later and self.lock.acquire(blocking=False):
            try:
                with suppress(IndexError):
                    while True:
                        work, args = self.later.popleft()
                        work(*args)
            finally:
                self.lock.release()
        with suppress(IndexError):
            while True:
                tell, args = self.outbox.popleft()
                tell(*args)


class Resets(ABC):
    """What must forget its holders and waiters in a forked process, where their threads do not exist."""

    @abstractmethod
    def reset(self) -> None:
        """Forget everybody."""


guard = Guard()
everyone: WeakSet[Resets] = WeakSet()


def _after_fork() -> None:
    guard.lock = Lock()
    guard.later.clear()
    guard.outbox.clear()
    for each in list(everyone):
        each.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
