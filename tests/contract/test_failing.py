"""Failures that say more: for good, with details, and that the called system wants to be left alone."""

import json

import pytest

from penstock.clock import SECOND
from penstock.lifecycle.outcomes import Cancelled, Done, Failed
from penstock.lifecycle.retry import Exhausted, RetryPolicy
from penstock.lifecycle.states import State
from tests.support.desk import Desk, slots

OFTEN = RetryPolicy(attempts=5, delay=0, jitter=False)
DISCARDED = RetryPolicy(attempts=5, exhausted=Exhausted.DISCARD)


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
        desk.settle("a", Failed("Bad", "no"))

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
        desk.settle("a", Failed("Bad", "no"))

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

    @pytest.mark.parametrize("limits", [(), (slots("k", 5),)], ids=["free", "limited"])
    def test_a_moment_that_has_passed_shuts_nothing(self, desk: Desk, limits) -> None:
        desk.enqueue("a", *limits, retry=OFTEN)
        desk.claim(1)
        desk.settle("a", Failed("TooMany", "no", shut_until=desk.clock.now() - SECOND))

        assert desk.claim() == "a"


class TestCancelled:
    @pytest.mark.parametrize("asked", [True, False])
    @pytest.mark.parametrize("limits", [(), (slots("k", 1),)], ids=["free", "limited"])
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
