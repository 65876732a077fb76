"""huey on SQLite: a key is a lock that makes the task fail and try again; a rate is a counter per second."""

import logging
from types import SimpleNamespace

import common
from huey import SqliteHuey
from huey.consumer import Consumer

FOREVER = 1_000_000_000


class Huey:
    def __init__(self, order: SimpleNamespace) -> None:
        self.order = order
        # A retry is logged with its traceback, which would be most of the work.
        logging.disable(logging.CRITICAL)
        self.huey = SqliteHuey(filename=order.url, fsync=True, results=False)
        self.witness: common.Witness | None = None
        self.tasks = {kind: self._task(kind) for kind in ("noop", "keyed", "busy", "limited", "stamped")}

    def install(self) -> None:
        """Leave it to the storage, which makes its own tables."""

    def connect(self, callers: int) -> None:
        """Leave it to the storage, which connects every thread by itself."""

    def one(self, kind: str, number: int) -> None:
        self.tasks[kind](number)

    def many(self, kind: str, numbers: list[int]) -> None:
        for number in numbers:
            self.one(kind, number)

    def work(self, witness: common.Witness) -> None:
        self.witness = witness
        Consumer(self.huey, periodic=False, **self.order.settings).start()

    def left(self) -> bool:
        """Say no: a job is deleted when it is taken, so the last start is the end of the queue."""
        return False

    def _task(self, kind: str) -> object:
        def handle(number: int) -> None:
            if kind in {"keyed", "busy"}:
                with self.huey.lock_task(f"{kind}-{number if kind == 'keyed' else 0}"):
                    self.witness.run_plain(kind, number)
            elif kind == "limited":
                with self.huey.rate_limit("api", limit=200, per=1):
                    self.witness.run_plain(kind, number)
            else:
                self.witness.run_plain(kind, number)

        return self.huey.task(name=kind, retries=FOREVER if kind in {"keyed", "busy"} else 0)(handle)


common.main(Huey)
