"""Two transactions that want the same: one waits for the other, or passes by it, and nothing is lost.

Each is scripted in steps.  Under load later traffic hides what was lost.
"""

import asyncio
import random
import threading

import psycopg
import pytest

from penstock.clock import SECOND
from penstock.errors import DuplicateJobError, NotFoundError, TenantLimitError, WrongStateError
from penstock.http import engine_service
from penstock.http.engine_service import Claims, EngineService
from penstock.job import AT_ONCE, ClaimFor, Maintenance, NewJob, Schedule, Settlement, TenantLimits
from penstock.lifecycle.outcomes import Done, Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Floating, Limit, Numbers, Window
from penstock.store.postgres import PostgresStore
from tests.postgres.race import FREE_OR_LIMITED, LIMITED, PATIENCE, do, quiet
from tests.support.desk import LEASE, slots
from tests.support.postgres import split_schema

ONE = Numbers(slots=1)
NONE = Numbers(slots=0)
AGAIN = RetryPolicy(attempts=5)
FAILED = Failed("ValueError", "no")


def _next_at(desk):
    return desk.engine.claim(["q"], 1, worker="worker").next_at


def _fetch(looked, wait):
    """Fetch as a server does; *looked* is set once a claim has found nothing."""

    async def fetch(engine):
        service, claims = EngineService(engine), Claims()
        take = service.take

        async def watched(wanted, into):
            claim = await take(wanted, into)
            looked.set()
            return claim

        service.take = watched
        try:
            jobs = await service.claim(ClaimFor(("q",), 1, "worker"), claims, wait)
        finally:
            service.close()
        return [job.id for job in jobs]

    return lambda desk: asyncio.run(fetch(desk.engine))


def running(race, key):
    return race.desk.engine.gate(key).running


