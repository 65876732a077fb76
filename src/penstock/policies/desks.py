"""The desks of this process: one at each store from which it borrows, all closed when it ends."""

import atexit
import logging
import os
import sys
import threading
from functools import partial
from typing import Any, Final

from penstock.policies.desk import Desk
from penstock.policies.errors import InvalidPolicyError

log = logging.getLogger("penstock.policies")

_desks: Final[dict[int, Desk]] = {}  # by the id of the engine, which its desk keeps alive
_opening: Final = threading.Lock()
_finalized: Final[set[int]] = set()  # processes in which that was seen to


def desk_at(engine: Any, lease: int) -> Desk:
    """Return this process's desk at the store of *engine*."""
    if not hasattr(engine, "lend"):
        raise InvalidPolicyError(
            "shared", "slots are lent by a store, not by a server; give it an app on SQLite or PostgreSQL"
        )
    with _opening:
        desk = _desks.get(id(engine))
        if desk is None or desk.closed:
            desk = _desks[id(engine)] = Desk(engine, lease)
            engine.before_close(partial(_close, id(engine), desk))
            _close_at_exit()
        return desk


def _close(name: int, desk: Desk) -> None:
    try:
        desk.close()
    finally:
        if _desks.get(name) is desk:
            del _desks[name]


def _close_at_exit() -> None:
    # Again, so that it comes before what was registered earlier: the store must not be closed by then.
    atexit.unregister(_close_all)
    atexit.register(_close_all)
    if "multiprocessing.util" in sys.modules and os.getpid() not in _finalized:
        # Processes forked by that module end without the usual ceremony, but for this.
        _finalized.add(os.getpid())
        sys.modules["multiprocessing.util"].Finalize(None, _close_all, exitpriority=100)


def _close_all() -> None:
    for name, desk in list(_desks.items()):
        try:
            _close(name, desk)
        except Exception as error:  # noqa: BLE001 - the lease ends in any case
            log.warning("could not give back slots at the end: %s", error)


def _after_fork() -> None:
    global _opening  # noqa: PLW0603 - a lock that another thread held would stay shut
    _opening = threading.Lock()  # type: ignore[misc]
    _desks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
