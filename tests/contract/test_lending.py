"""Slots lent to other processes: one limit for their calls and for jobs of the same key."""

from collections.abc import Callable

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import Engine
from penstock.job import START_GRACE, Lending, Want
from penstock.lifecycle.outcomes import Failed
from penstock.limits.rules import Limit, Numbers, Window
from tests.support.borrower import Borrower
from tests.support.desk import LEASE, Desk, slots

pytestmark = pytest.mark.usefixtures("healthy")


@pytest.fixture
def here(desk: Desk) -> Borrower:
    return Borrower(desk.engine)


@pytest.fixture
def there(opened: Callable[[], Engine]) -> Borrower:
    return Borrower(opened())


class TestOneLimit:
    def test_no_more_are_lent_than_there_are(self, here: Borrower, there: Borrower) -> None:
        assert "a b" == here.ask("a b", "k", 3)
        assert "x" == there.ask("x y", "k", 3)
        assert "" == here.ask("c", "k", 3)

    def test_the_process_that_came_first_is_served_first_wherever_it_is(
        self, here: Borrower, there: Borrower
    ) -> None:
        here.ask("a", "k")
        there.ask("x", "k")
        here.ask("b", "k")
        there.ask("y", "k")

        assert "" == here.give("a")
        assert "x" == there.look()
        there.give("x")
        assert "b" == here.look()
        here.give("b")
        assert "y" == there.look()

    def test_a_newcomer_does_not_overtake(self, here: Borrower, there: Borrower) -> None:
        here.ask("a", "k", 2, slots=2)
        here.ask("heavy", "k", 2, slots=2)
        assert "" == there.ask("light", "k", 2)
        assert "" == there.ask("never", "k", 2, stay=False)

        assert "heavy" == here.give("a")
        assert "" == there.look()
        here.give("heavy")
        assert "light" == there.look()

    def test_one_that_leaves_lets_the_next_pass(self, here: Borrower, there: Borrower) -> None:
        here.ask("a b", "k", 3)
        here.ask("heavy", "k", 3, slots=3)
        there.ask("light", "k", 3)

        here.withdraw("heavy")
        assert "light" == there.look()

    def test_what_was_given_in_the_same_moment_is_told_to_one_that_leaves(
        self, here: Borrower, there: Borrower
    ) -> None:
        here.ask("a", "k")
        there.ask("x", "k")
        here.give("a")

        assert "x" == there.withdraw("x")
        assert "" == there.give("x")
        assert "b" == here.ask("b", "k")

    def test_who_does_not_stay_leaves_nothing_behind(self, here: Borrower, there: Borrower) -> None:
        here.ask("a", "k")
        assert "" == there.ask("x", "k", stay=False)
        here.give("a")
        assert "b" == here.ask("b", "k")

    def test_keys_are_apart(self, here: Borrower) -> None:
        assert "a b" == here.ask("a", "k") + " " + here.ask("b", "other")

    def test_nobody_returns_more_than_it_has(self, here: Borrower, there: Borrower) -> None:
        here.ask("a", "k", 2)
        there.ask("x", "k", 2)
        here.give("a", slots=2)

        assert "b" == here.ask("b c", "k", 2)

    def test_numbers_are_each_ones_own(self, here: Borrower, there: Borrower) -> None:
        here.ask("a b", "k", 2)
        assert "" == there.ask("x", "k", 1)
        here.ask("c", "k", 3)
        here.give("a")
        assert "" == there.look()  # the first waits for its own number, and no call overtakes it
        assert "" == here.look()
        assert "c" == here.give("b")
        assert "x" == there.look()


