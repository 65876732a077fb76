"""Attempts that take too long: ended by the engine, once, where the claim asked for it."""

import pytest

from penstock.clock import SECOND
from penstock.job import ClaimFor
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from tests.support.desk import LEASE, Desk, slots

TWICE = RetryPolicy(attempts=2, delay=0, jitter=False)
pytestmark = pytest.mark.usefixtures("healthy")


def claim(desk: Desk, lease: int = LEASE, workers: int = 1) -> str:
    """Claim for workers that leave it to the engine to end what takes too long."""
    answers = desk.engine.claims(
        [ClaimFor(("q",), 5, str(n), lease=lease, timed=True) for n in range(workers)]
    )
    jobs = [job for answer in answers for job in answer.jobs]
    desk.attempts |= {job.id: job for job in jobs}
    return " ".join(job.id for job in jobs)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_attempt_is_ended_when_its_time_is_over(desk: Desk, limits, workers) -> None:
    desk.enqueue("a", *limits, timeout=2 * SECOND, retry=TWICE)
    assert claim(desk, workers=workers) == "a"
    desk.wait(2 * SECOND - 1)
    desk.engine.upkeep()
    assert desk.state("a") is State.RUNNING

    desk.wait(1)
    desk.engine.upkeep()

    assert desk.state("a") is State.WAITING
    (failure,) = desk.engine.failures("a")
    assert (failure.kind, failure.attempt) == ("timeout", 1)
    assert "2s" in failure.message
    assert claim(desk) == "a"
    assert desk.attempts["a"].attempt == 2


def test_the_last_attempt_fails_for_good(desk: Desk, limits) -> None:
    desk.enqueue("a", *limits, timeout=2 * SECOND)
    claim(desk)
    desk.wait(2 * SECOND)
    desk.engine.upkeep()

    view = desk.job("a")
    assert view.state is State.FAILED
    assert view.error is not None
    assert view.error["kind"] == "timeout"


def test_a_claim_ends_it_too_and_takes_its_slot(desk: Desk) -> None:
    desk.enqueue("a", slots("k", 1), timeout=2 * SECOND)
    desk.enqueue("b", slots("k", 1))
    claim(desk)
    desk.wait(2 * SECOND)

    assert claim(desk) == "b"
    assert desk.state("a") is State.FAILED
    assert desk.engine.gate("k").running == 1


def test_what_it_says_later_counts_for_nothing(desk: Desk) -> None:
    desk.enqueue("a b", slots("k", 1), timeout=2 * SECOND)
    claim(desk)
    desk.wait(2 * SECOND)
    assert claim(desk) == "b"

    assert desk.settle("a", Done("1")) == [False]
    assert desk.engine.gate("k").running == 1


def test_a_heartbeat_never_goes_beyond_it(desk: Desk, limits) -> None:
    desk.enqueue("a", *limits, timeout=20 * SECOND)
    claim(desk)
    attempt = desk.attempts["a"]
    desk.wait(10 * SECOND)
    (beat,) = desk.engine.heartbeat([(attempt.seq, attempt.fence)], lease=LEASE)
    assert beat.alive
    assert desk.job("a").lease == desk.clock.now() + 10 * SECOND

    desk.wait(10 * SECOND)
    (beat,) = desk.engine.heartbeat([(attempt.seq, attempt.fence)], lease=LEASE)
    assert not beat.alive
    desk.engine.upkeep()
    assert desk.state("a") is State.FAILED


@pytest.mark.parametrize("late", [0, 60 * SECOND], ids=["at once", "long after"])
def test_a_worker_that_is_lost_before_is_no_timeout(desk: Desk, late) -> None:
    desk.enqueue("a", timeout=60 * SECOND)
    claim(desk)
    desk.wait(LEASE + late)
    desk.engine.upkeep()

    assert desk.state("a") is State.WAITING
    assert [failure.kind for failure in desk.engine.failures("a")] == ["LeaseLost"]


def test_a_worker_that_does_not_ask_for_it_ends_attempts_itself(desk: Desk, limits) -> None:
    desk.enqueue("a", *limits, timeout=2 * SECOND)
    desk.claim()
    desk.wait(5 * SECOND)
    desk.engine.upkeep()

    assert desk.state("a") is State.RUNNING
    assert desk.settle("a") == [True]


def test_one_that_was_asked_to_stop_is_cancelled(desk: Desk) -> None:
    desk.enqueue("a", timeout=2 * SECOND, retry=TWICE)
    claim(desk)
    desk.engine.cancel("a")
    desk.wait(2 * SECOND)
    desk.engine.upkeep()

    assert desk.state("a") is State.CANCELLED


def test_an_own_lease_and_a_timeout_go_together(desk: Desk) -> None:
    desk.enqueue("a", timeout=2 * SECOND, lease=5 * SECOND)
    desk.enqueue("b", timeout=5 * SECOND, lease=2 * SECOND)
    claim(desk)
    now = desk.clock.now()

    found = {attempt.id: attempt for attempt in desk.engine.attempts(["a", "b"])}
    assert (found["a"].lease, found["a"].deadline) == (now + 2 * SECOND, now + 2 * SECOND)
    assert (found["b"].lease, found["b"].deadline) == (now + 2 * SECOND, now + 5 * SECOND)


def test_a_policy_may_call_it_final(desk: Desk) -> None:
    desk.enqueue("a", timeout=2 * SECOND, retry=RetryPolicy(attempts=5, never=("timeout",)))
    claim(desk)
    desk.wait(2 * SECOND)
    desk.engine.upkeep()

    assert desk.state("a") is State.FAILED
