"""What must always hold: the promises I1 to I8 of the engine, each in scripted steps."""

import itertools
import random

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import GUARD
from penstock.errors import WrongStateError
from penstock.job import START_GRACE, NewJob
from penstock.lifecycle.outcomes import Again, Cancelled, Failed, HandedBack, Limited
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import UNLIMITED, Floating, Limit, Numbers, Window
from tests.support.desk import LEASE, Desk, rate, slots, throttle, work_of
from tests.support.stores import on_sqlite

FAILED = Failed("ValueError", "no")
REPORTED_OR_NOT = pytest.mark.parametrize("reported", [True, False], ids=["reported", "not reported"])
THRICE = RetryPolicy(attempts=3, backoff=Backoff.FIXED, delay=SECOND, jitter=False)


class TestI1Exact:
    def test_never_more_run_at_once_than_there_are_slots(self, desk: Desk) -> None:
        desk.enqueue("a b c d e", slots("X", 2))

        assert desk.claim() == "a b"
        assert desk.claim() == ""
        desk.settle("b")
        assert desk.claim() == "c"

    def test_slots_are_counted_through_retries_rescues_and_runs_by_hand(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1), retry=THRICE)
        desk.enqueue("b c", slots("X", 1))

        assert desk.claim() == "a"
        desk.settle("a", Again(after=0))
        assert desk.claim() == "b"  # a is a newcomer now
        desk.wait(LEASE)
        assert desk.claim() == "b"  # its worker was lost; one slot, one attempt
        desk.settle("b", Cancelled())
        desk.engine.retry("b")
        assert desk.claim() == "c"
        assert desk.claim() == ""
        desk.settle("c")
        assert desk.claim() == "a"
        desk.settle("a")
        assert desk.claim() == "b"

    @REPORTED_OR_NOT
    def test_no_window_anywhere_holds_more_beginnings_than_the_rate(self, desk: Desk, reported: bool) -> None:
        limit, period = 5, SECOND
        desk.enqueue(" ".join(f"j{n}" for n in range(25)), rate("X", limit, period))

        begun = _begin_whatever_is_claimed(desk, 25, reported=reported)

        assert len(begun) == 25
        for earlier, later in zip(begun, begun[limit:], strict=False):
            assert later - earlier >= period

    @REPORTED_OR_NOT
    def test_throttled_beginnings_keep_their_distance(self, desk: Desk, reported: bool) -> None:
        desk.enqueue(" ".join(f"j{n}" for n in range(12)), throttle("X", 4, SECOND))

        begun = _begin_whatever_is_claimed(desk, 12, reported=reported)

        assert len(begun) == 12
        assert all(later - earlier >= SECOND // 4 for earlier, later in itertools.pairwise(begun))

    def test_a_start_counts_from_the_latest_moment_it_may_begin_until_that_is_known(self, desk: Desk) -> None:
        desk.enqueue("a b c", rate("X", 1))

        desk.claim()
        desk.wait(SECOND + START_GRACE - 1)
        assert desk.claim() == ""
        desk.wait(1)
        assert desk.claim() == "b"

        desk.begun("b")
        desk.wait(SECOND + GUARD - 1)
        assert desk.claim() == ""
        desk.wait(1)
        assert desk.claim() == "c"

    def test_a_claim_tells_by_when_a_rated_handler_must_begin(self, desk: Desk) -> None:
        desk.enqueue("rated", rate("X", 9))
        desk.enqueue("slotted", slots("Y", 9))
        desk.enqueue("free")

        desk.claim()

        assert desk.attempts["rated"].begin_by == desk.clock.now() + START_GRACE
        assert desk.attempts["slotted"].begin_by == 0
        assert desk.attempts["free"].begin_by == 0

    def test_retries_count_as_starts(self, desk: Desk) -> None:
        desk.enqueue("a", rate("X", 2), retry=THRICE)
        for _ in range(2):
            assert desk.claim() == "a"
            desk.settle("a", Again(after=0))

        assert desk.claim() == ""
        desk.wait(SECOND + START_GRACE)
        assert desk.claim() == "a"

    def test_a_clock_that_steps_back_reopens_no_window(self, desk: Desk) -> None:
        desk.enqueue("a b", rate("X", 1))
        desk.claim()
        desk.wait(-60 * SECOND)

        assert desk.claim() == ""
        desk.wait(61 * SECOND + START_GRACE)
        assert desk.claim() == "b"

    def test_a_heavy_start_uses_up_its_weight(self, desk: Desk) -> None:
        desk.enqueue("heavy", rate("X", 5), cost=3)
        desk.enqueue("light light2", rate("X", 5))
        desk.enqueue("heavy2", rate("X", 5), cost=3)

        assert desk.claim() == "heavy light light2"
        desk.wait(SECOND + START_GRACE)
        assert desk.claim() == "heavy2"

    def test_a_heavy_throttled_start_shuts_the_gate_for_as_many_gaps(self, desk: Desk) -> None:
        desk.enqueue("heavy", throttle("X", 1), cost=3)
        desk.enqueue("light")
        desk.enqueue("next", throttle("X", 1))
        desk.claim()
        desk.begun("heavy")

        desk.wait(3 * SECOND)
        assert desk.claim() == ""
        desk.wait(GUARD)
        assert desk.claim() == "next"

    def test_limits_hold_across_engines_on_one_store(self, desks: list[Desk]) -> None:
        here, there = desks
        here.enqueue("a b c", slots("X", 2))

        assert here.claim(1) == "a"
        assert there.claim() == "b"
        assert here.claim() == ""
        there.settle("b")
        assert here.claim() == "c"


class TestI2AllOrNothing:
    def test_a_job_that_waits_for_one_gate_holds_nothing_at_another(self, desk: Desk) -> None:
        desk.enqueue("x", slots("X", 1))
        desk.claim()
        desk.enqueue("xy", slots("X", 1), slots("Y", 1))
        desk.enqueue("y", slots("Y", 1))

        assert desk.claim() == "y"

    def test_a_refused_job_leaves_no_start_behind(self, desk: Desk) -> None:
        desk.enqueue("x", slots("X", 1))
        desk.claim()
        desk.enqueue("xy", slots("X", 1), rate("Y", 1))
        assert desk.claim() == ""
        desk.enqueue("y", rate("Y", 1))

        assert desk.claim() == "y"

    def test_opposite_orders_take_turns(self, desk: Desk) -> None:
        desk.enqueue("xy", slots("X", 1), slots("Y", 1))
        desk.enqueue("yx", slots("Y", 1), slots("X", 1))

        assert desk.claim() == "xy"
        assert desk.claim() == ""
        desk.settle("xy")
        assert desk.claim() == "yx"

    def test_all_slots_come_back_together(self, desk: Desk) -> None:
        desk.enqueue("xyz", slots("X", 1), slots("Y", 1), slots("Z", 1))
        desk.claim()
        desk.enqueue("x", slots("X", 1))
        desk.enqueue("y", slots("Y", 1))
        desk.enqueue("z", slots("Z", 1))

        assert desk.claim() == ""
        desk.settle("xyz")
        assert desk.claim() == "x y z"

    def test_an_enqueue_of_several_is_all_or_nothing_too(self, desk: Desk) -> None:
        desk.enqueue("a")

        with pytest.raises(Exception, match="a"):
            desk.enqueue("b a c")

        assert desk.claim() == "a"


class TestI3WorkConserving:
    @pytest.mark.parametrize("more", [(), (slots("Y", 1),)], ids=["its like", "one with other limits"])
    def test_a_called_job_that_is_cancelled_hands_its_call_on_to(self, desk: Desk, more) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.enqueue("c", slots("X", 1), *more)
        desk.claim()
        desk.settle("a")  # calls b
        desk.engine.cancel("b")

        assert desk.claim() == "c"

    def test_a_slot_is_not_kept_for_a_queue_without_workers(self, desk: Desk) -> None:
        desk.enqueue("running", slots("X", 1))
        desk.claim()
        desk.enqueue("other", slots("X", 1), queue="nobody")
        desk.enqueue("mine", slots("X", 1))
        desk.settle("running")

        assert desk.claim() == "mine"

    def test_the_slot_of_a_killed_worker_comes_back(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()

        desk.wait(LEASE - 1)
        assert desk.claim() == ""
        desk.wait(1)
        assert desk.claim() == "a"

    def test_raising_a_limit_lets_more_start(self, desk: Desk) -> None:
        desk.enqueue("a b c", slots("X", 1))
        desk.claim()
        desk.engine.configure("key", "X", Numbers(slots=2))

        assert desk.claim() == "b"

    def test_deleting_a_configuration_brings_the_jobs_own_numbers_back(self, desk: Desk) -> None:
        desk.engine.configure("key", "X", Numbers(slots=0))
        desk.enqueue("a b", slots("X", 1))
        assert desk.claim() == ""
        desk.engine.configure("key", "X", None)

        assert desk.claim() == "a"

    def test_an_override_that_expires_lets_go_by_itself(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.engine.override("X", Numbers(slots=0), until=desk.clock.now() + SECOND)

        assert desk.claim() == ""
        desk.wait(SECOND - 1)
        assert desk.claim() == ""
        desk.wait(1)
        assert desk.claim() == "a"

    def test_a_cleared_override_lets_go_at_once(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.engine.override("X", Numbers(slots=0))
        assert desk.claim() == ""
        desk.engine.clear_override("X")

        assert desk.claim() == "a"

    def test_a_gate_shut_until_a_moment_opens_then(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.engine.shut("X", desk.clock.now() + SECOND, reason="429")

        assert desk.claim() == ""
        desk.wait(SECOND)
        assert desk.claim() == "a"

    def test_a_floating_value_that_rises_lets_more_start(self, desk: Desk) -> None:
        floating = Limit("X", Numbers(slots=1), floating=Floating("how_many", every=SECOND))
        desk.enqueue("a b c", floating)
        assert desk.claim() == "a"
        desk.wait(SECOND)

        (refresh,) = desk.engine.refreshes(["how_many"], 5, worker="worker", lease=LEASE)
        assert desk.engine.refreshed(refresh, value=2)

        assert desk.claim() == "b"

    def test_a_rate_that_is_deleted_lets_everybody_go(self, desk: Desk) -> None:
        desk.engine.configure("key", "X", Numbers(rate=Window(1, SECOND)))
        desk.enqueue("a b c", Limit("X", UNLIMITED))
        assert desk.claim() == "a"
        desk.engine.configure("key", "X", None)

        assert desk.claim() == "b c"

    def test_a_claim_tells_when_the_clock_will_have_something(self, desk: Desk) -> None:
        desk.enqueue("a b", rate("X", 1))
        desk.claim()
        desk.begun("a")

        claim = desk.engine.claim(["q"], 1, worker="worker", lease=LEASE)

        assert claim.jobs == []
        assert claim.next_at is not None
        assert claim.next_at <= desk.clock.now() + SECOND + GUARD

    def test_a_paused_queue_starts_nothing_and_a_resumed_one_goes_on(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.enqueue("b")
        desk.engine.pause("q")
        assert desk.claim() == ""
        desk.engine.resume("q")

        assert desk.claim() == "a b"


class TestI4Ordered:
    def test_higher_priority_first_then_first_come(self, desk: Desk) -> None:
        desk.enqueue("low", priority=-1)
        desk.enqueue("a", slots("X", 9))
        desk.enqueue("b")
        desk.enqueue("high", rate("Y", 9), priority=1)

        assert desk.claim() == "high a b low"

    def test_the_best_of_all_queues_goes_first(self, desk: Desk) -> None:
        desk.enqueue("a", queue="one")
        desk.enqueue("b", queue="two")
        desk.enqueue("c", queue="two", priority=1)
        desk.enqueue("d", queue="one")

        assert desk.claim(queues=["two", "one"]) == "c a b d"

    def test_a_newcomer_does_not_barge_past_an_equal(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        desk.settle("a")
        desk.enqueue("c", slots("X", 1))
        desk.enqueue("d", slots("X", 1), slots("Y", 1))

        assert desk.claim() == "b"

    def test_a_retry_is_a_newcomer(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1), retry=THRICE)
        desk.enqueue("b", slots("X", 1))
        desk.claim()
        desk.settle("a", Again(after=0))

        assert desk.claim() == "b"

    def test_a_rescued_job_keeps_its_place(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        desk.wait(LEASE)

        assert desk.claim() == "a"

    def test_a_job_handed_back_keeps_its_place_and_its_attempts(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        desk.settle("a", HandedBack(begun=False))

        assert desk.claim() == "a"
        assert desk.attempts["a"].attempt == 1

    def test_a_due_job_joins_the_end_of_the_line(self, desk: Desk) -> None:
        desk.enqueue("later", slots("X", 1), due=desk.clock.now() + SECOND)
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        desk.wait(SECOND)
        desk.settle("a")

        assert desk.claim() == "b"
        desk.settle("b")
        assert desk.claim() == "later"

    def test_a_blocked_high_priority_does_not_stop_a_lower_one_that_is_free(self, desk: Desk) -> None:
        desk.enqueue("running", slots("X", 1))
        desk.claim()
        desk.enqueue("high", slots("X", 1), priority=9)
        desk.enqueue("low", slots("Y", 1), priority=-9)

        assert desk.claim() == "low"


class TestI5BoundedOvertaking:
    def test_a_job_that_needs_two_busy_gates_is_served(self, desk: Desk) -> None:
        assert _served_among_streams(desk, "both", slots("X", 1), slots("Y", 1)) < 40

    def test_higher_priority_still_goes_first(self, desk: Desk) -> None:
        desk.enqueue("x0", slots("X", 1), priority=1)
        desk.claim()
        desk.enqueue("low", slots("X", 1))
        for n in range(1, 20):
            desk.enqueue(f"x{n}", slots("X", 1), priority=1)
            desk.settle(f"x{n - 1}")
            assert desk.claim() == f"x{n}"

    def test_a_slower_queue_on_a_shared_key_is_not_starved(self, desk: Desk) -> None:
        desk.enqueue("fast0", slots("X", 1), queue="fast")
        desk.claim(queues=["fast"])
        desk.enqueue("slow", slots("X", 1), queue="slow")
        for n in range(1, 20):
            desk.enqueue(f"fast{n}", slots("X", 1), queue="fast")
            desk.settle(f"fast{n - 1}")
            started = desk.claim(queues=["fast"])  # always a moment before the slow one's worker
            if desk.claim(queues=["slow"]) == "slow":
                break
            assert started == f"fast{n}"

        assert desk.state("slow") is State.RUNNING

    def test_a_heavy_start_is_not_starved_by_light_ones_of_another_queue(self, desk: Desk) -> None:
        desk.enqueue("heavy", rate("X", 5), cost=5, queue="heavy")
        desk.enqueue(" ".join(f"light{n}" for n in range(60)), rate("X", 5), queue="light")
        for _ in range(60):
            desk.claim(1, queues=["light"])
            if desk.claim(queues=["heavy"]) == "heavy":
                break
            desk.wait(100 * MILLISECOND)

        assert desk.state("heavy") is State.RUNNING

    def test_a_turn_lapses_when_the_workers_of_its_queue_are_gone(self, desk: Desk) -> None:
        kept = _give_the_turn_to_the_slow(desk)

        desk.wait(SECOND)
        assert desk.claim(queues=["fast"]) == kept

    def test_a_turn_ends_when_the_type_of_its_holder_is_paused(self, desk: Desk) -> None:
        kept = _give_the_turn_to_the_slow(desk)

        desk.engine.configure("type", "slow", Numbers(slots=0))

        assert desk.claim(queues=["fast"]) == kept

    def test_a_heavy_job_whose_type_was_paused_is_given_no_turn(self, desk: Desk) -> None:
        started: dict[str, list[int]] = {"X": [], "Y": []}
        for key in started:
            desk.enqueue(" ".join(f"{key}{n}" for n in range(40)), rate(key, 5), queue=key)
            desk.claim(1, queues=[key])
        desk.enqueue("heavy", rate("X", 5), cost=5, queue="heavy", task="big")
        desk.engine.configure("type", "big", Numbers(slots=0))
        for step in range(60):
            desk.wait(100 * MILLISECOND)
            for key in started:
                started[key] += [step] * len(desk.claim(queues=[key]).split())

        assert started["X"] == started["Y"]


class TestI6NothingLost:
    def test_what_was_enqueued_is_there_after_a_restart(self, desk: Desk, opened) -> None:
        desk.enqueue("running", slots("X", 1))
        desk.claim()
        desk.enqueue("waiting", slots("X", 1))
        desk.enqueue("free")
        desk.enqueue("later", due=desk.clock.now() + SECOND)
        desk.engine.close()

        second = Desk(opened(), desk.clock)
        second.attempts = desk.attempts

        assert second.claim() == "free"
        assert second.settle("running") == [True]
        second.wait(SECOND)
        assert second.claim() == "waiting later"
        assert second.engine.doctor() == []

    def test_waiting_uses_up_no_attempts(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        for _ in range(20):
            assert desk.claim() == ""
            desk.wait(SECOND // 2)
        desk.settle("a")

        assert desk.claim() == "b"
        assert desk.attempts["b"].attempt == 1

    def test_being_limited_by_the_called_system_uses_up_no_attempt(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 2))
        desk.claim(1)
        desk.settle("a", Limited(desk.clock.now() + SECOND, "X"))

        assert desk.claim() == ""
        desk.wait(SECOND)
        assert sorted(desk.claim().split()) == ["a", "b"]
        assert desk.attempts["a"].attempt == 1

    def test_only_drop_discards_and_says_so(self, desk: Desk) -> None:
        desk.enqueue("running", slots("X", 1))
        desk.claim()
        desk.enqueue("waits", slots("X", 1))
        desk.enqueue("moves", slots("X", 1, "reschedule"))
        desk.enqueue("goes", slots("X", 1, "drop"))

        states = [desk.state(name) for name in ("waits", "moves", "goes")]

        assert states == [State.WAITING, State.SCHEDULED, State.DISCARDED]
        assert desk.job("goes").reason
        assert len(desk.heard("limit.dropped")) == 1
        assert len(desk.heard("job.discarded")) == 1

    def test_a_drop_behind_its_like_is_decided_when_it_comes_first(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1, "drop"))
        assert desk.state("b") is State.WAITING

        assert desk.claim() == "a"
        assert desk.state("b") is State.DISCARDED

    def test_a_failure_is_kept_and_can_be_retried_by_hand(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.claim()
        desk.settle("a", FAILED)
        assert desk.state("a") is State.FAILED
        desk.engine.retry("a")

        assert desk.claim() == "a"
        assert desk.attempts["a"].attempt == 1

    def test_a_finished_job_can_not_be_retried_or_cancelled(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.claim()
        desk.settle("a")

        with pytest.raises(WrongStateError):
            desk.engine.retry("a")
        with pytest.raises(WrongStateError):
            desk.engine.cancel("a")


class TestI7Cheap:
    @on_sqlite
    def test_the_number_of_keys_does_not_matter(self, desk: Desk) -> None:
        few = _cost_of_a_round(desk, "few", 50)
        many = _cost_of_a_round(desk, "many", 800)

        assert many <= few * 1.5

    @on_sqlite
    def test_waiters_on_a_rate_cost_the_same_each_however_many_wait(self, desk: Desk) -> None:
        few = _cost_per_waiter(desk, "few", 50)
        many = _cost_per_waiter(desk, "many", 500)

        assert many <= few * 1.5


class TestI8Explainable:
    def test_a_job_knows_its_gate_its_place_and_that_only_a_release_helps(self, desk: Desk) -> None:
        desk.enqueue("a b c d", slots("X", 1), slots("Y", 5))
        desk.claim()

        why = desk.engine.why("d")

        assert [reason.gate for reason in why.reasons] == ["X"]
        assert why.reasons[0].opens_at is None
        assert why.place == 2  # so many are ahead
        assert why.earliest is None
        assert "X" in why.sentence

    def test_a_job_behind_others_on_a_rate_knows_its_earliest_start(self, desk: Desk) -> None:
        desk.enqueue(" ".join(f"j{n}" for n in range(8)), rate("X", 2))
        desk.claim()
        desk.begun("j0 j1")
        opening = desk.clock.now() + SECOND + GUARD

        earliest = [desk.engine.why(f"j{n}").earliest for n in range(2, 8)]

        assert earliest == [opening + SECOND * n for n in (0, 0, 1, 1, 2, 2)]

    def test_a_throttled_job_knows_its_earliest_start(self, desk: Desk) -> None:
        desk.enqueue("a b c d", throttle("X", 2))
        desk.claim()
        desk.begun("a")
        last = desk.clock.now() + GUARD

        earliest = [desk.engine.why(name).earliest for name in ("b", "c", "d")]

        assert earliest == [last + SECOND // 2 * n for n in (1, 2, 3)]

    def test_a_job_behind_a_rate_and_a_throttle_of_one_key_knows_its_earliest_start(self, desk: Desk) -> None:
        both = Limit("X", Numbers(rate=Window(2, SECOND), throttle=Window(4, SECOND)))
        desk.enqueue("a b c d e", both)

        earliest = [desk.engine.why(name).earliest for name in "abcde"]

        quarters = [0, 1, 4, 5, 8]
        assert earliest == [desk.clock.now() + SECOND // 4 * n for n in quarters]

    def test_a_paused_queue_is_a_reason_too(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.engine.pause("q")

        why = desk.engine.why("a")

        assert len(why.reasons) == 1
        assert "q" in why.sentence

    def test_a_scheduled_job_tells_when_it_is_due(self, desk: Desk) -> None:
        due = desk.clock.now() + SECOND
        desk.enqueue("a", due=due)

        assert desk.engine.why("a").earliest == due

    def test_a_gate_tells_what_is_in_force_and_why(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        desk.engine.configure("key", "X", Numbers(slots=3))
        desk.engine.override("X", Numbers(slots=0), until=desk.clock.now() + SECOND)

        gate = desk.engine.gate("X")

        assert (gate.running, gate.waiting, gate.numbers.slots) == (1, 1, 0)
        assert gate.configured == Numbers(slots=3)
        assert gate.override == Numbers(slots=0)


def _begin_whatever_is_claimed(desk: Desk, jobs: int, *, reported: bool) -> list[int]:
    """Claim until all have begun, each a little after its claim; return when their handlers began."""
    chance = random.Random(7)
    begun: list[int] = []
    for _ in range(100_000):
        if len(begun) == jobs:
            break
        for name in desk.claim().split():
            desk.wait(chance.choice((0, 0, 1, 3, 10)) * MILLISECOND)
            if desk.clock.now() > desk.attempts[name].begin_by - 5 * MILLISECOND:
                desk.settle(name, HandedBack(begun=False))
                continue
            begun.append(desk.clock.now())
            if reported:
                desk.begun(name)
            desk.settle(name)
        desk.wait(7 * MILLISECOND)
    return begun


def _served_among_streams(desk: Desk, name: str, *limits: Limit) -> int:
    """Keep every gate full with jobs of its own; return after how many of those *name* was served."""
    keys = [limit.key for limit in limits]
    running = {}
    for number, key in enumerate(keys):
        desk.enqueue(f"{key}-first-{number}", slots(key, 1))
        running[key] = desk.claim()
        desk.wait(100 * MILLISECOND)
    desk.enqueue(name, *limits)
    others = 0
    for number in range(60):
        for key in keys:
            desk.enqueue(f"{key}{number}", slots(key, 1))
            if running[key]:
                desk.settle(running[key])
            started = desk.claim().split()
            if name in started:
                return others
            others += len(started)
            running |= {
                k: next((s for s in started if s.startswith(k)), running[k] if k != key else "") for k in keys
            }
            desk.wait(50 * MILLISECOND)
    return 1_000


def _give_the_turn_to_the_slow(desk: Desk) -> str:
    """Have the workers of a slow queue come a moment late, and then no more; return which fast job is kept waiting."""
    desk.enqueue("fast0", slots("X", 1), queue="fast")
    desk.claim(queues=["fast"])
    desk.enqueue("slow", slots("X", 1), queue="slow", task="slow")
    for n in range(1, 9):
        desk.enqueue(f"fast{n}", slots("X", 1), queue="fast")
        desk.settle(f"fast{n - 1}")
        if desk.claim(queues=["fast"]) == "":
            break
        desk.claim(queues=["slow"])
    return f"fast{n}"


def _cost_of_a_round(desk: Desk, prefix: str, keys: int) -> int:
    names = [f"{prefix}{number}" for number in range(keys)]
    desk.engine.enqueue(
        [NewJob("task", id=n + at, queue=prefix, limits=(slots(n, 1),)) for n in names for at in "ab"]
    )
    desk.claim(keys, queues=[prefix])

    def work() -> None:
        desk.settle(f"{prefix}7a")
        assert desk.claim(1, queues=[prefix]) == f"{prefix}7b"
        desk.enqueue(f"{prefix}again", slots(f"{prefix}7", 1), queue=prefix)

    return work_of(desk.engine, work).steps


def _cost_per_waiter(desk: Desk, prefix: str, waiters: int) -> float:
    names = " ".join(f"{prefix}{number}" for number in range(waiters))
    desk.enqueue(names, rate(prefix, 10), queue=prefix)

    def work() -> None:
        served = 0
        while served < waiters:
            started = desk.claim(100, queues=[prefix])
            desk.settle(started)
            served += len(started.split())
            desk.wait(SECOND + START_GRACE)

    return work_of(desk.engine, work).steps / waiters
