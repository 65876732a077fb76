"""How attempts end: failures for good or with details, gates shut on the way, and what the worker is told follows."""

import json

import pytest

from penstock.clock import SECOND
from penstock.job import Sequel, Settlement
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited
from penstock.lifecycle.retry import Exhausted, RetryPolicy
from penstock.lifecycle.states import State
from tests.support.desk import Desk, slots

OFTEN = RetryPolicy(attempts=5, delay=0, jitter=False)
DISCARDED = RetryPolicy(attempts=5, exhausted=Exhausted.DISCARD)
TWICE = RetryPolicy(attempts=2, delay=3 * SECOND, jitter=False)
BAD = Failed("Bad", "no")


class TestFinal:
    @pytest.mark.parametrize(("policy", "state"), [(OFTEN, State.FAILED), (DISCARDED, State.DISCARDED)])
    def test_what_is_final_is_not_tried_again(self, desk: Desk, policy, state) -> None:
        desk.enqueue("a", retry=policy)
        desk.claim()
        desk.settle("a", Failed("Bad", "no", final=True))

        view = desk.job("a")
        assert (view.state, view.attempt) == (state, 1)
        assert view.reason == "an error that is not to be retried"
        assert view.retry == policy

    def test_otherwise_the_policy_decides(self, desk: Desk) -> None:
        desk.enqueue("a", retry=OFTEN)
        desk.claim()
        desk.settle("a", BAD)

        assert desk.state("a") is State.WAITING


class TestDetails:
    def test_they_are_kept_with_the_failure_and_the_end(self, desk: Desk) -> None:
        details = json.dumps({"code": "handler_error", "nul": "\0", "text": "ä"})
        desk.enqueue("a")
        desk.claim()
        desk.settle("a", Failed("Bad", "no", details=details))

        (failure,) = desk.engine.failures("a")
        assert json.loads(failure.details) == json.loads(details)
        error = desk.job("a").error
        assert error is not None
        assert error["details"] == failure.details

    def test_without_them_there_are_none(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.claim()
        desk.settle("a", BAD)

        assert desk.engine.failures("a")[0].details == ""
        assert desk.job("a").error == {"kind": "Bad", "message": "no", "traceback": ""}


class TestShut:
    def test_the_jobs_gates_are_shut_and_the_attempt_counts(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("k", 5), retry=OFTEN)
        desk.claim(1)
        until = desk.clock.now() + 10 * SECOND
        desk.settle("a", Failed("TooMany", "slow down", shut_until=until))

        assert desk.claim() == ""
        assert desk.engine.gate("k").shut_until == until
        assert [failure.kind for failure in desk.engine.failures("a")] == ["TooMany"]
        (event,) = desk.heard("limit.adjusted")
        assert (event.facts["key"], event.facts["until"]) == ("k", until)

        desk.wait(10 * SECOND)
        assert sorted(desk.claim().split()) == ["a", "b"]
        assert desk.attempts["a"].attempt == 2

    def test_one_key_can_be_picked(self, desk: Desk) -> None:
        desk.enqueue("a", slots("k", 5), slots("l", 5), retry=OFTEN)
        desk.enqueue("b", slots("k", 5))
        desk.claim(1)
        desk.settle("a", Failed("TooMany", "no", shut_until=desk.clock.now() + 10 * SECOND, shut_key="l"))

        assert desk.claim() == "b"

    def test_the_last_attempt_shuts_them_too(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("k", 5))
        desk.claim(1)
        desk.settle("a", Failed("TooMany", "no", shut_until=desk.clock.now() + SECOND))

        assert desk.state("a") is State.FAILED
        assert desk.claim() == ""
        assert desk.engine.doctor() == []

    def test_a_moment_that_has_passed_shuts_nothing(self, desk: Desk, limits) -> None:
        desk.enqueue("a", *limits, retry=OFTEN)
        desk.claim(1)
        desk.settle("a", Failed("TooMany", "no", shut_until=desk.clock.now() - SECOND))

        assert desk.claim() == "a"


class TestCancelled:
    @pytest.mark.parametrize("asked", [True, False])
    def test_a_running_job_can_be_ended_as_cancelled_at_once(self, desk: Desk, limits, asked) -> None:
        desk.enqueue("a", *limits)
        desk.enqueue("b", *limits)
        desk.claim(1)
        if asked:
            desk.engine.cancel("a")
        assert desk.settle("a", Cancelled("by hand")) == [True]

        assert desk.state("a") is State.CANCELLED
        assert desk.claim() == "b"
        assert desk.settle("a", Done()) == [False]
        assert desk.engine.doctor() == []


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
    settled = [Settlement(attempt.seq, attempt.fence, BAD)]
    answers, _ = desk.engine.exchange(settled, ["q"], 1, worker="worker")

    assert [Sequel(State.SCHEDULED, 2, 3 * SECOND)] == answers


def test_a_job_handed_back_for_a_while_comes_back_after_it_with_all_its_attempts(desk: Desk) -> None:
    desk.enqueue("a b", slots("X", 1))
    desk.claim()
    desk.settle("a", HandedBack(after=SECOND))

    assert desk.state("a") is State.SCHEDULED
    assert desk.claim() == "b"
    desk.settle("b")
    desk.wait(SECOND - 1)
    assert desk.claim() == ""
    desk.wait(1)
    assert desk.claim() == "a"
    assert desk.attempts["a"].attempt == 1


def test_a_job_without_gates_that_is_limited_waits_for_the_moment(desk: Desk) -> None:
    desk.enqueue("a")
    desk.claim()
    desk.settle("a", Limited(desk.clock.now() + SECOND, None, "429"))

    assert desk.claim() == ""
    desk.wait(SECOND)
    assert desk.claim() == "a"
    assert desk.attempts["a"].attempt == 1


def test_a_job_limited_until_a_moment_that_has_passed_pauses_all_the_same(desk: Desk) -> None:
    desk.enqueue("a")
    desk.enqueue("b", slots("X", 1))
    desk.claim()
    desk.settle("a b", Limited(desk.clock.now() - SECOND))

    assert desk.claim() == ""

    desk.wait(SECOND // 10)

    assert sorted(desk.claim().split()) == ["a", "b"]
