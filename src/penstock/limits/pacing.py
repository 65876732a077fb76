"""Keep the distances between starts that were granted ahead, each for its moment.

A claim that grants starts ahead counts on its caller: if one of them begins late, those that follow at its gates begin
by as much later, and so do those that follow these.  So any two are at least as far apart as planned, and every rule
that held for the plan holds for what happens.  A rule that looks much further back than starts are granted ahead does
not care: such gates are not *spaced*.

Pure: times are arguments, in microseconds.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class PlannedStart(Generic[T]):
    """A start that is planned *at* a moment, at these *gates*; *sent* once its handler is about to begin.

    It begins before *by* or not at all.  At *spaced* gates it keeps its distance to those before it.
    """

    what: T
    at: int
    by: int
    gates: frozenset[str]
    spaced: frozenset[str]
    sent: bool = False


class _Delay(NamedTuple):
    """A start that was planned *at* a moment begins so much later."""

    at: int
    late: int
    gates: frozenset[str]


class Pacing(Generic[T]):
    """The starts of one caller that have not begun."""

    def __init__(self) -> None:
        self._planned: dict[T, PlannedStart[T]] = {}
        self._delays: list[
            list[_Delay]
        ] = []  # since the last claim was asked, each with what followed from it

    def __len__(self) -> int:
        return len(self._planned)

    def ask(self) -> dict[T, int]:
        """Return when each start is planned, for a claim that is asked now; what it grants is added with `add`."""
        self._delays = []
        return {start.what: start.at for start in self._planned.values()}

    def add(self, starts: Iterable[tuple[T, int, int, Collection[str], Collection[str]]]) -> None:
        """Plan starts that were granted by the claim that was asked last: all, or none if this raises."""
        planned = [
            PlannedStart(what, at, by, frozenset(gates), frozenset(spaced))
            for what, at, by, gates, spaced in starts
        ]
        for delays in self._delays:
            _put_off(planned, delays)
        self._planned.update((start.what, start) for start in planned)

    def due(self, now: int, early: int = 0) -> list[PlannedStart[T]]:
        """Return the starts to send at this moment, or so much *early*, and take them for sent.

        Nothing else must begin before them; or it is too late for them, and they will be refused.
        """
        return _sent(
            start for start in self._next(now) if start.at <= now + early or start.by <= max(start.at, now)
        )

    def all_unsent(self) -> list[PlannedStart[T]]:
        """Return the starts that were not sent, and take them for sent: they will not begin."""
        return _sent(start for start in self._planned.values() if not start.sent)

    def next_at(self) -> int | None:
        """Return when the next start should be sent."""
        return min((start.at for start in self._planned.values() if not start.sent), default=None)

    def sent(self) -> list[T]:
        """Return the starts that were sent and are not known to have begun."""
        return [start.what for start in self._planned.values() if start.sent]

    def began(self, what: T, at: int) -> None:
        """Note that a start has begun, *at* the latest, and put off what follows by as much as it was late."""
        start = self._planned.pop(what, None)
        if start is None or at <= start.at:
            return
        delays = [_Delay(start.at, at - start.at, start.gates)]
        _put_off(self._planned.values(), delays)
        self._delays.append(delays)

    def gone(self, what: T) -> None:
        """Forget a start that will not begin."""
        self._planned.pop(what, None)

    def _next(self, now: int) -> Iterator[PlannedStart[T]]:
        """Yield, of those that were not sent, the ones before which nothing else can begin, or that are too late."""
        before: set[str] = set()
        ordered = sorted(self._planned.values(), key=lambda each: each.at)
        for _, together in groupby(ordered, key=lambda each: each.at):
            starts = list(together)
            yield from (
                each
                for each in starts
                if not each.sent and (each.by <= now or each.spaced.isdisjoint(before))
            )
            before.update(*(each.gates for each in starts if each.by > now))


def _sent(starts: Iterable[PlannedStart[T]]) -> list[PlannedStart[T]]:
    found = list(starts)
    for start in found:
        start.sent = True
    return found


def _put_off(starts: Iterable[PlannedStart[T]], delays: list[_Delay]) -> None:
    """Put off what follows a start that is late, and add to *delays* what follows from that."""
    for start in sorted(starts, key=lambda each: each.at):
        late = [
            delay.late for delay in delays if start.at > delay.at and not start.spaced.isdisjoint(delay.gates)
        ]
        if late:
            delays.append(_Delay(start.at, max(late), start.gates))
            start.at += max(late)
