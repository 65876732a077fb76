"""Tenants: each has queues of its own, takes its turn, and has no more than it may."""

from collections import Counter
from dataclasses import replace

import pytest

from penstock.clock import SECOND
from penstock.errors import InvalidError, QueueFullError, TenantLimitError
from penstock.job import (
    Bound,
    ClaimFor,
    Maintenance,
    NewJob,
    NewWorkflow,
    OnFull,
    Order,
    Pool,
    Schedule,
    TenantLimits,
)
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Numbers, Window
from penstock.worker import Handler, Worker, current_job
from penstock.workflows import chain, group
from tests.support.desk import Desk, slots
from tests.support.works import jobs as named_jobs

TWICE = RetryPolicy(attempts=2, backoff=Backoff.FIXED, delay=SECOND, jitter=False)
pytestmark = pytest.mark.usefixtures("healthy")


def of(desk: Desk, tenant: str | None, count: int = 10, queues=("q",), **how) -> str:
    """Claim for one tenant, or for all."""
    names, more = [], True
    while more and len(names) < count:
        claim = desk.engine.claim(queues, count - len(names), worker="w", tenant=tenant, **how)
        names += [job.id for job in claim.jobs]
        desk.attempts |= {job.id: job for job in claim.jobs}
        more = claim.more
    return " ".join(names)


def limit(desk: Desk, **limits) -> None:
    desk.engine.set_tenant_limits("acme", TenantLimits(**limits))


def refused(desk: Desk, names: str, **facts) -> tuple[str, int, int]:
    before = {state: number for state, number in desk.engine.count().items() if number}
    with pytest.raises(TenantLimitError) as caught:
        desk.enqueue(names, **{"tenant": "acme", **facts})
    assert before == {state: number for state, number in desk.engine.count().items() if number}
    assert "acme" == caught.value.tenant
    return caught.value.limit, caught.value.current, caught.value.maximum


def replacing(key: str) -> Unique:
    """Stand for the latest call of a key, once none has come for a second."""
    return Unique(key, on_duplicate=OnDuplicate.REPLACE, quiet=SECOND)


class TestQueues:
    def test_two_tenants_have_two_queues_of_one_name(self, desk: Desk) -> None:
        desk.enqueue("a", tenant="acme")
        desk.enqueue("b", tenant="globex")
        desk.enqueue("c")

        assert "a" == of(desk, "acme")
        assert "c" == of(desk, "")
        assert "b" == of(desk, None)
        assert ("q", "globex") == (desk.attempts["b"].queue, desk.attempts["b"].tenant)
        assert {("", "q"), ("acme", "q"), ("globex", "q")} == {
            (queue["tenant"], queue["name"]) for queue in desk.engine.queues()
        }

    def test_what_rules_the_queue_of_one_tenant_rules_no_other(self, desk: Desk) -> None:
        desk.engine.configure("queue", "q", Numbers(slots=1), tenant="acme")
        desk.engine.bound("q", Bound(2), tenant="globex")
        desk.engine.set_pool(Pool("p", ("q",), slots=1, tenant="initech"))
        for tenant in ("acme", "initech", ""):
            desk.enqueue(f"{tenant}1 {tenant}2 {tenant}3", tenant=tenant)
        desk.enqueue("g1 g2", tenant="globex")
        with pytest.raises(QueueFullError) as full:
            desk.enqueue("g3", tenant="globex")

        assert ("globex", "q", 2) == (full.value.tenant, full.value.queue, full.value.depth)
        assert ["acme1", "initech1", "1 2 3", "g1 g2"] == [
            of(desk, tenant) for tenant in ("acme", "initech", "", "globex")
        ]
        assert Numbers(slots=1) == desk.engine.configured("queue", "q", tenant="acme")
        assert desk.engine.configured("queue", "q") is None
        assert (2, 0) == (desk.engine.depth("q", tenant="acme"), desk.engine.depth("q"))

    def test_what_rules_a_queue_without_a_tenant_rules_that_of_every_tenant(self, desk: Desk) -> None:
        for tenant in ("acme", "globex"):
            desk.enqueue(f"{tenant}1 {tenant}2", tenant=tenant)

        assert "acme1" == of(desk, "acme", 1)
        desk.engine.configure("queue", "q", Numbers(slots=2))
        assert "globex1" == of(desk, None)
        assert "queue q" in desk.engine.why("acme2").sentence
        desk.settle("acme1")
        assert "globex2" == of(desk, "globex")
        desk.engine.set_pool(Pool("p", ("q",), slots=2))
        desk.engine.configure("queue", "q", None)
        assert "" == of(desk, "acme")
        desk.settle("globex1")
        desk.engine.pause("q")
        desk.enqueue("later", tenant="initech")
        assert ("", "") == (of(desk, "acme"), of(desk, "initech"))
        desk.engine.resume("q")
        assert "acme2" == of(desk, "acme")

    def test_a_queue_is_paused_for_one_tenant_or_for_all(self, desk: Desk) -> None:
        desk.enqueue("a1 a2", tenant="acme")
        desk.enqueue("b1 b2", tenant="globex")
        desk.engine.pause("q", tenant="acme")

        assert ("", "b1") == (of(desk, "acme"), of(desk, None, 1))
        assert "paused" in desk.engine.why("a1").sentence
        desk.engine.pause("q")
        assert "" == of(desk, None)
        desk.engine.resume("q")
        assert "a1 b2 a2" == of(desk, None)

    def test_a_tenant_that_no_worker_serves_hides_no_other_behind_a_gate_of_all(self, desk: Desk) -> None:
        shared = replace(slots("X", 1), shared=True)
        desk.enqueue("a", shared)
        desk.enqueue("b", shared, tenant="acme")
        desk.enqueue("c", shared, tenant="globex")

        assert "a" == of(desk, "")
        desk.settle("a")
        assert "c" == of(desk, "globex")

    def test_jobs_that_come_back_are_their_tenants_still(self, desk: Desk) -> None:
        limit(desk, slots=1)
        desk.enqueue("a b", tenant="acme", retry=TWICE)
        of(desk, None)
        desk.settle("a", Failed("ValueError", "no"))
        desk.wait(SECOND)

        assert "b" == of(desk, "acme")
        desk.settle("b")
        assert "a" == of(desk, None)
        desk.wait(20 * SECOND)  # its lease runs out
        assert "a" == of(desk, None)


