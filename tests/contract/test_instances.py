"""Instances: slots from admission to end, steps in the transactions that end others, and something that moves each."""

import pytest

from penstock.clock import SECOND
from penstock.errors import InvalidError, InvalidJobError, NotFoundError
from penstock.job import (
    Await,
    Finish,
    InstanceState,
    NewInstance,
    NewJob,
    Note,
    Settlement,
    Start,
    TenantLimits,
    Timer,
)
from penstock.lifecycle.outcomes import Conducted, Done, Failed
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from tests.support.desk import LEASE, rate, slots
from tests.support.runs import PASSES, Runs, body, job, steps

NO = Failed("ValueError", "no")
THRICE = RetryPolicy(attempts=3, backoff=Backoff.FIXED, delay=SECOND, jitter=False)
ONE = slots("contact", 1)


class TestPlainPath:
    def test_steps_run_one_after_the_other(self, runs):
        assert runs.create("x") == "running"
        runs.run("a")
        runs.run("b")

        assert runs.state("x") == "done"
        assert runs.result("x") == {"a": "a!", "b": "b!"}
        assert runs.memo("x") == {"a": "done", "b": "done"}

    def test_a_step_belongs_to_the_tenant_of_its_instance_and_stands_in_its_queue(self, runs):
        runs.create("x", tenant="acme", priority=7, meta='{"trace":"1"}')
        (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
        commands = (Start("a", NewJob("a", queue="")),)
        runs.engine.settle([Settlement(attempt.seq, attempt.fence, Conducted(commands))])

        (claimed,) = runs.engine.claim([PASSES], 5, worker="w", tenant="acme").jobs
        assert ("a", "acme", '{"trace":"1"}') == (claimed.task, claimed.tenant, claimed.meta)
        assert runs.engine.job(claimed.id, "acme").priority == 7

    def test_what_a_failed_step_said_is_remembered(self, runs):
        runs.create("x")
        runs.run("a", NO)

        view = runs.engine.instance("x")
        assert view.state is InstanceState.FAILED
        assert view.error["kind"] == "ValueError"
        assert view.steps[0].error["message"] == "no"

    def test_a_note_is_remembered_at_once(self, runs):
        runs.bodies["wf"] = lambda memo: (
            [Finish(State.DONE, memo.entries[0].result)]
            if memo.entries
            else [Note("n", "5"), Timer("t", after=1)]
        )
        runs.create("x")
        runs.conduct()

        assert runs.memo("x") == {"n": "done", "t": "live"}
        assert runs.passes == 1

    def test_a_step_that_could_never_run_fails_alone(self, runs):
        runs.bodies["wf"] = body([Start("a", job("")), Start("b", job("b", id="mine")), Start("c", job("c"))])
        runs.create("x")
        runs.conduct()

        assert runs.memo("x") == {"a": "failed", "b": "failed", "c": "live"}
        runs.run("c")
        assert runs.state("x") == "failed"

    def test_a_task_of_that_name_is_no_workflow(self, runs):
        runs.create("x")
        (claimed,) = runs.engine.claim([PASSES], 1, worker="w").jobs
        runs.engine.settle([Settlement(claimed.seq, claimed.fence, Done("1"))])

        assert runs.engine.instance("x").error["kind"] == "NotAWorkflow"

    def test_commands_of_a_job_that_is_no_pass_do_nothing(self, runs):
        runs.engine.enqueue([job("plain", id="p")])
        (claimed,) = runs.engine.claim(["q"], 1, worker="w").jobs
        outcome = Conducted((Finish(State.FAILED),))

        assert runs.engine.settle([Settlement(claimed.seq, claimed.fence, outcome)]) == [True]
        assert runs.engine.job("p").state is State.DONE

    def test_a_scheduled_one_is_admitted_when_it_is_due(self, runs, clock):
        assert runs.create("x", due=clock.now() + 5 * SECOND) == "scheduled"
        runs.conduct()
        assert runs.passes == 0

        clock.advance(5 * SECOND)
        runs.run("a")
        assert runs.memo("x") == {"a": "done", "b": "live"}

    def test_one_that_is_not_admitted_in_time_expires_and_one_that_is_does_not(self, runs, clock):
        runs.create("x y", ONE, expires=clock.now() + SECOND)
        clock.advance(SECOND)
        runs.conduct()

        assert runs.states("x y") == "running expired"
        assert runs.engine.claim(["nothing"], 1, worker="w").next_at is None

    def test_no_worker_can_settle_renew_or_report_on_an_instance(self, runs):
        limits = (ONE, rate("r", 1, 60 * SECOND))
        runs.create("x", *limits)
        runs.create("y", *limits)
        asked = "SELECT seq, fence FROM running WHERE queue = ''"
        ((seq, fence),) = runs.engine.store.read(lambda db: db.all(asked))

        assert runs.engine.settle([Settlement(seq, fence, Done())]) == [False]
        assert not runs.engine.heartbeat([(seq, fence)])[0].alive
        assert runs.engine.attempts(["x"]) == []
        assert not runs.engine.progress(seq, fence, "1")
        assert runs.engine.spend([(seq, fence, {"r": 0})]) == [False]
        runs.engine.cancel_instance("x")
        assert runs.states("x y") == "cancelled deferred"

    def test_what_cannot_run_is_refused_and_nothing_is_stored(self, runs):
        for bad in (
            NewInstance(""),
            NewInstance("wf", queue=""),
            NewInstance("wf", args="[]"),
            NewInstance("wf", meta="no"),
            NewInstance("wf", unique=Unique("k", on_duplicate=OnDuplicate.REPLACE)),
        ):
            with pytest.raises(InvalidJobError):
                runs.engine.create_instances([NewInstance("wf", id="good"), bad])
        with pytest.raises(NotFoundError):
            runs.engine.create_instances([NewInstance("s", sequence=99, args="{}")])

        assert runs.engine.instances() == ([], 0)

    def test_no_claim_may_ask_for_instances(self, runs):
        runs.create("x y", ONE)

        with pytest.raises(InvalidError):
            runs.engine.claim([""], 1, worker="w")


class TestSlots:
    def test_the_second_of_a_key_is_deferred_and_says_why(self, runs):
        assert runs.create("x y z", ONE) == "running deferred deferred"

        why = runs.engine.why("z")
        assert why.place == 1
        assert "contact: 1 running of 1 at once" in why.sentence

    def test_the_next_is_handed_the_slot_in_the_transaction_of_the_last_step(self, runs):
        runs.create("x y", ONE)
        runs.run("a")
        runs.claim()
        runs.settle("b")
        (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
        finish = Conducted(tuple(runs.bodies["wf"](runs.engine.memo("x"))))
        revisions = []
        runs.engine.listen(lambda event: revisions.append(event.name))
        runs.engine.settle([Settlement(attempt.seq, attempt.fence, finish)])

        assert runs.states("x y") == "done running"
        assert revisions.index("instance.done") < revisions.index("instance.started")
        assert runs.engine.gate("contact").running == 1

    @pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
    def test_the_next_follows_however_the_first_ends(self, runs, how):
        runs.create("x y", ONE)
        runs.conduct()
        runs.claim()
        if how == "cancelled":
            runs.engine.cancel_instance("x")
            runs.settle("a", NO)
        else:
            runs.settle("a", None if how == "done" else NO)
            runs.conduct()
        if how == "done":
            runs.claim()
            runs.settle("b")
            runs.conduct()

        assert runs.states("x y") == f"{how} running"

    def test_slots_stay_taken_while_it_sleeps_waits_pauses_and_its_worker_is_lost(self, runs, clock):
        runs.bodies["wf"] = body(
            Timer("t", after=60 * SECOND),
            Await("s", "go"),
            Start("a", job("a", limits=(rate("r", 1, 60 * SECOND),))),
        )
        runs.engine.enqueue([job("first", limits=(rate("r", 1, 60 * SECOND),))])
        runs.create("x y", ONE)
        runs.conduct()

        def taken():
            return runs.engine.gate("contact").running, runs.state("y")

        assert taken() == (1, "deferred")

        clock.advance(60 * SECOND)
        runs.conduct()
        assert taken() == (1, "deferred")
        runs.engine.pause_instance("x")
        runs.engine.upkeep()
        assert taken() == (1, "deferred")
        runs.engine.resume_instance("x")
        runs.engine.signal("x", "go")
        assert runs.claim() == "first"
        runs.settle("first")
        runs.conduct()
        assert runs.claim() == ""
        assert taken() == (1, "deferred")
        clock.advance(61 * SECOND)
        assert "a" in runs.claim()
        clock.advance(LEASE)
        runs.engine.upkeep()
        assert taken() == (1, "deferred")

    def test_a_job_and_an_instance_share_the_slots_of_a_key(self, runs):
        runs.engine.enqueue([job("plain", limits=(ONE,))])
        assert runs.claim() == "plain"
        assert runs.create("x", ONE) == "deferred"
        runs.settle("plain")

        assert runs.state("x") == "running"

    def test_two_limits_are_taken_together_or_not_at_all(self, runs):
        assert runs.create("x", slots("p", 1)) == "running"
        assert runs.create("y", slots("q", 1), slots("p", 1)) == "deferred"
        assert runs.create("z", slots("q", 1)) == "running"

    def test_a_dropped_one_is_discarded(self, runs):
        assert runs.create("x y", slots("k", 1, "drop")) == "running discarded"

    def test_raising_a_limit_admits_at_once(self, runs):
        runs.engine.configure("key", "contact", ONE.numbers)
        runs.create("x y z", ONE)
        runs.engine.configure("key", "contact", slots("contact", 3).numbers)

        assert runs.states("x y z") == "running running running"

    def test_the_clock_admits_what_a_rate_keeps(self, runs, clock):
        assert runs.create("x y", rate("r", 1, 10 * SECOND)) == "running deferred"
        clock.advance(10 * SECOND)
        runs.conduct()

        assert runs.states("x y") == "running running"

    def test_more_than_a_transaction_admits_are_left_to_the_next(self, runs):
        names = " ".join(f"i{n}" for n in range(300))
        runs.engine.configure("key", "k", slots("k", 0).numbers)
        runs.create(names, slots("k", 1))
        runs.engine.configure("key", "k", slots("k", 400).numbers)
        admitted = runs.states(names).split().count("running")
        assert 0 < admitted < 300

        claim = runs.engine.claim(["nothing"], 1, worker="w")
        assert runs.states(names).split().count("running") > admitted
        assert claim.next_at == 0
        runs.engine.upkeep()
        assert set(runs.states(names).split()) == {"running"}

    def test_every_attempt_at_a_step_is_counted_when_it_begins(self, runs, clock):
        runs.bodies["wf"] = steps("a", limits=(rate("r", 2, 60 * SECOND),), retry=THRICE)
        runs.create("x")
        runs.conduct()
        for _ in range(2):
            assert runs.claim() == "a"
            runs.settle("a", NO)
            clock.advance(SECOND)
        assert runs.claim() == ""

        clock.advance(60 * SECOND)
        assert runs.claim() == "a"

    def test_another_process_hands_the_slot_on(self, runs, opened):
        runs.bodies["wf"] = steps("a")
        runs.create("x y", ONE)
        runs.conduct()
        runs.claim()
        there = Runs(opened(), **runs.bodies)
        there.attempts = runs.attempts
        there.settle("a")
        there.conduct()

        assert runs.states("x y") == "done running"

    def test_a_tenant_with_one_slot_does_not_wait_for_itself(self, runs):
        runs.engine.set_tenant_limits("acme", TenantLimits(slots=1))
        runs.create("x", tenant="acme")
        runs.conduct()

        assert runs.claim() == "a"
