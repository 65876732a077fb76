"""Rules set from outside the jobs: configured numbers, overrides, gates shut for a while."""

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import GUARD
from penstock.errors import InvalidJobError, InvalidLimitError, NotFoundError
from penstock.job import START_GRACE, NewJob
from penstock.lifecycle.outcomes import HandedBack
from penstock.lifecycle.states import State
from penstock.limits.rules import UNLIMITED, Limit, Numbers, Window
from tests.support.desk import LEASE, Desk, rate, slots, throttle

QUEUE_AND_TYPE = pytest.mark.parametrize(("scope", "name"), [("queue", "q"), ("type", "task")])
pytestmark = pytest.mark.usefixtures("healthy")


class TestConfigured:
    def test_the_numbers_of_a_key_bind_those_who_wait_and_count_those_who_run(self, desk: Desk) -> None:
        desk.enqueue("a b c d", slots("X", 2))
        assert desk.claim() == "a b"
        desk.engine.configure("key", "X", Numbers(slots=3))

        assert desk.claim() == "c"
        assert desk.engine.gate("X").running == 3

    def test_the_numbers_of_a_key_do_nothing_to_those_who_do_not_carry_it(self, desk: Desk) -> None:
        desk.engine.configure("key", "X", Numbers(slots=0))
        desk.enqueue("a")
        desk.enqueue("b", slots("Y", 1))

        assert desk.claim() == "a b"

    def test_a_key_can_be_configured_before_its_first_job(self, desk: Desk) -> None:
        desk.engine.configure("key", "X", Numbers(slots=1))
        desk.enqueue("a b", slots("X", 9))

        assert desk.claim() == "a"

    def test_a_job_may_carry_a_key_without_numbers_of_its_own(self, desk: Desk) -> None:
        desk.enqueue("a b c", Limit("X", UNLIMITED))
        desk.engine.configure("key", "X", Numbers(slots=2))

        assert desk.claim() == "a b"

    def test_the_numbers_of_a_queue_bind_those_who_wait_and_count_those_who_run(
        self, desk: Desk, ample
    ) -> None:
        desk.enqueue("a b c d e", *ample)
        desk.enqueue("elsewhere", *ample, queue="other")
        assert desk.claim(2) == "a b"
        desk.engine.configure("queue", "q", Numbers(slots=3))

        assert desk.claim() == "c"
        assert desk.claim(queues=["q", "other"]) == "elsewhere"
        desk.settle("a b")
        assert desk.claim() == "d e"
        desk.settle("c d e")

    def test_the_numbers_of_a_type_bind_those_who_wait_and_count_those_who_run(
        self, desk: Desk, ample
    ) -> None:
        desk.enqueue("a b c", *ample, task="mail")
        desk.enqueue("d", *ample, task="mail", queue="other")
        assert desk.claim(1) == "a"
        desk.engine.configure("type", "mail", Numbers(slots=2))
        desk.enqueue("else", *ample, task="other")

        assert desk.claim(queues=["q", "other"]) == "b else"
        desk.settle("a")
        assert desk.claim(queues=["q", "other"]) == "c"
        desk.settle("b")
        assert desk.claim(queues=["q", "other"]) == "d"
        desk.settle("c d else")

    @QUEUE_AND_TYPE
    def test_clearing_and_setting_again_counts_nobody_twice(
        self, desk: Desk, scope: str, name: str, ample
    ) -> None:
        desk.enqueue("a b c d e f", *ample)
        assert desk.claim(1) == "a"
        desk.engine.configure(scope, name, Numbers(slots=2))
        assert desk.claim() == "b"
        desk.engine.configure(scope, name, None)
        assert desk.claim(2) == "c d"
        desk.engine.configure(scope, name, Numbers(slots=5))
        assert desk.claim() == "e"
        assert desk.engine.doctor() == []

        desk.settle("a b c d")
        assert desk.claim() == "f"
        desk.settle("e f")

    def test_setting_other_numbers_counts_nobody_twice(self, desk: Desk) -> None:
        desk.enqueue("a b c d")
        desk.engine.configure("queue", "q", Numbers(slots=1))
        assert desk.claim() == "a"
        for count in (2, 3):
            desk.engine.configure("queue", "q", Numbers(slots=count))
        assert desk.claim() == "b c"

    def test_a_rescued_or_handed_back_job_gives_its_place_in_the_queue_back(self, desk: Desk) -> None:
        desk.engine.configure("queue", "q", Numbers(slots=1))
        desk.enqueue("a b")
        assert desk.claim() == "a"
        desk.settle("a", HandedBack())
        assert desk.claim() == "a"
        desk.wait(LEASE)

        assert desk.claim() == "a"
        assert desk.claim() == ""

    def test_a_rate_of_a_queue_counts_from_when_it_was_set(self, desk: Desk) -> None:
        desk.enqueue("a b c d")
        assert desk.claim(2) == "a b"
        desk.engine.configure("queue", "q", Numbers(rate=Window(1, SECOND)))

        assert desk.claim() == "c"
        desk.begun("c")
        claim = desk.engine.claim(["q"], 1, worker="worker", lease=LEASE)
        assert (claim.jobs, claim.next_at) == ([], desk.clock.now() + SECOND + GUARD)
        desk.wait(SECOND + GUARD)
        assert desk.claim() == "d"

    def test_a_throttle_of_a_type_holds_over_all_its_queues(self, desk: Desk) -> None:
        desk.engine.configure("type", "mail", Numbers(throttle=Window(10, SECOND)))
        desk.enqueue("a", task="mail")
        desk.enqueue("b", task="mail", queue="other")

        assert desk.claim(queues=["other", "q"]) == "a"
        desk.begun("a")
        desk.wait(100 * MILLISECOND + GUARD)
        assert desk.claim(queues=["other", "q"]) == "b"

    def test_a_queue_and_a_type_and_a_key_hold_all_at_once(self, desk: Desk) -> None:
        desk.engine.configure("queue", "q", Numbers(slots=3))
        desk.engine.configure("type", "mail", Numbers(slots=2))
        desk.enqueue("m1 m2 m3", slots("X", 1), task="mail")
        desk.enqueue("m4 m5", task="mail")
        desk.enqueue("o1 o2 o3", task="other")

        assert desk.claim() == "m1 m4 o1"
        desk.settle("m1")
        assert desk.claim() == "m2"
        desk.settle("m4 o1 m2")

    @QUEUE_AND_TYPE
    def test_a_queue_or_a_type_of_zero_pauses(self, desk: Desk, scope: str, name: str) -> None:
        desk.enqueue("a")
        desk.enqueue("b", slots("X", 1))
        desk.engine.configure(scope, name, Numbers(slots=0))
        desk.wait(3600 * SECOND)
        assert desk.claim() == ""
        desk.engine.configure(scope, name, Numbers(slots=1))

        assert desk.claim() == "a"

    @QUEUE_AND_TYPE
    def test_lowering_a_queue_or_a_type_evicts_nobody_and_starts_nobody(
        self, desk: Desk, scope: str, name: str
    ) -> None:
        desk.engine.configure(scope, name, Numbers(slots=3))
        desk.enqueue("a b c d")
        assert desk.claim() == "a b c"
        desk.engine.configure(scope, name, Numbers(slots=1))

        assert desk.claim() == ""
        assert desk.settle("a b") == [True, True]
        assert desk.claim() == ""
        assert desk.settle("c") == [True]
        assert desk.claim() == "d"

    def test_a_scope_that_does_not_exist_is_refused(self, desk: Desk) -> None:
        with pytest.raises(InvalidLimitError):
            desk.engine.configure("worker", "X", Numbers(slots=1))

    def test_queues_tell_their_numbers(self, desk: Desk) -> None:
        desk.engine.configure("queue", "q", Numbers(slots=3))
        desk.enqueue("a b")
        desk.claim(1)

        (queue,) = desk.engine.queues()

        assert (queue["name"], queue["waiting"], queue["running"]) == ("q", 1, 1)
        assert queue["numbers"] == Numbers(slots=3)


