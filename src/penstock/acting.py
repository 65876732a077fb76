"""Who acts: the person or program for whose sake the verbs of this thread or task change something, and why.

Bound by `acting` for the time of a `with`; a thread pool has to copy the context.  Without it the user of the process
acts.
"""

import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Final

from msgspec import Struct

from penstock.errors import InvalidError
from penstock.names import name_problem

MAX_REASON: Final = 1_000  # characters
REASON: Final = "penstock-reason"  # the header of a request that gives one, percent-encoded


class Actor(Struct, frozen=True):
    """Who changes something, *through* what, and the reason given.

    What is done as a part of the bulk operation with number *bulk* is counted there, and has no row of its own.
    """

    name: str
    through: str = "python"
    reason: str = ""
    bulk: int = 0

    def check(self) -> None:
        """Raise unless this can be written down."""
        for field in ("name", "through"):
            if problem := name_problem(getattr(self, field)):
                raise InvalidError(field, problem)
        if len(self.reason) > MAX_REASON or "\0" in self.reason or not _is_text(self.reason):
            raise InvalidError("reason", f"must have at most {MAX_REASON} characters, and no NUL")


_BOUND: Final[ContextVar[Actor | None]] = ContextVar("penstock_actor", default=None)


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Let *actor* be the one who acts, in this thread or task."""
    actor.check()
    token = _BOUND.set(actor)
    try:
        yield
    finally:
        _BOUND.reset(token)


def actor() -> Actor:
    """Return who acts here."""
    return _BOUND.get() or user()


def bound_actor() -> Actor | None:
    """Return who acts here, if that was said."""
    return _BOUND.get()


@cache
def user() -> Actor:
    """Return the user of this process, as "anna@host"."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may have no name for its user
        name = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return Actor(f"{name}@{socket.gethostname()}")


def _is_text(text: str) -> bool:
    # A lone surrogate cannot be stored as UTF-8.
    return text.isascii() or text == text.encode("utf-8", "replace").decode()
