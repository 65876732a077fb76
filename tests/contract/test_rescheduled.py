"""A job whose limit says `reschedule` is scheduled while its lane is parked: in every view, list, filter and count."""

import pytest

from penstock.clock import SECOND
from penstock.job import JobFilter
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers
from tests.support.desk import Desk, rate, slots, throttle

ONE = slots("X", 1, "reschedule")
MINUTE = 60 * SECOND


def due(desk: Desk, name: str) -> float | None:
    """Return in how many seconds a job is due."""
    at = desk.job(name).due
    return None if at is None else (at - desk.clock.now()) / SECOND


def listed(desk: Desk, state: State) -> str:
    return " ".join(view.id for view in reversed(desk.engine.jobs(state=state)))


def found(desk: Desk, state: str) -> str:
    views, total = desk.engine.search(JobFilter(states=frozenset({state})))
    pairs, matching = desk.engine.matching(JobFilter(states=frozenset({state})), 10)
    ids = [id_ for id_, _ in pairs]
    assert (len(views), ids) == (total, [view.id for view in reversed(views)])
    assert total == matching
    return " ".join(ids)


class TestEveryView:
    @pytest.fixture(autouse=True)
    def _shut(self, desk: Desk) -> None:
        desk.enqueue("a", ONE)
        desk.claim()
        desk.enqueue("b c", ONE)
        desk.enqueue("w", slots("X", 1))
        desk.enqueue("free")

    def test_one_job_is_scheduled_and_says_that_it_was_rescheduled(self, desk: Desk) -> None:
        view = desk.job("b")

        assert (view.state, view.rescheduled) == (State.SCHEDULED, True)
        assert view.due is not None
        assert view.due > desk.clock.now()
        assert (desk.state("w"), desk.job("w").rescheduled) == (State.WAITING, False)

    def test_lists_and_filters_agree(self, desk: Desk) -> None:
        assert (listed(desk, State.SCHEDULED), listed(desk, State.WAITING)) == ("b c", "w free")
        assert (found(desk, "scheduled"), found(desk, "waiting"), found(desk, "retrying")) == (
            "b c",
            "w free",
            "",
        )
        for view in desk.engine.jobs():
            assert view == desk.job(view.id)
        assert desk.engine.search(JobFilter())[0] == desk.engine.jobs()

    def test_counts_agree(self, desk: Desk) -> None:
        wanted = {"scheduled": 2, "waiting": 2, "running": 1}

        assert desk.engine.count() == wanted
        assert desk.engine.count(queue="q", task="task") == wanted
        assert desk.engine.count(queue="other") == {}
        assert [tally.counts for tally in desk.engine.tally()] == [wanted]
        assert {state: jobs for _, state, jobs in desk.engine.gauges(10).queues} == wanted
        (queue,) = desk.engine.queues()
        assert {state: queue[state] for state in wanted} == wanted

    def test_why_agrees(self, desk: Desk) -> None:
        why = desk.engine.why("c")

        assert (why.state, why.place) == (State.SCHEDULED, 1)
        assert "1 running of 1" in why.sentence

    def test_standing_tells_the_same(self, desk: Desk) -> None:
        views = desk.engine.standing(["b", "w", "unknown"])

        assert sorted(views, key=lambda view: view.id) == [desk.job("b"), desk.job("w")]

    def test_a_job_that_is_called_waits_for_a_worker(self, desk: Desk) -> None:
        desk.settle("a")

        assert desk.engine.count() == {"waiting": 4, "done": 1}
        assert (desk.state("b"), desk.job("b").due) == (State.WAITING, None)
        assert desk.claim(1) == "b"
        assert desk.engine.count() == {"scheduled": 1, "waiting": 2, "running": 1, "done": 1}

    def test_a_job_keeps_its_place_and_can_be_cancelled(self, desk: Desk) -> None:
        desk.engine.cancel("b")
        desk.settle("a")

        assert desk.claim() == "c free"


class TestWhen:
    def test_a_job_at_an_open_gate_waits(self, desk: Desk) -> None:
        desk.enqueue("a b", ONE)

        assert desk.engine.count() == {"waiting": 2}

    def test_a_job_of_several_limits_is_rescheduled_if_one_of_them_says_so(self, desk: Desk) -> None:
        desk.enqueue("a", slots("Y", 1))
        desk.claim()
        desk.enqueue("b", slots("Y", 1), slots("X", 1, "reschedule"))

        assert desk.state("b") is State.SCHEDULED

    def test_a_further_attempt_is_rescheduled_not_retrying(self, desk: Desk) -> None:
        desk.enqueue("a", ONE, retry=RetryPolicy(attempts=2, delay=SECOND, jitter=False))
        desk.claim()
        desk.settle("a", Failed("E", "no"))
        assert (found(desk, "retrying"), found(desk, "scheduled")) == ("a", "")
        desk.enqueue("b", slots("X", 1))
        desk.claim()
        desk.wait(2 * SECOND)
        desk.claim()

        assert (found(desk, "retrying"), found(desk, "scheduled")) == ("", "a")
        assert (desk.job("a").attempt, desk.job("a").rescheduled) == (1, True)


