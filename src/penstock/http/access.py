"""Roles, and what a token allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

from penstock.acting import REASON, Actor
from penstock.names import one_line


class Role(StrEnum):
    """What a token is for: to look at the monitor, to enqueue and look, to fetch and settle, or for everything."""

    VIEWER = "viewer"
    PRODUCER = "producer"
    WORKER = "worker"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Access:
    """What one token allows.  With *tenant* None it is bound to no tenant, and its requests may name any."""

    name: str
    roles: frozenset[Role]
    tenant: str | None = None

    def allows(self, wanted: frozenset[Role]) -> bool:
        """Tell whether the token has one of the *wanted* roles; with none wanted, every request is let in."""
        return not wanted or Role.OPERATOR in self.roles or bool(self.roles & wanted)


_LONGEST_NAME: Final = 200


def actor_of(access: Access, headers: Mapping[str, str]) -> Actor:
    """Return for whom a request changes something: its token, with the reason that it gives."""
    name = one_line(access.name)[:_LONGEST_NAME] or "a token without a name"
    return Actor(name, "http", unquote(headers.get(REASON, "")))


PUBLIC: Final = frozenset[Role]()
VIEWERS: Final = frozenset({Role.VIEWER})
PRODUCERS: Final = frozenset({Role.PRODUCER})
WORKERS: Final = frozenset({Role.WORKER})
JOBS: Final = frozenset({Role.PRODUCER, Role.WORKER})
OPERATORS: Final = frozenset({Role.OPERATOR})

EVERYTHING: Final = Access("any request", frozenset(Role))