class TestOverride:
    def test_numbers_are_replaced_one_by_one(self, desk: Desk) -> None:
        desk.engine.configure("key", "X", Numbers(slots=5, rate=Window(9, SECOND)))
        desk.engine.override("X", Numbers(rate=Window(4, SECOND)))
        desk.enqueue("a", Limit("X", Numbers(slots=1, throttle=Window(1, SECOND))))

        assert desk.engine.gate("X").numbers == Numbers(
            slots=5, rate=Window(4, SECOND), throttle=Window(1, SECOND)
        )

    def test_an_override_of_the_rate_leaves_the_slots_alone(self, desk: Desk) -> None:
        desk.enqueue("a b c", slots("X", 2))
        desk.engine.override("X", Numbers(rate=Window(9, SECOND)))

        assert desk.claim() == "a b"

    def test_the_end_of_a_narrow_override_lets_those_who_wait_go(self, desk: Desk) -> None:
        desk.enqueue("a b c", slots("X", 3))
        desk.engine.override("X", Numbers(slots=1), until=desk.clock.now() + SECOND)
        assert desk.claim() == "a"
        claim = desk.engine.claim(["q"], 1, worker="worker", lease=LEASE)
        assert claim.next_at == desk.clock.now() + SECOND
        desk.wait(SECOND)

        assert desk.claim() == "b c"
        assert desk.engine.gate("X").override is None

    def test_the_end_of_a_wide_override_lets_nobody_else_in(self, desk: Desk) -> None:
        desk.enqueue("a b c d", slots("X", 1))
        desk.engine.override("X", Numbers(slots=3), until=desk.clock.now() + SECOND)
        assert desk.claim() == "a b c"
        desk.wait(SECOND)

        desk.settle("a b")
        assert desk.claim() == ""
        desk.settle("c")
        assert desk.claim() == "d"

    def test_a_second_override_takes_the_place_of_the_first(self, desk: Desk) -> None:
        desk.enqueue("a b c", slots("X", 1))
        desk.engine.override("X", Numbers(slots=0), until=desk.clock.now() + SECOND)
        desk.engine.override("X", Numbers(slots=2))

        assert desk.claim() == "a b"
        desk.wait(SECOND)
        assert desk.engine.gate("X").override == Numbers(slots=2)

    def test_an_override_of_a_key_without_jobs_waits_for_them(self, desk: Desk) -> None:
        desk.engine.override("X", Numbers(slots=0))
        desk.enqueue("a", slots("X", 1))

        assert desk.claim() == ""

    def test_what_does_not_exist_cannot_be_cleared(self, desk: Desk) -> None:
        with pytest.raises(NotFoundError):
            desk.engine.clear_override("X")


