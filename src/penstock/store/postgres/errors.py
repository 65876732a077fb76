"""Errors of PostgreSQL: which may pass, and what penstock calls them."""

from typing import Final

import psycopg

from penstock.clock import SECOND, monotonic, pause
from penstock.errors import SchemaError, StoreBusyError, StoreDownError, StoreError

PATIENCE: Final = 15 * SECOND  # how long a caller waits for a server that is being restarted
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5
# A statement was prepared in another session: there is a pooler before the server.
UNPREPARED: Final = {"26000", "42P05"}
_PASSING: Final = {
    "40001",  # serialization failure
    "40P01",  # deadlock
    "55P03",  # lock not available
    "57P01",  # the server is being shut down
    "57P02",  # it crashed
    "57P03",  # it starts up
    "53100",  # disk full
    "53200",  # out of memory
    "53300",  # too many connections
    "25006",  # read only: a standby answered
    "25P03",  # the transaction was idle for too long: this process was stopped
    "23505",  # another transaction was first; the next attempt sees what it did
    "0A000",  # a cached plan no longer fits: the schema was changed
}
_FINAL: Final = {"3D000", "28000", "28P01", "3F000", "42501"}


def passing(error: psycopg.Error) -> bool:
    """Tell whether trying the whole transaction again may help."""
    code = error.sqlstate
    if code is None:
        return isinstance(error, psycopg.OperationalError)
    return code in _PASSING or code in UNPREPARED or code.startswith("08")


def hopeless(error: psycopg.Error) -> bool:
    """Tell whether connecting again cannot help: no such database, no permission."""
    text = str(error)
    return error.sqlstate in _FINAL or any(
        word in text for word in ("does not exist", "password", "authentication", "pg_hba")
    )


def translated(error: psycopg.Error, address: str) -> StoreError:
    """Return *error* in penstock's words."""
    text = " ".join(str(error).split())
    code = error.sqlstate or ""
    if code in {"42P01", "3F000"}:
        return SchemaError(f"{address} has no penstock tables; run `penstock migrate` first ({text})")
    if code == "42501":
        return StoreDownError(f"{address} refuses that: {text}; grant it, or name another schema")
    if code in {"40001", "40P01", "55P03"}:
        return StoreBusyError(f"{address} stayed busy: {text}")
    if code == "53100":
        return StoreError(f"the disk of {address} is full: {text}")
    if isinstance(error, psycopg.OperationalError) and (
        not code or code[:2] in {"08", "57", "53", "3D", "28"}
    ):
        return StoreDownError(f"cannot reach {address}: {text}")
    return StoreError(f"{address} failed: {text}")


class Patience:
    """Pauses longer and longer between attempts, and says when it is at an end."""

    def __init__(self, span: int = PATIENCE) -> None:
        self._end = monotonic() + span
        self._pause = _FIRST_PAUSE

    def wait(self) -> bool:
        """Pause, unless patience is at an end; tell which."""
        if monotonic() >= self._end:
            return False
        pause(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return True
