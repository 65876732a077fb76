"""What an app holds while it is open: the engine, and threads for coroutines that use it."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

from penstock.app.backend import AnyEngine
from penstock.background.watcher import Watcher
from penstock.job import Topic

T = TypeVar("T")

# The engine gathers calls from several threads into one flush to disk, so a few more than the cores pay off.
THREADS: Final = 16


class _OpenEngine:
    """One engine in one process."""

    def __init__(self, engine: AnyEngine) -> None:
        self.process = os.getpid()
        self.engine = engine
        # Not the loop's own threads: handlers may fill those while they wait for each other's results.
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock")
        self.ends = Watcher(
            lambda: engine.revision(Topic.ENDS),
            lambda revision, seconds: engine.wait(revision, seconds, Topic.ENDS),
        )


class Connection:
    """An engine that opens at first use, and again in a forked child, where the parent's must not be touched.

    Closing leaves an engine open that is not *owned*.
    """

    def __init__(self, open_engine: Callable[[], AnyEngine], *, owned: bool = True) -> None:
        self._open_engine = open_engine
        self._owned = owned
        self._lock = threading.Lock()
        self._held: _OpenEngine | None = None
        self._inherited: list[_OpenEngine] = []

    @property
    def engine(self) -> AnyEngine:
        return self._hold().engine

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run *function*, which blocks, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._hold().threads, function)

    @property
    def ends(self) -> Watcher:
        """What coroutines wait at for jobs to end."""
        return self._hold().ends

    @contextmanager
    def lent(self, engine: AnyEngine) -> Iterator[None]:
        """Use *engine* instead for a while."""
        with self._lock:
            held, self._held = self._held, _OpenEngine(engine)
        try:
            yield
        finally:
            with self._lock:
                self._held = held

    def close(self) -> None:
        """Close the engine; the next use opens it again."""
        with self._lock:
            held, self._held = self._held, None
        if held is not None and held.process == os.getpid():
            held.ends.close()
            held.threads.shutdown(wait=False)
            if self._owned:
                held.engine.close()

    def _hold(self) -> _OpenEngine:
        held = self._held
        if held is None or held.process != os.getpid():
            with self._lock:
                held = self._held
                if held is None or held.process != os.getpid():
                    # Letting go of the parent's would close it, and that belongs to the parent.
                    self._inherited += [held] if held else []
                    held = self._held = _OpenEngine(self._open_engine())
        return held
