"""Uniqueness: one job stands for all requests that are the same."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.errors import DuplicateJobError
from penstock.job import Enqueued, NewJob
from penstock.lifecycle.outcomes import Cancelled, Failed, HandedBack
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import LIVE, State
from penstock.lifecycle.unique import OnDuplicate, Unique
from tests.contract.test_sqlite import run_together
from tests.support.desk import LEASE, Desk

NO = Failed("ValueError", "no")

REUSE = Unique("k")
REJECT = Unique("k", on_duplicate=OnDuplicate.REJECT)
REPLACE = Unique("k", on_duplicate=OnDuplicate.REPLACE)

PRODUCER = """
import json, sys
from penstock.engine import open_engine
from penstock.job import NewJob
from penstock.lifecycle.unique import Unique

engine = open_engine(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
answers = [engine.enqueue([NewJob("task", unique=Unique(f"key-{n}"))])[0] for n in range(30)]
print(json.dumps([[answer.id, answer.reused] for answer in answers]))
engine.close()
"""


def ask(desk: Desk, name: str, unique: Unique = REUSE, **facts: object) -> Enqueued:
    """Enqueue one job; return the answer, but for its moment."""
    (answer,) = desk.engine.enqueue([NewJob("task", id=name, queue="q", unique=unique, **facts)])  # type: ignore[arg-type]
    return replace(answer, at=0)


class TestOnDuplicate:
    def test_the_earlier_job_is_reused(self, desk: Desk) -> None:
        assert ask(desk, "a") == Enqueued("a")
        assert ask(desk, "b") == Enqueued("a", reused=True)

        assert desk.claim() == "a"
        assert [job.id for job in desk.engine.jobs()] == ["a"]

    def test_a_duplicate_is_rejected_and_told_of_whom(self, desk: Desk) -> None:
        ask(desk, "a")

        with pytest.raises(DuplicateJobError) as caught:
            ask(desk, "b", REJECT)

        assert caught.value.existing == "a"
        assert desk.claim() == "a"

    def test_one_that_waits_is_replaced(self, desk: Desk, limits) -> None:
        ask(desk, "a", REPLACE, limits=limits)
        assert ask(desk, "b", REPLACE, limits=limits) == Enqueued("b")

        assert (desk.state("a"), desk.job("a").reason) == (State.CANCELLED, "replaced by b")
        assert desk.claim() == "b"
        assert desk.engine.doctor() == []

    def test_one_that_is_scheduled_is_replaced(self, desk: Desk) -> None:
        ask(desk, "a", REPLACE, due=desk.clock.now() + SECOND)
        ask(desk, "b", REPLACE)

        assert desk.state("a") is State.CANCELLED
        desk.wait(SECOND)
        assert desk.claim() == "b"

    def test_what_the_newcomer_says_decides(self, desk: Desk) -> None:
        ask(desk, "a", REJECT)

        assert ask(desk, "b", REUSE) == Enqueued("a", reused=True)
        assert ask(desk, "c", REPLACE) == Enqueued("c")

    def test_a_rejected_one_takes_its_batch_with_it(self, desk: Desk) -> None:
        ask(desk, "a")

        with pytest.raises(DuplicateJobError):
            desk.engine.enqueue([NewJob("task", id="b"), NewJob("task", id="c", unique=REJECT)])

        assert [job.id for job in desk.engine.jobs()] == ["a"]

    def test_tenants_are_separate(self, desk: Desk) -> None:
        assert not ask(desk, "a", tenant="acme").reused
        assert not ask(desk, "b", tenant="globex").reused
        assert ask(desk, "c", tenant="acme").reused


class TestHowLong:
    def test_a_job_stands_for_its_key_until_it_has_ended(self, desk: Desk) -> None:
        ask(desk, "a", due=desk.clock.now() + SECOND)
        assert ask(desk, "b").reused  # scheduled
        desk.wait(SECOND)
        desk.engine.upkeep()
        assert ask(desk, "b").reused  # waiting
        desk.claim()
        assert ask(desk, "b").reused  # running
        desk.settle("a")

        assert not ask(desk, "b").reused

    @pytest.mark.parametrize(
        ("end", "state"),
        [
            (lambda desk: desk.settle("a", NO), State.FAILED),
            (lambda desk: desk.settle("a", Cancelled()), State.CANCELLED),
        ],
        ids=["failed", "cancelled"],
    )
    def test_any_end_frees_the_key(self, desk: Desk, end: Callable[[Desk], object], state: State) -> None:
        ask(desk, "a")
        desk.claim()
        end(desk)

        assert desk.state("a") is state
        assert not ask(desk, "b").reused

    def test_a_retry_and_a_rescue_do_not_free_the_key(self, desk: Desk) -> None:
        ask(desk, "a", retry=RetryPolicy(attempts=2, delay=SECOND, jitter=False))
        desk.claim()
        desk.settle("a", NO)
        assert ask(desk, "b").reused
        desk.wait(SECOND)
        desk.claim()
        desk.wait(LEASE)
        desk.engine.upkeep()
        assert ask(desk, "b").reused
        desk.claim()
        desk.settle("a", HandedBack())
        assert ask(desk, "b").reused

    def test_only_the_named_states_count(self, desk: Desk) -> None:
        waiting = Unique("k", frozenset({State.SCHEDULED, State.WAITING}))
        ask(desk, "a", waiting)
        assert ask(desk, "b", waiting).reused
        desk.claim()

        assert not ask(desk, "b", waiting).reused

    def test_ended_states_can_count_too(self, desk: Desk) -> None:
        done = Unique("k", LIVE | {State.DONE})
        ask(desk, "a", done)
        desk.claim()
        desk.settle("a")
        desk.wait(3600 * SECOND)

        assert ask(desk, "b", done).reused

    def test_the_states_of_the_job_that_stands_decide(self, desk: Desk) -> None:
        ask(desk, "a", Unique("k", LIVE | {State.DONE}))
        desk.claim()
        desk.settle("a")

        assert ask(desk, "b", REUSE).reused

    def test_a_window_counts_whatever_the_state_and_then_ends(self, desk: Desk) -> None:
        hour = Unique("k", window=3600 * SECOND)
        ask(desk, "a", hour)
        desk.claim()
        desk.settle("a")
        desk.wait(3600 * SECOND - 1)
        assert ask(desk, "b", hour).reused
        desk.wait(1)

        assert not ask(desk, "b", hour).reused

    def test_a_window_ends_even_if_the_job_still_waits(self, desk: Desk) -> None:
        ask(desk, "a", Unique("k", window=SECOND))
        desk.wait(SECOND)

        assert not ask(desk, "b", Unique("k", window=SECOND)).reused
        assert desk.claim() == "a b"

    def test_one_that_runs_stands_for_its_key_though_another_waits(self, desk: Desk) -> None:
        running = Unique("k", frozenset({State.RUNNING}))
        ask(desk, "a", running)
        ask(desk, "b", running)  # no job runs yet
        assert desk.claim(1) == "a"

        assert ask(desk, "c", running).reused


class TestWithinOneBatch:
    def test_the_first_of_a_batch_is_reused(self, desk: Desk) -> None:
        jobs = [NewJob("task", id=name, queue="q", unique=REUSE) for name in "abc"]

        answers = desk.engine.enqueue(jobs)

        assert [("a", False), ("a", True), ("a", True)] == [(each.id, each.reused) for each in answers]
        assert desk.claim() == "a"

    def test_the_first_of_a_batch_has_the_second_rejected_and_all_with_it(self, desk: Desk) -> None:
        with pytest.raises(DuplicateJobError):
            desk.engine.enqueue([NewJob("task", unique=REJECT), NewJob("task", unique=REJECT)])

        assert desk.engine.jobs() == []

    def test_the_last_of_a_batch_replaces_the_first(self, desk: Desk) -> None:
        jobs = [NewJob("task", id=name, queue="q", unique=REPLACE) for name in "ab"]

        assert [("a", False), ("b", False)] == [(each.id, each.reused) for each in desk.engine.enqueue(jobs)]

        assert desk.claim() == "b"

    def test_states_count_within_a_batch_as_they_do_outside(self, desk: Desk) -> None:
        running = Unique("k", frozenset({State.RUNNING}))

        answers = desk.engine.enqueue([NewJob("task", unique=running), NewJob("task", unique=running)])

        assert [answer.reused for answer in answers] == [False, False]

    def test_keys_of_other_tenants_in_the_batch_do_not_count(self, desk: Desk) -> None:
        answers = desk.engine.enqueue(
            [NewJob("task", tenant=tenant, unique=REJECT) for tenant in ("", "acme", "globex")]
        )

        assert [answer.reused for answer in answers] == [False] * 3


class TestByHand:
    def test_running_again_while_another_holds_the_key_is_refused(self, desk: Desk) -> None:
        ask(desk, "a")
        desk.claim()
        desk.settle("a", NO)
        ask(desk, "b")

        with pytest.raises(DuplicateJobError) as caught:
            desk.engine.retry("a")

        assert caught.value.existing == "b"
        assert desk.state("a") is State.FAILED
        assert desk.claim() == "b"

    def test_running_again_takes_the_key_again(self, desk: Desk) -> None:
        ask(desk, "a")
        desk.claim()
        desk.settle("a", NO)
        ask(desk, "b")
        desk.claim()
        desk.settle("b")
        desk.engine.retry("a")

        assert ask(desk, "c") == Enqueued("a", reused=True)

    def test_running_again_within_its_own_window_is_allowed(self, desk: Desk) -> None:
        ask(desk, "a", Unique("k", window=3600 * SECOND))
        desk.claim()
        desk.settle("a", NO)
        desk.engine.retry("a")

        assert desk.claim() == "a"


class TestPrune:
    def test_a_job_in_its_window_is_kept_and_goes_on_standing(self, desk: Desk) -> None:
        hour = Unique("k", window=3600 * SECOND)
        ask(desk, "a", hour)
        ask(desk, "plain", Unique("other"))
        desk.claim()
        desk.settle("a plain")
        desk.wait(1800 * SECOND)

        assert desk.engine.prune(desk.clock.now()) == 1
        assert ask(desk, "b", hour) == Enqueued("a", reused=True)
        desk.wait(1800 * SECOND)
        assert desk.engine.prune(desk.clock.now()) == 1
        assert not ask(desk, "b", hour).reused

    def test_a_job_that_stands_by_its_state_is_kept(self, desk: Desk) -> None:
        once = Unique("k", LIVE | {State.DONE})
        ask(desk, "a", once)
        desk.claim()
        desk.settle("a")
        desk.wait(SECOND)
        desk.engine.prune(desk.clock.now())

        assert ask(desk, "b", once) == Enqueued("a", reused=True)

    def test_pruning_a_job_does_not_free_the_key_of_another(self, desk: Desk) -> None:
        ask(desk, "a")
        desk.claim()
        desk.settle("a")
        ask(desk, "b")
        desk.wait(SECOND)
        assert desk.engine.prune(desk.clock.now()) == 1

        assert ask(desk, "c") == Enqueued("b", reused=True)


def test_two_engines_on_one_store_see_each_others_keys(desks: list[Desk]) -> None:
    here, there = desks
    ask(here, "a")

    assert ask(there, "b") == Enqueued("a", reused=True)


def test_several_processes_that_ask_at_once_get_one_job(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    engine = open_engine(path)
    answers = [json.loads(text) for text in run_together(PRODUCER, *[[path]] * 3)]

    for number, same in enumerate(zip(*answers, strict=True)):
        assert len({job for job, _ in same}) == 1, number
        assert [reused for _, reused in same].count(False) == 1
    assert engine.count() == {State.WAITING: 30}
    assert engine.doctor() == []
    engine.close()