class TestWithJobs:
    def test_a_running_job_counts(self, desk: Desk, here: Borrower) -> None:
        desk.enqueue("job", slots("k", 1))
        desk.claim()
        assert "" == here.ask("a", "k")

        desk.settle("job")
        assert "a" == here.look()

    def test_a_lent_slot_counts(self, desk: Desk, here: Borrower) -> None:
        here.ask("a", "k")
        desk.enqueue("job", slots("k", 1))
        assert "" == desk.claim()

        here.give("a")
        assert "job" == desk.claim()
        assert "" == here.ask("b", "k")

    def test_a_lost_worker_s_slot_is_lent(self, desk: Desk, here: Borrower) -> None:
        desk.enqueue("job", slots("k", 1))
        desk.claim()
        here.ask("a", "k")
        desk.wait(LEASE)

        assert here.engine.lent_to(here.holder)
        assert "a" == here.look()

    def test_a_job_is_not_passed_over_for_ever(self, desk: Desk, here: Borrower) -> None:
        here.ask("a0", "k")
        desk.enqueue("job", slots("k", 1))
        served = []
        for turn in range(1, 20):
            here.ask(f"a{turn}", "k")
            [name] = here.loans
            here.give(name)
            served.append(desk.claim())
            if served[-1]:
                break
        assert "job" == served[-1]
        assert len(served) <= 6
        desk.settle("job")
        assert here.look()

    def test_a_heavy_call_is_not_passed_over_for_ever(self, desk: Desk, here: Borrower) -> None:
        desk.enqueue(" ".join(f"j{n}" for n in range(40)), slots("k", 3))
        running = desk.claim(3).split()
        here.ask("heavy", "k", 3, slots=3)
        here.ask("light", "k", 3)
        started = 0
        while not here.running:
            desk.settle(running.pop(0))
            more = desk.claim(1)
            started += len(more.split())
            running += more.split()
            here.look()
        assert "heavy" == here.running
        assert started <= 3  # after so many refusals the first job in line has the turn

    def test_what_a_heavy_call_gathered_is_free_when_it_leaves(self, desk: Desk, here: Borrower) -> None:
        desk.enqueue("j1 j2 j3", slots("k", 2))
        assert "j1 j2" == desk.claim()
        here.ask("heavy", "k", 2, slots=2)
        desk.settle("j1")
        assert "" == desk.claim()
        here.withdraw("heavy")
        assert "j3" == desk.claim()

    def test_jobs_of_higher_priority_do_not_wait_for_a_heavy_call(self, desk: Desk, here: Borrower) -> None:
        desk.enqueue("j1 j2", slots("k", 2))
        desk.claim()
        here.ask("heavy", "k", 2, slots=2)
        desk.enqueue("urgent", slots("k", 2), priority=5)
        desk.settle("j1")
        assert "urgent" == desk.claim()

    def test_a_call_too_heavy_for_the_number_in_force_keeps_nobody(self, desk: Desk, here: Borrower) -> None:
        desk.enqueue("j1 j2 j3", slots("k", 3))
        desk.claim(1)
        here.ask("heavy", "k", 3, slots=3)
        desk.engine.override("k", Numbers(slots=2))
        assert "j2" == desk.claim()
        desk.engine.clear_override("k")
        desk.settle("j1 j2")
        assert "" == desk.claim()
        assert "heavy" == here.look()

    def test_calls_are_not_passed_over_for_jobs(self, desk: Desk, here: Borrower) -> None:
        desk.enqueue("j1 j2 j3 j4", slots("k", 1))
        assert "j1" == desk.claim()
        here.ask("a", "k")
        desk.settle("j1")
        assert "" == desk.claim()
        assert "a" == here.look()

    def test_a_job_that_fails_gives_its_slot_to_a_call(self, desk: Desk, here: Borrower) -> None:
        desk.enqueue("job", slots("k", 1))
        desk.claim()
        here.ask("a", "k")
        desk.settle("job", Failed("ValueError", "no"))
        assert "a" == here.look()


