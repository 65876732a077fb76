"""Instances in an operator's hands: cancelled, paused, retried, restarted, listed, pruned and examined."""

import json
from collections import Counter

import pytest

from penstock.clock import SECOND
from penstock.errors import NotFoundError, WrongStateError
from penstock.job import (
    Await,
    Child,
    Finish,
    InstanceState,
    JobFilter,
    NewInstance,
    NewJob,
    Restart,
    Settlement,
    Start,
    Timer,
)
from penstock.lifecycle.outcomes import Conducted, Failed
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from tests.support.desk import LEASE, rate, slots
from tests.support.runs import PASSES, Runs, body, job, steps
from tests.support.sequences import sequence, step

NO = Failed("ValueError", "no")
TWICE = RetryPolicy(attempts=2, backoff=Backoff.FIXED, delay=SECOND, jitter=False)
ONE = slots("contact", 1)
DAY = 24 * 3_600 * SECOND


class TestCancel:
    def test_one_that_waits_is_cancelled_at_once_and_passes_its_place_on(self, runs, clock):
        runs.create("x y z", ONE)
        runs.create("later", due=clock.now() + SECOND)

        assert runs.engine.cancel_instance("y", "no more").state is InstanceState.CANCELLED
        assert runs.engine.cancel_instance("later").state is InstanceState.CANCELLED
        assert runs.engine.instance("y").reason == "no more"
        runs.engine.cancel_instance("x")
        assert runs.states("x y z") == "cancelled cancelled running"

    def test_steps_that_wait_are_removed_and_it_ends_at_once(self, runs):
        runs.bodies["wf"] = body([Start("a", job("a")), Timer("t", after=DAY), Await("s", "go")])
        runs.create("x y", ONE)
        runs.conduct()
        view = runs.engine.cancel_instance("x")

        assert view.state is InstanceState.CANCELLED
        assert set(runs.memo("x").values()) == {"cancelled"}
        assert runs.state("y") == "running"
        runs.conduct()
        assert runs.claim() == "a"

    def test_a_step_that_runs_is_asked_to_stop_and_keeps_the_slots_until_it_has(self, runs):
        runs.create("x y", ONE)
        runs.conduct()
        runs.claim()
        assert runs.engine.cancel_instance("x").reason == "ends as cancelled when its steps have ended"
        assert runs.engine.heartbeat([(a.seq, a.fence) for a in runs.attempts.values()])[0].cancel_asked
        assert runs.states("x y") == "running deferred"

        runs.settle("a")
        assert runs.states("x y") == "cancelled running"
        assert runs.memo("x") == {"a": "done"}

    def test_a_step_whose_worker_is_lost_ends_it_too(self, runs, clock):
        runs.create("x y", ONE)
        runs.conduct()
        runs.claim()
        runs.engine.cancel_instance("x")
        clock.advance(LEASE)
        runs.engine.upkeep()

        assert runs.states("x y") == "cancelled running"

    def test_a_pass_under_way_says_nothing_any_more(self, runs):
        runs.create("x")
        (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
        runs.engine.cancel_instance("x")
        outcome = Conducted((Start("a", job("a")), Finish(State.DONE)))
        runs.engine.settle([Settlement(attempt.seq, attempt.fence, outcome)])

        assert runs.state("x") == "cancelled"
        assert runs.claim() == ""

    def test_what_has_ended_cannot_be_cancelled_and_twice_is_once(self, runs):
        runs.create("x")
        runs.conduct()
        runs.claim()
        runs.engine.cancel_instance("x")
        runs.engine.cancel_instance("x")
        runs.settle("a")

        with pytest.raises(WrongStateError):
            runs.engine.cancel_instance("x")
        with pytest.raises(NotFoundError):
            runs.engine.cancel_instance("nothing")

    def test_the_job_of_a_step_that_is_cancelled_by_hand_ends_its_step(self, runs):
        runs.create("x")
        runs.conduct()
        runs.engine.cancel(runs.engine.instance("x").steps[0].job_id)
        runs.conduct()

        assert runs.memo("x") == {"a": "cancelled"}
        assert runs.state("x") == "failed"


class TestPause:
    def test_steps_that_wait_are_frozen_those_that_run_go_on_and_slots_stay(self, runs):
        runs.bodies["wf"] = steps("a+b c")
        runs.create("x y", ONE)
        runs.conduct()
        assert runs.claim(1) == "a"
        runs.engine.pause_instance("x")
        runs.engine.pause_instance("x")
        assert runs.states("x y") == "paused deferred"
        assert runs.claim() == ""
        runs.settle("a")
        runs.conduct()
        assert runs.memo("x") == {"a": "done", "b": "live"}

        runs.engine.resume_instance("x")
        runs.run("b")
        assert runs.claim() == "c"
        assert runs.states("x y") == "running deferred"

    def test_a_job_that_is_expedited_meanwhile_begins_when_the_pause_ends(self, runs, clock):
        runs.bodies["wf"] = steps("a", retry=TWICE)
        runs.create("x")
        runs.conduct()
        runs.claim()
        runs.engine.pause_instance("x")
        runs.settle("a", NO)
        assert runs.engine.expedite(runs.attempts["a"].id) is State.SCHEDULED
        assert runs.claim() == ""

        runs.engine.resume_instance("x")
        assert runs.claim() == "a"

    def test_a_frozen_job_is_scheduled_for_no_moment(self, runs):
        runs.create("x")
        runs.engine.pause_instance("x")
        (frozen,) = runs.engine.jobs()
        why = runs.engine.why(frozen.id)

        assert (frozen.state, frozen.due, why.earliest) == (State.SCHEDULED, None, None)
        assert why.sentence == "is put off: its instance is paused"

    def test_a_retry_of_a_step_waits_for_the_end_of_the_pause_and_for_its_time(self, runs, clock):
        runs.bodies["wf"] = steps("a", retry=TWICE)
        runs.create("x")
        runs.conduct()
        runs.claim()
        runs.engine.pause_instance("x")
        runs.settle("a", NO)
        clock.advance(10 * SECOND)
        assert runs.claim() == ""

        runs.engine.resume_instance("x")
        assert runs.claim() == "a"

    def test_a_retry_that_is_not_due_when_the_pause_ends_keeps_its_time(self, runs, clock):
        runs.bodies["wf"] = steps("a", retry=TWICE)
        runs.create("x")
        runs.conduct()
        runs.claim()
        runs.settle("a", NO)
        runs.engine.pause_instance("x")
        runs.engine.resume_instance("x")
        assert runs.claim() == ""

        clock.advance(SECOND)
        assert runs.claim() == "a"

    @pytest.mark.parametrize("limits", [(), (slots("k", 1),), (rate("k", 1),)])
    def test_timers_and_signals_go_on_but_nothing_begins(self, runs, clock, limits):
        runs.bodies["wf"] = body(
            Timer("t", after=SECOND), Await("s", "go"), Start("a", job("a", limits=limits))
        )
        runs.create("x")
        runs.conduct()
        runs.engine.pause_instance("x")
        clock.advance(SECOND)
        runs.engine.signal("x", "go")
        runs.conduct()
        assert runs.memo("x") == {"t": "done"}

        runs.engine.resume_instance("x")
        runs.conduct()
        assert runs.claim() == "a"

    def test_the_first_in_line_that_is_frozen_lets_the_next_by(self, runs):
        runs.bodies["wf"] = steps("a", limits=(slots("k", 1),))
        runs.engine.configure("key", "k", slots("k", 0).numbers)
        runs.create("x")
        runs.conduct()
        runs.engine.enqueue([job("other", limits=(slots("k", 1),))])
        runs.engine.pause_instance("x")
        runs.engine.configure("key", "k", slots("k", 1).numbers)

        assert runs.claim() == "other"
        runs.engine.cancel_instance("x")

    def test_children_pause_with_it(self, runs):
        runs.bodies["wf"] = body(Child("kid", NewInstance("other", queue=PASSES, id="kid")))
        runs.create("x")
        runs.conduct()
        runs.engine.pause_instance("x")
        assert runs.states("x kid") == "paused paused"
        assert runs.claim() == ""

        runs.engine.resume_instance("x")
        assert runs.claim() == "c"

    def test_a_child_that_begins_meanwhile_is_paused_too(self, runs, clock):
        number = runs.engine.put_sequence("low", json.dumps(sequence(step("c", "c")))).number
        runs.bodies["wf"] = body(Child("kid", NewInstance("low", "{}", "kid", number, queue="q")))
        runs.create("x")
        (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
        runs.engine.pause_instance("x")
        commands = tuple(runs.bodies["wf"](runs.engine.memo("x")))
        runs.engine.settle([Settlement(attempt.seq, attempt.fence, Conducted(commands))])
        assert runs.states("x kid") == "paused paused"
        assert runs.claim() == ""

        runs.engine.resume_instance("x")
        assert runs.states("x kid") == "running running"
        assert runs.claim() == "c"

    def test_one_that_waits_for_its_slots_is_admitted_and_begins_nothing(self, runs):
        runs.create("x y", ONE)
        runs.engine.pause_instance("y")
        runs.engine.cancel_instance("x")
        runs.conduct()
        assert runs.state("y") == "paused"
        assert runs.passes == 0
        assert runs.engine.gate("contact").running == 1

        runs.engine.resume_instance("y")
        with pytest.raises(WrongStateError):
            runs.engine.resume_instance("y")
        runs.run("a")

    def test_a_paused_one_can_be_cancelled(self, runs):
        runs.create("x")
        runs.conduct()
        runs.engine.pause_instance("x")

        assert runs.engine.cancel_instance("x").state is InstanceState.CANCELLED


class TestRetry:
    def test_it_goes_on_from_the_step_that_failed(self, runs):
        runs.create("x y", ONE)
        runs.run("a")
        runs.run("b", NO)
        assert runs.states("x y") == "failed running"
        runs.engine.retry_instance("x")
        assert runs.states("x y") == "deferred running"

        runs.engine.cancel_instance("y")
        runs.run("b")
        assert runs.state("x") == "done"
        assert runs.result("x") == {"a": "a!", "b": "b!"}

    def test_it_forgets_what_its_end_cancelled(self, runs):
        runs.bodies["wf"] = lambda memo: (
            [Finish(State.FAILED)]
            if any(entry.state == "failed" for entry in memo.entries)
            else steps("a+b+c")(memo)
        )
        runs.create("x")
        runs.conduct()
        assert runs.claim(2) == "a b"
        runs.settle("a")
        runs.settle("b", NO)
        runs.conduct()
        assert runs.memo("x") == {"a": "done", "b": "failed", "c": "cancelled"}

        runs.engine.retry_instance("x")
        runs.run("b c")
        assert runs.state("x") == "done"

    def test_only_what_ended_badly_can_be_retried_and_it_takes_its_key_again(self, runs):
        runs.create("x", unique=Unique("k"))
        with pytest.raises(WrongStateError):
            runs.engine.retry_instance("x")
        runs.engine.cancel_instance("x")
        runs.engine.retry_instance("x")

        (again,) = runs.engine.create_instances([NewInstance("wf", unique=Unique("k"))])
        assert (again.id, again.reused, again.state) == ("x", True, "running")


class TestRestart:
    def test_it_begins_with_an_empty_memo_other_arguments_and_the_same_slots(self, runs):
        def restarting(memo):
            if "again" in memo.args:
                return steps("b")(memo)
            return [Restart('{"args":["again"],"kwargs":{}}')] if any(
                entry.state == "done" for entry in memo.entries
            ) else steps("a+b")(memo)  # fmt: skip

        runs.bodies["wf"] = restarting
        runs.create("x y", ONE)
        runs.conduct()
        runs.claim()
        old = runs.attempts["b"]
        runs.settle("a")
        runs.conduct()
        assert runs.memo("x") == {"b": "live"}
        assert runs.engine.job(old.id).cancel_asked
        runs.engine.settle([Settlement(old.seq, old.fence, NO)])
        assert runs.memo("x") == {"b": "live"}

        runs.run("b")
        assert runs.states("x y") == "done running"
        assert "again" in runs.engine.instance("x").args

    def test_slots_stay_until_what_ran_before_has_ended(self, runs):
        runs.bodies["wf"] = lambda memo: (
            [Finish(State.DONE)]
            if "again" in memo.args
            else [Restart('{"args":["again"]}')]
            if any(entry.state == "done" for entry in memo.entries)
            else steps("a+b")(memo)
        )
        runs.create("x y", ONE)
        runs.conduct()
        runs.claim()
        runs.settle("a")
        runs.conduct()
        assert runs.states("x y") == "running deferred"

        runs.settle("b")
        assert runs.states("x y") == "done running"


class TestUnique:
    def test_a_key_stands_for_one_instance_and_not_for_a_job(self, runs):
        runs.engine.enqueue([NewJob("t", queue="q", id="job", unique=Unique("k"))])
        new = NewInstance("wf", id="x", queue=PASSES, unique=Unique("k", window=DAY))
        (first,), (second,) = runs.engine.create_instances([new]), runs.engine.create_instances(
            [NewInstance("wf", unique=Unique("k"))]
        )  # fmt: skip

        assert (first.id, first.reused) == ("x", False)
        assert (second.id, second.reused) == ("x", True)
        assert runs.engine.instances()[1] == 1

    def test_a_window_holds_whatever_became_of_the_first(self, runs, clock):
        new = NewInstance("wf", unique=Unique("k", window=DAY))
        (first,) = runs.engine.create_instances([new])
        runs.engine.cancel_instance(first.id)
        (second,) = runs.engine.create_instances([new])
        assert (second.id, second.state) == (first.id, "cancelled")

        clock.advance(DAY)
        assert not runs.engine.create_instances([new])[0].reused


class TestViews:
    def test_lists_and_counts_of_jobs_show_no_instances(self, runs, clock):
        runs.create("x y z", ONE)
        runs.create("later", due=clock.now() + SECOND, tenant="acme")
        runs.create("ended")
        runs.engine.cancel_instance("ended")
        runs.conduct()
        engine = runs.engine

        jobs = {State.WAITING: 1, State.DONE: 1, State.CANCELLED: 1}
        assert engine.count() == jobs
        assert engine.count(queue=PASSES) == {State.DONE: 1, State.CANCELLED: 1}
        assert {view.task for view in engine.jobs()} == {"wf", "a"}
        assert engine.search(JobFilter())[1] == 3
        assert engine.matching(JobFilter(states=frozenset({"running", "waiting"})), 10)[1] == 1
        assert [queue["name"] for queue in engine.queues()] == ["q"]
        for verb in (engine.job, engine.cancel, engine.retry, engine.forget, engine.expedite):
            with pytest.raises(NotFoundError):
                verb("x")

    def test_they_are_listed_by_what_they_are(self, runs):
        runs.create("x y", ONE)
        runs.create("z", workflow="other", tenant="acme")
        runs.engine.cancel_instance("x")
        engine = runs.engine

        assert [view.id for view in engine.instances()[0]] == ["z", "y", "x"]
        assert [view.id for view in engine.instances("acme")[0]] == ["z"]
        assert engine.instances(workflow="wf", offset=1)[0][0].id == "x"
        assert engine.instances(state=InstanceState.RUNNING)[1] == 2
        assert engine.instances(state=InstanceState.CANCELLED)[0][0].id == "x"
        assert engine.instances(state=InstanceState.DEFERRED) == ([], 0)

    def test_a_paused_one_is_listed_as_paused_only(self, runs, clock):
        runs.create("x y", ONE)
        runs.create("z", due=clock.now() + SECOND)
        for id_ in "xyz":
            runs.engine.pause_instance(id_)

        listed = {state: runs.engine.instances(state=state)[1] for state in InstanceState}
        assert {state: count for state, count in listed.items() if count} == {InstanceState.PAUSED: 3}

    def test_a_running_one_says_what_it_waits_for(self, runs, clock):
        runs.bodies["wf"] = body(
            [Start("a", job("a")), Timer("t", after=SECOND), Await("s", "go", after=DAY)]
        )
        runs.create("x")
        assert runs.engine.why("x").sentence == "is running; waits for a worker to go over its memo"
        runs.conduct()

        why = runs.engine.why("x")
        assert why.earliest == clock.now() + SECOND
        for words in ("step 'a' waits for job ", "step 't' sleeps for 1s", "the signal 'go', at most for 1d"):
            assert words in why.sentence

    def test_events_tell_of_instances_and_not_of_their_jobs(self, runs):
        heard = []
        runs.engine.listen(lambda event: heard.append((event.name, event.facts)))
        runs.create("x y", ONE)
        runs.run("a")
        runs.run("b")

        told = [(name, facts["instance"]) for name, facts in heard if name.startswith("instance.")]
        assert told == [("instance.created", "x"), ("instance.created", "y"), ("instance.started", "x"),
                        ("instance.done", "x"), ("instance.started", "y")]  # fmt: skip
        assert {facts["queue"] for name, facts in heard if name.startswith("job.")} == {"q", PASSES}


class TestGauges:
    def test_instances_that_have_not_ended_are_counted_by_workflow_and_state(self, runs, clock):
        runs.bodies["other"] = steps("c")
        runs.create("x y z", ONE)
        runs.create("later", due=clock.now() + SECOND)
        runs.create("soon", ONE, due=clock.now() + SECOND // 2)
        runs.create("v w", workflow="other")
        runs.engine.pause_instance("w")
        runs.engine.pause_instance("z")
        runs.engine.enqueue([job("a"), job("a", due=clock.now() + DAY)])
        live = {("wf", "running"): 1, ("wf", "deferred"): 1, ("wf", "scheduled"): 2, ("wf", "paused"): 1,
                ("other", "running"): 1, ("other", "paused"): 1}  # fmt: skip
        assert self.counted(runs) == live

        clock.advance(SECOND // 2)
        runs.engine.cancel_instance("x")
        runs.engine.cancel_instance("v")
        del live["other", "running"]
        assert self.counted(runs) == live | {("wf", "deferred"): 1, ("wf", "scheduled"): 1}

    @staticmethod
    def counted(runs):
        gauges = runs.engine.gauges(10)
        assert gauges.stuck == 0
        counted = {(workflow, state): count for workflow, state, count in gauges.instances}
        ended = (InstanceState.DONE, InstanceState.FAILED, InstanceState.CANCELLED)
        shown = [view for view in runs.engine.instances()[0] if view.state not in ended]
        assert Counter((view.workflow, view.state.value) for view in shown) == counted
        return counted


class TestUpkeep:
    def test_prune_spares_what_a_live_instance_needs_and_takes_the_memo_of_an_ended_one(self, runs, clock):
        runs.bodies["wf"] = body(Start("a", job("a")), Timer("t", after=30 * DAY), Start("b", job("b")))
        runs.create("x")
        runs.run("a")
        clock.advance(20 * DAY)
        runs.engine.prune(clock.now() - DAY)
        assert runs.engine.instance("x").steps[0].result == '"a!"'
        clock.advance(20 * DAY)
        runs.run("b")
        assert runs.result("x")["a"] == "a!"

        clock.advance(20 * DAY)
        runs.engine.prune(clock.now() - DAY)
        assert runs.engine.instances() == ([], 0)
        left = runs.engine.store.read(
            lambda db: db.all("SELECT 1 FROM instance_step UNION ALL SELECT 1 FROM job")
        )
        assert left == []

    def test_prune_spares_an_early_signal_a_unique_key_and_the_result_of_a_child(self, runs, clock):
        runs.bodies["inner"] = steps("i")
        child = Child("c", NewInstance("inner", id="kid", queue=PASSES))
        runs.bodies["wf"] = body(child, Timer("t", after=30 * DAY), Await("s", "reply"), Start("b", job("b")))
        once = Unique("once")
        runs.create("x", ONE, unique=once)
        runs.create("y", ONE)
        runs.run("i")
        runs.engine.signal("x", "reply", '"yes"')
        clock.advance(20 * DAY)
        assert runs.engine.prune(clock.now() - DAY) > 0
        with pytest.raises(NotFoundError):
            runs.engine.instance("kid")
        assert runs.engine.doctor() == []

        assert runs.create("again", ONE, unique=once) == "running"  # of the first
        clock.advance(20 * DAY)
        runs.engine.prune(clock.now() - DAY)
        runs.run("b")
        assert runs.result("x") == {"c": {"i": "i!"}, "t": None, "s": "yes", "b": "b!"}
        assert runs.states("y") == "running"
        assert runs.engine.doctor() == []

    @pytest.mark.parametrize(
        ("wound", "told"),
        [
            ("DELETE FROM instance_job", "step 'a' of instance x is live, but nothing will end it"),
            ("DELETE FROM instance_step", "nothing will move instance x of 'wf' on"),
            ("UPDATE instance SET pass = 0", "nothing will move instance x of 'wf' on"),
            (
                "UPDATE instance_job SET frozen = 0",
                "the job at 'a' of instance x is frozen, though its instance is not paused",
            ),
            (
                "UPDATE instance_step SET kind = 'timer'",
                "step 'a' of instance x is live, but nothing will end it",
            ),
            (
                "UPDATE instance_step SET kind = 'wait'",
                "step 'a' of instance x is live, but nothing will end it",
            ),
        ],
    )
    def test_the_doctor_names_an_instance_that_nothing_will_move_on(self, opened, wound, told):
        runs = Runs(opened(), wf=steps("a"))
        runs.create("x")
        runs.conduct()
        assert runs.engine.doctor() == []
        runs.engine.store.write(lambda db: db.run(wound))

        assert told in runs.engine.doctor()
        assert runs.engine.gauges(10).stuck == told.startswith("nothing will move")

    def test_the_doctor_finds_a_job_that_ended_unnoticed(self, opened):
        runs = Runs(opened(), wf=steps("a"))
        runs.create("x")
        runs.run("a")
        seq = runs.engine.instance("x").seq
        adding = "INSERT INTO instance_job (seq, instance, key) VALUES (?, ?, 'a')"
        runs.engine.store.write(lambda db: db.run(adding, seq, seq))

        told = runs.engine.doctor()
        assert "instance x has ended, but something of it is live" in told
        assert "instance x waits at 'a' for a job that has ended or does not exist" in told
