"""Upkeep: what the clock brings, what is needed no more, and what the doctor finds."""

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine.settle import MAX_LOST
from penstock.engine.upkeep import BATCH
from penstock.errors import NotFoundError
from penstock.job import START_GRACE, NewJob
from penstock.lifecycle.outcomes import Again, Failed, HandedBack
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Floating, Limit, Numbers, Window
from tests.support.desk import LEASE, Desk, rate, slots, throttle

NO = Failed("ValueError", "no")
TWICE = RetryPolicy(attempts=2, delay=0, jitter=False)


def sql(desk: Desk, statement: str, *values: object):
    if not statement.startswith("SELECT"):
        return desk.engine.store.write(lambda db: db.run(statement, *values))
    return desk.engine.store.write(lambda db: db.all(statement, *values))


def sweep(desk: Desk) -> dict[str, int]:
    """Look after everything until nothing is left to sweep; return what was swept."""
    total = {"lanes": 0, "gates": 0}
    for _ in range(20):
        done = desk.engine.upkeep()
        total = {name: total[name] + done[name] for name in total}
    return total


class TestRescue:
    def test_a_rescued_job_keeps_its_place_before_those_who_came_later(self, desk: Desk) -> None:
        desk.enqueue("a b c", slots("X", 2))
        assert desk.claim(1) == "a"
        desk.wait(LEASE)

        assert desk.engine.upkeep()["rescued"] == 1
        assert desk.claim() == "a b"

    def test_a_rescued_job_without_limits_keeps_its_place_too(self, desk: Desk) -> None:
        desk.enqueue("a b")
        assert desk.claim(1) == "a"
        desk.enqueue("c")
        desk.wait(LEASE)

        assert desk.claim() == "a b c"

    def test_a_lost_attempt_is_counted_but_uses_up_no_retry(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1), retry=TWICE)
        desk.claim()
        desk.wait(LEASE)
        assert desk.claim() == "a"
        assert desk.attempts["a"].attempt == 2
        desk.settle("a", NO)
        assert desk.claim() == "a"
        desk.settle("a", NO)

        assert desk.state("a") is State.FAILED

    def test_a_job_that_is_lost_too_often_fails_and_says_why(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        for _ in range(MAX_LOST + 1):
            assert desk.claim(1) == "a"
            desk.wait(LEASE)

        assert desk.claim() == "b"
        view = desk.job("a")
        assert view.state is State.FAILED
        assert view.error is not None
        assert str(MAX_LOST + 1) in view.error["message"]
        assert desk.engine.doctor() == []

    def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.claim()
        assert desk.engine.cancel("a") is State.RUNNING
        desk.wait(LEASE)
        desk.engine.upkeep()

        assert desk.state("a") is State.CANCELLED

    def test_many_leases_that_run_out_at_once_are_all_rescued_before_anyone_starts(self, desk: Desk) -> None:
        count = BATCH + 20
        desk.engine.enqueue([NewJob("task", id=f"j{n:04}", queue="q") for n in range(count)])
        assert len(desk.claim(count).split()) == count
        desk.wait(LEASE)
        desk.enqueue("late")

        names = desk.claim(count + 1).split()
        assert names == [*(f"j{n:04}" for n in range(count)), "late"]


class TestExpiry:
    def test_a_job_that_has_not_started_in_time_expires(self, desk: Desk) -> None:
        at = desk.clock.now() + SECOND
        desk.enqueue("free", expires=at, queue="nobody")
        desk.enqueue("parked", slots("X", 0), expires=at)
        desk.enqueue("scheduled", due=at + SECOND, expires=at)
        desk.wait(SECOND - 1)
        assert desk.engine.upkeep()["expired"] == 0
        desk.wait(1)

        assert desk.engine.upkeep()["expired"] == 3
        assert {desk.state(name) for name in ("free", "parked", "scheduled")} == {State.EXPIRED}
        assert desk.engine.doctor() == []

    def test_a_claim_starts_nothing_that_has_expired(self, desk: Desk) -> None:
        desk.enqueue("a", expires=desk.clock.now() + SECOND)
        desk.wait(SECOND)

        assert desk.claim() == ""
        assert desk.state("a") is State.EXPIRED

    def test_one_that_runs_does_not_expire(self, desk: Desk) -> None:
        desk.enqueue("a", expires=desk.clock.now() + SECOND)
        desk.claim()
        desk.wait(2 * SECOND)
        desk.engine.upkeep()

        assert desk.settle("a") == [True]
        assert desk.state("a") is State.DONE

    @pytest.mark.parametrize(
        ("outcome", "retry"),
        [(HandedBack(), RetryPolicy()), (Again(after=0), TWICE), (None, RetryPolicy())],
        ids=["handed back", "retried", "rescued"],
    )
    def test_one_that_comes_back_too_late_expires(self, desk: Desk, limits, outcome, retry) -> None:
        desk.enqueue("a", *limits, expires=desk.clock.now() + SECOND, retry=retry)
        desk.claim()
        desk.wait(2 * SECOND)
        desk.engine.upkeep()  # looks for what has expired, and finds it running
        if outcome is None:
            desk.wait(LEASE)
        else:
            desk.settle("a", outcome)

        assert desk.claim() == ""
        assert desk.state("a") is State.EXPIRED
        assert desk.engine.doctor() == []

    def test_the_head_of_a_lane_that_expires_lets_the_next_one_go(self, desk: Desk) -> None:
        desk.enqueue("running", slots("X", 1))
        desk.claim()
        desk.enqueue("a", slots("X", 1), expires=desk.clock.now() + SECOND)
        desk.enqueue("b", slots("X", 1))
        desk.settle("running")
        desk.wait(SECOND)

        assert desk.claim() == "b"

    def test_one_that_expires_is_not_overlooked_behind_many_that_ended_in_time(self, desk: Desk) -> None:
        at = desk.clock.now() + SECOND
        desk.engine.enqueue([NewJob("task", queue="q", id=f"j{n}", expires=at) for n in range(BATCH)])
        desk.settle(desk.claim(BATCH))
        desk.enqueue("late", expires=at + 1)
        desk.wait(2 * SECOND)

        assert desk.claim() == ""
        assert desk.state("late") is State.EXPIRED


class TestPrune:
    def test_only_what_ended_before_then_is_deleted(self, desk: Desk) -> None:
        desk.enqueue("old young running waiting")
        desk.claim(3)
        desk.settle("old")
        desk.wait(SECOND)
        then = desk.clock.now()
        desk.settle("young")

        assert desk.engine.prune(then) == 1
        with pytest.raises(NotFoundError):
            desk.job("old")
        states = [desk.state(name) for name in ("young", "running", "waiting")]
        assert states == ["done", "running", "waiting"]
        assert desk.engine.prune(then + 1) == 1
        assert desk.engine.doctor() == []

    def test_all_that_is_known_of_a_job_goes_with_it(self, desk: Desk) -> None:
        desk.enqueue("a", expires=desk.clock.now() + 60 * SECOND)
        desk.claim()
        attempt = desk.attempts["a"]
        desk.engine.progress(attempt.seq, attempt.fence, "1")
        desk.settle("a", NO)
        desk.wait(1)
        desk.engine.prune(desk.clock.now())

        for table in ("job", "done", "attempt", "progress", "expiry", "uniqueness"):
            assert sql(desk, f"SELECT count(*) FROM {table}") == [(0,)], table

    def test_it_works_in_batches(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        count = 2 * BATCH + 10
        desk.engine.enqueue([NewJob("task", queue="q") for _ in range(count)])
        desk.settle(desk.claim(count))
        desk.wait(1)
        store, commits = desk.engine.store, []
        whole = store.write
        monkeypatch.setattr(store, "write", lambda *args, **how: commits.append(1) or whole(*args, **how))

        assert desk.engine.prune(desk.clock.now(), most=BATCH) == BATCH
        assert desk.engine.prune(desk.clock.now()) == BATCH + 10
        assert len(commits) == 3


def end_with_keys_of_their_own(desk: Desk, count: int) -> None:
    """Let *count* jobs run and end, each with a key that no other has."""
    limits = [slots(f"key:{n}", 1) for n in range(count)]
    desk.engine.enqueue([NewJob("task", id=limit.key, queue="q", limits=(limit,)) for limit in limits])
    desk.settle(desk.claim(count))


class TestSweep:
    def test_keys_that_are_used_once_do_not_stay(self, desk: Desk) -> None:
        end_with_keys_of_their_own(desk, 3 * BATCH)

        assert sweep(desk) == {"lanes": 3 * BATCH, "gates": 3 * BATCH}
        for table in ("lane", "lane_gate", "gate", "gate_memory", "wake", "turn"):
            assert sql(desk, f"SELECT count(*) FROM {table}") == [(0,)], table
        assert desk.engine.doctor() == []

    def test_one_upkeep_does_a_bounded_amount(self, desk: Desk) -> None:
        end_with_keys_of_their_own(desk, BATCH + 5)

        done = desk.engine.upkeep()

        assert done["lanes"] == BATCH
        assert done["gates"] <= BATCH

    def test_a_swept_key_works_as_before(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.claim()
        desk.settle("a")
        sweep(desk)
        with pytest.raises(NotFoundError):
            desk.engine.gate("X")
        desk.enqueue("b c", slots("X", 1))

        assert desk.claim() == "b"

    @pytest.mark.parametrize("limit", [rate("X", 1), throttle("X", 1)], ids=["rate", "throttle"])
    def test_a_window_is_remembered_as_long_as_it_lasts(self, desk: Desk, limit: Limit) -> None:
        desk.enqueue("a", limit)
        desk.claim()
        desk.settle("a")
        desk.wait(SECOND)
        sweep(desk)
        desk.enqueue("b", limit)

        assert desk.claim() == ""
        desk.wait(START_GRACE)
        assert desk.claim() == "b"
        desk.settle("b")
        desk.wait(SECOND + START_GRACE)
        assert sweep(desk)["gates"] == 1

    def test_a_heavy_throttled_start_is_remembered_for_its_weight(self, desk: Desk) -> None:
        desk.enqueue("heavy", throttle("X", 1), cost=3)
        desk.claim()
        desk.settle("heavy")
        desk.wait(2 * SECOND)
        sweep(desk)
        desk.enqueue("a", throttle("X", 1))

        assert desk.claim() == ""
        desk.wait(SECOND + START_GRACE)
        assert desk.claim() == "a"

    def test_what_runs_is_not_swept(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.claim()
        sweep(desk)
        desk.enqueue("b", slots("X", 1))

        assert desk.claim() == ""
        assert desk.engine.gate("X").running == 1

    def test_those_who_wait_are_not_swept(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        assert sweep(desk) == {"lanes": 0, "gates": 0}
        desk.settle("a")

        assert desk.claim() == "b"

    def test_a_gate_with_rules_is_not_swept(self, desk: Desk) -> None:
        configured = [("key", "configured"), ("queue", "q"), ("type", "task")]
        for scope, name in configured:
            desk.engine.configure(scope, name, Numbers(slots=9))
        desk.engine.override("overridden", Numbers(slots=1))
        desk.engine.shut("shut", desk.clock.now() + 3600 * SECOND)

        assert sweep(desk)["gates"] == 0
        assert sweep(desk)["gates"] == 0
        for scope, name in configured:
            desk.engine.configure(scope, name, None)
        desk.engine.clear_override("overridden")
        desk.engine.clear_override("shut")
        assert sweep(desk)["gates"] == 5

    def test_a_floating_gate_is_not_swept(self, desk: Desk) -> None:
        desk.enqueue("a", Limit("X", Numbers(slots=1), floating=Floating("how_many", 60 * SECOND)))
        desk.claim()
        desk.settle("a")
        desk.wait(3600 * SECOND)
        sweep(desk)

        assert desk.engine.floating("X").value == 1
        desk.engine.delete_floating("X")
        assert sweep(desk)["gates"] == 1

    @pytest.mark.parametrize("how", ["shut", "override"])
    def test_keys_that_were_shut_for_a_while_do_not_stay(self, desk: Desk, how: str) -> None:
        until = desk.clock.now() + SECOND
        if how == "shut":
            desk.engine.shut("X", until)
        else:
            desk.engine.override("X", Numbers(slots=1), until=until)
        desk.wait(60 * SECOND)

        assert sweep(desk)["gates"] == 1


class TestDoctor:
    @pytest.fixture
    def patient(self, desk: Desk) -> Desk:
        desk.enqueue("a b", slots("X", 1))
        desk.enqueue("c d", slots("Y", 1), slots("X", 1))
        desk.enqueue("free")
        desk.enqueue("later", due=desk.clock.now() + SECOND)
        desk.enqueue("done", slots("Z", 1))
        desk.claim()
        desk.settle("done")
        assert desk.engine.doctor() == []
        return desk

    def test_a_wrong_number_of_those_who_run(self, patient: Desk) -> None:
        sql(patient, "UPDATE gate SET running = 5 WHERE name = 'X'")

        assert patient.engine.doctor() == ["gate X counts 5 running, but 1 are"]

    def test_a_slot_that_nobody_counts(self, patient: Desk) -> None:
        sql(patient, "UPDATE gate SET running = 0 WHERE name = 'X'")

        found = patient.engine.doctor()
        assert "gate X counts 0 running, but 1 are" in found
        assert any("open" in line for line in found)  # and no job was called, of course

    def test_a_slot_in_a_gate_that_does_not_exist(self, patient: Desk) -> None:
        sql(patient, "UPDATE running SET gates = '987654' WHERE gates <> ''")

        assert any("does not exist" in line for line in patient.engine.doctor())

    def test_a_wrong_number_of_lanes(self, patient: Desk) -> None:
        sql(patient, "UPDATE gate SET lanes = lanes + 7 WHERE name = 'X'")

        (found,) = patient.engine.doctor()
        assert found.startswith("gate X counts")
        assert "lanes" in found

    def test_a_lane_that_names_the_wrong_head(self, patient: Desk) -> None:
        ((lane, head),) = sql(
            patient, "SELECT l.lane, l.seq FROM lane_job l JOIN job j ON j.seq = l.seq WHERE j.id = 'd'"
        )
        sql(patient, "UPDATE lane SET head = ? WHERE id = ?", head, lane)

        (found,) = patient.engine.doctor()
        assert found.startswith(f"lane {lane} names {head} as its first job")

    def test_a_lane_that_has_forgotten_its_jobs(self, patient: Desk) -> None:
        sql(patient, "UPDATE lane SET head = NULL WHERE head IS NOT NULL AND behind IS NOT NULL")

        assert any("as its first job" in line for line in patient.engine.doctor())

    @pytest.mark.parametrize("table", ["ready", "scheduled", "done"])
    def test_a_job_in_two_places(self, patient: Desk, table: str) -> None:
        columns = {
            "ready": "(seq, queue, priority, ord, cost, attempt, lost) SELECT seq, 'q', 0, seq, 1, 0, 0",
            "scheduled": "(seq, due, attempt, lost) SELECT seq, 9000000000000000, 0, 0",
            "done": "(seq, state, finished, attempt, reason) SELECT seq, 'done', 0, 1, ''",
        }
        sql(patient, f"INSERT INTO {table} {columns[table]} FROM job WHERE id = 'a'")

        assert patient.engine.doctor() == ["job a stands in 2 places instead of one"]

    def test_a_job_that_stands_nowhere(self, patient: Desk) -> None:
        sql(patient, "DELETE FROM scheduled")

        assert patient.engine.doctor() == ["job later stands in 0 places instead of one"]

    def test_a_lane_that_was_not_called(self, patient: Desk) -> None:
        patient.settle("a")
        sql(patient, "UPDATE lane SET ready = 0")

        assert any("open, but the first in line was not called" in line for line in patient.engine.doctor())

    def test_a_lane_that_is_neither_ready_nor_parked(self, patient: Desk) -> None:
        ((lane,),) = sql(patient, "SELECT lane FROM lane_job JOIN job USING (seq) WHERE id = 'b'")
        parked = "SELECT behind FROM lane WHERE id = ?"
        sql(patient, f"UPDATE gate SET lanes = lanes - 1 WHERE id = ({parked})", lane)
        sql(patient, "UPDATE lane SET behind = NULL, line = NULL, ready = 0 WHERE id = ?", lane)

        assert patient.engine.doctor() == [f"lane {lane} is neither ready nor parked, but jobs wait in it"]

    def test_a_gate_that_will_open_by_the_clock_is_no_damage(self, desk: Desk) -> None:
        desk.enqueue("a b c", rate("X", 1))
        desk.claim()
        desk.engine.override("Y", Numbers(rate=Window(1, SECOND)), until=desk.clock.now() + SECOND)
        desk.enqueue("d e", slots("Y", 1))
        desk.claim()
        desk.wait(60 * SECOND)

        assert desk.engine.doctor() == []


@pytest.mark.parametrize("limits", [(slots("X", 0, "drop"),), (slots("X", 1, "drop"),)], ids=["shut", "full"])
def test_a_drop_job_that_is_due_and_expires_in_the_same_claim_ends_once(desk: Desk, limits) -> None:
    desk.enqueue("running", slots("X", 1))
    desk.claim()
    at = desk.clock.now() + SECOND
    desk.enqueue("both", *limits, due=at, expires=at)
    desk.enqueue("other", *limits, due=at)
    desk.wait(SECOND)

    assert desk.claim() == ""
    assert desk.state("both") in (State.DISCARDED, State.EXPIRED)
    ends = desk.heard("job.discarded") + desk.heard("job.expired")
    assert [event.facts["job"] for event in ends].count("both") == 1
    assert desk.state("other") is State.DISCARDED
    assert desk.engine.doctor() == []


def test_more_gates_than_a_batch_that_open_at_once_keep_the_order_of_priority(desk: Desk) -> None:
    count = BATCH + 100
    limits = [rate(f"key:{number}", 1) for number in range(count)]

    def enqueue(prefix: str, numbers: range, **facts: int) -> None:
        desk.engine.enqueue(
            [NewJob("task", id=f"{prefix}{n}", queue="q", limits=(limits[n],), **facts) for n in numbers]
        )

    enqueue("a", range(count - 1))
    assert len(desk.claim(count).split()) == count - 1
    desk.wait(MILLISECOND)
    enqueue("a", range(count - 1, count))
    desk.claim(1)
    enqueue("b", range(count - 1))
    enqueue("b", range(count - 1, count), priority=9)
    assert desk.claim() == ""
    desk.wait(SECOND + START_GRACE)

    assert desk.claim(1) == f"b{count - 1}"  # whose gate is the last to open
    assert desk.claim(3) == "b0 b1 b2"
    assert desk.engine.doctor() == []
