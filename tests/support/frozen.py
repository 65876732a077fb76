"""Processes that are stopped for a while, as when their machine is suspended."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.timing import until


def freeze(pid: int, store: str) -> None:
    """Stop all threads of a process; not within a transaction on a SQLite file, which it would keep locked."""
    until(lambda: _stopped(pid, store))


def _stopped(pid: int, store: str) -> bool:
    os.kill(pid, signal.SIGSTOP)
    until(lambda: all(_state(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir()))
    if store.startswith("postgresql:") or _can_write(store):
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(") ")[2][0]


def _can_write(store: str) -> bool:
    with closing(sqlite3.connect(store, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True
