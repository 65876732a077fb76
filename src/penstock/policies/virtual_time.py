"""Virtual time, which passes only while all tasks wait: for tests of code with policies in it."""

import asyncio
import selectors
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from penstock.clock import SECOND
from penstock.policies import clock

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that does not sleep: when all tasks wait, its time leaps to the next timer."""

    def __init__(self) -> None:
        self.elapsed = 1.0
        super().__init__(_Leaping(self))

    def time(self) -> float:
        return self.elapsed


class VirtualTime:
    """Runs coroutines in virtual time, by which policies go too."""

    def __init__(self) -> None:
        self.loop: VirtualLoop | None = None

    def now(self) -> float:
        """Return the seconds that have passed."""
        return 0.0 if self.loop is None else self.loop.elapsed - 1.0

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run *main* until it is done, without real waiting."""
        with self._in_place(), asyncio.Runner(loop_factory=self._new_loop) as runner:
            return runner.run(main)

    def _new_loop(self) -> VirtualLoop:
        self.loop = VirtualLoop()
        return self.loop

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        before = clock.now
        clock.now = lambda: 0 if self.loop is None else round(self.loop.elapsed * SECOND)
        try:
            yield
        finally:
            clock.now = before


class _Leaping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self._loop.elapsed += timeout
        return ready