class TestExpectedStart:
    def test_a_rate_is_reckoned(self, desk: Desk) -> None:
        desk.enqueue("a b c d", rate("X", 2, MINUTE, "reschedule"))
        assert desk.claim() == "a b"
        desk.begun("a b")
        at = desk.engine.why("c").earliest

        assert [desk.job(name).due for name in "cd"] == [at, at]
        assert due(desk, "c") == pytest.approx(60, abs=0.1)

    def test_a_throttle_is_reckoned_for_each_place(self, desk: Desk) -> None:
        desk.enqueue("a b c", throttle("X", 1, 10 * SECOND, "reschedule"))
        desk.claim()
        desk.begun("a")

        assert [due(desk, name) for name in "bc"] == pytest.approx([10, 20], abs=0.1)

    def test_far_back_in_line_the_pace_goes_on(self, desk: Desk) -> None:
        desk.enqueue(" ".join(f"j{n}" for n in range(1_502)), throttle("X", 1, SECOND, "reschedule"))
        desk.claim()
        desk.begun("j0")

        assert due(desk, "j1501") == pytest.approx(1_501, abs=0.1)

    def test_slots_are_estimated_from_how_long_attempts_took(self, desk: Desk) -> None:
        desk.enqueue("other")
        desk.claim()
        desk.wait(1_000 * SECOND)
        desk.engine.heartbeat([(desk.attempts["other"].seq, desk.attempts["other"].fence)])
        desk.settle("other")  # of another key
        for name in ("a", "b"):
            desk.enqueue(name, slots("X", 2, "reschedule"))
            desk.claim()
            desk.wait(10 * SECOND)
            desk.settle(name)
        desk.enqueue("c d e f g", slots("X", 2, "reschedule"))
        assert desk.claim(1) == "c"
        desk.wait(4 * SECOND)
        assert desk.claim() == "d"

        assert [due(desk, name) for name in "efg"] == pytest.approx([6, 10, 16], abs=0.1)

    def test_an_attempt_that_takes_long_is_expected_to_end_soon(self, desk: Desk) -> None:
        desk.enqueue("a", ONE)
        desk.claim()
        desk.wait(10 * SECOND)
        desk.settle("a")
        desk.enqueue("b c", ONE)
        desk.claim(lease=MINUTE)
        desk.wait(30 * SECOND)

        assert due(desk, "c") == pytest.approx(5, abs=0.1)

    def test_as_long_as_none_has_ended_those_that_run_are_taken_for_half_done(self, desk: Desk) -> None:
        desk.enqueue("a b", ONE)
        desk.claim()
        assert due(desk, "b") == pytest.approx(1, abs=0.1)
        desk.wait(7 * SECOND)

        assert due(desk, "b") == pytest.approx(7, abs=0.1)

    def test_the_end_of_an_override_is_known(self, desk: Desk) -> None:
        desk.engine.override("X", Numbers(slots=0), until=desk.clock.now() + MINUTE)
        desk.enqueue("a b", slots("X", 2, "reschedule"))

        assert [due(desk, name) for name in "ab"] == pytest.approx([60, 60], abs=0.1)

    def test_nothing_is_expected_where_only_a_person_opens_the_gate(self, desk: Desk) -> None:
        desk.engine.override("X", Numbers(slots=0))
        desk.enqueue("a", ONE)

        assert (desk.state("a"), desk.job("a").due) == (State.SCHEDULED, None)
        assert desk.engine.count() == {"scheduled": 1}
        desk.engine.clear_override("X")
        assert (desk.state("a"), desk.claim()) == (State.WAITING, "a")

    def test_a_gate_shut_for_a_while_opens_then(self, desk: Desk) -> None:
        desk.engine.shut("X", desk.clock.now() + MINUTE)
        desk.enqueue("a", ONE)

        assert due(desk, "a") == pytest.approx(60, abs=0.1)

    def test_slots_that_are_in_use_when_there_may_be_fewer_are_given_back_first(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 2, "reschedule"))
        assert desk.claim(1) == "a"
        desk.wait(2 * SECOND)
        assert desk.claim() == "b"
        desk.wait(2 * SECOND)
        desk.engine.configure("key", "X", Numbers(slots=1))
        desk.enqueue("c", slots("X", 2, "reschedule"))

        # Attempts are taken to last 8 s: a ends in 4 s and frees no slot, b ends in 6 s.
        assert due(desk, "c") == pytest.approx(6, abs=0.1)
