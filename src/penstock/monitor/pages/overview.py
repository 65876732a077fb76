"""The overview: what holds jobs up, in a sentence; how much runs and waits; and what is worth a look."""

from typing import Final

from msgspec import Struct

from penstock.clock import SECOND
from penstock.engine.look_lists import totals_of
from penstock.job import Count, GateLook, Maintenance, QueueLook, Totals
from penstock.lifecycle.states import State
from penstock.monitor import worth
from penstock.monitor.page import View
from penstock.monitor.pages import workers
from penstock.monitor.pages.gates import GateRow, row
from penstock.monitor.pages.workers import Worker
from penstock.monitor.requests import Query
from penstock.monitor.worth import Point

LATELY: Final = 3_600 * SECOND
MOST: Final = 8  # gates, queues and workers


class Verdict(Struct):
    """What holds jobs up: *maintenance*, a *gate*, or only that no worker is free; nothing if none waits.

    The gate keeps *held* of the *kept* jobs that gates keep.
    """

    maintenance: Maintenance | None = None
    gate: GateRow | None = None
    held: int = 0
    kept: Count = Count()


class Overview(Struct):
    """How the store does."""

    verdict: Verdict
    totals: Totals
    ended: dict[State, Count]  # in the last hour
    gates: list[GateRow]
    gates_total: Count
    queues: list[QueueLook]
    queues_total: int
    workers: list[Worker]
    workers_total: int
    points: list[Point]


def show(view: View, _: Query) -> Overview:
    """Return the overview."""
    engine, tenant = view.engine, view.tenant
    gates = engine.gates_under_pressure(tenant=tenant)
    queues = engine.queue_looks(tenant=tenant)
    busy = sorted(queues, key=lambda each: -(each.waiting.number + each.running.number))
    found = engine.worker_looks(tenant=tenant)
    at_work = [workers.silence(each, view.now) for each in sorted(found, key=lambda each: -each.jobs)]
    return Overview(
        _verdict(view, gates),
        totals_of(queues),
        engine.ended_lately(view.now - LATELY, tenant),
        [row(gate, view.now) for gate in gates[:MOST]],
        engine.gates_counted(tenant=tenant),
        busy[:MOST],
        len(queues),
        at_work[:MOST],
        len(found),
        worth.a_look(view, queues, at_work),
    )


def _verdict(view: View, gates: list[GateLook]) -> Verdict:
    maintenance = view.engine.maintenance() if view.tenant is None else None
    kept = sum((gate.held for gate in gates if gate.held is not None), Count())
    if not gates:
        return Verdict(maintenance)
    held = 0 if gates[0].held is None else gates[0].held.number
    return Verdict(maintenance, row(gates[0], view.now), held, kept)