class TestShut:
    def test_nothing_passes_before_the_moment_and_all_may_after(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 2))
        desk.engine.shut("X", desk.clock.now() + SECOND)

        assert desk.claim() == ""
        assert desk.engine.gate("X").shut_until == desk.clock.now() + SECOND
        desk.wait(SECOND - 1)
        assert desk.claim() == ""
        desk.wait(1)
        assert desk.claim() == "a b"
        assert desk.engine.gate("X").shut_until is None

    def test_the_latest_moment_counts(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.engine.shut("X", desk.clock.now() + 5 * SECOND)
        desk.engine.shut("X", desk.clock.now() + SECOND)
        desk.wait(SECOND)

        assert desk.claim() == ""
        desk.wait(4 * SECOND)
        assert desk.claim() == "a"

    def test_a_gate_can_be_opened_again_by_hand(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.engine.shut("X", desk.clock.now() + 3600 * SECOND)
        assert desk.claim() == ""
        desk.engine.clear_override("X")

        assert desk.claim() == "a"

    def test_those_who_run_go_on(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 2))
        desk.claim(1)
        desk.engine.shut("X", desk.clock.now() + SECOND)

        assert desk.settle("a") == [True]
        assert desk.claim() == ""

    def test_a_job_with_another_gate_is_told_when_the_first_of_them_opens(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1), slots("Y", 1))
        desk.engine.shut("X", desk.clock.now() + SECOND)
        desk.engine.shut("Y", desk.clock.now() + 2 * SECOND)

        assert desk.claim() == ""
        assert desk.engine.why("a").earliest == desk.clock.now() + 2 * SECOND
        desk.wait(SECOND)
        assert desk.claim() == ""
        desk.wait(SECOND)
        assert desk.claim() == "a"


