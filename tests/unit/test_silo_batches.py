"""What workers of Silo ask for at once is one transaction: jobs with refreshes, heartbeats, and those of refreshes."""

import asyncio

import pytest

from penstock.clock import SECOND
from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.call import Call, Node
from penstock.dialects.silo.stored import TASK
from penstock.dialects.silo.workers import lease_tasks
from penstock.engine import open_engine
from penstock.http.access import EVERYTHING
from penstock.http.engine_service import Claims, EngineService
from penstock.http.paced_answers import PacedAnswers
from penstock.job import ClaimFor, NewJob, RefreshesFor, Renewal
from penstock.lifecycle.states import State
from penstock.limits.rules import Floating, Limit, Numbers, Window
from tests.unit.test_floating_batches import all_at_once, held

LEASE = 10 * SECOND


@pytest.fixture
def engine(tmp_path):
    engine = open_engine(str(tmp_path / "jobs.db"))
    yield engine
    engine.close()


def lease(service, worker):
    wanted = ClaimFor(("q",), 1, worker, LEASE, numbered=True)
    return service.lease(wanted, RefreshesFor(1, worker, queues=("q",), lease=LEASE), Claims())


def play(engine, work):
    async def run():
        service = EngineService(engine)
        try:
            return await work(service)
        finally:
            service.close()

    return asyncio.run(run())


def test_leases_that_come_together_are_one_transaction_with_their_refreshes(engine):
    floating = Floating("", 60 * SECOND)
    engine.enqueue(
        [
            NewJob("t", queue="q", limits=(Limit(f"k{n}", Numbers(slots=1), floating=floating),))
            for n in range(9)
        ]
    )

    async def work(service):
        sizes, go = held(service, "_working")
        return sizes, await all_at_once([lease(service, f"w{n}") for n in range(9)], go)

    sizes, leased = play(engine, work)

    assert [1, 8] == sizes
    assert 9 == len({job.seq for jobs, _ in leased for job in jobs})
    assert 9 == len({refresh.key for _, refreshes in leased for refresh in refreshes})


def test_a_lease_locks_nothing_for_refreshes_if_none_is_due(engine, monkeypatch):
    engine.enqueue([NewJob("t", queue="q")])
    lent = []
    monkeypatch.setattr("penstock.engine.floating.lend", lambda *_: lent.append(1))

    jobs, refreshes = play(engine, lambda service: lease(service, "w"))

    assert (1, [], []) == (len(jobs), refreshes, lent)


def test_heartbeats_that_come_together_are_one_transaction(engine):
    floating = Floating("", 60 * SECOND)
    engine.enqueue(
        [
            NewJob("t", queue="q", limits=(Limit(f"k{n}", Numbers(slots=1), floating=floating),))
            for n in range(5)
        ]
    )
    jobs = engine.claim(["q"], 5, worker="w").jobs
    ((*refreshes,),) = engine.refreshes_for([RefreshesFor(5, "w", queues=("q",))])

    async def work(service):
        beats, go = held(service, "_beating")
        alive = await all_at_once([service.beat(Renewal(job.seq, job.fence, LEASE, "w")) for job in jobs], go)
        renewals, go = held(service, "_renewing")
        kept = await all_at_once([service.renew_refresh(r.gate, r.fence, LEASE) for r in refreshes], go)
        return beats, [beat.alive for beat in alive], renewals, kept

    assert ([1, 4], [True] * 5, [1, 4], [True] * 5) == play(engine, work)


def test_jobs_whose_answers_would_all_come_too_late_are_left_to_the_next_worker(engine, monkeypatch):
    rate = Limit("key", Numbers(rate=Window(5, 60 * SECOND)))
    engine.enqueue([NewJob(TASK, queue="q", limits=(rate,))])
    monkeypatch.setattr(PacedAnswers, "in_time", lambda *_: False)

    async def work(service):
        call = Call(service, EVERYTHING, Node("node", "127.0.0.1:7450"))
        return await lease_tasks(call, pb.LeaseTasksRequest(worker_id="w", max_tasks=1, task_group="q"))

    answer = play(engine, work)

    assert [] == list(answer.tasks)
    assert {State.WAITING: 1} == engine.count()