class TestRotation:
    def test_tenants_take_turns_whatever_each_has(self, desk: Desk) -> None:
        desk.enqueue("a1 a2 a3 a4 a5 a6", tenant="acme")
        desk.enqueue(" ".join(f"b{n}" for n in range(30)), tenant="globex")
        desk.enqueue("1 2 3 4 5 6")

        single = Counter(of(desk, None, 1)[:-1] for _ in range(9))
        at_once = Counter(name[:-1] for name in of(desk, None, 9).split())

        assert {"a": 3, "b": 3, "": 3} == single == at_once

    def test_the_one_served_longest_ago_comes_first_for_every_process(self, desk: Desk, opened) -> None:
        for tenant in ("acme", "globex", "initech"):
            desk.enqueue(f"{tenant}1 {tenant}2", tenant=tenant)
        assert "globex1" == of(desk, "globex", 1)
        assert "acme1" == of(desk, "acme", 1)
        other = Desk(opened(), desk.clock)

        assert ["initech1", "globex2", "acme2"] == [of(other, None, 1) for _ in range(3)]

    def test_priorities_and_age_hold_within_a_tenant(self, desk: Desk) -> None:
        desk.enqueue("a1 a2", tenant="acme")
        desk.enqueue("a3", tenant="acme", priority=5)
        desk.enqueue("b1", tenant="globex", priority=-5)

        assert "a3 b1 a1 a2" == of(desk, None)

    def test_a_tenant_whose_jobs_may_not_start_keeps_no_other_waiting(self, desk: Desk) -> None:
        desk.enqueue("a1 a2 a3", slots("X", 0), tenant="acme")
        desk.enqueue("b1 b2 b3", tenant="globex")

        assert ["b1", "b2", "b3", ""] == [of(desk, None, 1) for _ in range(4)]

    def test_each_tenant_has_the_order_of_queues_that_the_claim_asks_for(self, desk: Desk) -> None:
        for tenant in ("acme", "globex"):
            desk.enqueue(f"{tenant}-low", queue="low", tenant=tenant)
            desk.enqueue(f"{tenant}-high1 {tenant}-high2", queue="high", tenant=tenant)

        names = of(desk, None, 4, ("high", "low"), order=Order.STRICT)

        assert {"acme-high1", "acme-high2", "globex-high1", "globex-high2"} == set(names.split())
        assert {"acme-low", "globex-low"} == set(
            of(desk, None, 4, ("high", "low"), order=Order.STRICT).split()
        )

    def test_a_claim_that_takes_the_last_job_of_all_tenants_forgets_no_turn(self, desk: Desk) -> None:
        desk.enqueue("a1 a2", tenant="acme")
        desk.enqueue("1 2")
        assert ["1 a1", "2 a2"] == [of(desk, None, 2) for _ in range(2)]
        desk.enqueue("b1", queue="first", tenant="globex")
        desk.enqueue("3")
        assert "b1 3" == of(desk, None, 2, ("first", "q"), order=Order.STRICT)
        desk.enqueue("4")
        desk.enqueue("a3", tenant="acme")

        assert ["a3", "4"] == [of(desk, None, 1) for _ in range(2)]

    @pytest.mark.parametrize("count", [1, 7])
    def test_many_tenants_are_all_served(self, desk: Desk, count: int) -> None:
        many = 168
        desk.engine.enqueue(
            [NewJob("t", queue="q", tenant=f"t{n:03}") for n in range(many) for _ in range(2)]
        )
        paused = {f"t{n:03}" for n in range(0, many, 3)}
        desk.engine.enqueue([NewJob("t", queue="q", tenant=tenant, id=tenant) for tenant in sorted(paused)])
        for tenant in paused:
            desk.engine.pause("q", tenant=tenant)

        served: list[str] = []
        while jobs := desk.engine.claim(["q"], count, worker="w").jobs:
            served += [job.tenant for job in jobs]

        unpaused = many - len(paused)
        assert {2} == set(Counter(served).values())
        assert unpaused == len(set(served)) == len(set(served[:unpaused]))

    def test_many_tenants_that_are_paused_hide_none_that_is_not(self, desk: Desk) -> None:
        names = [f"t{n:03}" for n in range(300)]
        desk.engine.enqueue([NewJob("t", queue="q", tenant=name) for name in names for _ in range(3)])
        for name in names:
            if name not in {"t005", "t200"}:
                desk.engine.pause("q", tenant=name)

        served = [desk.engine.claim(["q"], 1, worker=worker).jobs[0].tenant for worker in "abab"]
        assert ["t005", "t200"] * 2 == served
        assert not desk.engine.claim(["q"], 9, worker="a").more
        desk.engine.resume("q", tenant="t299")
        assert {"t299"} == {job.tenant for job in desk.engine.claim(["q"], 9, worker="b").jobs} - set(served)

    def test_a_claim_costs_no_more_whatever_the_tenants_have(self, desk: Desk) -> None:
        """One that looked at each job of each tenant would not end here."""
        desk.engine.enqueue([NewJob("t", queue="q", tenant=f"t{n % 50}") for n in range(1_000)])

        assert 50 == len({job.tenant for job in desk.engine.claim(["q"], 50, worker="w").jobs})


