"""One transaction that enqueues, settles and claims comes to what three of them do."""

import pytest

from penstock.errors import DuplicateJobError, InvalidError
from penstock.job import ClaimFor, NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers

ONE = (Limit("key", Numbers(slots=1)),)


@pytest.fixture
def engine(opened):
    return opened()


def ask(*workers, queue="q", count=1):
    return [ClaimFor((queue,), count, worker) for worker in workers]


def test_what_is_enqueued_is_claimed_in_the_same_turn(engine):
    added, _, (claim,) = engine.batch([NewJob("a", queue="q"), NewJob("b", queue="q")], [], ask("w", count=2))

    assert [job.id for job in claim.jobs] == [each.id for each in added]


def test_a_slot_that_is_given_back_goes_to_the_next_in_the_same_turn(engine):
    engine.enqueue([NewJob("a", queue="q", limits=ONE), NewJob("b", queue="q", limits=ONE)])
    (first,) = engine.claims(ask("w", count=2))
    (running,) = first.jobs

    _, ended, claims = engine.batch([], [Settlement(running.seq, running.fence, Done())], ask("v", "w"))

    assert ended == [engine.clock.now()]
    assert [[job.task for job in claim.jobs] for claim in claims] == [["b"], []]


def test_a_newcomer_with_limits_waits_behind_those_in_line(engine):
    engine.enqueue([NewJob("a", queue="q", limits=ONE)])

    _, _, (claim,) = engine.batch([NewJob("b", queue="q", limits=ONE)], [], ask("w", count=2))

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

    _, ended, (next_claim,) = engine.batch(
        [NewJob("b", queue="q")], [Settlement(running.seq, running.fence + 1, Done())], ask("w")
    )

    assert ended == [None]
    assert [job.task for job in next_claim.jobs] == ["b"]
