"""Workflows: a step is enqueued in the transaction that ends the last one it waits for, once."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.clock import SECOND
from penstock.engine.settle import MAX_LOST
from penstock.errors import (
    DuplicateJobError,
    InvalidError,
    InvalidJobError,
    InvalidWorkflowError,
    NotFoundError,
    WrongStateError,
)
from penstock.job import NewJob, NewWorkflow
from penstock.lifecycle.outcomes import Again, Cancelled, Failed, HandedBack
from penstock.lifecycle.retry import Backoff, Exhausted, RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.workflows import Step, StepState, When, WorkflowState, batch, chain, group
from tests.support.desk import LEASE, rate, slots, work_of
from tests.support.stores import on_sqlite
from tests.support.works import Works, job, jobs

FAILED = Failed("ValueError", "no")
TWICE = RetryPolicy(attempts=2, backoff=Backoff.FIXED, delay=SECOND, jitter=False)


def diamond(**facts):
    return (
        Step("top", job("top", **facts)),
        Step("left", job("left", **facts), ("top",)),
        Step("right", job("right", **facts), ("top",)),
        Step("end", job("end", **facts), ("right", "left")),
    )


def telling_all():
    return batch(jobs("a b"), on_success=job("yes"), on_failure=job("no"), on_complete=job("anyhow"))


class TestChain:
    def test_steps_run_one_after_the_other(self, works):
        view = works.start(chain(jobs("a b c")), kind="chain", name="three")

        assert (view.state, view.kind, view.name) == (WorkflowState.RUNNING, "chain", "three")
        assert (view.steps_total, view.steps_completed) == (3, 0)
        assert works.steps == {"a": "running", "b": "waiting", "c": "waiting"}
        for name in "abc":
            assert works.state == "running"
            assert works.claim() == name
            works.settle(name)
        assert works.claim() == ""
        assert works.state == "completed"
        assert (works.view.steps_completed, works.view.jobs_completed, works.view.jobs_total) == (3, 3, 3)
        assert works.view.finished is not None

    def test_each_carries_the_result_of_the_one_before_it(self, works):
        works.start(chain(jobs("a b", meta='{"mine": 1}')))
        works.run("a")
        works.claim()

        assert works.parents("a") is None
        assert json.loads(works.attempts["b"].meta) == {"mine": 1, "parent_results": ["a!"]}

    def test_a_retry_is_no_failure(self, works, clock):
        works.start(chain(jobs("a b", retry=TWICE)))
        works.run("a", FAILED)

        assert works.steps == {"a": "running", "b": "waiting"}
        clock.advance(SECOND)
        works.run("a")
        assert works.claim() == "b"

    @pytest.mark.parametrize("outcome", [Again(after=0), HandedBack(), HandedBack(begun=True)])
    def test_an_attempt_that_does_not_end_its_job_sets_nothing_free(self, works, outcome):
        works.start(chain(jobs("a b", retry=TWICE)))
        works.run("a", outcome)

        assert works.claim() == "a"
        works.settle("a")
        assert works.claim() == "b"

    def test_a_late_settle_sets_nothing_free(self, works, clock):
        works.start(chain(jobs("a b")))
        works.claim()
        late = works.settlements("a")
        clock.advance(LEASE)
        assert works.claim() == "a"

        assert works.engine.settle(late) == [False]
        assert works.claim() == ""
        works.settle("a")
        assert works.claim() == "b"

    def test_the_next_step_comes_with_the_exchange_that_settles_the_last(self, works):
        works.start(chain(jobs("a b")))
        works.claim()

        answers, claim = works.engine.exchange(works.settlements("a"), ["q"], 1, worker="w")

        assert answers == [True]
        assert [claimed.task for claimed in claim.jobs] == ["b"]


class TestEndsThatAreNotDone:
    def test_a_failure_stops_a_chain(self, works):
        works.start(chain(jobs("a b c d")))
        works.run("a")
        works.run("b", FAILED)

        assert works.claim() == ""
        assert works.state == "failed"
        assert works.steps == {"a": "done", "b": "failed", "c": "cancelled", "d": "cancelled"}
        assert works.view.steps_completed == 1

    def test_used_up_attempts_that_discard_stop_it_too(self, works):
        works.start(chain(jobs("a b", retry=RetryPolicy(exhausted=Exhausted.DISCARD))))
        works.run("a", FAILED)

        assert (works.state, works.claim()) == ("failed", "")

    def test_a_handler_that_gives_up_stops_it(self, works):
        works.start(chain(jobs("a b")))
        works.run("a", Cancelled("enough"))

        assert works.steps == {"a": "cancelled", "b": "cancelled"}
        assert (works.state, works.claim()) == ("failed", "")

    def test_a_job_cancelled_while_it_waits_stops_it(self, works):
        works.start(chain(jobs("a b")))

        works.engine.cancel(works.job("a").id)

        assert (works.state, works.claim()) == ("failed", "")

    def test_a_job_that_expires_stops_it(self, works, clock):
        works.start(chain([job("a", expires=clock.now() + SECOND), job("b")]))
        clock.advance(SECOND)

        assert works.claim() == ""
        assert works.job("a").state is State.EXPIRED
        assert works.steps == {"a": "failed", "b": "cancelled"}

    def test_a_job_that_is_dropped_at_once_stops_it(self, works):
        works.engine.enqueue([job("other", limits=(slots("X", 1),))])
        works.claim()
        works.start(chain([job("a"), job("b", limits=(slots("X", 1, "drop"),)), job("c")]))
        works.run("a")

        assert works.job("b").state is State.DISCARDED
        assert (works.state, works.claim()) == ("failed", "")

    def test_a_first_step_that_is_dropped_at_once_ends_it_before_anybody_looks(self, works):
        works.engine.enqueue([job("other", limits=(slots("X", 1),))])
        works.claim()

        view = works.start(chain([job("a", limits=(slots("X", 1, "drop"),)), job("b")]))

        assert view.state is WorkflowState.FAILED

    def test_a_job_that_is_dropped_by_a_claim_sets_free_who_is_told_of_it(self, works, engine):
        engine.enqueue([job("other", limits=(slots("X", 1),))])
        works.claim()
        engine.pause("q")
        works.settle("other")
        works.start(batch(jobs("a", limits=(slots("X", 1, "drop"),)), on_failure=job("told")))
        engine.enqueue([job("more", limits=(slots("X", 1),), priority=1)])
        engine.resume("q")

        assert works.claim() == "more"
        assert works.claim() == "told"

    def test_a_job_that_keeps_losing_its_workers_stops_it(self, works, clock):
        works.start(chain(jobs("a b")))
        for _ in range(MAX_LOST + 1):
            assert works.claim() == "a"
            clock.advance(LEASE)

        assert works.claim() == ""
        assert works.steps == {"a": "failed", "b": "cancelled"}

    def test_who_is_told_of_a_lost_worker_starts_with_the_claim_that_finds_it(self, works, clock):
        works.start(batch(jobs("a"), on_failure=job("told")))
        works.claim()
        works.engine.cancel(works.job("a").id)
        clock.advance(LEASE)

        assert works.claim() == "told"


class TestGroupAndBatch:
    def test_all_start_at_once(self, works):
        works.start(group(jobs("a b c")))

        assert works.claim() == "a b c"

    def test_siblings_go_on_after_a_failure_and_the_group_fails_in_the_end(self, works):
        works.start(group(jobs("a b c")))
        works.run("a", FAILED)

        assert works.state == "running"
        works.settle("b")
        assert works.state == "running"
        works.settle("c")
        assert works.state == "failed"
        assert works.view.steps_completed == 2

    @pytest.mark.parametrize(
        ("outcome", "told", "state"), [(None, "yes anyhow", "completed"), (FAILED, "no anyhow", "failed")]
    )
    def test_those_are_told_whom_it_concerns(self, works, outcome, told, state):
        works.start(telling_all())
        works.run("a", outcome)
        assert works.claim() == ""
        works.run("b")

        assert works.state == state
        assert (works.view.steps_total, len(works.view.steps)) == (2, 5)
        assert works.claim() == told
        assert works.parents("anyhow") == ["a!" if outcome is None else None, "b!"]
        works.settle(told)
        assert works.state == state
        assert sorted(works.steps.values()).count("skipped") == 1

    def test_a_callback_that_fails_fails_the_workflow(self, works):
        works.start(batch(jobs("a"), on_success=job("yes")))
        works.run("a")
        finished = works.view.finished
        works.run("yes", FAILED)

        assert works.state == "failed"
        assert works.view.steps_completed == 1
        assert works.view.finished == finished

    def test_ends_in_one_transaction_set_free_once(self, works):
        works.start(batch(jobs("a b c"), on_success=job("yes")))
        works.run("a b c")

        assert works.claim() == "yes"
        assert works.claim() == ""


class TestAnyShape:
    def test_a_step_waits_for_all_it_depends_on_and_hears_them_in_its_own_order(self, works):
        works.start(diamond())
        works.run("top")
        assert works.claim() == "left right"
        works.settle("left")
        assert works.claim() == ""
        works.settle("right")

        assert works.claim() == "end"
        assert works.parents("end") == ["right!", "left!"]
        works.settle("end")
        assert works.state == "completed"

    def test_one_failed_branch_cancels_what_follows_at_once_and_lets_the_other_go_on(self, works):
        works.start(diamond())
        works.run("top")
        works.run("left", FAILED)

        assert works.steps["end"] == "cancelled"
        assert works.state == "running"
        works.settle("right")
        assert works.state == "failed"

    def test_a_step_for_the_case_of_a_failure(self, works):
        steps = (
            Step("a", job("a")),
            Step("mend", job("mend"), ("a",), When.FAILED),
            Step("sweep", job("sweep"), ("a", "mend"), When.ENDED),
        )
        works.start(steps)
        works.run("a")
        assert works.claim() == "sweep"
        works.settle("sweep")
        assert (works.state, works.steps["mend"]) == ("completed", "skipped")

        works.start(steps)
        works.run("a", FAILED)
        works.run("mend")
        works.run("sweep")
        assert works.state == "failed"

    def test_ends_of_several_workflows_in_one_transaction(self, works):
        ids = [works.start(chain([job(f"a{n}"), job(f"b{n}")])).id for n in range(4)]
        works.claim()
        works.settle("a0 a1 a2 a3")

        assert works.claim() == "b0 b1 b2 b3"
        works.settle("b0 b2")
        states = [works.engine.workflow(id_).state.value for id_ in ids]
        assert states == ["completed", "running", "completed", "running"]

    def test_steps_go_through_the_gates_like_any_job(self, works, clock):
        works.start(diamond(limits=(slots("X", 1), rate("Y", 1))))
        works.run("top")
        assert works.claim() == ""
        clock.advance(2 * SECOND)
        assert works.claim() == "left"
        clock.advance(2 * SECOND)
        assert works.claim() == ""
        works.settle("left")
        assert works.claim() == "right"

    def test_a_step_that_is_not_due_yet_is_scheduled_when_it_is_free(self, works, clock):
        works.start(chain([job("a"), job("b", due=clock.now() + 10 * SECOND)]))
        works.run("a")

        assert works.job("b").state is State.SCHEDULED
        clock.advance(10 * SECOND)
        assert works.claim() == "b"

    def test_all_that_a_step_asks_for_is_kept_until_it_is_free(self, works):
        wanted = job(
            "b", queue="other", args="[1]", priority=7, cost=3, timeout=5, retry=TWICE,
            limits=(rate("K", 9),), tenant="ignored",
        )  # fmt: skip
        works.start(chain([job("a"), wanted]), tenant="t")
        works.run("a")

        found = works.job("b")
        assert (found.queue, found.args, found.priority, found.cost) == ("other", "[1]", 7, 3)
        assert (found.tenant, found.limits, found.max_attempts) == ("t", wanted.limits, 2)


class TestCancel:
    def test_nothing_more_becomes_free(self, works):
        works.start(chain(jobs("a b c")))
        works.run("a")

        view = works.engine.cancel_workflow(works.id)

        assert view.state is WorkflowState.CANCELLED
        assert works.claim() == ""
        assert works.steps == {"a": "done", "b": "cancelled", "c": "cancelled"}
        assert works.job("b").state is State.CANCELLED
        assert works.view.steps_completed == 1

    def test_who_runs_is_asked_to_stop_and_sets_nothing_free_when_it_ends(self, works, clock):
        works.start(batch(jobs("a b"), on_complete=job("told")))
        works.claim(1)

        works.engine.cancel_workflow(works.id)
        finished = works.view.finished
        clock.advance(SECOND)

        attempt = works.attempts["a"]
        (beat,) = works.engine.heartbeat([(attempt.seq, attempt.fence)])
        assert beat.cancel_asked
        assert works.settle("a") == [True]
        assert works.claim() == ""
        assert (works.state, works.view.finished) == ("cancelled", finished)
        assert works.steps == {"a": "done", "b": "cancelled", "told": "cancelled"}

    def test_a_job_that_was_to_be_retried_is_not(self, works):
        works.start(chain(jobs("a b", retry=TWICE)))
        works.claim()
        works.engine.cancel_workflow(works.id)
        works.settle("a", FAILED)

        assert works.job("a").state is State.CANCELLED

    def test_slots_of_those_that_waited_and_ran_are_given_back(self, works):
        works.start(group(jobs("a b c", limits=(slots("X", 1),))))
        works.claim()
        works.engine.cancel_workflow(works.id)
        works.engine.enqueue([job("next", limits=(slots("X", 1),))])
        works.settle("a", Cancelled())

        assert works.claim() == "next"

    @pytest.mark.parametrize("before", ["cancelled", "completed", "failed"])
    def test_what_has_ended_is_not_cancelled(self, works, before):
        works.start(chain(jobs("a")))
        if before == "cancelled":
            works.engine.cancel_workflow(works.id)
        else:
            works.run("a", FAILED if before == "failed" else None)

        with pytest.raises(WrongStateError, match=f"workflow .* is {before}"):
            works.engine.cancel_workflow(works.id)

    def test_what_is_not_there_is_not_found(self, engine):
        for verb in (engine.cancel_workflow, engine.workflow):
            with pytest.raises(NotFoundError):
                verb("unknown")


class TestAgainByHand:
    def test_a_chain_goes_on_where_it_failed(self, works):
        works.start(chain(jobs("a b c")))
        works.run("a")
        works.run("b", FAILED)

        works.engine.retry(works.job("b").id)

        assert works.state == "running"
        assert works.view.finished is None
        assert works.steps == {"a": "done", "b": "running", "c": "waiting"}
        works.run("b")
        works.run("c")
        assert works.state == "completed"
        assert works.parents("c") == ["b!"]

    def test_nobody_is_told_twice(self, works):
        works.start(telling_all())
        works.run("a", FAILED)
        works.run("b")
        assert works.claim() == "no anyhow"
        works.settle("no anyhow")

        works.engine.retry(works.job("a").id)
        works.run("a")

        assert works.claim() == ""
        assert works.state == "completed"

    def test_a_cancelled_workflow_stays_cancelled(self, works):
        works.start(chain(jobs("a b")))
        works.engine.cancel_workflow(works.id)

        works.engine.retry(works.job("a").id)
        works.run("a")

        assert (works.state, works.claim()) == ("cancelled", "")


class Crash(Exception):
    pass


class Falling:
    """A session in which the machine falls at its nth statement."""

    def __init__(self, db, left):
        self._db = db
        self._left = left

    def __getattr__(self, name):
        if name in {"all", "one", "run", "many", "last"}:
            self._left -= 1
            if self._left < 0:
                raise Crash
        return getattr(self._db, name)


def falls(engine, statements, verb):
    """Tell whether *verb* came to its end although the machine falls after so many statements."""
    true = engine.store.write

    def write(work, **options):
        return true(lambda db: work(Falling(db, statements)), **options)

    engine.store.write = write
    try:
        verb()
    except Crash:
        return False
    finally:
        del engine.store.write
    return True


class TestCrash:
    """A fall between any two statements leaves all as it was, and the same again then succeeds."""

    @pytest.mark.parametrize("outcome", [None, FAILED])
    def test_settle(self, works, engine, outcome):
        works.start(batch(jobs("a"), on_success=job("yes"), on_failure=job("no")))
        works.claim()
        before, fallen = works.view, 0
        while not falls(engine, fallen, lambda: works.settle("a", outcome)):
            assert (works.view, works.claim()) == (before, "")
            assert works.job("a").state is State.RUNNING
            fallen += 1

        assert fallen > 5
        assert works.claim() == ("yes" if outcome is None else "no")
        assert works.claim() == ""

    def test_start(self, works, engine):
        fallen = 0
        while not falls(engine, fallen, lambda: works.start(group(jobs("a b")))):
            assert engine.workflows() == ([], 0)
            assert works.claim() == ""
            fallen += 1

        assert fallen > 3
        assert works.claim() == "a b"

    def test_cancel(self, works, engine):
        works.start(group(jobs("a b c")))
        works.claim(1)
        before, fallen = works.view, 0
        while not falls(engine, fallen, lambda: engine.cancel_workflow(works.id)):
            assert works.view == before
            fallen += 1

        assert fallen > 3
        assert works.claim() == ""
        assert works.steps == {"a": "running", "b": "cancelled", "c": "cancelled"}


class TestManyAtOnce:
    """Several processes, whatever the order in which they come."""

    ROUNDS = 8

    def test_the_ends_of_all_parents_at_once_set_free_once(self, opened, works):
        others = [Works(opened()) for _ in range(3)]
        for _ in range(self.ROUNDS):
            works.start(batch(jobs("a b c"), on_success=job("yes")))
            assert works.claim() == "a b c"
            for other in others:
                other.attempts = works.attempts
            at_once(*(lambda o=o, n=n: o.settle(n) for o, n in zip(others, "abc", strict=True)))

            assert works.claim() == "yes"
            assert works.claim() == ""
            works.settle("yes")
            assert works.state == "completed"

    def test_a_cancel_and_a_settle_at_once(self, opened, works, limits):
        settler, canceller = Works(opened()), Works(opened())
        for _ in range(self.ROUNDS):
            works.start(chain(jobs("a b", limits=limits)))
            works.claim()
            settler.attempts, canceller.id = works.attempts, works.id
            at_once(lambda: settler.settle("a"), lambda: canceller.engine.cancel_workflow(canceller.id))

            assert works.state == "cancelled"
            assert works.claim() == ""
            assert works.steps == {"a": "done", "b": "cancelled"}


def at_once(*verbs):
    start = threading.Barrier(len(verbs))
    with ThreadPoolExecutor(len(verbs)) as pool:
        list(pool.map(lambda verb: (start.wait(), verb()), verbs))


class TestLooking:
    def test_a_view_shows_every_step(self, works):
        view = works.start(diamond(), meta='{"x": 1}')

        assert [step.id for step in view.steps] == ["top", "left", "right", "end"]
        end = view.steps[-1]
        assert (end.depends_on, end.task, end.queue) == (("right", "left"), "end", "q")
        assert (end.state, end.job_id, end.when, end.callback) == (StepState.WAITING, None, When.DONE, False)
        assert view.steps[0].job_id == works.job("top").id
        assert view.meta == '{"x": 1}'
        assert view == works.view

    def test_workflows_by_tenant_and_state_newest_first(self, works):
        for tenant, name in (("t", "one"), ("u", "two"), ("t", "three")):
            works.start(group(jobs("a")), tenant=tenant, name=name)
        works.engine.cancel_workflow(works.id)

        def names(*args, **which):
            views, total = works.engine.workflows(*args, **which)
            assert all(view.steps == () for view in views)
            return [view.name for view in views], total

        assert names() == (["three", "two", "one"], 3)
        assert names("t") == (["three", "one"], 2)
        assert names("t", 1, 1) == (["one"], 2)
        assert names(state=WorkflowState.RUNNING) == (["two", "one"], 2)

    def test_listeners_hear_of_it(self, works):
        heard = []
        works.engine.listen(heard.append)
        works.start(chain(jobs("a")), tenant="t")
        works.run("a")

        told = [event for event in heard if event.name.startswith("workflow.")]
        assert [event.name for event in told] == ["workflow.started", "workflow.completed"]
        assert all(event.facts["workflow"] == works.id for event in told)

    def test_a_given_id_starts_one_workflow(self, works):
        works.start(group(jobs("a")), id="mine")

        with pytest.raises(DuplicateJobError, match="workflow mine"):
            works.start(group(jobs("a")), id="mine")
        assert works.engine.workflows()[1] == 1

    def test_what_is_old_is_pruned_with_all_that_belongs_to_it(self, works, clock):
        works.start(chain(jobs("a b")))
        works.run("a")
        works.run("b")
        old = works.id
        clock.advance(10 * SECOND)
        works.start(chain(jobs("c d")))
        works.run("c")
        clock.advance(10 * SECOND)

        # The result of an ended job is kept for the step that waits, though the job itself is gone.
        assert works.engine.prune(clock.now() - 15 * SECOND) == 2
        with pytest.raises(NotFoundError):
            works.engine.workflow(old)
        assert works.engine.prune(clock.now()) == 1
        assert works.state == "running"
        assert works.claim() == "d"
        assert works.parents("d") == ["c!"]
        works.settle("d")
        assert works.state == "completed"

    def test_what_has_somebody_yet_to_tell_is_not_pruned(self, works, clock):
        works.start(batch(jobs("a"), on_success=job("yes")))
        works.run("a")
        works.claim()
        clock.advance(SECOND)
        works.engine.prune(clock.now())

        assert works.state == "completed"
        works.settle("yes", FAILED)
        assert works.state == "failed"


class TestRefused:
    @pytest.mark.parametrize(
        ("error", "workflow"),
        [
            (InvalidWorkflowError, NewWorkflow(())),
            (InvalidWorkflowError, NewWorkflow(group([job("a", id="mine")]))),
            (InvalidWorkflowError, NewWorkflow(group([job("a", unique=Unique("k"))]))),
            (InvalidWorkflowError, NewWorkflow(group([job("a", meta="[]")]))),
            (InvalidJobError, NewWorkflow(chain([job("a"), job("b", queue="not a\nqueue")]))),
            (InvalidJobError, NewWorkflow(group([job("a")]), name="\0")),
            (InvalidJobError, NewWorkflow(group([job("a")]), id="no\ncontrol")),
        ],
    )
    def test_what_can_never_run_and_nothing_is_stored(self, engine, error, workflow):
        with pytest.raises(error) as refused:
            engine.start_workflow(workflow)

        assert isinstance(refused.value, InvalidError)
        assert engine.workflows() == ([], 0)
        assert engine.jobs() == []


class TestCheap:
    @on_sqlite
    def test_other_jobs_pay_nothing_for_it(self, engine):
        engine.enqueue([NewJob("t", queue="q") for _ in range(20)])
        works = Works(engine)
        claim = engine.claim(["q"], 20, worker="w")
        works.attempts = {str(claimed.seq): claimed for claimed in claim.jobs}

        work = work_of(engine, lambda: works.settle(" ".join(works.attempts)))

        asked = [sql for sql in work.statements if "workflow" in sql]
        assert len(asked) == 1
        assert "DELETE FROM running" in asked[0]

    @on_sqlite
    @pytest.mark.parametrize("size", [50, 400])
    def test_the_end_of_one_costs_the_same_in_a_large_workflow(self, engine, size):
        works = Works(engine)
        works.start(batch([job(f"j{n}") for n in range(size)], on_complete=job("told")))
        works.claim(2)

        assert work_of(engine, lambda: works.settle("j0")).steps < 3_000
