"""What a worker is told when it reports a failure: what becomes of the job, and when it runs again."""

import pytest

from penstock.clock import SECOND
from penstock.job import Sequel, Settlement
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack
from penstock.lifecycle.retry import Exhausted, RetryPolicy
from penstock.lifecycle.states import State
from tests.support.desk import Desk

TWICE = RetryPolicy(attempts=2, delay=3 * SECOND, jitter=False)
BAD = Failed("Bad", "no")


def test_a_failure_is_answered_with_what_follows_it(desk: Desk) -> None:
    desk.enqueue("a b", retry=TWICE)
    desk.claim()

    assert [Sequel(State.SCHEDULED, 2, 3 * SECOND)] == desk.settle("a", BAD)
    assert [Sequel(State.SCHEDULED, 2, SECOND)] == desk.settle("b", Again(SECOND))

    desk.wait(3 * SECOND)
    desk.claim()

    assert [Sequel(State.FAILED, 2)] == desk.settle("a", BAD)
    assert [Sequel(State.FAILED, 2)] == desk.settle("b", Again(SECOND))


def test_the_delay_is_the_one_after_which_it_runs(desk: Desk) -> None:
    desk.enqueue("a", retry=RetryPolicy(attempts=2, delay=60 * SECOND))
    desk.claim()
    (sequel,) = desk.settle("a", BAD)

    assert isinstance(sequel, Sequel)
    assert desk.job("a").due == desk.clock.now() + (sequel.after or 0)


def test_a_job_without_attempts_left_is_discarded_if_its_policy_says_so(desk: Desk) -> None:
    desk.enqueue("a", retry=RetryPolicy(exhausted=Exhausted.DISCARD))
    desk.claim()

    assert [Sequel(State.DISCARDED, 1)] == desk.settle("a", BAD)


def test_a_job_that_somebody_cancelled_does_not_run_again(desk: Desk) -> None:
    desk.enqueue("a", retry=TWICE)
    desk.claim()
    desk.engine.cancel("a")

    assert [Sequel(State.CANCELLED)] == desk.settle("a", BAD)


@pytest.mark.parametrize("outcome", [Done(), Cancelled(), HandedBack()])
def test_other_outcomes_are_answered_with_yes_or_no(desk: Desk, outcome) -> None:
    desk.enqueue("a")
    desk.claim()

    assert [True] == desk.settle("a", outcome)
    assert [False] == desk.settle("a", outcome)


def test_an_exchange_answers_the_same(desk: Desk) -> None:
    desk.enqueue("a", retry=TWICE)
    desk.claim()
    attempt = desk.attempts["a"]
    answers, _ = desk.engine.exchange(
        [Settlement(attempt.seq, attempt.fence, BAD)], ["q"], 1, worker="worker"
    )

    assert [Sequel(State.SCHEDULED, 2, 3 * SECOND)] == answers