class TestRules:
    def test_an_override_counts_for_calls(self, desk: Desk, here: Borrower) -> None:
        here.ask("a b c", "k", 1)
        assert "a" == here.running
        desk.engine.override("k", Numbers(slots=2))
        assert "b" == here.look()
        desk.engine.override("k", Numbers(slots=0))
        here.give("a b")
        assert "" == here.look()
        desk.engine.clear_override("k")
        assert "c" == here.look()

    def test_an_override_that_expires_serves_those_who_wait(self, desk: Desk, here: Borrower) -> None:
        desk.engine.override("k", Numbers(slots=0), until=desk.clock.now() + SECOND)
        assert "" == here.ask("a", "k")
        assert not here.engine.lent_to(here.holder)
        desk.wait(SECOND)
        assert here.engine.lent_to(here.holder)
        assert "a" == here.look()

    def test_a_gate_that_is_shut_opens_by_the_clock(self, desk: Desk, here: Borrower) -> None:
        desk.engine.shut("k", desk.clock.now() + SECOND)
        assert "" == here.ask("a", "k")
        desk.wait(SECOND)
        assert "a" == here.look()

    def test_the_clock_opens_it_for_a_call_in_a_worker_s_claim_too(self, desk: Desk, here: Borrower) -> None:
        desk.engine.shut("k", desk.clock.now() + SECOND)
        here.ask("a", "k")
        desk.wait(SECOND)
        desk.claim()
        assert "a" == here.look()

    def test_a_gate_with_calls_is_seen(self, desk: Desk, here: Borrower) -> None:
        here.ask("a b c", "k", 2)
        view = desk.engine.gate("k")
        assert (2, 1, 2) == (view.running, view.waiting, view.lent)
        assert Numbers(slots=2) == view.numbers

    def test_a_gate_with_calls_is_not_swept(self, desk: Desk, here: Borrower) -> None:
        here.ask("a", "k")
        desk.engine.upkeep()
        assert "" == here.ask("b", "k", stay=False)
        here.give("a")
        desk.engine.upkeep()
        assert ([], 0) == desk.engine.gates()


class TestStarts:
    def test_calls_count_where_starts_are_remembered(self, desk: Desk, here: Borrower) -> None:
        desk.engine.configure("key", "k", Numbers(rate=Window(2, 10 * SECOND)))
        assert "a b" == here.ask("a b c", "k", 9)
        here.give("a b")
        desk.enqueue("job", slots("k", 9))
        assert "" == desk.claim()

        desk.wait(10 * SECOND)
        assert "" == here.look()  # remembered when they must have begun, a moment after they were lent
        desk.wait(START_GRACE)
        assert "c" == here.look()
        assert "job" == desk.claim()

    def test_a_start_is_taken_by_the_process_in_which_it_begins(
        self, desk: Desk, here: Borrower, there: Borrower
    ) -> None:
        desk.enqueue("job", Limit("k", Numbers(slots=1, rate=Window(1, 10 * SECOND))))
        assert "job" == desk.claim()
        there.ask("x", "k")
        desk.settle("job", began=desk.clock.now())
        view = desk.engine.gate("k")

        assert (0, 1) == (view.running, view.waiting)  # it was called, not given
        assert there.engine.lent_to(there.holder)
        desk.wait(3 * SECOND)
        assert "x" == there.look()

    def test_the_call_is_told_by_when_to_begin(self, desk: Desk, here: Borrower) -> None:
        desk.engine.configure("key", "k", Numbers(throttle=Window(1, SECOND)))
        lent = here.engine.lend(Lending(0, LEASE, wanted=(Want(1, "k", Numbers(slots=1)),)))
        assert START_GRACE == lent.loans[0].grace
        desk.wait(SECOND + START_GRACE - MILLISECOND)
        desk.enqueue("job", slots("k", 9))
        assert "" == desk.claim()
        desk.wait(MILLISECOND)
        assert "job" == desk.claim()

    def test_no_block_is_lent_where_starts_are_remembered(self, desk: Desk, here: Borrower) -> None:
        desk.engine.configure("key", "k", Numbers(rate=Window(100, SECOND)))
        here.ask("a", "k", 9, most=5)
        assert 1 == desk.engine.gate("k").running
        assert [here.loans["a"][0]] == here.engine.wanted_by_others(here.holder, [here.loans["a"][0]])


