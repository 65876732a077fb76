"""One job by hand: due now, claimed by its id, brought in with the attempts it made elsewhere."""

import pytest

from penstock.clock import SECOND
from penstock.engine.history import KEPT
from penstock.errors import DuplicateJobError, GateShutError, InvalidJobError, WrongStateError
from penstock.job import ImportedAttempt, ImportedJob, Maintenance, NewJob
from penstock.lifecycle.outcomes import Ending, Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Numbers
from tests.support.desk import Desk, rate, slots

HOUR = 3_600 * SECOND
NO = Failed("Bad", "no")
LATEST = Unique("u", on_duplicate=OnDuplicate.REPLACE)


def take(desk: Desk, name: str) -> str:
    """Claim one job by its id; return its name, or which gates keep it."""
    try:
        claimed = desk.engine.claim_one(name, worker="hand")
    except GateShutError as error:
        return ", ".join(error.gates)
    desk.attempts[claimed.id] = claimed
    return claimed.id


class TestExpedite:
    def test_a_scheduled_job_is_due_now_and_stands_behind_those_that_came_before(
        self, desk: Desk, ample, healthy
    ) -> None:
        desk.enqueue("later", *ample, due=desk.clock.now() + HOUR)
        desk.enqueue("first", *ample)

        assert desk.engine.expedite("later") is State.WAITING
        assert desk.claim() == "first later"

    def test_a_job_between_attempts_keeps_those_it_has_made(self, desk: Desk, ample, healthy) -> None:
        desk.enqueue("a", *ample, retry=RetryPolicy(attempts=2, delay=HOUR))
        desk.claim()
        desk.settle("a", NO)
        desk.engine.expedite("a")

        assert desk.claim() == "a"
        assert desk.attempts["a"].attempt == 2
        desk.settle("a", NO)
        assert desk.state("a") is State.FAILED

    def test_it_waits_at_a_shut_gate_like_any_other(self, desk: Desk, healthy) -> None:
        desk.enqueue("runs", slots("k", 1))
        desk.claim()
        desk.enqueue("later", slots("k", 1), due=desk.clock.now() + HOUR)
        desk.engine.expedite("later")

        assert desk.claim() == ""
        desk.settle("runs")
        assert desk.claim() == "later"

    def test_a_job_that_waits_stays_where_it_is(self, desk: Desk, limits, healthy) -> None:
        desk.enqueue("a b", *limits)

        assert [desk.engine.expedite(name) for name in "ba"] == [State.WAITING] * 2
        assert desk.claim(1) == "a"

    def test_one_that_waits_for_the_end_of_another_is_due_at_that_end(self, desk: Desk) -> None:
        desk.enqueue("a", unique=LATEST)
        desk.claim()
        desk.enqueue("b", unique=LATEST, due=desk.clock.now() + HOUR)
        desk.engine.expedite("b")
        assert desk.claim() == ""
        desk.settle("a")

        assert desk.claim() == "b"

    def test_one_that_runs_or_has_ended_cannot_be(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.claim()
        with pytest.raises(WrongStateError, match="running"):
            desk.engine.expedite("a")
        desk.settle("a")
        with pytest.raises(WrongStateError, match="done"):
            desk.engine.expedite("a")


class TestClaimOne:
    def test_it_starts_before_others_of_its_line(self, desk: Desk, ample, healthy) -> None:
        desk.enqueue("a b c", *ample)

        assert take(desk, "b") == "b"
        assert desk.claim() == "a c"
        desk.settle("a b c")
        assert desk.engine.history("b")[0].worker == "hand"

    def test_it_holds_its_slots_like_any_other(self, desk: Desk, healthy) -> None:
        desk.enqueue("a b c", slots("k", 1), slots("l", 5))
        assert take(desk, "b") == "b"

        assert desk.claim() == ""
        assert desk.engine.gate("k").running == desk.engine.gate("l").running == 1
        desk.settle("b")
        assert desk.claim() == "a"

    def test_one_that_was_told_to_be_blocked_is_told_to_be_released(self, desk: Desk) -> None:
        desk.enqueue("runs a b", slots("k", 1))
        desk.claim()
        desk.settle("runs")
        take(desk, "b")

        assert [event.facts["job"] for event in desk.heard("limit.released")] == ["b"]

    def test_the_first_of_a_lane_hands_the_lane_on(self, desk: Desk, healthy) -> None:
        desk.enqueue("runs a b", slots("k", 1))
        desk.claim()
        desk.settle("runs")
        assert take(desk, "a") == "a"
        desk.settle("a")

        assert desk.claim() == "b"

    def test_it_is_never_over_a_limit_and_says_which_gates_keep_it(self, desk: Desk, healthy) -> None:
        desk.enqueue("runs", slots("k", 1), rate("r", 1, HOUR))
        desk.claim()
        desk.enqueue("a", slots("k", 1), rate("r", 1, HOUR), rate("free", 9))

        with pytest.raises(GateShutError, match="k: 1 running of 1 at once") as caught:
            desk.engine.claim_one("a", worker="hand")
        assert (caught.value.gates, caught.value.opens_at) == (("k", "r"), None)
        assert desk.state("a") is State.WAITING
        desk.settle("runs", began=desk.clock.now())
        with pytest.raises(GateShutError) as caught:
            desk.engine.claim_one("a", worker="hand")
        assert caught.value.gates == ("r",)
        assert caught.value.opens_at is not None
        assert caught.value.opens_at > desk.clock.now()

    def test_a_drop_gate_keeps_it_and_drops_nothing(self, desk: Desk) -> None:
        desk.enqueue("runs a", slots("k", 1, "drop"))
        claimed = desk.engine.claim_one("a", worker="hand")

        assert claimed.id == "a"
        assert take(desk, "runs") == "k"
        assert desk.state("runs") is State.WAITING

    def test_queue_type_pool_and_pause_count_too(self, desk: Desk, ample) -> None:
        desk.enqueue("a b", *ample)
        desk.engine.configure("type", "task", Numbers(slots=0))
        assert take(desk, "b") == "type task"
        desk.engine.configure("type", "task", None)
        desk.engine.configure("queue", "q", Numbers(slots=1))
        assert take(desk, "b") == "b"
        assert take(desk, "a") == "queue q"
        desk.settle("b")
        desk.engine.pause("q")
        assert take(desk, "a") == "queue q"
        desk.engine.resume("q")
        assert take(desk, "a") == "a"
        desk.settle("a")
        assert desk.engine.doctor() == []

    def test_a_type_limited_since_it_came_holds_its_slot(self, desk: Desk, ample, healthy) -> None:
        desk.enqueue("a b", *ample)
        desk.engine.configure("type", "task", Numbers(slots=1))
        assert take(desk, "b") == "b"

        assert desk.claim() == ""
        desk.settle("b")
        assert desk.claim() == "a"

    def test_what_is_kept_for_a_turn_is_kept_from_it_too(self, desk: Desk) -> None:
        """A job that was refused four times has the turn at both its gates."""
        desk.enqueue("x", slots("x", 1), queue="xs")
        desk.enqueue("y", slots("y", 1), queue="ys")
        desk.claim(queues=["xs", "ys"])
        desk.enqueue("both", slots("x", 1), slots("y", 1))
        for n in range(8):
            free, other = ("x", "y") if n % 2 else ("y", "x")
            desk.enqueue(f"{free}{n}", slots(free, 1), queue=f"{free}s")
            desk.settle(free)
            assert desk.claim() == ""
            held = desk.claim(queues=[f"{free}s"])
            if held:
                desk.attempts[free] = desk.attempts[held]
            else:
                break
        assert take(desk, f"{free}{n}") == free
        desk.settle(other)
        assert desk.claim() == "both"

    def test_a_job_that_is_due_starts(self, desk: Desk, ample) -> None:
        desk.enqueue("a", *ample, due=desk.clock.now() + SECOND)
        with pytest.raises(WrongStateError, match="scheduled"):
            desk.engine.claim_one("a", worker="hand")
        desk.wait(SECOND)

        assert take(desk, "a") == "a"

    def test_one_that_runs_has_ended_or_expired_does_not(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.enqueue("b", expires=desk.clock.now() + SECOND)
        desk.claim(1)
        desk.wait(SECOND)
        for name, state in (("a", "running"), ("b", "expired")):
            with pytest.raises(WrongStateError, match=state):
                desk.engine.claim_one(name, worker="hand")

    def test_one_that_waits_for_the_end_of_another_does_not(self, desk: Desk) -> None:
        desk.enqueue("a", unique=LATEST)
        desk.claim()
        desk.enqueue("b", unique=LATEST)

        with pytest.raises(GateShutError, match="job a must end first"):
            desk.engine.claim_one("b", worker="hand")

    def test_nothing_starts_during_maintenance(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.engine.set_maintenance(Maintenance(desk.clock.now()))

        assert take(desk, "a") == "maintenance"


def past(outcome: str, at: int, **facts: object) -> ImportedAttempt:
    """Return an attempt that ended so at this second, having taken one."""
    error = {"kind": "Bad", "message": "no"} if outcome in ("failed", "lost") else None
    return ImportedAttempt(
        Ending(outcome), at * SECOND, (at - 1) * SECOND, worker="old", error=error, **facts
    )


def bring(desk: Desk, name: str, *attempts: ImportedAttempt, limits=(), state=None, **facts: object) -> None:
    job = NewJob("task", queue="q", id=name, limits=limits, **facts)
    desk.engine.import_jobs([ImportedJob(job, attempts, state, enqueued=5)])


class TestImport:
    def test_a_job_goes_on_with_the_attempts_it_has_left(self, desk: Desk, ample, healthy) -> None:
        three = RetryPolicy(attempts=3, delay=0)
        attempts = (past("failed", 10), past("lost", 20), past("handed_back", 30), past("failed", 40))
        bring(desk, "a", *attempts, limits=ample, retry=three)

        view = desk.job("a")
        assert (view.state, view.used, view.lost, view.enqueued) == (State.WAITING, 2, 1, 5)
        assert desk.claim() == "a"
        assert desk.attempts["a"].attempt == 4
        desk.settle("a", NO)
        assert desk.state("a") is State.FAILED
        found = desk.engine.history("a")
        assert [each.outcome for each in found] == ["failed", "lost", "handed_back", "failed", "failed"]
        assert [each.number for each in found] == [1, 2, 3, 4, 5]
        assert [each.attempt for each in found] == [1, 2, 3, 3, 4]
        assert (found[0].started, found[0].ended, found[0].worker) == (9 * SECOND, 10 * SECOND, "old")

    def test_it_passes_its_gates_when_it_starts(self, desk: Desk, healthy) -> None:
        desk.enqueue("runs", slots("k", 1))
        desk.claim()
        bring(desk, "a", past("failed", 10), limits=(slots("k", 1),), retry=RetryPolicy(attempts=2))

        assert desk.claim() == ""
        desk.settle("runs")
        assert desk.claim() == "a"

    def test_it_may_be_scheduled_between_attempts(self, desk: Desk, ample, healthy) -> None:
        due = desk.clock.now() + HOUR
        bring(desk, "a", past("failed", 10), limits=ample, due=due, retry=RetryPolicy(attempts=2))

        assert (desk.job("a").state, desk.job("a").due) == (State.SCHEDULED, due)
        desk.wait(HOUR)
        assert desk.claim() == "a"
        assert desk.attempts["a"].attempt == 2

    def test_one_that_is_dropped_at_once_keeps_its_attempts(self, desk: Desk, healthy) -> None:
        desk.enqueue("runs", slots("k", 1))
        desk.claim()
        bring(desk, "a", past("failed", 10), limits=(slots("k", 1, "drop"),), retry=RetryPolicy(attempts=2))

        assert (desk.state("a"), desk.job("a").attempt) == (State.DISCARDED, 1)

    def test_one_that_is_done_never_runs(self, desk: Desk, ample, healthy) -> None:
        attempts = (past("failed", 10), past("done", 20, result="7"))
        bring(desk, "a", *attempts, limits=ample, state=State.DONE)

        view = desk.job("a")
        assert (view.state, view.result, view.finished, view.attempt) == (State.DONE, "7", 20 * SECOND, 2)
        assert desk.claim() == ""
        assert [each.outcome for each in desk.engine.history("a")] == ["failed", "done"]
        assert desk.engine.history("a")[-1].result == "7"
        assert desk.heard("job.done") == []

    def test_of_one_that_is_done_little_may_be_known(self, desk: Desk, healthy) -> None:
        bring(desk, "a", ImportedAttempt(Ending.DONE, 9 * SECOND, result="7"), state=State.DONE)
        bring(desk, "b", state=State.DONE)

        assert [(each.number, each.started, each.result) for each in desk.engine.history("a")] == [
            (1, None, "7")
        ]
        assert desk.engine.history("b") == []

    def test_one_that_failed_can_be_retried_by_hand(self, desk: Desk, ample, healthy) -> None:
        bring(desk, "a", past("failed", 10), limits=ample, state=State.FAILED)

        assert desk.job("a").error == {"kind": "Bad", "message": "no"}
        assert desk.claim() == ""
        desk.engine.retry("a")
        assert desk.claim() == "a"
        desk.settle("a")
        assert [each.outcome for each in desk.engine.history("a")] == ["failed", "done"]

    def test_retries_by_hand_elsewhere_begin_the_count_again(self, desk: Desk) -> None:
        bring(desk, "a", past("failed", 10), past("failed", 20, retried=25 * SECOND), past("failed", 30))

        assert desk.job("a").used == 1
        assert [each.attempt for each in desk.engine.history("a")] == [1, 2, 1]

    def test_the_last_of_many_attempts_are_kept(self, desk: Desk, healthy) -> None:
        bring(desk, "a", *(past("failed", at) for at in range(1, KEPT + 6)))

        assert desk.engine.history("a")[0].number == 6

    def test_the_id_must_be_free_and_all_or_none_come(self, desk: Desk) -> None:
        desk.enqueue("a")
        for state in (None, State.DONE):
            jobs = [ImportedJob(NewJob("task", id=name), (), state) for name in "ba"]
            with pytest.raises(DuplicateJobError):
                desk.engine.import_jobs(jobs)
        assert [view.id for view in desk.engine.jobs()] == ["a"]

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            (ImportedJob(NewJob("t")), "id"),
            (ImportedJob(NewJob("t", id="a"), state=State.RUNNING), "state"),
            (ImportedJob(NewJob("t", id="a", unique=Unique("u")), state=State.DONE), "unique"),
            (ImportedJob(NewJob("t", id="a", unique=LATEST)), "unique"),
            (ImportedJob(NewJob("t", id="a"), enqueued=-1), "enqueued"),
            (ImportedJob(NewJob("t", id="a"), (past("running", 2),)), "attempts[0].outcome"),
            (ImportedJob(NewJob("t", id="a"), (past("done", 2),)), "attempts[0].outcome"),
            (ImportedJob(NewJob("t", id="a"), (ImportedAttempt(Ending.FAILED, 1, 2),)), "attempts[0]"),
            (
                ImportedJob(NewJob("t", id="a"), (ImportedAttempt(Ending.LOST, 1, worker="\0"),)),
                "attempts[0].worker",
            ),
        ],
    )
    def test_what_cannot_have_been_is_refused_and_names_the_field(self, desk: Desk, wrong, field) -> None:
        with pytest.raises(InvalidJobError) as caught:
            desk.engine.import_jobs([wrong])

        assert caught.value.field == field
