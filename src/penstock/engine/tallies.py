"""What tallies changed, by series: a gate, a queue, a task, a tenant, and the store as a whole."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.minutes.minute import MINUTE, Minute
from penstock.minutes.spread import Spread
from penstock.minutes.tally import KEPT, SCHEDULED, WAITING, Told
from penstock.store import minutes as rows
from penstock.store.minutes import SeriesKey, SeriesRow
from penstock.store.session import Session

_Entry = tuple[int, Sequence[int], Spread, Spread]  # a moment and a change


class Changes:
    """What tallies changed, by series, in the order in which it happened."""

    def __init__(self, db: Session, tallies: Iterable[tuple[int, str]]) -> None:
        self.by_series: dict[SeriesKey, list[_Entry]] = {}
        told = sorted((Told(*tally) for tally in tallies), key=lambda each: each.at)
        gates = {gate for each in told for gate, *_ in each.gates()}
        names = rows.of_gates(db, sorted(gates)) if gates else {}
        for each in told:
            for gate, numbers, waits, held in each.gates():
                if gate in names:
                    self._add(names[gate], each.at, numbers, waits, held)
            for task, numbers, waits, held in each.tasks():
                for key in rows.series_of(*task):
                    self._add(key, each.at, numbers, waits, held)
            for (tenant, queue), kept, put_off in each.lines():
                numbers = [0] * 10
                numbers[KEPT], numbers[WAITING], numbers[SCHEDULED] = kept, -put_off, put_off
                for key in rows.series_of(tenant, queue, None):
                    self._add(key, each.at, numbers, {}, {})

    def _add(self, key: SeriesKey, at: int, numbers: Sequence[int], waits: Spread, held: Spread) -> None:
        self.by_series.setdefault(key, []).append((at, numbers, waits, held))


class Applied(NamedTuple):
    series: list[SeriesRow]
    minutes: dict[tuple[SeriesKey, int], Minute]


def apply(known: dict[SeriesKey, SeriesRow], minutes: dict[int, list[Minute]], changes: Changes) -> Applied:
    """Add changes to series and their minutes."""
    applied = Applied([], {})
    for key, entries in changes.by_series.items():
        row = known[key]
        of_series = {minute.at: minute for minute in minutes.get(row.id, ())}
        for at, numbers, waits, held in entries:
            begins = at - at % MINUTE
            minute = of_series.get(begins)
            if minute is None:
                minute = of_series[begins] = Minute.after(begins, row.level)
            minute.count(row.level, at, numbers, waits, held)
            applied.minutes[key, begins] = minute
        applied.series.append(row)
    return applied
