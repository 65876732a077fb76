"""The verbs that a server offers: what an engine has, each done once however often its request arrives."""

import asyncio
import json

import pytest

from penstock.client import RemoteEngine, wire
from penstock.client.verbs import VERBS, Repeat
from penstock.clock import SECOND
from penstock.dialects import native
from penstock.engine import Engine
from penstock.job import Finish, ImportedJob, NewInstance, NewJob, Settlement, WorkerReport
from penstock.lifecycle.outcomes import Conducted, Done, Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Floating, Limit, Numbers
from tests.support.asgi import ask, serving
from tests.support.desk import slots

# What a remote engine has of its own: it needs no request, or `wait` stands for it.
HERE = {"acting", "begin_bulk", "clock", "close", "listen", "overlaps", "revision", "upkeep"}
CLAIM = wire.ClaimRequest(["q"], 1, "worker")

EXAMPLES = {
    "hello": lambda _: wire.EmptyRequest(),
    "wait": lambda _: wire.WaitRequest("work"),
    "enqueue": lambda _: wire.EnqueueRequest([NewJob("task", queue="q")]),
    "cancel": lambda _: wire.CancelRequest("waits"),
    "retry": lambda _: wire.JobRequest("failed"),
    "expedite": lambda _: wire.JobRequest("waits"),
    "import_jobs": lambda _: wire.ImportRequest([ImportedJob(NewJob("task", queue="q", id="new"))]),
    "claim_one": lambda _: wire.ClaimOneRequest("ready", "worker"),
    "job": lambda _: wire.JobRequest("waits"),
    "failures": lambda _: wire.JobRequest("failed"),
    "history": lambda _: wire.JobRequest("failed"),
    "jobs": lambda _: wire.JobsRequest(queue="q"),
    "count": lambda _: wire.CountRequest(),
    "unknown_tasks": lambda _: wire.UnknownTasksRequest(["q"]),
    "why": lambda _: wire.JobRequest("waits"),
    "claim": lambda _: CLAIM,
    "settle": lambda desk: wire.SettleRequest(ended(desk)),
    "exchange": lambda desk: wire.ExchangeRequest(ended(desk), CLAIM),
    "begun": lambda desk: wire.BegunRequest([(*attempt(desk), 5)]),
    "heartbeat": lambda desk: wire.HeartbeatRequest([attempt(desk)], SECOND),
    "progress": lambda desk: wire.ProgressRequest(*attempt(desk), "0.5"),
    "spend": lambda desk: wire.SpendRequest([(*attempt(desk), {"X": 3})]),
    "refreshes": lambda _: wire.RefreshesRequest(["compute"], 1, "worker", SECOND),
    "renew_refreshes": lambda desk: wire.RenewRefreshesRequest(
        [
            (lent.gate, lent.fence)
            for lent in desk.engine.refreshes(["compute"], 1, worker="worker", lease=SECOND)
        ],
        5 * SECOND,
    ),
    "refreshed": lambda desk: wire.RefreshedRequest(
        desk.engine.refreshes(["compute"], 1, worker="worker", lease=SECOND)[0], 7
    ),
    "create_instances": lambda _: wire.CreateInstancesRequest([NewInstance("flow", queue="passes")]),
    "instance": lambda _: wire.InstanceViewRequest("lives"),
    "instances": lambda _: wire.InstancesRequest(),
    "timers": lambda _: wire.TimersRequest(["passes"]),
    "memo": lambda _: wire.InstanceRequest("lives"),
    "signal": lambda _: wire.SignalRequest("lives", "go", "[1]"),
    "cancel_instance": lambda _: wire.CancelInstanceRequest("lives"),
    "pause_instance": lambda _: wire.InstanceRequest("lives"),
    "resume_instance": lambda _: wire.InstanceRequest("paused"),
    "retry_instance": lambda _: wire.InstanceRequest("broke"),
    "gate": lambda _: wire.GateRequest("X"),
    "gates": lambda _: wire.GatesRequest(),
    "queues": lambda _: wire.EmptyRequest(),
    "floating": lambda _: wire.GateRequest("F"),
    "floating_limits": lambda _: wire.FloatingLimitsRequest(),
    "refresh_floating": lambda _: wire.GateRequest("F"),
    "pause": lambda _: wire.QueueRequest("q"),
    "resume": lambda _: wire.QueueRequest("q"),
    "configure": lambda _: wire.ConfigureRequest("key", "X", Numbers(slots=3)),
    "override": lambda _: wire.OverrideRequest("X", Numbers(slots=3)),
    "clear_override": lambda _: wire.GateRequest("X"),
    "shut": lambda desk: wire.ShutRequest("X", desk.clock.now() + SECOND),
    "set_floating": lambda _: wire.SetFloatingRequest("F", value=4),
    "delete_floating": lambda _: wire.GateRequest("F"),
    "hear": lambda _: wire.HearRequest([WorkerReport("w", queues=("q",), tasks=("t",))]),
    "workers": lambda _: wire.WorkersRequest(),
    "audit": lambda _: wire.AuditRequest(kind="gate"),
    "prune": lambda desk: wire.PruneRequest(desk.clock.now()),
    "doctor": lambda _: wire.EmptyRequest(),
    "advice": lambda _: wire.EmptyRequest(),
}


