"""Roles, and what a token allows."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a token is for: to enqueue and look, to fetch and settle, or for everything."""

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


PUBLIC: Final = frozenset[Role]()
PRODUCERS: Final = frozenset({Role.PRODUCER})
WORKERS: Final = frozenset({Role.WORKER})
JOBS: Final = frozenset({Role.PRODUCER, Role.WORKER})
OPERATORS: Final = frozenset({Role.OPERATOR})

EVERYTHING: Final = Access("any request", frozenset(Role))
