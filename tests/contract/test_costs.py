"""A cost for each limit, and what was really used afterwards."""

import pytest

from penstock.clock import SECOND
from penstock.engine import Engine
from penstock.errors import InvalidError, InvalidJobError
from penstock.job import START_GRACE, NewJob
from penstock.lifecycle.outcomes import Done, Failed, HandedBack
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Numbers, Window
from tests.support.desk import LEASE, Desk, rate, slots, throttle

pytestmark = pytest.mark.usefixtures("healthy")
MINUTE = 60 * SECOND


def llm(tokens: int, budget: int = 100, requests: int = 5) -> tuple:
    """So many tokens and so many requests a minute; this request has so many tokens."""
    return rate("requests", requests, MINUTE), rate("tokens", budget, MINUTE, cost=tokens)


def used(desk: Desk, key: str) -> int:
    return desk.engine.gate(key).recent


class TestCosts:
    def test_each_limit_counts_its_own_cost(self, desk: Desk) -> None:
        for name in "abc":
            desk.enqueue(name, *llm(40))

        assert desk.claim() == "a b"
        assert (80, 2) == (used(desk, "tokens"), used(desk, "requests"))

    def test_the_cost_of_the_job_holds_where_a_limit_has_none(self, desk: Desk) -> None:
        desk.enqueue("a b", rate("x", 9, MINUTE), rate("y", 100, MINUTE, cost=30), cost=4)
        desk.enqueue("c", rate("x", 9, MINUTE), rate("y", 100, MINUTE, cost=30), cost=4)

        assert desk.claim() == "a b"
        assert (8, 60) == (used(desk, "x"), used(desk, "y"))

    def test_jobs_of_different_costs_share_a_lane(self, desk: Desk) -> None:
        for n in range(20):
            desk.enqueue(f"j{n}", *llm(n + 1, requests=1))

        lanes = desk.engine.store.read(lambda db: db.all("SELECT id FROM lane"))
        assert len(lanes) == 1

    def test_the_next_of_a_lane_is_tested_by_its_own_costs(self, desk: Desk) -> None:
        for name, tokens in (("a", 50), ("b", 60), ("c", 10)):
            desk.enqueue(name, *llm(tokens))

        assert desk.claim() == "a"
        desk.settle("a")
        desk.wait(MINUTE + START_GRACE)
        assert desk.claim() == "b c"

    def test_a_throttle_makes_a_costly_start_wait_longer_after_it(self, desk: Desk) -> None:
        desk.enqueue("a b", throttle("k", 10, cost=5))
        assert desk.claim() == "a"
        desk.begun("a")

        desk.wait(SECOND // 2)
        assert desk.claim() == ""
        desk.wait(SECOND // 10)
        assert desk.claim() == "b"

    def test_a_cost_above_the_rate_is_refused_and_names_the_limit(self, desk: Desk) -> None:
        with pytest.raises(InvalidJobError, match="cost: 101 is more than the rate of 'tokens'"):
            desk.enqueue("a", *llm(101))

    def test_a_job_shows_the_costs_of_its_limits(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(40))

        assert {"requests": 1, "tokens": 40} == {each.key: each.cost for each in desk.job("a").limits}

    def test_why_speaks_of_the_cost_at_the_gate_that_is_shut(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(70))
        desk.enqueue("b", *llm(40))
        assert desk.claim() == "a"

        why = desk.engine.why("b")
        assert ["tokens"] == [reason.gate for reason in why.reasons]
        assert "it costs 40" in why.sentence
        assert why.earliest == desk.clock.now() + START_GRACE + MINUTE

    def test_a_retry_and_a_rescued_job_keep_their_costs(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(40, budget=1000), retry=RetryPolicy(attempts=2, delay=0, jitter=False))
        desk.enqueue("b", *llm(50, budget=1000))
        assert desk.claim() == "a b"

        desk.settle("a", Failed("ValueError", "no"))
        assert desk.claim() == "a"
        desk.wait(LEASE)
        assert desk.claim() == "b a" or desk.claim() == "a b"

        assert used(desk, "tokens") == 40 + 50 + 40 + 50 + 40

    def test_a_job_that_is_due_later_keeps_its_costs(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(40), due=desk.clock.now() + SECOND)
        desk.wait(SECOND)
        assert desk.claim() == "a"

        assert used(desk, "tokens") == 40

    def test_a_job_that_replaces_another_brings_its_own_costs(self, desk: Desk) -> None:
        unique = Unique("u", on_duplicate=OnDuplicate.REPLACE)
        desk.enqueue("a", *llm(40), unique=unique)
        desk.enqueue("b", *llm(70), unique=unique)
        assert desk.claim() == "b"

        assert used(desk, "tokens") == 70

    def test_a_job_handed_back_unbegun_gives_all_its_costs_back(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(40))
        desk.enqueue("b", *llm(100))
        assert desk.claim() == "a"

        desk.settle("a", HandedBack(begun=False))
        assert (0, 0) == (used(desk, "tokens"), used(desk, "requests"))
        assert desk.claim() == "a"

    def test_the_true_begin_moves_the_start_at_each_gate(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(60))
        desk.enqueue("b", *llm(60))
        assert desk.claim() == "a"
        desk.begun("a")
        desk.settle("a")

        desk.wait(MINUTE)
        assert desk.claim() == ""
        desk.wait(SECOND // 1000)
        assert desk.claim() == "b"

    def test_a_job_too_costly_after_a_change_does_not_block_its_line(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(50, budget=60))
        desk.engine.configure("key", "tokens", Numbers(rate=Window(40, MINUTE)))
        desk.enqueue("b", *llm(30, budget=60))
        assert desk.claim() == "b"

        desk.engine.configure("key", "tokens", None)
        desk.wait(MINUTE + START_GRACE)
        assert desk.claim() == "a"

    def test_a_light_job_waits_for_a_costly_one_ahead_of_it(self, desk: Desk) -> None:
        for name, tokens in (("a", 60), ("b", 60), ("c", 1)):
            desk.enqueue(name, *llm(tokens))

        assert desk.claim() == "a"
        desk.settle("a")
        desk.wait(MINUTE + START_GRACE)
        assert desk.claim() == "b c"

    def test_the_gates_of_queue_and_type_count_the_cost_of_the_job(self, desk: Desk) -> None:
        desk.engine.configure("queue", "q", Numbers(rate=Window(3, MINUTE)))
        desk.engine.configure("type", "task", Numbers(rate=Window(100, MINUTE)))
        for name in "abc":
            desk.enqueue(name, rate("tokens", 1000, MINUTE, cost=300), cost=2)

        assert desk.claim() == "a"
        assert used(desk, "tokens") == 300


class TestSpending:
    def test_less_gives_budget_back_at_once_and_calls_the_next(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(80))
        desk.enqueue("b", *llm(60))
        assert desk.claim() == "a"
        assert desk.claim() == ""

        assert desk.spend("a", tokens=30)
        assert used(desk, "tokens") == 30
        assert desk.claim() == "b"

    def test_more_counts_and_nothing_starts_until_it_fits_again(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(50))
        desk.enqueue("b", *llm(1))
        assert desk.claim(1) == "a"
        desk.begun("a")

        assert desk.spend("a", tokens=250)
        assert desk.claim() == ""
        assert used(desk, "tokens") == 250
        desk.settle("a")
        desk.wait(MINUTE + SECOND // 1000)
        assert desk.claim() == "b"

    def test_it_takes_the_place_of_what_was_reported_before(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(50))
        assert desk.claim() == "a"

        for amount in (20, 20, 70, 0, 10):
            assert desk.spend("a", tokens=amount)
            assert (amount, 1) == (used(desk, "tokens"), used(desk, "requests"))

    def test_it_can_come_with_the_end_of_the_attempt(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(80))
        desk.enqueue("b", *llm(60))
        assert desk.claim() == "a"

        desk.settle("a", Done(), used={"tokens": 40})
        assert desk.claim() == "b"
        assert used(desk, "tokens") == 100

    def test_the_end_with_its_true_begin_moves_what_was_used(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(80))
        desk.enqueue("b", *llm(70))
        assert desk.claim() == "a"

        began = desk.clock.now()
        desk.settle("a", Done(), began=began, used={"tokens": 40})
        desk.wait(MINUTE)
        assert desk.claim() == ""
        desk.wait(SECOND // 1000)
        assert desk.claim() == "b"

    def test_an_attempt_that_is_lost_keeps_its_estimate(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(80))
        assert desk.claim() == "a"
        desk.wait(LEASE)

        assert desk.claim() == ""
        assert desk.state("a") is State.WAITING
        assert used(desk, "tokens") == 80

    def test_an_attempt_that_is_lost_keeps_what_it_reported(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(80))
        assert desk.claim() == "a"
        assert desk.spend("a", tokens=5)
        desk.wait(LEASE)

        assert desk.claim() == "a"
        assert used(desk, "tokens") == 85

    def test_an_attempt_handed_back_after_it_began_keeps_its_estimate(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(40))
        assert desk.claim() == "a"
        desk.settle("a", HandedBack(begun=True))

        assert desk.claim() == "a"
        assert used(desk, "tokens") == 80

    def test_the_report_of_an_attempt_that_is_over_changes_nothing(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(40))
        assert desk.claim() == "a"
        old = desk.attempts["a"]
        desk.wait(LEASE)
        assert desk.claim() == "a"

        assert [False] == desk.engine.spend([(old.seq, old.fence, {"tokens": 1})])
        assert used(desk, "tokens") == 80

    def test_an_unknown_key_is_an_error_that_names_those_of_the_job(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(40))
        assert desk.claim() == "a"

        with pytest.raises(InvalidError, match=r"'token' is none of its keys.*'requests', 'tokens'"):
            desk.spend("a", token=1)
        assert used(desk, "tokens") == 40

    @pytest.mark.parametrize("amount", [-1, 1.5, True, 2**60])
    def test_what_was_used_is_a_whole_number(self, desk: Desk, amount: object) -> None:
        desk.enqueue("a", *llm(40))
        assert desk.claim() == "a"

        with pytest.raises(InvalidError, match=r"used\.tokens"):
            desk.spend("a", tokens=amount)  # type: ignore[arg-type]

    def test_a_key_with_slots_alone_can_be_reported_on(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("k", 1))
        assert desk.claim() == "a"

        assert desk.spend("a", k=7)
        desk.settle("a")
        assert desk.claim() == "b"

    def test_a_job_without_limits_has_nothing_to_report(self, desk: Desk) -> None:
        desk.enqueue("a")
        assert desk.claim() == "a"

        assert desk.spend("a")
        desk.engine.configure("queue", "q", Numbers(slots=1))
        desk.settle("a")
        assert desk.state("a") is State.DONE

    def test_another_process_sees_what_was_used(self, desks: list[Desk]) -> None:
        one, other = desks
        one.enqueue("a", *llm(80))
        one.enqueue("b", *llm(60))
        assert one.claim() == "a"

        assert one.spend("a", tokens=10)
        assert other.claim() == "b"

    def test_a_process_that_was_started_again_knows_what_was_used(
        self, desk: Desk, opened: "pytest.FixtureRequest"
    ) -> None:
        desk.enqueue("a", *llm(80))
        assert desk.claim() == "a"
        assert desk.spend("a", tokens=90)

        later = Desk(opened(), desk.clock)  # type: ignore[operator]
        later.attempts = desk.attempts
        assert later.spend("a", tokens=30)
        assert used(later, "tokens") == 30

    def test_what_one_of_a_tenant_used_is_that_tenants(self, desk: Desk) -> None:
        desk.enqueue("a", *llm(80), tenant="t")
        assert desk.claim() == "a"

        assert desk.spend("a", tokens=10)
        assert desk.engine.gate("tokens", "t").recent == 10


def test_a_plain_job_writes_no_costs(desk: Desk) -> None:
    desk.enqueue("a", rate("x", 9), cost=3)
    assert desk.claim() == "a"

    def read(engine: Engine) -> list:
        tables = ("job", "running", "lane")
        return [engine.store.read(lambda db, t=table: db.all(f"SELECT costs FROM {t}")) for table in tables]

    assert [[(None,)]] * 3 == read(desk.engine)


def test_a_heavy_start_at_a_rate_is_forgotten_with_its_window(desk: Desk) -> None:
    for n in range(30):
        desk.engine.enqueue([NewJob("task", id=f"j{n}", queue="q", limits=(rate("k", 900, cost=400),))])
    for _ in range(15):
        desk.claim()
        desk.wait(2 * SECOND)

    packed = desk.engine.store.read(lambda db: db.all("SELECT starts FROM gate_memory"))
    assert len(packed[0][0]) < 100
