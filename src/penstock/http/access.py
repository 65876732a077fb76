"""Who asks, and what are they allowed to?"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What somebody may do: enqueue and look, fetch and settle, or everything."""

    PRODUCER = "producer"
    WORKER = "worker"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Access:
    """What one token allows; *tenant* None means that it is bound to none and may name any."""

    name: str
    roles: frozenset[Role]
    tenant: str | None = None

    def allows(self, wanted: frozenset[Role]) -> bool:
        """Tell whether one of the *wanted* roles is ours; nothing wanted is open to all."""
        return not wanted or Role.OPERATOR in self.roles or bool(self.roles & wanted)


ANYBODY: Final = frozenset[Role]()
PRODUCERS: Final = frozenset({Role.PRODUCER})
WORKERS: Final = frozenset({Role.WORKER})
JOBS: Final = frozenset({Role.PRODUCER, Role.WORKER})
OPERATORS: Final = frozenset({Role.OPERATOR})

EVERYTHING: Final = Access("everybody", frozenset(Role))