def test_a_worker_serves_all_tenants_or_the_one_it_is_told(desk: Desk) -> None:
    ran: list[str] = []
    handlers = {"task": Handler(lambda: ran.append(current_job().tenant))}
    for tenant in ("acme", "globex", ""):
        desk.enqueue(f"{tenant}job", tenant=tenant)

    Worker(desk.engine, handlers, queues="q", tenant="globex").run(until_idle=True)
    assert ["globex"] == ran
    Worker(desk.engine, handlers, queues="q").run(until_idle=True)
    assert ["", "acme", "globex"] == sorted(ran)


class TestLimits:
    def test_no_more_run_at_once_than_may_whatever_their_queue_and_limits(self, desk: Desk) -> None:
        desk.enqueue("a b", queue="one", tenant="acme")
        desk.enqueue("c d", slots("X", 5), queue="two", tenant="acme")
        assert "a" == of(desk, None, 1, ("one", "two"))
        limit(desk, slots=2)

        assert "b" == of(desk, None, 9, ("one", "two"))
        assert "tenant" in desk.engine.why("c").sentence
        desk.settle("a")
        assert "c" == of(desk, None, 9, ("one", "two"))
        limit(desk)
        assert "d" == of(desk, None, 9, ("one", "two"))
        assert TenantLimits() == desk.engine.tenant_limits("acme")

    def test_what_was_set_is_what_is_told(self, desk: Desk, opened) -> None:
        limits = TenantLimits(1, 2, 3, Window(4, 5 * SECOND))
        desk.engine.set_tenant_limits("acme", limits)

        assert limits == opened().tenant_limits("acme")
        assert TenantLimits() == opened().tenant_limits("globex")

    def test_no_more_wait_than_may(self, desk: Desk) -> None:
        limit(desk, waiting=2)
        desk.enqueue("a", tenant="acme")

        assert ("waiting", 1, 2) == refused(desk, "b c")
        desk.enqueue("b", slots("X", 1), queue="other", tenant="acme", due=desk.clock.now() + SECOND)
        assert ("waiting", 2, 2) == refused(desk, "c", due=desk.clock.now() + SECOND)
        desk.enqueue("x y z", tenant="globex")
        desk.enqueue("u v w")
        assert "a" == of(desk, "acme")
        desk.enqueue("c", tenant="acme")
        assert ("waiting", 2, 2) == refused(desk, "d")

    def test_what_comes_back_is_not_refused(self, desk: Desk) -> None:
        limit(desk, waiting=1, rate=Window(2, 60 * SECOND))
        desk.enqueue("a", tenant="acme", retry=TWICE)
        of(desk, None)
        desk.enqueue("b", tenant="acme", due=desk.clock.now() + SECOND)
        desk.settle("a", Failed("ValueError", "no"))
        desk.wait(SECOND)

        assert {"a", "b"} == set(of(desk, None).split())

    def test_scheduled_jobs_have_a_bound_of_their_own(self, desk: Desk) -> None:
        limit(desk, scheduled=1)
        later = desk.clock.now() + SECOND
        desk.enqueue("a", tenant="acme", due=later)

        assert ("scheduled", 1, 1) == refused(desk, "b", due=later)
        desk.enqueue("b c", tenant="acme")
        desk.wait(SECOND)
        of(desk, None)
        desk.enqueue("d", tenant="acme", due=later + SECOND)

    def test_no_more_are_added_in_a_window_than_may(self, desk: Desk) -> None:
        limit(desk, rate=Window(3, SECOND))
        desk.enqueue("a b", tenant="acme")
        desk.wait(SECOND // 2)
        desk.enqueue("c", tenant="acme")

        assert ("rate", 3, 3) == refused(desk, "d")
        with pytest.raises(TenantLimitError) as error:
            desk.enqueue("d", tenant="acme")
        assert SECOND // 2 == error.value.retry_after
        desk.wait(SECOND // 2)
        assert ("rate", 1, 3) == refused(desk, "d e f")
        desk.enqueue("d e", tenant="acme")
        assert ("rate", 3, 3) == refused(desk, "f")
        assert ("rate", 3, 3) == refused(desk, "f g h i")

    def test_a_rate_that_ends_and_begins_again_counts_from_then(self, desk: Desk) -> None:
        limit(desk, rate=Window(1, SECOND))
        desk.enqueue("a", tenant="acme")
        limit(desk)
        desk.enqueue("b c", tenant="acme")
        limit(desk, rate=Window(1, SECOND))

        desk.enqueue("d", tenant="acme")
        assert ("rate", 1, 1) == refused(desk, "e")

    def test_a_job_that_an_earlier_one_stands_for_takes_no_room(self, desk: Desk) -> None:
        limit(desk, waiting=1, rate=Window(2, SECOND))
        desk.enqueue("a", tenant="acme", unique=Unique("k"))

        desk.enqueue("b", tenant="acme", unique=Unique("k"))
        desk.enqueue("c", tenant="acme", unique=Unique("k", on_duplicate=OnDuplicate.REPLACE))
        assert (State.CANCELLED, "c") == (desk.state("a"), of(desk, None))
        assert ("rate", 2, 2) == refused(desk, "d")

    def test_a_workflow_comes_as_a_whole_or_not_at_all(self, desk: Desk) -> None:
        limit(desk, waiting=2, rate=Window(5, SECOND))
        for steps in (chain(named_jobs("a b c")), group(named_jobs("a b c"))):
            with pytest.raises(TenantLimitError):
                desk.engine.start_workflow(NewWorkflow(steps, tenant="acme"))
        desk.engine.start_workflow(NewWorkflow(chain(named_jobs("a b")), tenant="acme"))

        assert ([], 1) == (desk.engine.jobs(state=State.SCHEDULED), len(desk.engine.jobs(tenant="acme")))

    def test_a_schedule_that_is_refused_is_skipped_and_the_others_are_counted_once(self, desk: Desk) -> None:
        limit(desk, waiting=0)
        desk.engine.set_tenant_limits("globex", TenantLimits(rate=Window(1, 3_600 * SECOND)))
        for tenant in ("acme", "globex"):
            desk.engine.set_schedule(
                Schedule("s", "* * * * *", NewJob("t", queue="q", tenant=tenant), tenant=tenant)
            )
        desk.wait(61 * SECOND)

        assert ["globex"] == [job.tenant for job in desk.engine.claim(["q"], 9, worker="w").jobs]
        assert ["acme"] == [event.facts["tenant"] for event in desk.heard("schedule.skipped")]

    def test_no_job_is_dropped_for_one_that_is_refused(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(2, OnFull.DROP_OLDEST), tenant="acme")
        limit(desk, rate=Window(2, 3_600 * SECOND))
        desk.enqueue("a b", tenant="acme")
        job = NewJob("t", queue="q", tenant="acme")
        desk.engine.set_schedule(Schedule("s", "* * * * *", job, tenant="acme"))
        desk.wait(61 * SECOND)

        assert "a b" == of(desk, None)

    def test_a_job_that_waits_for_a_pause_in_its_calls_is_scheduled(self, desk: Desk) -> None:
        limit(desk, scheduled=1)
        desk.enqueue("a", tenant="acme", unique=replacing("k"))

        assert ("scheduled", 1, 1) == refused(desk, "b", unique=replacing("l"))

    def test_arrivals_remembered_before_the_clock_was_set_back_move_no_other_time(
        self, desk: Desk, opened
    ) -> None:
        limit(desk, rate=Window(9, 3_600 * SECOND))
        desk.wait(600 * SECOND)
        desk.enqueue("a", tenant="acme", queue="other")
        desk.clock._now -= 600 * SECOND
        engine = opened()
        engine.enqueue([NewJob("t", queue="q", due=desk.clock.now() + 300 * SECOND)])

        new = NewJob("t", queue="q", tenant="acme", id="b")
        _, _, (claim,), _ = engine.batch([new], [], [ClaimFor(("q",), 9, "w", 15 * SECOND)])
        assert ["b"] == [job.id for job in claim.jobs]

    def test_a_job_too_heavy_for_its_tenants_queue_holds_up_no_lighter_one(self, desk: Desk) -> None:
        desk.engine.configure("queue", "q", Numbers(rate=Window(100, SECOND)))
        desk.engine.configure("queue", "q", Numbers(rate=Window(3, SECOND)), tenant="acme")
        desk.enqueue("heavy", tenant="acme", cost=5)
        desk.enqueue("light", tenant="acme")

        assert "light" == of(desk, None)

    @pytest.mark.parametrize("limits", [{"slots": -1}, {"waiting": -1}, {"scheduled": 1.5}])
    def test_limits_that_make_no_sense_are_refused(self, desk: Desk, limits) -> None:
        with pytest.raises(InvalidError):
            limit(desk, **limits)
        with pytest.raises(InvalidError):
            desk.engine.set_tenant_limits("", TenantLimits(slots=1))


class TestMaintenance:
    def test_nothing_starts_until_it_ends_and_then_workers_are_woken(self, desk: Desk, opened) -> None:
        desk.enqueue("a")
        desk.enqueue("b", slots("X", 1), tenant="acme")
        assert "a" == of(desk, "")
        desk.enqueue("c")
        since = Maintenance(desk.clock.now(), "new disks")
        opened().set_maintenance(since)

        for tenant in (None, "", "acme"):
            claim = desk.engine.claim(["q", "r"], 9, worker="w", tenant=tenant)
            assert ([], False) == (claim.jobs, claim.more)
        assert desk.engine.settle([]) == []
        desk.settle("a")
        desk.enqueue("d")
        assert since == desk.engine.maintenance()
        assert "maintenance" in desk.engine.why("d").sentence
        revision = desk.engine.revision()
        opened().set_maintenance(None)
        assert desk.engine.wait(revision, 10.0) != revision
        assert {"b", "c", "d"} == set(of(desk, None).split())
        assert desk.engine.maintenance() is None
