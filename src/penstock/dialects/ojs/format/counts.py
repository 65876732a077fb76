"""The engine's counts, in the spec's words."""

from collections.abc import Iterable
from typing import Final

from penstock.clock import SECOND
from penstock.dialects.ojs.format.names import check_queue
from penstock.dialects.ojs.format.states import ENGINE_STATES, SPEC_STATE, SPEC_STATES
from penstock.errors import InvalidError
from penstock.job import QueueCounts

MINUTE: Final = 60 * SECOND


def counts_of(tallies: Iterable[QueueCounts]) -> dict[str, int]:
    """Return how many jobs are in each state of the spec."""
    counts = dict.fromkeys(SPEC_STATES, 0)
    for tally in tallies:
        for name, number in tally.counts.items():
            counts[SPEC_STATE[name]] += number
    return counts


def throughput(ended: Iterable[QueueCounts]) -> dict[str, int]:
    """Return how many jobs ended well and not, given those of the last minute."""
    counts = counts_of(ended)
    return {"processed_per_minute": counts["completed"], "failed_per_minute": counts["discarded"]}


def engine_states(name: str, field: str = "state") -> frozenset[str]:
    """Return the engine's states for one of the spec."""
    if name not in ENGINE_STATES:
        raise InvalidError(field, f"{name[:40]!r} must be one of: {', '.join(SPEC_STATES)}")
    return frozenset(ENGINE_STATES[name])


def queues_of(name: str | None, field: str = "queue") -> frozenset[str] | None:
    """Return the queues that a name means; None if none is named."""
    return None if name is None else frozenset({check_queue(name, field)})


def of_tenant(tallies: Iterable[QueueCounts], tenant: str | None) -> list[QueueCounts]:
    """Return the counts of one tenant's queues, or of all."""
    return [tally for tally in tallies if tenant in (None, tally.tenant)]
