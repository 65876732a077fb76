"""What an instance waits for: passes, timers, signals and children."""

import json

import pytest

from penstock.clock import SECOND
from penstock.errors import NotFoundError, WrongStateError
from penstock.job import Await, Cancel, Child, Finish, NewInstance, Settlement, Start, Timer
from penstock.lifecycle.outcomes import Conducted, Failed, HandedBack
from penstock.lifecycle.states import State
from tests.support.desk import LEASE, slots
from tests.support.runs import PASSES, body, job, steps
from tests.support.sequences import sequence, step

ONE = slots("contact", 1)


class TestPasses:
    def test_ends_before_a_pass_is_claimed_are_one_pass(self, runs):
        runs.bodies["wf"] = steps("a+b+c d")
        runs.create("x")
        runs.conduct()
        runs.claim()
        for name in "abc":
            runs.settle(name)
        runs.conduct()

        assert runs.passes == 2
        assert runs.memo("x")["d"] == "live"

    def test_ends_while_a_pass_runs_are_one_more_pass(self, runs):
        runs.bodies["wf"] = steps("a+b+c d")
        runs.create("x")
        runs.conduct()
        runs.claim()
        runs.settle("a")
        (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
        memo = runs.engine.memo("x")
        runs.settle("b")
        runs.settle("c")
        outcome = Conducted(tuple(runs.bodies["wf"](memo)), memo.version)
        runs.engine.settle([Settlement(attempt.seq, attempt.fence, outcome)])
        runs.conduct()

        assert runs.memo("x")["d"] == "live"
        assert runs.passes == 2

    def test_a_pass_that_does_not_say_what_it_saw_is_followed_by_another_if_anything_ended(self, runs):
        runs.bodies["wf"] = steps("a+b c")
        runs.create("x")
        runs.conduct()
        runs.claim()
        runs.settle("a")
        runs.settle("b")
        (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
        commands = tuple(runs.bodies["wf"](runs.engine.memo("x")))
        runs.engine.settle([Settlement(attempt.seq, attempt.fence, Conducted(commands))])
        runs.conduct()

        assert runs.memo("x")["c"] == "live"
        assert runs.engine.claim([PASSES], 1, worker="w").jobs == []

    def test_a_pass_with_an_old_fence_changes_nothing(self, runs, clock):
        runs.create("x")
        (old,) = runs.engine.claim([PASSES], 1, worker="w", lease=LEASE).jobs
        clock.advance(LEASE)
        runs.engine.upkeep()
        outcome = Conducted((Finish(State.FAILED),))

        assert runs.engine.settle([Settlement(old.seq, old.fence, outcome)]) == [False]
        assert runs.state("x") == "running"
        clock.advance(60 * SECOND)
        runs.run("a")
        assert runs.memo("x") == {"a": "done", "b": "live"}

    def test_a_worker_that_is_lost_again_and_again_does_not_end_the_instance(self, runs, clock):
        runs.create("x", ONE)
        for _ in range(8):
            assert len(runs.engine.claim([PASSES], 1, worker="w", lease=LEASE).jobs) == 1
            clock.advance(LEASE)
            runs.engine.upkeep()
            clock.advance(600 * SECOND)
            runs.engine.upkeep()
        runs.run("a")

        assert runs.state("x") == "running"

    def test_a_pass_that_is_handed_back_comes_again_later_and_the_slot_stays(self, runs, clock):
        runs.create("x y", ONE)
        (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
        diverged = HandedBack(
            begun=True, after=30 * SECOND, reason="the body asked for 'b', the memo has 'a'"
        )
        runs.engine.settle([Settlement(attempt.seq, attempt.fence, diverged)])
        assert runs.states("x y") == "running deferred"

        clock.advance(30 * SECOND)
        runs.run("a")
        assert runs.memo("x")["a"] == "done"

    def test_an_error_in_a_pass_is_tried_again(self, runs, clock):
        runs.create("x")
        (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
        runs.engine.settle([Settlement(attempt.seq, attempt.fence, Failed("OSError", "no module"))])
        clock.advance(60 * SECOND)
        runs.run("a")

        assert runs.memo("x")["a"] == "done"

    def test_a_remembered_step_never_begins_again(self, runs):
        runs.bodies["wf"] = lambda _: [Start("a", job("a"))]
        runs.create("x")
        runs.run("a")
        runs.conduct()

        assert runs.claim() == ""
        assert runs.state("x") == "failed"
        assert runs.engine.instance("x").error["kind"] == "NothingToWaitFor"


class TestTimers:
    def test_a_claim_fires_a_timer_and_says_when_the_next_is_due(self, runs, clock):
        runs.bodies["wf"] = body(Timer("t", after=5 * SECOND), Start("a", job("a")))
        runs.create("x")
        runs.conduct()
        assert runs.engine.claim(["q"], 1, worker="w").next_at == clock.now() + 5 * SECOND

        clock.advance(5 * SECOND)
        runs.conduct()
        assert runs.claim() == "a"

    def test_upkeep_fires_a_timer(self, runs, clock):
        runs.bodies["wf"] = body(Timer("t", at=clock.now() + 5 * SECOND), Start("a", job("a")))
        runs.create("x")
        runs.conduct()
        clock.advance(5 * SECOND)
        runs.engine.upkeep()

        assert runs.memo("x") == {"t": "done"}
        runs.conduct()
        assert runs.claim() == "a"

    def test_a_timer_in_the_past_is_over_for_the_next_claim(self, runs):
        runs.bodies["wf"] = body(Timer("t", at=1), Timer("u", after=0))
        runs.create("x")
        runs.conduct()

        assert runs.state("x") == "done"

    def test_a_timer_with_two_moments_or_none_fails(self, runs):
        runs.bodies["wf"] = body([Timer("t"), Timer("u", at=1, after=1)])
        runs.create("x")
        runs.conduct()

        assert runs.memo("x") == {"t": "failed", "u": "failed"}


class TestSignals:
    def test_a_signal_ends_the_wait_for_it(self, runs):
        runs.bodies["wf"] = body(Await("s", "go"))
        runs.create("x")
        runs.conduct()
        runs.engine.signal("x", "stop", "1")
        runs.engine.signal("x", "go", '{"n":1}')
        runs.conduct()

        assert runs.result("x") == {"s": {"n": 1}}

    def test_signals_that_come_early_are_not_lost_and_are_taken_once_in_order(self, runs):
        runs.bodies["wf"] = body(Await("s", "go"), Await("t", "go"), Await("u", "go"))
        runs.create("w x", ONE)
        runs.engine.signal("x", "go", "1")
        runs.engine.cancel_instance("w")
        runs.engine.signal("x", "go", "2")
        runs.conduct()
        assert runs.memo("x") == {"s": "done", "t": "done", "u": "live"}

        runs.engine.signal("x", "go", "3")
        runs.conduct()
        assert runs.result("x") == {"s": 1, "t": 2, "u": 3}

    def test_two_waits_for_one_name_get_one_signal_each_the_first_first(self, runs):
        runs.bodies["wf"] = body([Await("s", "go"), Await("t", "go")])
        runs.create("x")
        runs.conduct()
        runs.engine.signal("x", "go", "1")
        assert runs.memo("x") == {"s": "done", "t": "live"}

        runs.engine.signal("x", "go", "2")
        runs.conduct()
        assert runs.result("x") == {"s": 1, "t": 2}

    def test_a_wait_gives_up_after_its_time_and_leaves_the_signal_to_the_next(self, runs, clock):
        runs.bodies["wf"] = body(Await("s", "go", after=5 * SECOND))
        runs.create("x")
        runs.conduct()
        clock.advance(5 * SECOND)
        runs.conduct()

        assert runs.engine.instance("x").error["kind"] == "SignalTimeout"
        with pytest.raises(WrongStateError):
            runs.engine.signal("x", "go")
        with pytest.raises(NotFoundError):
            runs.engine.signal("nothing", "go")

    def test_a_signal_in_time_stops_the_clock_of_its_wait(self, runs, clock):
        runs.bodies["wf"] = body(Await("s", "go", after=5 * SECOND), Timer("t", after=60 * SECOND))
        runs.create("x")
        runs.conduct()
        runs.engine.signal("x", "go", "1")
        runs.conduct()
        clock.advance(10 * SECOND)
        runs.conduct()

        assert runs.memo("x") == {"s": "done", "t": "live"}

    def test_a_signal_that_a_pass_gives_up_goes_to_the_wait_that_is_left(self, runs):
        def race(memo):
            known = {entry.key: entry for entry in memo.entries}
            if not known:
                return [Await("one", "go"), Start("a", job("a")), Await("two", "go")]
            if known["two"].state == "done":
                return [Finish(State.DONE, known["two"].result)]
            return [Cancel("one", "go")]

        given_up(runs, race, "1")

        assert runs.state("x") == "done"
        assert runs.result("x") == 1

    def test_signals_that_a_pass_gives_up_stay_in_order(self, runs):
        def race(memo):
            known = {entry.key: entry for entry in memo.entries}
            if not known:
                return [Await("one", "go"), Await("two", "go"), Start("a", job("a"))]
            if "three" not in known:
                return [Cancel("one", "go"), Cancel("two", "go"), Await("three", "go"), Await("four", "go")]
            return [Finish(State.DONE, f'["{known["three"].result}", "{known["four"].result}"]')]

        given_up(runs, race, "1", "2")

        assert runs.result("x") == ["1", "2"]

    def test_an_event_ends_each_wait_once_and_not_those_that_follow(self, runs):
        wait = step("w", "wait_for_event", params={"event": "went"})
        loop = {"type": "loop", "id": "l", "condition": "true", "max_iterations": 5, "body": [wait]}
        number = runs.engine.put_sequence("listens", json.dumps(sequence(loop))).number
        runs.engine.create_instances([NewInstance("listens", "{}", "z", number, queue="q")])
        ((waiting, *_), _) = runs.engine.waits("")

        assert runs.engine.send_event(waiting.name) == 1
        assert runs.engine.send_event(waiting.name) == 1
        assert runs.memo("z")["l#2/w"] == "live"


def given_up(runs, race, *payloads):
    """Play a race that a job wins, while these signals come after the pass has looked."""
    runs.bodies["wf"] = race
    runs.create("x")
    runs.conduct()
    runs.claim()
    runs.settle("a")
    (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
    memo = runs.engine.memo("x")
    for payload in payloads:
        runs.engine.signal("x", "go", payload)
    commands = Conducted(tuple(race(memo)), memo.version)
    assert runs.engine.settle([Settlement(attempt.seq, attempt.fence, commands)]) == [True]
    runs.conduct()


class TestChildren:
    def test_the_end_of_a_child_is_that_of_its_step(self, runs):
        runs.bodies["wf"] = body(Child("kid", NewInstance("other", queue=PASSES)), Start("a", job("a")))
        runs.create("x", tenant="acme")
        runs.run("c")

        child = runs.engine.instances("acme", workflow="other")[0][0]
        assert (child.parent, child.state.value) == ("x", "done")
        runs.run("a")
        assert runs.result("x") == {"kid": {"c": "c!"}, "a": "a!"}

    def test_a_child_waits_for_its_own_slots(self, runs):
        runs.bodies["wf"] = body(
            Child("kid", NewInstance("other", queue=PASSES, limits=(slots("k", 1),), id="kid"))
        )
        runs.create("other", slots("k", 1), workflow="other")
        runs.create("x")
        runs.conduct()
        assert runs.states("x kid") == "running deferred"

        runs.engine.cancel_instance("other")
        assert runs.states("x kid") == "running running"

    def test_a_child_that_fails_or_cannot_be_created_fails_its_step(self, runs):
        runs.bodies["wf"] = body(Child("kid", NewInstance("other", queue=PASSES)))
        runs.create("x")
        runs.run("c", Failed("ValueError", "no"))
        assert runs.engine.instance("x").error["kind"] == "ValueError"

        for bad in (NewInstance(""), NewInstance("s", sequence=7, args="{}"), NewInstance("wf", id="x")):
            runs.bodies["wf"] = body(Child("kid", bad))
            runs.create(f"y{bad.id}{bad.sequence}")
            runs.conduct()
            assert runs.state(f"y{bad.id}{bad.sequence}") == "failed"

    def test_eight_levels_deep(self, runs):
        for level in range(8):
            runs.bodies[f"w{level}"] = body(Child("kid", NewInstance(f"w{level + 1}", queue=PASSES)))
        runs.bodies["w8"] = steps("a")
        runs.create("x", workflow="w0")
        runs.run("a")

        assert runs.state("x") == "done"

    def test_cancelling_goes_all_the_way_down(self, runs):
        runs.bodies["wf"] = body(Child("kid", NewInstance("mid", queue=PASSES, id="mid")))
        runs.bodies["mid"] = body(Child("kid", NewInstance("other", queue=PASSES, id="low")))
        runs.create("x y", ONE)
        runs.conduct()
        runs.claim()
        runs.engine.cancel_instance("x")
        assert runs.states("x mid low y") == "running running running deferred"

        runs.settle("c")
        assert runs.states("x mid low y") == "cancelled cancelled cancelled running"

    def test_what_a_child_does_when_it_is_cancelled_comes_before_the_end(self, runs):
        undoing = sequence(step("c", "c"), name="undoing", on_cancel=[step("undo", "undo")])
        child_of(runs, undoing)
        assert runs.claim() == "c"
        runs.engine.cancel_instance("x")
        runs.settle("c")
        assert runs.states("x y") == "running deferred"

        assert runs.claim() == "undo"
        runs.settle("undo")
        assert runs.states("x kid y") == "cancelled cancelled running"

    def test_a_child_that_must_come_to_its_end_first_begins_nothing_more(self, runs):
        child_of(runs, sequence(step("c", "c", cancellable=False), step("d", "d")))
        assert runs.claim() == "c"
        runs.engine.cancel_instance("x")
        assert runs.states("x kid") == "running running"

        runs.settle("c")
        assert runs.claim() == ""
        assert runs.states("x kid y") == "cancelled cancelled running"


def child_of(runs, definition):
    """Let instance x run a child of this sequence, and y wait for its slot."""
    number = runs.engine.put_sequence("low", json.dumps(definition)).number
    runs.bodies["wf"] = body(Child("kid", NewInstance("low", "{}", "kid", number, queue="q")))
    runs.create("x", ONE)
    runs.conduct()
    runs.create("y", ONE)


class TestCancelledSteps:
    def test_the_loser_of_a_race_is_stopped_and_not_conducted_again(self, runs):
        def race(memo):
            known = {entry.key: entry.state.value for entry in memo.entries}
            if not known:
                return [Start("a", job("a")), Start("b", job("b")), Timer("t", after=SECOND), Await("s", "go"),
                        Child("kid", NewInstance("other", queue=PASSES, id="kid"))]  # fmt: skip
            if known["a"] == "done" and known["b"] == "live":
                return [Cancel("b"), Cancel("t"), Cancel("s"), Cancel("kid"), Start("c", job("c"))]
            return [Finish(State.DONE, json.dumps(known))] if known.get("c") == "done" else []

        runs.bodies["wf"] = race
        runs.create("x")
        runs.conduct()
        assert runs.claim(1) == "a"
        runs.settle("a")
        runs.conduct()
        passes = runs.passes
        assert runs.states("x kid") == "running cancelled"
        assert runs.memo("x") == {"a": "done", "b": "cancelled", "t": "cancelled", "s": "cancelled",
                                  "kid": "cancelled", "c": "live"}  # fmt: skip
        runs.conduct()
        assert runs.passes == passes
        runs.run("c")
        assert runs.state("x") == "done"

    def test_slots_stay_until_a_cancelled_step_that_runs_has_ended(self, runs):
        def hasty(memo):
            known = {entry.key: entry.state.value for entry in memo.entries}
            if not known:
                return [Start("a", job("a")), Start("b", job("b"))]
            return [Cancel("b"), Finish(State.DONE)] if known["a"] == "done" else []

        runs.bodies["wf"] = hasty
        runs.create("x y", ONE)
        runs.conduct()
        runs.claim()
        runs.settle("a")
        runs.conduct()
        assert runs.states("x y") == "running deferred"
        assert runs.engine.job(runs.attempts["b"].id).cancel_asked

        runs.settle("b")
        assert runs.states("x y") == "done running"