class TestTooHeavy:
    def test_a_cost_above_the_jobs_own_rate_is_rejected(self, desk: Desk) -> None:
        with pytest.raises(InvalidJobError, match="cost"):
            desk.enqueue("a", rate("X", 4), cost=5)
        desk.enqueue("b", rate("X", 5), cost=5)

        assert desk.claim() == "b"

    def test_a_rate_of_zero_is_a_pause_and_rejects_no_cost(self, desk: Desk) -> None:
        desk.enqueue("a", rate("X", 0), cost=5)
        assert desk.claim() == ""
        desk.engine.configure("key", "X", Numbers(rate=Window(5, SECOND)))

        assert desk.claim() == "a"

    def test_a_rejected_job_takes_its_batch_with_it(self, desk: Desk) -> None:
        good = NewJob("task", id="good")
        with pytest.raises(InvalidJobError):
            desk.engine.enqueue([good, NewJob("task", limits=(rate("X", 4),), cost=5)])

        assert desk.engine.jobs() == []

    @pytest.mark.parametrize(
        "own", [rate("X", 9), slots("X", 9), Limit("X", UNLIMITED)], ids=lambda x: x.numbers.text
    )
    def test_jobs_too_heavy_for_a_lowered_key_stand_apart_and_come_back(self, desk: Desk, own: Limit) -> None:
        desk.engine.configure("key", "X", Numbers(rate=Window(9, SECOND)))
        desk.enqueue("heavy", own, cost=5)
        desk.enqueue("light", own)
        desk.enqueue("heavy2", own, cost=5)
        desk.enqueue("light2", own, cost=2)
        desk.engine.configure("key", "X", Numbers(rate=Window(3, SECOND)))

        assert desk.claim() == "light light2"
        desk.wait(SECOND + START_GRACE)
        assert desk.claim() == ""
        desk.engine.configure("key", "X", Numbers(rate=Window(10, SECOND)))
        assert desk.claim() == "heavy heavy2"
        desk.settle("heavy heavy2 light light2")

    def test_jobs_too_heavy_for_a_lowered_queue_stand_apart_and_come_back(self, desk: Desk, ample) -> None:
        desk.enqueue("heavy", *ample, cost=5)
        desk.enqueue("light", *ample)
        desk.enqueue("heavy2", *ample, cost=5)
        desk.engine.configure("queue", "q", Numbers(rate=Window(3, SECOND)))

        assert desk.claim() == "light"
        desk.wait(SECOND + START_GRACE)
        assert desk.claim() == ""
        assert desk.state("heavy") is State.WAITING
        desk.engine.configure("queue", "q", Numbers(rate=Window(10, SECOND)))
        assert desk.claim() == "heavy heavy2"
        desk.settle("heavy heavy2 light")

    @pytest.mark.parametrize(("scope", "name"), [("key", "X"), ("queue", "q"), ("type", "task")])
    def test_jobs_set_apart_come_back_when_the_rule_is_cleared(
        self, desk: Desk, scope: str, name: str
    ) -> None:
        desk.enqueue("heavy", slots("X", 1), cost=5)
        desk.engine.configure(scope, name, Numbers(rate=Window(3, SECOND)))
        assert desk.claim() == ""
        desk.engine.configure(scope, name, None)

        assert desk.claim() == "heavy"
        desk.settle("heavy")

    def test_jobs_set_apart_come_back_when_an_override_ends(self, desk: Desk) -> None:
        desk.enqueue("heavy", rate("X", 9), cost=5)
        desk.engine.override("X", Numbers(rate=Window(3, SECOND)), until=desk.clock.now() + SECOND)
        assert desk.claim() == ""
        desk.wait(SECOND)

        assert desk.claim() == "heavy"

    def test_a_job_set_apart_does_not_promise_a_start_and_can_be_cancelled(self, desk: Desk) -> None:
        desk.enqueue("heavy", rate("X", 9), cost=5)
        desk.engine.configure("key", "X", Numbers(rate=Window(3, SECOND)))
        assert desk.claim() == ""

        assert desk.engine.why("heavy").earliest is None
        assert desk.engine.cancel("heavy") is State.CANCELLED


class TestTenants:
    def test_the_same_key_of_two_tenants_is_two_gates(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1), tenant="acme")
        desk.enqueue("c d", slots("X", 1), tenant="globex")

        assert desk.claim() == "a c"
        assert desk.engine.gate("X", "acme").running == 1
        with pytest.raises(NotFoundError):
            desk.engine.gate("X")

    def test_jobs_of_one_tenant_share_a_gate_though_they_carry_other_limits(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1), tenant="acme")
        desk.enqueue("b", slots("X", 1), slots("Y", 1), tenant="acme")
        desk.enqueue("c", slots("X", 1), slots("Y", 1), tenant="globex")

        assert desk.claim() == "a c"

    def test_rules_of_a_key_hold_for_one_tenant(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1), tenant="acme")
        desk.enqueue("c d", slots("X", 1), tenant="globex")
        desk.engine.configure("key", "X", Numbers(slots=2), tenant="acme")
        desk.engine.shut("X", desk.clock.now() + SECOND, tenant="globex")
        assert desk.claim() == "a b"
        desk.engine.override("X", Numbers(slots=0), tenant="acme")
        desk.wait(SECOND)

        assert desk.claim() == "c"
        desk.engine.clear_override("X", tenant="acme")
        assert desk.engine.gate("X", "acme").numbers == Numbers(slots=2)

    def test_a_429_of_one_tenant_shuts_nothing_of_another(self, desk: Desk) -> None:
        desk.enqueue("a", throttle("X", 100), tenant="acme")
        desk.enqueue("b", throttle("X", 100), tenant="globex")
        desk.engine.shut("X", desk.clock.now() + SECOND, tenant="acme")

        assert desk.claim() == "b"

    def test_queues_and_types_are_shared_by_all_tenants(self, desk: Desk) -> None:
        desk.engine.configure("queue", "q", Numbers(slots=1))
        desk.enqueue("a", tenant="acme")
        desk.enqueue("b", tenant="globex")

        assert desk.claim() == "a"
        with pytest.raises(InvalidLimitError):
            desk.engine.configure("type", "task", Numbers(slots=1), tenant="acme")
