"""The workers that were heard from lately, and what they are to do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from penstock.clock import SECOND
from penstock.dialects.ojs.bodies import HeartbeatBody
from penstock.dialects.ojs.enqueueing import KEPT
from penstock.job import Running

STALE: Final = 60 * SECOND
_MOST: Final = 10_000
_decode: Final = msgspec.json.Decoder().decode
RESTING: Final = ("draining", "shutting_down", "quiet", "terminate", "terminating", "stopping")
_DRAINING: Final = {
    "drain": "draining",
    "draining": "draining",
    "shutdown": "shutting_down",
    "quiet": "quiet",
}


@dataclass(slots=True)
class Member:
    """A worker as it told of itself."""

    id: str
    tenant: str
    began: int
    seen: int
    beat: int = 0  # when it last told of itself
    state: str = "running"
    active: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


class Crew:
    """Workers by tenant and id."""

    def __init__(self) -> None:
        self.members: dict[tuple[str, str], Member] = {}

    def beat(self, body: HeartbeatBody, tenant: str | None, now: int, active: int) -> None:
        """Note that a worker was heard from."""
        if not body.worker_id:
            return
        member = self._member(body.worker_id, tenant, now)
        member.beat = now
        member.active = body.active_jobs if isinstance(body.active_jobs, int) else active
        member.state = _DRAINING.get(body.state or "", body.state or "running")
        for name in ("hostname", "pid", "queues", "concurrency", "labels"):
            value = getattr(body, name)
            if value is not None:
                member.facts[name] = value

    def fetches(self, worker: str, tenant: str | None, now: int) -> bool:
        """Note that a worker asks for jobs; False if it said that it wants no more."""
        if not worker:
            return True
        member = self._member(worker, tenant, now)
        # One that was silent for long is another that took its name.
        return member.state not in RESTING or now - member.beat > STALE

    def find(self, worker: str, tenant: str | None) -> Member | None:
        """Return a worker; whoever speaks for no tenant finds any tenant's."""
        found = self.members.get((tenant or "", worker))
        if found is None and tenant is None:
            found = next((one for one in self.members.values() if one.id == worker), None)
        return found

    def of(self, tenant: str | None) -> list[Member]:
        """Return the workers of a tenant, or all."""
        among = (one for one in self.members.values() if tenant in (None, one.tenant))
        return sorted(among, key=lambda one: (one.tenant, one.id))

    def _member(self, worker: str, tenant: str | None, now: int) -> Member:
        key = (tenant or "", worker)
        member = self.members.get(key)
        if member is None:
            if len(self.members) >= _MOST:
                self.members = {k: one for k, one in self.members.items() if now - one.seen < STALE}
            member = self.members[key] = Member(worker, tenant or "", now, now)
        member.seen = now
        return member


def test_directive(alive: Sequence[Running]) -> str:
    """Return what the jobs of a worker ask of it: a hook of the conformance tests."""
    for attempt in alive:
        wanted = _decode(attempt.meta).get(KEPT, {}).get("directive")
        if wanted in ("quiet", "terminate"):
            return str(wanted)
    return ""
