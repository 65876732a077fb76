"""From which queues to claim next: all alike, in strict order, or by weight."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from penstock.errors import InvalidError
from penstock.job import Claim

Take = Callable[[Sequence[str], int], Claim]
Queues = str | Sequence[str] | Mapping[str, int]


class Choice(Protocol):
    """A way to choose among *queues*."""

    queues: Sequence[str]
    tenant: str | None  # whose jobs; None for those of all
    alike: bool  # one claim asks for all queues, and two may do so at once

    def claim(self, take: Take, count: int) -> Claim:
        """Return up to *count* jobs by means of *take*."""
        ...


def choose(queues: Queues, *, strict: bool = False, tenant: str | None = None) -> Choice:
    """Return the way to claim from *queues*: names are alike unless *strict*, a mapping gives weights."""
    names = _checked_names(queues)
    if isinstance(queues, Mapping):
        if strict:
            raise InvalidError("strict", "queues have an order or weights, not both")
        return Weighted(_checked_weights(queues), tenant)
    return InOrder(names, tenant) if strict and len(names) > 1 else Alike(names, tenant)


class Alike:
    """The best job of all queues."""

    alike = True

    def __init__(self, queues: Sequence[str], tenant: str | None = None) -> None:
        self.queues = queues
        self.tenant = tenant

    def claim(self, take: Take, count: int) -> Claim:
        return take(self.queues, count)


class InOrder:
    """The first queue's jobs first; another's only when those before it have none to start."""

    alike = False

    def __init__(self, queues: Sequence[str], tenant: str | None = None) -> None:
        self.queues = queues
        self.tenant = tenant

    def claim(self, take: Take, count: int) -> Claim:
        claims: list[Claim] = []
        for queue in self.queues:
            claims.append(claim := take([queue], count))
            count -= claim.at_once
            # A queue that has more to give must be asked again before the next one is.
            if count <= 0 or claim.more:
                break
        return merged(claims)


class Weighted:
    """So many jobs of one queue for so many of another, while both have some (stride scheduling).

    A queue's *pass* grows with each of its jobs by 1 / weight; the least goes next.
    """

    alike = False

    def __init__(self, weights: Mapping[str, int], tenant: str | None = None) -> None:
        self.queues: Sequence[str] = list(weights)
        self.tenant = tenant
        self._weights = dict(weights)
        self._passes = dict.fromkeys(weights, 0.0)

    def claim(self, take: Take, count: int) -> Claim:
        claims: list[Claim] = []
        left = set(self._weights)
        while count > 0 and left:
            for queue, share in self._shares(left, count):
                claims.append(claim := take([queue], share))
                count -= claim.at_once
                self._passes[queue] += len(claim.jobs) / self._weights[queue]
                if claim.at_once < share:
                    left.discard(queue)
        self._forget(left)
        return merged(claims)

    def _shares(self, queues: Iterable[str], count: int) -> list[tuple[str, int]]:
        """Return how many of *count* jobs each of *queues* should give, the one whose turn it is first."""
        passes = {queue: self._passes[queue] for queue in sorted(queues)}
        shares = dict.fromkeys(sorted(passes, key=passes.__getitem__), 0)
        for _ in range(count):
            queue = min(passes, key=passes.__getitem__)
            passes[queue] += 1 / self._weights[queue]
            shares[queue] += 1
        return [(queue, share) for queue, share in shares.items() if share]

    def _forget(self, busy: Iterable[str]) -> None:
        """Let the others catch up with *busy* queues: having been empty earns no credit."""
        least = min((self._passes[queue] for queue in busy), default=max(self._passes.values()))
        for queue, passed in self._passes.items():
            # Also keeps the numbers small, and so exact.
            self._passes[queue] = max(passed, least) - least


def merged(claims: Sequence[Claim]) -> Claim:
    """Return several claims as one."""
    moments = [claim.next_at for claim in claims if claim.next_at is not None]
    return Claim(
        [job for claim in claims for job in claim.jobs],
        any(claim.more for claim in claims),
        min(moments, default=None),
    )


def _checked_names(queues: Queues) -> list[str]:
    names = [queues] if isinstance(queues, str) else list(queues)
    if not names:
        raise InvalidError("queues", "name at least one")
    if strange := [name for name in names if not _is_name(name)]:
        raise InvalidError("queues", f"{strange[0]!r} must be the name of a queue")
    if len(set(names)) < len(names):
        raise InvalidError("queues", f"each may be named once only: {', '.join(names)}")
    return names


def _checked_weights(weights: Mapping[str, int]) -> Mapping[str, int]:
    for queue, weight in weights.items():
        check_count(f"the weight of queue {queue}", weight)
    return weights


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name)


def check_count(field: str, value: object) -> None:
    """Raise unless *value* is a whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidError(field, f"{value!r} must be a whole number, at least 1")