class TestBlocks:
    def test_a_block_is_as_large_as_there_is_room(self, here: Borrower, there: Borrower) -> None:
        here.ask("a", "k", 5, most=4)
        there.ask("x", "k", 5, most=4)
        assert (4, 1) == (here.loans["a"][1], there.loans["x"][1])

    def test_who_waits_is_given_no_more_than_it_needs(self, here: Borrower, there: Borrower) -> None:
        here.ask("a", "k", 4, most=4)
        there.ask("x y", "k", 4, most=4)
        here.give("a")
        assert "x y" == there.look()
        assert (1, 3) == (there.loans["x"][1], there.loans["y"][1])

    def test_others_who_wait_are_seen(self, desk: Desk, here: Borrower, there: Borrower) -> None:
        here.ask("a", "k", 4, most=4)
        gate = here.loans["a"][0]
        assert [] == here.engine.wanted_by_others(here.holder, [gate])
        here.ask("b", "k", 4)
        assert [] == here.engine.wanted_by_others(here.holder, [gate])
        there.ask("x", "k", 4)
        assert [gate] == here.engine.wanted_by_others(here.holder, [gate])
        there.withdraw("x")
        desk.enqueue("job", slots("k", 4))
        assert [gate] == here.engine.wanted_by_others(here.holder, [gate])


class TestLeases:
    def test_a_process_that_is_not_heard_from_loses_its_slots(
        self, desk: Desk, here: Borrower, there: Borrower
    ) -> None:
        here.ask("a", "k")
        there.ask("x", "k")
        desk.wait(LEASE - 1)
        there.renew()
        assert "" == there.look()
        desk.wait(1)
        assert there.engine.lent_to(there.holder)
        assert "x" == there.look()

        here.look()
        assert here.lost

    def test_it_takes_nothing_back_that_is_not_its_own(
        self, desk: Desk, here: Borrower, there: Borrower
    ) -> None:
        here.ask("a", "k")
        desk.wait(LEASE)
        assert "x" == there.ask("x", "k")
        here.give("a")
        assert "" == there.ask("y", "k")

    def test_a_job_starts_when_the_lease_of_a_call_ends(self, desk: Desk, here: Borrower) -> None:
        here.ask("a", "k")
        desk.enqueue("job", slots("k", 1))
        claim = desk.engine.claim(["q"], 1, worker="w")
        assert not claim.jobs
        assert claim.next_at == desk.clock.now() + LEASE
        desk.wait(LEASE)
        assert "job" == desk.claim()

    def test_a_renewed_lease_lasts(self, desk: Desk, here: Borrower, there: Borrower) -> None:
        here.ask("a", "k")
        for _ in range(5):
            desk.wait(LEASE // 2)
            here.renew()
        assert "" == there.ask("x", "k", stay=False)

    def test_one_that_is_late_but_missed_by_nobody_goes_on(self, desk: Desk, here: Borrower) -> None:
        here.ask("a", "k")
        desk.wait(2 * LEASE)
        here.renew()
        assert not here.lost
        assert "" == here.ask("b", "k", stay=False)

    def test_nothing_is_given_to_the_dead(self, desk: Desk, here: Borrower, there: Borrower) -> None:
        dead = Borrower(desk.engine, lease=SECOND)
        here.ask("a", "k")
        dead.ask("d1 d2 d3", "k")
        there.ask("x", "k")
        desk.wait(SECOND)
        here.give("a")
        assert set() == there.audit()[1]
        assert "x" == there.look()

    def test_a_process_that_goes_leaves_nothing(self, desk: Desk, here: Borrower, there: Borrower) -> None:
        here.ask("a b", "k")
        there.ask("x", "k")
        here.engine.leave(here.holder)
        assert "x" == there.look()
        there.give("x")
        assert 0 == desk.engine.gate("k").waiting

    def test_upkeep_frees_what_the_lost_had(self, desk: Desk, here: Borrower) -> None:
        here.ask("a b", "k")
        desk.wait(LEASE)
        assert 1 == desk.engine.upkeep()["gone"]
        assert ([], 0) == desk.engine.gates()

    def test_an_audit_tells_all(self, here: Borrower, there: Borrower) -> None:
        here.ask("a b c", "k", 2)
        here.ask("d", "other")
        there.ask("x", "k", 2)
        held, waiting = here.audit()
        assert [1, 2] == sorted(held.values())
        assert {"c"} == waiting
