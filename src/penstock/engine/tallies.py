"""What tallies changed, by series and minute: at a gate, in a queue, of a task, of a tenant, in the whole store."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.minutes.minute import MINUTE, Change, Minute
from penstock.minutes.spread import from_flat
from penstock.minutes.tally import Told, pairs
from penstock.store import minutes as rows
from penstock.store.minutes import SeriesKey, SeriesRow
from penstock.store.session import Session

EVERY: Final = 2**31  # no fewer than there are
Changes = Mapping[tuple[SeriesKey, int], Change]  # by the minute, given by when it begins


def changes(db: Session, tallies: Iterable[tuple[int, str]]) -> Changes:
    """Return what tallies changed."""
    return first_changes(db, tallies, EVERY)[0]


def first_changes(db: Session, tallies: Iterable[tuple[int, str]], most: int) -> tuple[Changes, int]:
    """Return what the first tallies changed, with about so many gates at *most*; and how many tallies these are."""
    gates = defaultdict[int, defaultdict[int, Change]](lambda: defaultdict(Change))
    tasks = defaultdict[tuple[str, str, str | None, int], Change](Change)
    read = 0
    for tally in tallies:
        told = Told(*tally)
        _add_gates(gates, told)
        _add_tasks(tasks, told)
        read += 1
        if sum(map(len, gates.values())) > most:
            break
    found = defaultdict[tuple[SeriesKey, int], Change](Change)
    for (tenant, queue, task, begins), change in tasks.items():
        for key in rows.series_of(tenant, queue, task):
            found[key, begins].include(change)
    names = rows.of_gates(db, sorted({gate for of_minute in gates.values() for gate in of_minute}))
    for begins, of_minute in gates.items():
        for gate, change in of_minute.items():
            if gate in names:
                found[names[gate], begins].include(change)
    return found, read


def _add_gates(gates: defaultdict[int, defaultdict[int, Change]], told: Told) -> None:
    at = told.at
    begins = at - at % MINUTE
    left = begins + MINUTE - at
    of_minute = gates[begins]
    for gate, step in pairs(told.started):
        change = of_minute[gate]
        change.started += 1
        waits = change.waits
        waits[step] = waits.get(step, 0) + 1
    for gate, step in pairs(told.ended):
        change = of_minute[gate]
        change.ended += 1
        held = change.held
        held[step] = held.get(step, 0) + 1
    for gate, more in pairs(told.waiting):
        change = of_minute[gate]
        change.at = at
        change.waiting += more
        change.waiting_time += more * left
        if told.alike:
            change.kept += more
            change.kept_time += more * left
    for gate, more in pairs(told.kept):
        change = of_minute[gate]
        change.kept += more
        change.kept_time += more * left
    for gate, more in pairs(told.used):
        change = of_minute[gate]
        change.at = at
        change.used += more
        change.used_time += more * left
        change.peak = max(change.peak, change.used)
    for gate, arrived, dropped, failed, undone in told.gates:
        change = of_minute[gate]
        change.arrived += arrived
        change.dropped += dropped
        change.failed += failed
        change.undone += undone
        change.ended += undone


def _add_tasks(tasks: defaultdict[tuple[str, str, str | None, int], Change], told: Told) -> None:
    at = told.at
    begins = at - at % MINUTE
    left = begins + MINUTE - at
    for tenant, queue, task, *numbers in told.tasks:
        tasks[tenant, queue, task, begins].include(_of_task(at, left, numbers))
    for tenant, queue, kept, put_off in told.lines:
        change = tasks[tenant, queue, None, begins]
        change.waiting -= put_off
        change.scheduled += put_off
        change.kept += kept
        change.waiting_time -= put_off * left
        change.kept_time += kept * left


def _of_task(at: int, left: int, numbers: list[Any]) -> Change:
    arrived, gone, dropped, undone, failed, started, waits, held = numbers
    change = Change(
        at, arrived, started, undone, 0, failed, dropped, waits=from_flat(waits), held=from_flat(held)
    )
    change.ended = undone + sum(change.held.values())
    change.waiting = arrived - gone - started
    change.used = started - change.ended
    change.waiting_time, change.used_time = change.waiting * left, change.used * left
    return change


def apply(
    known: dict[SeriesKey, SeriesRow], minutes: dict[int, list[Minute]], found: Changes
) -> dict[tuple[SeriesKey, int], Minute]:
    """Add changes to series and their minutes; return the minutes that changed."""
    applied = {}
    of_series = {id_: {minute.at: minute for minute in each} for id_, each in minutes.items()}
    for key, begins in sorted(found, key=lambda each: each[1]):
        row = known[key]
        minute = of_series.get(row.id, {}).get(begins)
        if minute is None:
            minute = Minute.quiet(begins, row.level)
        minute.add(found[key, begins], row.level)
        applied[key, begins] = minute
    return applied
