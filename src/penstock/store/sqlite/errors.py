"""Errors of SQLite, and patience with a file that other processes use."""

import sqlite3
from collections.abc import Callable
from typing import Final

from penstock.clock import pause
from penstock.errors import StoreBusyError, StoreDownError, StoreError

BUSY_TRIES: Final = 20_000
BUSY_PAUSE: Final = 0.001
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: sqlite3.Error) -> bool:
    """Tell whether *error* is about what the file holds."""
    # An error of Python's own has no code; the lowest byte of a code says what kind it is.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def is_interrupt(error: sqlite3.Error) -> bool:
    """Tell whether a statement was given up because its time was over."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT


def translated(error: sqlite3.Error, path: str) -> StoreError:
    """Return *error* in penstock's words."""
    text = str(error)
    if "closed database" in text:
        return StoreDownError(f"{path} was closed")
    if "locked" in text or "busy" in text:
        return StoreBusyError(f"{path} is locked by another process")
    if "unable to open" in text or "readonly" in text:
        return StoreDownError(f"cannot open the database {path}: {text}; check the path and its permissions")
    return StoreError(f"the database {path} failed: {text}")


def patiently(step: Callable[[], object], path: str) -> None:
    """Take a *step* as soon as no other process is in its way."""
    # SQLite's own busy handler sleeps ever longer, up to 100 ms, and so loses to busier processes.
    for _ in range(BUSY_TRIES):
        try:
            step()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise
            pause(BUSY_PAUSE)
        else:
            return
    raise StoreBusyError(f"{path} stayed locked by another process; is one of them stopped in a transaction?")