class TestClaimAndClaim:
    def test_one_slot_is_given_once(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        one, two = race.meet(do.claim(), do.claim(), at="the gates")

        assert one.commit() == "a"
        assert two.answer() == ""
        assert running(race, "X") == 1

    def test_one_slot_that_was_not_taken_after_all_is_given_to_the_other(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        one, two = race.meet(do.claim(), do.claim(), at="the gates")

        one.roll_back()
        assert two.answer() == "a"

    def test_jobs_without_limits_are_shared_out_and_nobody_waits(self, race):
        race.desk.enqueue("a b c d")
        one = race.hold(do.claim(2))
        two = race.start(do.claim(2))

        assert two.answer() == "c d"
        assert one.commit() == "a b"

    def test_a_job_without_limits_that_was_not_taken_after_all_is_still_there(self, race):
        race.desk.enqueue("a")
        one = race.hold(do.claim())

        assert race.start(do.claim()).answer() == ""
        one.roll_back()
        assert race.start(do.claim()).answer() == "a"

    def test_jobs_without_limits_do_not_wait_for_the_gates(self, race):
        race.desk.enqueue("limited", slots("X", 1), queue="other")
        race.desk.enqueue("free")
        race.hold(do.claim(queues=["other"]))

        assert race.start(do.claim()).answer() == "free"
        assert race.start(do.settle("free")).answer() == [True]


class TestClaimAndSettle:
    def test_a_slot_given_back_is_seen_by_the_claim_that_waited(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        race.desk.claim()
        race.desk.enqueue("c", slots("Y", 1))
        settle, claim = race.meet(do.settle("a"), do.claim(), at="the gates")

        assert settle.commit() == [True]
        assert claim.answer() == "b c"

    def test_a_claim_that_finds_nothing_hears_of_a_slot_that_is_given_back_then(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        race.desk.claim()
        token = quiet(race.desk.engine)
        settle = race.hold(do.settle("a"))
        assert race.start(do.claim()).answer() == ""

        settle.commit()
        assert race.desk.engine.wait(token, 5) != token
        assert race.desk.claim() == "b"

    def test_a_slot_given_back_while_a_claim_finds_nothing_is_not_forgotten(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        race.desk.claim()
        race.desk.enqueue("c", slots("Y", 1))
        claim, settle = race.meet(do.claim(), do.settle("a"), at="the gates")

        assert claim.commit() == "c"
        assert settle.answer() == [True]
        assert race.desk.claim() == "b"


@FREE_OR_LIMITED
class TestSettleAndCancel:
    def test_a_job_that_has_just_ended_cannot_be_cancelled(self, race, limits):
        race.desk.enqueue("a b", *limits)
        race.desk.claim(1)
        _, cancel = race.meet(do.settle("a"), do.cancel("a"), at="the gates" if limits else "a row")

        race.finish()
        with pytest.raises(WrongStateError):
            cancel.answer()
        assert race.desk.state("a") is State.DONE
        assert race.desk.claim() == "b"

    def test_a_job_whose_cancelling_was_just_asked_for_is_not_tried_again(self, race, limits):
        race.desk.enqueue("a b", *limits, retry=AGAIN)
        race.desk.claim(1)
        cancel, settle = race.meet(do.cancel("a"), do.settle("a", FAILED), at="a row")

        assert cancel.commit() is State.RUNNING
        assert all(settle.answer())
        assert race.desk.state("a") is State.CANCELLED
        assert race.desk.claim() == "b"


def floats(key, slots):
    return Limit(key, Numbers(slots=slots), floating=Floating("", 60_000_000))


class TestEnqueueAndClaim:
    def test_a_producer_who_has_the_gates_is_waited_for(self, race):
        race.desk.enqueue("a", slots("X", 1))
        race.desk.claim()
        producer, settle = race.meet(do.enqueue("b", slots("X", 1)), do.settle("a"), at="the gates")

        producer.commit()
        assert settle.answer() == [True]
        assert race.desk.claim() == "b"

    def test_a_job_left_at_the_door_is_let_in_by_the_next_claim(self, race):
        race.desk.enqueue("a", slots("X", 1))
        race.desk.claim()
        with race.gates_taken():
            producer = race.hold(do.enqueue("b", slots("X", 1)))
        # What it enqueues is not to be seen yet; the last who could have called it goes.
        assert race.desk.settle("a") == [True]
        assert race.desk.claim() == ""

        producer.commit()
        assert race.desk.state("b") is State.WAITING
        assert race.desk.claim() == "b"
        assert running(race, "X") == 1

    def test_a_claim_that_knows_of_no_limits_lets_in_who_is_at_the_door(self, race):
        with race.gates_taken():
            race.desk.enqueue("a", slots("X", 1))

        assert race.start(do.claim()).answer() == "a"

    def test_upkeep_lets_in_who_is_at_the_door(self, race):
        with race.gates_taken():
            race.desk.enqueue("a", slots("X", 1))

        assert race.desk.engine.upkeep()["let_in"] == 1
        assert race.desk.engine.gate("X").waiting == 1

    def test_the_key_of_a_job_at_the_door_is_listed(self, race):
        race.desk.enqueue("a", slots("W", 1))
        with race.gates_taken():
            race.desk.enqueue("b c", slots("X", 1))
            views, total = race.desk.engine.gates()

        assert [("W", 1), ("X", 2)] == [(view.key, view.waiting) for view in views]
        assert 2 == total

    def test_jobs_at_the_door_keep_their_order(self, race):
        race.desk.enqueue("a", slots("X", 1))
        with race.gates_taken():
            race.desk.enqueue("b c", slots("X", 1))
            race.desk.enqueue("urgent", slots("X", 1), priority=5)

        started = []
        for _ in range(4):
            started.append(race.desk.claim())
            race.desk.settle(started[-1])
        assert started == ["urgent", "a", "b", "c"]

    def test_the_first_job_of_a_floating_key_says_how_it_floats_though_it_is_at_the_door(self, race):
        with race.gates_taken():
            race.desk.enqueue("a", floats("X", 1))
            race.desk.enqueue("b", floats("X", 2))

        race.desk.enqueue("c", floats("X", 3))

        assert 1 == race.desk.engine.floating("X").default

    def test_jobs_at_the_door_say_in_their_order_how_a_key_floats(self, race):
        with race.gates_taken():
            race.desk.enqueue("a", floats("X", 1))
            race.desk.enqueue("b", floats("X", 2))

        race.desk.engine.upkeep()

        assert 1 == race.desk.engine.floating("X").default

    def test_a_job_at_the_door_can_be_cancelled(self, race):
        with race.gates_taken():
            race.desk.enqueue("a b", slots("X", 1))

        assert race.desk.engine.cancel("a") is State.CANCELLED
        assert race.desk.claim() == "b"

    def test_without_limits_a_job_is_found_once_its_producer_has_committed(self, race):
        producer = race.hold(do.enqueue("a"))
        assert race.start(do.claim()).answer() == ""

        producer.commit()
        assert race.desk.claim() == "a"

    def test_a_job_whose_producer_gave_up_was_never_there(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        producer, claim = race.meet(do.enqueue("c", slots("X", 1), priority=9), do.claim(), at="the gates")

        producer.roll_back()
        assert claim.answer() == "a"
        with pytest.raises(NotFoundError):
            race.desk.job("c")

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_a_producers_own_transaction_keeps_nobody_waiting(self, race, end):
        race.desk.enqueue("a b", slots("X", 1))
        race.desk.claim()
        with psycopg.connect(split_schema(race.url)[0]) as producer:
            job = NewJob("task", id="c", queue="q", limits=(slots("X", 1),), priority=9)
            race.desk.engine.enqueue([job], connection=producer)
            assert race.start(do.settle("a")).answer() == [True]
            assert race.start(do.claim()).answer() == "b"
            race.desk.settle("b")
            assert race.desk.claim() == ""
            getattr(producer, end)()

        assert race.desk.claim() == ("c" if end == "commit" else "")

    def test_producers_on_a_hot_key_never_wait_for_the_gates(self, race):
        race.desk.enqueue("first", slots("X", 1))
        has_gates = race.hold(do.claim())

        def produce(desk):
            for number in range(50):
                desk.enqueue(f"job{number}", slots("X", 1))

        race.start(produce).answer()
        assert race.desk.engine.count() == {State.WAITING: 51}
        assert has_gates.commit() == "first"
        race.desk.settle("first")
        assert race.desk.claim() == "job0"


class TestOverrideAndClaim:
    def test_a_claim_that_waited_obeys_the_override(self, race):
        race.desk.enqueue("a", slots("X", 1))
        override, claim = race.meet(do.override("X", NONE), do.claim(), at="the gates")

        override.commit()
        assert claim.answer() == ""

    def test_an_override_waits_for_a_claim_and_rules_the_next(self, race):
        race.desk.enqueue("a b", slots("X", 2))
        claim, override = race.meet(do.claim(1), do.override("X", ONE), at="the gates")

        assert claim.commit() == "a"
        override.answer()
        assert race.desk.claim() == ""
        race.desk.settle("a")
        assert race.desk.claim() == "b"

    def test_what_an_override_lets_in_is_called_though_a_claim_looked_just_before(self, race):
        race.desk.enqueue("a b", slots("X", 1))
        claim, override = race.meet(do.claim(), do.override("X", Numbers(slots=2)), at="the gates")

        assert claim.commit() == "a"
        override.answer()
        assert race.desk.claim() == "b"


class TestPromoteAndCancel:
    @pytest.fixture
    def lined_up(self, race):
        """One runs; two who carry different limits wait behind the same gate."""
        race.desk.enqueue("a b", slots("X", 1))
        race.desk.enqueue("c", slots("X", 1), slots("Y", 9))
        race.desk.claim()
        return race

    def test_who_is_cancelled_is_not_called(self, lined_up):
        cancel, settle = lined_up.meet(do.cancel("b"), do.settle("a"), at="the gates")

        assert cancel.commit() is State.CANCELLED
        settle.answer()
        assert lined_up.desk.claim() == "c"

    def test_who_is_cancelled_after_the_call_passes_it_on(self, lined_up):
        settle, cancel = lined_up.meet(do.settle("a"), do.cancel("b"), at="the gates")

        settle.commit()
        assert cancel.answer() is State.CANCELLED
        assert lined_up.desk.claim() == "c"

    def test_who_is_not_cancelled_after_all_is_called(self, lined_up):
        cancel, settle = lined_up.meet(do.cancel("b"), do.settle("a"), at="the gates")

        cancel.roll_back()
        settle.answer()
        assert lined_up.desk.claim() == "b"


class TestRulesAndStarts:
    """A claim of jobs without limits must not overlook a limit or a pause that comes at that moment."""

    RULES = pytest.mark.parametrize(
        ("rule", "lets_one"),
        [(do.configure("queue", "q", ONE), True), (do.configure("type", "task", ONE), True),
         (do.pause("q"), False), (do.set_maintenance(Maintenance(0)), False)],
        ids=["limit of a queue", "limit of a type", "pause", "maintenance"],
    )  # fmt: skip

    @RULES
    def test_a_rule_counts_the_job_that_was_starting(self, race, rule, lets_one):
        race.desk.enqueue("a b")
        claim, begin = race.meet(do.claim(1), rule, at="the starts")

        assert claim.commit() == "a"
        begin.answer()
        assert race.desk.claim() == ""
        race.desk.settle("a")
        assert race.desk.claim() == ("b" if lets_one else "")

    @RULES
    def test_a_claim_waits_for_a_rule_and_obeys_it(self, race, rule, lets_one):
        race.desk.enqueue("a b")
        begin, claim = race.meet(rule, do.claim(2), at="the starts")

        begin.commit()
        assert claim.answer() == ("a" if lets_one else "")

    def test_claims_of_jobs_without_limits_hold_the_starts_together(self, race):
        race.desk.enqueue("a b")
        race.hold(do.claim(1))
        race.hold(do.claim(1))

    def test_a_queue_limit_does_not_count_who_was_ending(self, race):
        race.desk.enqueue("a b")
        race.desk.claim(1)
        settle, configure = race.meet(do.settle("a"), do.configure("queue", "q", ONE), at="a row")

        assert settle.commit() == [True]
        configure.answer()
        assert race.desk.claim() == "b"

    def test_an_attempt_that_got_a_slot_while_it_was_ending_gives_it_back(self, race):
        race.desk.enqueue("a b")
        race.desk.claim(1)
        configure, settle = race.meet(do.configure("queue", "q", ONE), do.settle("a"), at="a row")

        configure.commit()
        assert settle.answer() == [True]
        assert race.desk.claim() == "b"


@FREE_OR_LIMITED
class TestRescue:
    @pytest.fixture
    def late(self, race, limits):
        """An attempt runs whose lease has run out."""
        race.desk.enqueue("a", *limits)
        race.desk.claim()
        race.desk.wait(LEASE + SECOND)
        return race

    def test_an_attempt_that_is_being_settled_is_not_rescued(self, late, limits):
        settle = late.hold(do.settle("a"))
        upkeep = late.start(do.upkeep())
        if limits:
            upkeep.waits_for("the gates")
            settle.commit()
        assert upkeep.answer()["rescued"] == 0

        assert settle.commit() == [True]
        assert late.desk.state("a") is State.DONE

    def test_an_attempt_that_was_just_rescued_is_refused(self, late, limits):
        rescue, settle = late.meet(do.claim(), do.settle("a"), at="a row")

        stale = late.desk.attempts["a"]
        assert rescue.commit() == "a"
        assert settle.answer() == [False]
        assert late.desk.attempts["a"].fence != stale.fence
        assert late.desk.settle("a") == [True]

    def test_a_lease_that_is_being_renewed_does_not_run_out(self, late, limits):
        stale = late.desk.attempts["a"]
        beat = late.hold(do.heartbeat([(stale.seq, stale.fence)]))
        assert late.start(do.upkeep()).answer()["rescued"] == 0

        assert [b.alive for b in beat.commit()] == [True]
        assert late.desk.engine.upkeep()["rescued"] == 0
        assert late.desk.settle("a") == [True]

    def test_a_lease_that_has_just_run_out_is_not_renewed(self, late, limits):
        stale = late.desk.attempts["a"]
        rescue, beat = late.meet(do.upkeep(), do.heartbeat([(stale.seq, stale.fence)]), at="a row")

        assert rescue.commit()["rescued"] == 1
        assert [b.alive for b in beat.answer()] == [False]
        assert late.desk.claim() == "a"


class TestOrder:
    """Transactions take rows in the order of their numbers, so that no two wait for each other."""

    @pytest.fixture
    def many(self, race):
        """A hundred attempts run, and another transaction has the second one for now."""
        race.desk.enqueue(" ".join(f"job{n}" for n in range(100)))
        race.desk.claim(100)
        second = race.desk.attempts["job1"]
        second = race.hold(do.heartbeat([(second.seq, second.fence)]))
        return race, second

    @staticmethod
    def all(desk):
        """Return all the running attempts, in no order."""
        attempts = list(desk.attempts.values())
        random.Random(7).shuffle(attempts)
        return attempts

    def renew(self, desk):
        return [beat.alive for beat in desk.engine.heartbeat([(a.seq, a.fence) for a in self.all(desk)])]

    def settle(self, desk):
        return desk.engine.settle([Settlement(a.seq, a.fence, Done()) for a in self.all(desk)])

    def limit(self, desk):
        desk.engine.configure("queue", "q", Numbers(slots=200))

    def begin(self, desk):
        desk.engine.begun([(a.seq, a.fence, 0) for a in self.all(desk)])

    @pytest.mark.parametrize(
        ("first", "then"),
        [("renew", "settle"), ("settle", "renew"), ("limit", "settle"), ("settle", "limit"),
         ("renew", "limit"), ("begin", "settle"), ("begin", "renew")],
    )  # fmt: skip
    def test_many_are_renewed_settled_and_counted_in_one_order(self, many, monkeypatch, first, then):
        race, second = many
        trouble = []
        bear = PostgresStore._bear

        def noted(self, error, *rest):
            trouble.append(error)
            bear(self, error, *rest)

        monkeypatch.setattr(PostgresStore, "_bear", noted)
        one = race.start(getattr(self, first))
        one.waits_for("a row")  # and has what comes before it, if there is an order
        two = race.start(getattr(self, then))
        two.waits_for("a row")
        second.commit()
        one.answer()
        two.answer()

        assert trouble == []


class TestRetryAndPrune:
    @pytest.fixture
    def ended(self, race):
        race.desk.enqueue("a")
        race.desk.engine.cancel("a")
        race.desk.wait(SECOND)
        return race

    def test_a_job_that_is_being_tried_again_is_not_deleted(self, ended):
        retry = ended.hold(do.retry("a"))

        assert ended.start(do.prune(ended.clock.now())).answer() == 0
        retry.commit()
        assert ended.desk.claim() == "a"

    def test_a_job_that_was_just_deleted_is_not_tried_again(self, ended):
        prune, retry = ended.meet(do.prune(ended.clock.now()), do.retry("a"), at="a row")

        assert prune.commit() == 1
        with pytest.raises(NotFoundError):
            retry.answer()
        assert ended.desk.claim() == ""
        assert ended.desk.engine.jobs() == []

    def test_two_who_delete_take_different_jobs(self, ended):
        one = ended.hold(do.prune(ended.clock.now()))

        assert ended.start(do.prune(ended.clock.now())).answer() == 0
        assert one.commit() == 1


class TestTwoOfTheSame:
    @staticmethod
    def calling(on_duplicate, *limits):
        """Return what enqueues a job with a unique key."""
        unique = Unique("key", on_duplicate=on_duplicate)
        job = NewJob("task", queue="q", limits=limits, unique=unique)
        return lambda desk: desk.engine.enqueue([job])[0]

    def test_the_second_of_a_unique_key_is_the_first(self, race):
        call = self.calling(OnDuplicate.REUSE)
        one, two = race.meet(call, call, at="a name")

        first, second = one.commit(), two.answer()
        assert (second.id, second.reused) == (first.id, True)
        assert race.desk.engine.count() == {State.WAITING: 1}

    def test_the_second_of_a_unique_key_takes_the_place_of_the_first(self, race):
        call = self.calling(OnDuplicate.REPLACE)
        one, two = race.meet(call, call, at="a name")

        first, second = one.commit(), two.answer()
        assert race.desk.state(first.id) is State.CANCELLED
        assert race.desk.claim() == second.id

    def test_a_unique_key_that_was_not_taken_after_all_is_free(self, race):
        call = self.calling(OnDuplicate.REJECT)
        one, two = race.meet(call, call, at="a name")

        one.roll_back()
        assert two.answer().id == race.desk.claim()

    def test_a_transaction_that_waits_for_a_name_does_not_keep_the_gates(self, race):
        race.desk.enqueue("a", slots("X", 1))
        call = self.calling(OnDuplicate.REUSE, *LIMITED)
        with race.gates_taken():
            one = race.hold(call)
        two = race.start(call)
        two.waits_for("a name")

        assert race.start(do.claim()).answer() == "a"
        first, second = one.commit(), two.answer()
        assert (second.id, second.reused) == (first.id, True)

    @FREE_OR_LIMITED
    def test_the_second_of_an_id_is_refused(self, race, limits):
        with race.gates_taken():
            one = race.hold(do.enqueue("a", *limits))
        two = race.start(do.enqueue("a", *limits))
        two.waits_for("a name")

        one.commit()
        with pytest.raises(DuplicateJobError):
            two.answer()
        assert race.desk.claim() == "a"

    def test_an_id_that_was_not_taken_after_all_is_free(self, race):
        one, two = race.meet(do.enqueue("a", priority=1), do.enqueue("a", priority=2), at="a name")

        one.roll_back()
        two.answer()
        assert race.desk.job("a").priority == 2


class TestCancelAndStart:
    def test_a_job_that_has_just_started_is_asked_to_stop(self, race):
        race.desk.enqueue("a")
        claim, cancel = race.meet(do.claim(), do.cancel("a"), at="a row")

        assert claim.commit() == "a"
        assert cancel.answer() is State.RUNNING
        started = race.desk.attempts["a"]
        assert race.desk.engine.heartbeat([(started.seq, started.fence)])[0].cancel_asked

    def test_a_job_that_did_not_start_after_all_is_cancelled(self, race):
        race.desk.enqueue("a")
        claim, cancel = race.meet(do.claim(), do.cancel("a"), at="a row")

        claim.roll_back()
        assert cancel.answer() is State.CANCELLED
        assert race.desk.claim() == ""

    def test_a_job_that_is_being_cancelled_is_passed_over(self, race):
        race.desk.enqueue("a b")
        cancel = race.hold(do.cancel("a"))

        assert race.start(do.claim()).answer() == "b"
        assert cancel.commit() is State.CANCELLED

    def test_a_job_that_is_not_cancelled_after_all_is_still_there(self, race):
        race.desk.enqueue("a")
        cancel = race.hold(do.cancel("a"))

        assert race.start(do.claim()).answer() == ""
        cancel.roll_back()
        assert race.desk.claim() == "a"

    def test_a_job_that_is_just_becoming_due_is_passed_over(self, race):
        race.desk.enqueue("a b", due=race.clock.now() + SECOND)
        race.desk.wait(2 * SECOND)
        one = race.hold(do.claim(1))

        assert race.start(do.claim()).answer() == ""
        assert one.commit() == "a"
        assert race.desk.claim() == "b"

    @FREE_OR_LIMITED
    def test_a_claim_that_a_due_job_is_hidden_from_is_to_look_again_at_once(self, race, limits):
        race.desk.enqueue("a", *limits, due=race.clock.now() + SECOND)
        race.desk.wait(2 * SECOND)
        upkeep = race.hold(do.upkeep())
        claim = race.start(lambda desk: desk.engine.claim(["q"], 1, worker="worker")).answer()

        assert (claim.jobs, claim.next_at) == ([], AT_ONCE)
        upkeep.commit()
        claim = race.start(lambda desk: desk.engine.claim(["q"], 1, worker="worker")).answer()
        assert [job.id for job in claim.jobs] == ["a"]
        assert claim.next_at != AT_ONCE

    def test_a_rescued_job_that_is_hidden_from_a_claim_is_to_be_looked_for_at_once(self, race):
        race.desk.enqueue("a")
        race.desk.claim()
        race.desk.wait(LEASE)
        upkeep = race.hold(do.upkeep())

        assert race.start(_next_at).answer() == AT_ONCE
        upkeep.commit()
        assert race.desk.claim() == "a"

    def test_an_expiry_that_stays_due_while_its_job_runs_is_not_looked_for_again_and_again(self, race):
        race.desk.enqueue("a", expires=race.clock.now() + SECOND)
        race.desk.claim()
        race.desk.wait(2 * SECOND)

        assert race.start(_next_at).answer() > race.clock.now()

    @FREE_OR_LIMITED
    @pytest.mark.parametrize("wait", [0.0, 5.0], ids=["at once", "waiting"])
    def test_a_fetch_gets_a_job_that_is_just_becoming_due(self, race, limits, wait, monkeypatch):
        monkeypatch.setattr(engine_service, "IN_FLIGHT", 4 * SECOND)  # the machine may be busy
        race.desk.enqueue("a", *limits, due=race.clock.now() + SECOND)
        race.desk.wait(2 * SECOND)
        upkeep = race.hold(do.upkeep())
        looked = threading.Event()
        fetch = race.start(_fetch(looked, wait))
        assert looked.wait(PATIENCE)

        upkeep.commit()
        assert fetch.answer() == ["a"]

    def test_a_fetch_does_not_wait_long_for_a_transaction_that_does_not_end(self, race):
        race.desk.enqueue("a", due=race.clock.now() + SECOND)
        race.desk.wait(2 * SECOND)
        upkeep = race.hold(do.upkeep())

        assert race.start(_fetch(threading.Event(), 0.0)).answer() == []
        upkeep.commit()

    def test_a_job_that_has_just_become_due_is_asked_to_stop(self, race):
        race.desk.enqueue("a", due=race.clock.now() + SECOND)
        race.desk.wait(2 * SECOND)
        claim, cancel = race.meet(do.claim(), do.cancel("a"), at="a row")

        assert claim.commit() == "a"
        assert cancel.answer() is State.RUNNING


class TestReschedule:
    def test_a_job_at_the_door_is_let_in_to_see_whether_it_is_rescheduled(self, race):
        limit = slots("X", 1, "reschedule")
        race.desk.enqueue("a", limit)
        race.desk.claim()
        with race.gates_taken():
            race.start(do.enqueue("b", limit)).answer()
            assert race.desk.state("b") is State.WAITING
            look = race.start(do.standing(["b"]))
            look.waits_for("the gates")

        (view,) = look.answer()
        assert (view.id, view.state, view.rescheduled) == ("b", State.SCHEDULED, True)


class TestTenants:
    """Counting the jobs of a tenant and adding to them are one decision."""

    def limit(self, race, **limits):
        race.desk.engine.set_tenant_limits("acme", TenantLimits(**limits))

    @pytest.mark.parametrize(
        ("limits", "limit"), [({"waiting": 1}, "waiting"), ({"rate": Window(1, 60 * SECOND)}, "rate")]
    )
    def test_a_producer_waits_for_the_other_and_is_refused(self, race, limits, limit):
        self.limit(race, **limits)
        first, second = race.meet(do.enqueue("a", tenant="acme"), do.enqueue("b", tenant="acme"), at="a name")

        first.commit()
        with pytest.raises(TenantLimitError) as error:
            second.answer()
        assert (limit, 1, 1) == (error.value.limit, error.value.current, error.value.maximum)
        assert "a" == race.desk.claim()

    @pytest.mark.parametrize("limits", [{"waiting": 1}, {"rate": Window(1, 60 * SECOND)}])
    def test_what_was_rolled_back_took_no_room(self, race, limits):
        self.limit(race, **limits)
        first, second = race.meet(do.enqueue("a", tenant="acme"), do.enqueue("b", tenant="acme"), at="a name")

        first.roll_back()
        second.answer()
        assert "b" == race.desk.claim()

    def test_a_rate_counts_what_came_in_a_transaction_of_the_callers_own(self, race):
        self.limit(race, rate=Window(1, 60 * SECOND))
        with psycopg.connect(split_schema(race.url)[0]) as connection:
            race.desk.engine.enqueue([NewJob("t", queue="q", tenant="acme")], connection=connection)
            second = race.start(do.enqueue("b", tenant="acme"))
            second.waits_for("a name")
            connection.rollback()
        second.answer()
        assert "b" == race.desk.claim()

    def test_no_claim_waits_for_a_producer_though_a_schedule_of_its_tenant_is_due(self, race):
        self.limit(race, waiting=9)
        engine = race.desk.engine
        engine.set_schedule(Schedule("s", "* * * * *", NewJob("t", queue="q", tenant="acme"), tenant="acme"))
        race.desk.enqueue("a", queue="other")
        race.desk.wait(61 * SECOND)
        with psycopg.connect(split_schema(race.url)[0]) as connection:
            engine.enqueue([NewJob("t", queue="q", tenant="acme")], connection=connection)
            assert "a" == race.start(do.claim(queues=["other"])).answer()
            connection.rollback()
        race.desk.wait(SECOND)

        assert ["acme"] == [job.tenant for job in engine.claim(["q"], 9, worker="w").jobs]

    def test_another_tenant_waits_for_nobody(self, race):
        self.limit(race, waiting=1)
        race.hold(do.enqueue("a", tenant="acme"))

        race.start(do.enqueue("b", tenant="globex")).answer()
        race.start(do.enqueue("c")).answer()
