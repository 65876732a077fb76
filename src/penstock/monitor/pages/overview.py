"""The overview: what holds jobs up, in a sentence; how much runs and waits; and what is worth a look."""

from typing import Final

from msgspec import Struct

from penstock.clock import SECOND
from penstock.engine.look_lists import totals_of
from penstock.engine.look_minutes import SPANS
from penstock.job import Count, GateLook, Maintenance, Past, Totals, WaitedFor
from penstock.lifecycle.states import State
from penstock.monitor import worth
from penstock.monitor.lookback import Part, pace, parts_of, span_of
from penstock.monitor.page import View
from penstock.monitor.pages import queues, workers
from penstock.monitor.pages.gates import Cleared, GateRow, if_cleared, places, rows_of
from penstock.monitor.pages.queues import QueueRow
from penstock.monitor.pages.workers import Worker
from penstock.monitor.requests import Query
from penstock.monitor.worth import Point

LATELY: Final = 3_600 * SECOND
QUARTER: Final = 15  # minutes of which the sentence tells
MOST: Final = 8  # gates, queues and workers


class Verdict(Struct):
    """What holds jobs up: *maintenance*, a *gate*, or only that no worker is free; nothing if none waits.

    The gate keeps *held* of the *kept* jobs that gates keep.  In the last quarter of an hour so many percent of the
    waiting were for it (*share*, None if that is not known), and for a free worker.
    """

    maintenance: Maintenance | None = None
    gate: GateRow | None = None
    held: int = 0
    kept: Count = Count()
    share: int | None = None
    worker: int = 0
    cleared: Cleared | None = None  # what would be without the gate's override


class Overview(Struct):
    """How the store does, how it did in the *past* hour, and what jobs waited for in the *last* hour, day or week."""

    verdict: Verdict
    totals: Totals
    ended: dict[State, Count]  # in the last hour
    gates: list[GateRow]
    gates_total: Count
    queues: list[QueueRow]
    queues_total: int
    workers: list[Worker]
    workers_total: int
    points: list[Point]
    starts: float  # in each of the last minutes
    past: Past
    last: str
    waited: WaitedFor
    parts: list[Part]


def show(view: View, query: Query) -> Overview:
    """Return the overview."""
    engine, tenant = view.engine, view.tenant
    last = span_of(query)
    gates = engine.gates_under_pressure(tenant=tenant)
    looks = engine.queue_looks(tenant=tenant)
    busy = queues.busiest(looks)[:MOST]
    hour = engine.hour_past(tenant=tenant, gates=places(gates[:MOST]), queues=queues.places(busy))
    shown = rows_of(view, gates[:MOST], hour.gates)
    found = engine.worker_looks(tenant=tenant)
    at_work = [workers.silence(each, view.now) for each in sorted(found, key=lambda each: -each.jobs)]
    waited = hour.waited
    if last != "hour":
        name = ("waited_for", tenant, last)
        waited = view.remembered.get(
            name, view.now, lambda: engine.waited_for(tenant=tenant, last=SPANS[last])
        )
    return Overview(
        _verdict(view, gates, shown, parts_of(hour.waited, QUARTER)),
        totals_of(looks),
        engine.ended_lately(view.now - LATELY, tenant),
        shown,
        engine.gates_counted(tenant=tenant),
        queues.rows_of(busy, hour.queues),
        len(looks),
        at_work[:MOST],
        len(found),
        worth.a_look(view, looks, at_work),
        pace(hour.past),
        hour.past,
        last,
        waited,
        parts_of(waited),
    )


def _verdict(view: View, gates: list[GateLook], shown: list[GateRow], parts: list[Part]) -> Verdict:
    maintenance = view.engine.maintenance() if view.tenant is None else None
    kept = sum((gate.held for gate in gates if gate.held is not None), Count())
    worker = parts[-1].share
    if not gates:
        return Verdict(maintenance, worker=worker)
    first = gates[0]
    held = 0 if first.held is None else first.held.number
    share = next((part.share for part in parts if (part.key, part.tenant) == (first.key, first.tenant)), None)
    return Verdict(maintenance, shown[0], held, kept, share, worker, if_cleared(first, view.now))
