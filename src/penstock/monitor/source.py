"""The engine that is looked at: one that is given, or one that is opened when the first page is asked for."""

import threading
from collections.abc import Callable
from typing import TypeVar

from penstock.engine import Engine
from penstock.errors import StoreBrokenError

T = TypeVar("T")


class Source:
    """Runs work on the engine.  One that it opened itself it opens again once the store's file was replaced."""

    def __init__(self, engine: Engine | Callable[[], Engine]) -> None:
        self._open = None if isinstance(engine, Engine) else engine
        self._engine = engine if isinstance(engine, Engine) else None
        self._lock = threading.Lock()

    def run(self, work: Callable[[Engine], T]) -> T:
        """Run *work*, which blocks."""
        engine = self._opened()
        try:
            return work(engine)
        except StoreBrokenError:
            self._leave(engine)
            raise

    def close(self) -> None:
        """Close the engine, if it was opened here."""
        with self._lock:
            if self._open is not None and self._engine is not None:
                self._engine.close()
                self._engine = None

    def _opened(self) -> Engine:
        with self._lock:
            if self._engine is None:
                assert self._open is not None  # noqa: S101 - for mypy
                self._engine = self._open()
            return self._engine

    def _leave(self, broken: Engine) -> None:
        with self._lock:
            if self._open is not None and self._engine is broken:
                self._engine = None
