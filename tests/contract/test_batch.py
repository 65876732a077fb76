"""One transaction that enqueues, settles and claims comes to what three of them do."""

import pytest

from penstock.errors import DuplicateJobError, InvalidError
from penstock.job import ClaimFor, NewJob, RefreshesFor, Renewal, Settlement
from penstock.lifecycle.outcomes import Done, Failed
from penstock.lifecycle.states import State
from penstock.limits.rules import Floating, Limit, Numbers

ONE = (Limit("key", Numbers(slots=1)),)


def ask(*workers, queue="q", count=1):
    return [ClaimFor((queue,), count, worker) for worker in workers]


def test_what_is_enqueued_is_claimed_in_the_same_turn(engine):
    added, _, (claim,), _ = engine.batch(
        [NewJob("a", queue="q"), NewJob("b", queue="q")], [], ask("w", count=2)
    )

    assert [job.id for job in claim.jobs] == [each.id for each in added]


def test_a_slot_that_is_given_back_goes_to_the_next_in_the_same_turn(engine):
    engine.enqueue([NewJob("a", queue="q", limits=ONE), NewJob("b", queue="q", limits=ONE)])
    (first,) = engine.claims(ask("w", count=2))
    (running,) = first.jobs

    _, ended, claims, _ = engine.batch([], [Settlement(running.seq, running.fence, Done())], ask("v", "w"))

    assert ended == [engine.clock.now()]
    assert [[job.task for job in claim.jobs] for claim in claims] == [["b"], []]


def test_a_newcomer_with_limits_waits_behind_those_in_line(engine):
    engine.enqueue([NewJob("a", queue="q", limits=ONE)])

    _, _, (claim,), _ = engine.batch([NewJob("b", queue="q", limits=ONE)], [], ask("w", count=2))

    assert [job.task for job in claim.jobs] == ["a"]
    assert engine.doctor() == []


def test_nothing_is_done_if_one_part_cannot_be(engine):
    (known,) = engine.enqueue([NewJob("a", queue="q")])
    (claim,) = engine.claims(ask("w"))
    (running,) = claim.jobs
    done = [Settlement(running.seq, running.fence, Done())]

    with pytest.raises(DuplicateJobError):
        engine.batch([NewJob("b", queue="q"), NewJob("c", queue="q", id=known.id)], done, ask("w"))
    with pytest.raises(InvalidError):
        engine.batch([NewJob("b", queue="q")], done, ask("w", count=0))

    assert engine.count() == {State.RUNNING: 1}


def test_a_late_outcome_is_refused_and_the_rest_is_done(engine):
    engine.enqueue([NewJob("a", queue="q")])
    (claim,) = engine.claims(ask("w"))
    (running,) = claim.jobs

    _, ended, (next_claim,), _ = engine.batch(
        [NewJob("b", queue="q")], [Settlement(running.seq, running.fence + 1, Done())], ask("w")
    )

    assert ended == [None]
    assert [job.task for job in next_claim.jobs] == ["b"]


def floating(key="floats"):
    return (Limit(key, Numbers(slots=1), floating=Floating("", 60_000_000)),)


def test_a_claim_and_the_refreshes_of_its_worker_are_one_turn(engine):
    engine.enqueue([NewJob("a", queue="q", limits=floating())])

    _, _, (claim,), (refreshes, elsewhere) = engine.batch(
        [], [], ask("w"), [RefreshesFor(1, "w", queues=("q",)), RefreshesFor(1, "v", queues=("other",))]
    )

    assert [job.task for job in claim.jobs] == ["a"]
    assert [(each.key, each.queue) for each in refreshes] == [("floats", "q")]
    assert elsewhere == []
    assert engine.batch([], [], ask("w"), [RefreshesFor(1, "w", queues=("q",))])[3] == [[]]


def test_a_numbered_claim_counts_on_when_a_job_is_retried_by_hand(engine):
    (new,) = engine.enqueue([NewJob("a", queue="q")])
    wanted = ClaimFor(("q",), 1, "w", numbered=True)
    numbers = []
    for _ in range(2):
        (job,) = engine.claims([wanted])[0].jobs
        numbers.append((job.number, job.attempt))
        engine.settle([Settlement(job.seq, job.fence, Failed("Bad", "it broke"))])
        engine.retry(new.id)

    last = engine.claim_one(new.id, worker="w")

    assert numbers == [(1, 1), (2, 1)]
    assert (last.number, last.attempt) == (3, 1)
    assert [past.number for past in engine.history(new.id)] == [1, 2, 3]


def test_a_heartbeat_counts_only_for_the_worker_that_has_the_attempt(engine):
    engine.enqueue([NewJob("a", queue="q")])
    (job,) = engine.claims(ask("w"))[0].jobs
    engine.cancel(job.id)

    other, own, gone = engine.heartbeats(
        [
            Renewal(job.seq, job.fence, worker="v"),
            Renewal(job.seq, job.fence, worker="w"),
            Renewal(job.seq, job.fence + 1, worker="w"),
        ]
    )

    assert (other.alive, other.holder) == (False, "w")
    assert (own.alive, own.cancel_asked, own.cancel_at) == (True, True, engine.clock.now())
    assert (gone.alive, gone.holder) == (False, None)
