"""Lanes whose gate is no other lane's: transactions share the gates, and lock the rows of their lanes."""

import pytest

from penstock.engine.transactions import LIKELY
from penstock.job import Settlement
from penstock.lifecycle.outcomes import Done, HandedBack, Limited
from penstock.limits.rules import Numbers, Window
from tests.postgres.race import do, quiet
from tests.support.desk import rate, slots

NONE = Numbers(slots=0)
HOUR = 3_600_000_000


@pytest.fixture(autouse=True)
def warm(race):
    meet_own_lanes(race)


def meet_own_lanes(race):
    """Let every player have met lanes of their own, so that it expects such."""
    for name, desk in race._players:
        desk.enqueue(name, slots(name, 1))
        assert desk.claim() == name
        assert desk.settle(name) == [True]


def running(race, key):
    return race.desk.engine.gate(key).running


def exchange(settled, count, tasks=None):
    """Settle a job of the desk and claim in one transaction, as a worker that knows *tasks* does."""

    def work(desk):
        attempt = desk.attempts[settled]
        _, claim = desk.engine.exchange(
            [Settlement(attempt.seq, attempt.fence, Done(None))], ["q"], count, worker="worker", tasks=tasks
        )
        return " ".join(job.id for job in claim.jobs)

    return work


class TestClaims:
    def test_claims_of_different_keys_do_not_wait_for_each_other(self, race):
        race.desk.enqueue("a", slots("X", 1))
        race.desk.enqueue("b", slots("Y", 1))
        one = race.hold(do.claim(1))
        two = race.start(do.claim(1))

        assert two.answer() == "b"
        assert one.commit() == "a"

    def test_a_lane_that_another_claim_has_is_passed_over(self, race):
        race.desk.enqueue("a b", slots("X", 2))
        one = race.hold(do.claim(1))

        assert race.start(do.claim(1)).answer() == ""
        assert one.commit() == "a"
        assert race.start(do.claim(2)).answer() == "b"
        assert running(race, "X") == 2

    def test_a_job_that_was_not_taken_after_all_is_still_there(self, race):
        race.desk.enqueue("a", slots("X", 1))
        one = race.hold(do.claim(1))

        one.roll_back()
        assert race.start(do.claim(1)).answer() == "a"

    def test_a_claim_that_passed_over_a_lane_hears_that_it_was_left_ready(self, race):
        race.desk.enqueue("free")
        race.desk.enqueue("a", slots("X", 1))
        token = quiet(race.desk.engine)
        one = race.hold(do.claim(1))
        assert race.start(do.claim(1)).answer() == ""

        assert one.commit() == "free"
        assert race.desk.engine.wait(token, 5) != token
        assert race.start(do.claim(1)).answer() == "a"

    def test_a_claim_that_passed_over_a_lane_hears_of_it_from_a_worker_that_knows_no_task(self, race):
        race.desk.enqueue("a", slots("X", 1))
        assert race.desk.claim(1) == "a"
        race.desk.enqueue("b", slots("Y", 1))
        token = quiet(race.desk.engine)
        one = race.hold(exchange("a", 1, tasks=()))
        assert race.start(do.claim(1)).answer() == ""

        assert one.commit() == ""
        assert race.desk.engine.wait(token, 5) != token
        assert race.start(do.claim(1)).answer() == "b"

    def test_a_lane_that_was_locked_for_a_claim_and_became_ready_after_its_look_is_taken(self, race):
        race.desk.enqueue("a1 a2", slots("X", 2))
        race.desk.enqueue("z y", slots("Z", 1))
        assert race.desk.claim(3) == "a1 a2 z"
        settle = race.hold(do.settle("a1 z"))
        second = race.hold_once_it_gets(exchange("a2", 1), "a row")
        assert settle.commit() == [True, True]
        second.reach_commit()  # it has the row of the lane of y, and had looked before y might start

        assert race.start(do.claim(1)).answer() == ""
        assert second.commit() == "y"

    def test_lanes_of_two_queues_that_share_a_key_take_the_gates(self, race):
        race.desk.enqueue("a", slots("X", 1))
        race.desk.enqueue("b", slots("X", 1), queue="other")
        one, two = race.meet(do.claim(1), do.claim(1, queues=["other"]), at="the gates")

        assert one.commit() == "a"
        assert two.answer() == ""
        assert running(race, "X") == 1

    def test_jobs_that_bring_different_numbers_to_a_key_take_the_gates(self, race):
        race.desk.enqueue("a", slots("X", 1))
        race.desk.enqueue("b", slots("X", 2))
        one, two = race.meet(do.claim(1), do.claim(1), at="the gates")

        assert one.commit() == "a"
        assert two.answer() == "b"

    @pytest.mark.parametrize(
        "limits",
        [(slots("X", 2), slots("Y", 2)), (slots("X", 2, "drop"),), (rate("X", 9),)],
        ids=["two keys", "dropped", "a rate"],
    )
    def test_jobs_that_wait_for_more_than_the_slots_of_one_key_take_the_gates(self, race, limits):
        race.desk.enqueue("a b", *limits)
        one, two = race.meet(do.claim(1), do.claim(1), at="the gates")

        assert one.commit() == "a"
        assert two.answer() == "b"

    @pytest.mark.parametrize(
        "rule", [Numbers(rate=Window(1, 10_000_000)), Numbers(slots=1)], ids=["rate", "rule"]
    )
    def test_a_key_with_a_rule_takes_the_gates(self, race, rule):
        race.desk.enqueue("a b", slots("X", 2))
        race.desk.engine.override("X", rule)
        one, two = race.meet(do.claim(1), do.claim(1), at="the gates")

        assert one.commit() == "a"
        assert two.answer() == ""


