"""The workers that were heard from lately.

What workers say of themselves is kept as JSON, so much of one and so much of all: a client that makes up names
can push out those that were heard from longest ago, and nothing more.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from penstock.clock import SECOND
from penstock.errors import InvalidError
from penstock.http.codec import decode, encode

STALE: Final = 60 * SECOND
GONE: Final = 60 * STALE  # after which a worker is not even shown as stale
MOST: Final = 10_000  # workers
MOST_SAID: Final = 32 * 1024  # bytes that one worker says of itself
MOST_BYTES: Final = 32 * 1024 * 1024  # the same, of all


@dataclass(slots=True)
class KnownWorker:
    """A worker as it told of itself."""

    id: str
    tenant: str
    began: int
    seen: int
    beat: int = 0  # when it last told of itself
    state: str = "running"
    resting: bool = False  # whether it said that it wants no more jobs
    active: int = 0
    said: bytes = b"{}"

    @property
    def facts(self) -> dict[str, Any]:
        """What it said of itself."""
        facts: dict[str, Any] = decode(self.said)
        return facts


class WorkerRegistry:
    """Workers by tenant and id, the one heard from longest ago first."""

    def __init__(self) -> None:
        self.members: OrderedDict[tuple[str, str], KnownWorker] = OrderedDict()
        self.bytes = 0  # that they say of themselves

    def beat(
        self, worker: str, tenant: str | None, now: int, facts: dict[str, Any], *,
        state: str = "running", resting: bool = False, active: int = 0,
    ) -> None:  # fmt: skip
        """Note that a worker was heard from, and the *facts* that it tells of itself."""
        if not worker:
            return
        known = self.members.get((tenant or "", worker))
        text = _said({**(known.facts if known else {}), **facts}) if facts else None
        member = self._member(worker, tenant, now)
        member.beat, member.active, member.state, member.resting = now, active, state, resting
        if text is not None:
            self.bytes += len(text) - len(member.said)
            member.said = text
            self._make_room(0, now)

    def fetches(self, worker: str, tenant: str | None, now: int) -> bool:
        """Note that a worker asks for jobs; False if it said that it wants no more."""
        if not worker:
            return True
        member = self._member(worker, tenant, now)
        # After a long silence it is another worker of the same name.
        return not member.resting or now - member.beat > STALE

    def find(self, worker: str, tenant: str | None) -> KnownWorker | None:
        """Return a worker; without a tenant, that of any."""
        found = self.members.get((tenant or "", worker))
        if found is None and tenant is None:
            found = next((one for one in self.members.values() if one.id == worker), None)
        return found

    def of(self, tenant: str | None) -> list[KnownWorker]:
        """Return the workers of a tenant, or all."""
        among = (one for one in self.members.values() if tenant in (None, one.tenant))
        return sorted(among, key=lambda one: (one.tenant, one.id))

    def forget(self, member: KnownWorker) -> None:
        """Forget a worker."""
        if self.members.pop((member.tenant, member.id), None) is not None:
            self.bytes -= len(member.said)

    def _member(self, worker: str, tenant: str | None, now: int) -> KnownWorker:
        key = (tenant or "", worker)
        member = self.members.get(key)
        if member is None:
            self._make_room(1, now)
            member = self.members[key] = KnownWorker(worker, tenant or "", now, now)
            self.bytes += len(member.said)
        member.seen = now
        self.members.move_to_end(key)
        return member

    def _make_room(self, coming: int, now: int) -> None:
        """Forget workers that were not heard from for very long; if there are too many, those silent for longest."""
        while self.members:
            eldest = next(iter(self.members.values()))
            full = len(self.members) + coming > MOST or self.bytes > MOST_BYTES
            if not full and now - eldest.seen < GONE:
                return
            self.forget(eldest)


def _said(facts: dict[str, Any]) -> bytes:
    """Return what a worker says of itself as it is kept; raise if it is too much, naming what is longest."""
    text = encode(facts)
    if len(text) > MOST_SAID:
        longest = max(facts, key=lambda name: len(encode(facts[name])))
        size = len(encode(facts[longest]))
        raise InvalidError(
            longest,
            f"takes {size} bytes; a worker may say at most {MOST_SAID} of itself: fewer or shorter {longest}",
        )
    return text