def attempt(desk):
    """Return the running attempt, as (seq, fence)."""
    return desk.attempts["runs"].seq, desk.attempts["runs"].fence


def ended(desk):
    return wire.reports_of([Settlement(*attempt(desk), Done())])


@pytest.fixture
def busy(desk):
    """A store with a job that runs, one that waits behind it, one that could start and one that failed."""
    desk.enqueue("failed", retry=RetryPolicy.of(attempts=1))
    desk.claim()
    desk.settle("failed", Failed("Error", "no"))
    desk.enqueue("runs waits", slots("X", 1))
    desk.claim()
    desk.enqueue("ready floats", Limit("F", Numbers(slots=2), floating=Floating("compute", 60 * SECOND)))
    create(desk.engine)
    desk.clock.advance(SECOND)
    return desk


def create(engine):
    """Create an instance that lives, one that is paused and one that failed."""
    engine.create_instances(
        [NewInstance("flow", queue="passes", id=name) for name in ("broke", "lives", "paused")]
    )
    (broke,) = engine.claim(["passes"], 1, worker="worker").jobs
    engine.settle([Settlement(broke.seq, broke.fence, Conducted((Finish(State.FAILED),)))])
    engine.pause_instance("paused")


def state(engine):
    """Return all that can be seen of the store."""
    jobs = engine.jobs(limit=100)
    return (
        jobs,
        [engine.failures(job.id) for job in jobs],
        [engine.history(job.id) for job in jobs],
        [engine.why(job.id) for job in jobs if job.state == "waiting"],
        engine.gates(),
        engine.queues(),
        engine.floating_limits(),
        engine.instances(),
        [engine.memo(each) for each in ("lives", "paused")],
        engine.doctor(),
    )


def test_every_verb_of_an_engine_is_in_the_table_and_has_a_route_and_an_example():
    verbs = {name for name in dir(RemoteEngine) if not name.startswith("_")}

    assert verbs - {"clock"} <= set(dir(Engine))
    assert set(VERBS) == verbs - HERE | {"hello"}
    assert {f"{wire.PATH}{name}" for name in VERBS} == {route.path for route in native.DIALECT.routes}
    assert set(VERBS) == set(EXAMPLES)


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_request_that_arrives_twice_is_done_once_and_has_the_same_answer(busy, verb):
    engine = busy.engine
    body = json.loads(wire.encode(EXAMPLES[verb.name](busy)))
    before = state(engine)

    async def play():
        async with serving(engine) as site:
            first = await ask(site, wire.PATH + verb.name, body, idempotency_key="one")
            once = state(engine)
            second = await ask(site, wire.PATH + verb.name, body, idempotency_key="one")
            return first, once, second

    first, once, second = asyncio.run(play())

    assert 200 == first[0], first
    assert first == second or verb.name == "wait"  # which tells what is new
    assert once == state(engine)
    assert verb.repeat is not Repeat.READ or before == once


def test_a_field_that_is_missing_or_does_not_fit_is_named(desk):
    async def play():
        async with serving(desk.engine) as site:
            return [
                (await ask(site, f"{wire.PATH}claim", body))[1]["error"]["facts"]
                for body in ({"queues": ["q"], "count": 1}, {"queues": ["q"], "count": 0, "worker": "w"})
            ]

    missing, unfit = asyncio.run(play())
    assert {"field": "worker", "problem": "is missing"} == missing
    assert "count" == unfit["field"]