class TestSettles:
    def test_settles_of_different_keys_do_not_wait_for_each_other(self, race):
        race.desk.enqueue("a c", slots("X", 1))
        race.desk.enqueue("b", slots("Y", 1))
        assert race.desk.claim(2) == "a b"
        one = race.hold(do.settle("a"))

        assert race.start(do.settle("b")).answer() == [True]
        assert one.commit() == [True]
        assert race.start(do.claim(2)).answer() == "c"

    def test_a_settle_waits_for_the_claim_that_has_its_lane(self, race):
        race.desk.enqueue("a b c", slots("X", 2))
        assert race.desk.claim(1) == "a"
        claim, settle = race.meet(do.claim(1), do.settle("a"), at="a row")

        assert claim.commit() == "b"
        assert settle.answer() == [True]
        assert running(race, "X") == 1
        assert race.start(do.claim(2)).answer() == "c"

    def test_two_settles_of_one_key_count_both(self, race):
        race.desk.enqueue("a b c d", slots("X", 2))
        assert race.desk.claim(2) == "a b"
        one, two = race.meet(do.settle("a"), do.settle("b"), at="a row")

        assert one.commit() == [True]
        assert two.answer() == [True]
        assert race.start(do.claim(4)).answer() == "c d"

    def test_a_slot_given_back_is_heard_of_by_a_claim_that_passed_over_the_lane(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        assert race.desk.claim(1) == "a"
        token = quiet(race.desk.engine)
        settle = race.hold(do.settle("a"))
        assert race.start(do.claim(1)).answer() == ""

        assert settle.commit() == [True]
        assert race.desk.engine.wait(token, 5) != token
        assert race.start(do.claim(1)).answer() == "b"

    def test_a_settle_that_leaves_its_lane_ready_is_heard_of_by_a_claim_that_passed_over_it(self, race):
        race.desk.enqueue("a b", slots("X", 2))
        assert race.desk.claim(1) == "a"
        token = quiet(race.desk.engine)
        settle = race.hold(do.settle("a"))
        assert race.start(do.claim(1)).answer() == ""

        assert settle.commit() == [True]
        assert race.desk.engine.wait(token, 5) != token
        assert race.start(do.claim(1)).answer() == "b"

    def test_a_settle_that_is_run_again_with_the_gates_is_heard_of_by_a_claim_that_passed_over_its_lane(
        self, race
    ):
        race.desk.enqueue("a", slots("X", 2))
        race.desk.enqueue("u1 u2", slots("U", 2))
        race.desk.enqueue("c", slots("V", 1), slots("W", 1))
        assert race.desk.claim(4) == "a u1 u2 c"
        race.desk.enqueue("e", slots("X", 2))
        for _, desk in race._players:  # all of them expect lanes of their own
            desk.engine._gated, desk.engine._alone = LIKELY, 0
        token = quiet(race.desk.engine)
        other = race.hold(do.settle("u2"))
        ours = race.start(
            do.settle("a u1 c")
        )  # it locks the lane of e, waits for U, and finds that c has two gates
        ours.waits_for("a row")
        assert race.start(do.claim(5)).answer() == ""

        assert other.commit() == [True]
        assert ours.answer() == [True, True, True]
        assert race.desk.engine.wait(token, 5) != token
        assert race.start(do.claim(5)).answer() == "e"

    def test_a_settle_that_shuts_a_key_takes_the_gates(self, race):
        race.desk.enqueue("a b", slots("X", 2))
        race.desk.enqueue("c", slots("Y", 1))
        assert race.desk.claim(1) == "a"
        limited = Limited(race.clock.now() + HOUR, "X")
        settle, claim = race.meet(do.settle("a", limited), do.claim(1), at="the gates")

        assert settle.commit() == [True]
        assert claim.answer() == "c"

    def test_exchanges_with_keys_in_opposite_order_do_not_wait_for_each_other_in_a_circle(self, race):
        race.desk.enqueue("a c", slots("X", 1))
        race.desk.enqueue("b d", slots("Y", 1))
        assert race.desk.claim(2) == "a b"
        one = race.hold(exchange("a", 2))
        two = race.start(exchange("b", 2))

        assert two.answer() == "d"
        assert one.commit() == "c"


class TestRules:
    def test_a_change_of_rules_waits_for_those_who_share_the_gates(self, race):
        race.desk.enqueue("a b", slots("X", 2))
        claim, change = race.meet(do.claim(1), do.override("X", NONE), at="the gates")

        assert claim.commit() == "a"
        change.answer()
        assert race.start(do.claim(1)).answer() == ""

    def test_a_claim_that_waited_for_a_change_of_rules_heeds_it(self, race):
        race.desk.enqueue("a", slots("X", 1))
        change, claim = race.meet(do.override("X", NONE), do.claim(1), at="the gates")

        change.commit()
        assert claim.answer() == ""

    def test_a_cancel_waits_for_a_claim_and_sees_what_it_did(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        claim, cancel = race.meet(do.claim(1), do.cancel("b"), at="the gates")

        assert claim.commit() == "a"
        cancel.answer()
        assert race.start(do.settle("a")).answer() == [True]
        assert race.start(do.claim(1)).answer() == ""

    def test_a_producer_does_not_wait_and_its_job_is_found(self, race):
        race.desk.enqueue("a", slots("X", 1))
        claim = race.hold(do.claim(1))
        race.start(do.enqueue("b", slots("X", 1))).answer()

        assert claim.commit() == "a"
        assert race.start(do.settle("a")).answer() == [True]
        assert race.start(do.claim(2)).answer() == "b"

    def test_a_job_that_returns_to_its_place_takes_the_gates(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        assert race.desk.claim(1) == "a"
        assert race.start(do.settle("a", HandedBack())).answer() == [True]

        assert race.start(do.claim(1)).answer() == "a"
