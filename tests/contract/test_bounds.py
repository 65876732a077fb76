"""Bounds: no more than so many jobs wait for a queue, exactly, however many callers enqueue."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.clock import SECOND
from penstock.engine import Engine
from penstock.errors import InvalidError, QueueFullError
from penstock.job import Bound, NewJob, OnFull, Schedule
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from tests.support.desk import Desk, slots

TWO = Bound(2)
DROPPING = Bound(2, OnFull.DROP_OLDEST)
REPLACING = Unique("key", on_duplicate=OnDuplicate.REPLACE)
pytestmark = pytest.mark.usefixtures("healthy")


class TestReject:
    def test_one_more_than_the_bound_is_refused_and_nothing_stored(self, desk: Desk, limits) -> None:
        desk.engine.bound("q", TWO)
        desk.enqueue("a b", *limits)
        with pytest.raises(QueueFullError) as caught:
            desk.enqueue("c", *limits)

        assert (caught.value.queue, caught.value.depth, caught.value.bound) == ("q", 2, 2)
        assert desk.engine.depth("q") == 2
        assert [view.id for view in desk.engine.jobs()] == ["b", "a"]

    def test_jobs_without_anything_of_their_own_are_counted_too(self, opened) -> None:
        engine = opened()
        engine.bound("q", TWO)
        engine.enqueue([NewJob("task", queue="q")])
        with pytest.raises(QueueFullError):
            engine.enqueue([NewJob("task", queue="q"), NewJob("task", queue="q")])
        engine.enqueue([NewJob("task", queue="q"), NewJob("task", queue="other")])

        assert (engine.depth("q"), engine.depth("other")) == (2, 1)

    def test_a_batch_goes_in_whole_or_not_at_all(self, desk: Desk, limits) -> None:
        desk.engine.bound("q", TWO)
        with pytest.raises(QueueFullError):
            desk.engine.enqueue(
                [NewJob("task", queue=queue, limits=limits) for queue in ("other", "q", "q", "q")]
            )

        assert desk.engine.count() == {}

    def test_a_start_makes_room(self, desk: Desk, limits) -> None:
        desk.engine.bound("q", TWO)
        desk.enqueue("a b", *limits)
        assert desk.claim(1) == "a"
        desk.enqueue("c", *limits)

        with pytest.raises(QueueFullError):
            desk.enqueue("d", *limits)

    def test_scheduled_jobs_count(self, desk: Desk, limits) -> None:
        desk.engine.bound("q", TWO)
        desk.enqueue("a b", *limits, due=desk.clock.now() + SECOND)
        with pytest.raises(QueueFullError):
            desk.enqueue("c", *limits)
        with pytest.raises(QueueFullError):
            desk.enqueue("c", *limits, due=desk.clock.now() + SECOND)

    def test_retries_count_but_are_let_in(self, desk: Desk, limits) -> None:
        desk.engine.bound("q", TWO)
        desk.enqueue("a", *limits, retry=RetryPolicy(attempts=2))
        desk.claim()
        desk.enqueue("b c", *limits)
        assert all(desk.settle("a", Failed("X", "no")))

        assert desk.engine.depth("q") == 3
        with pytest.raises(QueueFullError) as caught:
            desk.enqueue("d", *limits)
        assert caught.value.depth == 3

    def test_jobs_that_wait_when_it_is_set_stay_and_count(self, desk: Desk, limits) -> None:
        desk.enqueue("a b c", *limits)
        desk.engine.bound("q", TWO)

        assert desk.engine.depth("q") == 3
        with pytest.raises(QueueFullError):
            desk.enqueue("d", *limits)

    def test_without_it_any_number_goes_in_again(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(0))
        with pytest.raises(QueueFullError):
            desk.enqueue("a")
        desk.engine.bound("q", None)
        desk.enqueue("a b c")

        assert desk.engine.bounds() == {}

    def test_other_queues_are_not_asked(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(0))
        desk.enqueue("a b c", queue="other")

        assert desk.engine.depth("other") == 3

    def test_a_job_that_another_stands_for_needs_no_room(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(1))
        desk.enqueue("a", unique=Unique("key"))
        (again,) = desk.engine.enqueue([NewJob("task", queue="q", unique=Unique("key"))])

        assert (again.id, again.reused) == ("a", True)

    def test_one_that_replaces_another_takes_its_room(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(1))
        desk.enqueue("a", unique=REPLACING)
        desk.enqueue("b", unique=REPLACING)

        assert (desk.state("a"), desk.state("b")) == (State.CANCELLED, State.WAITING)

    def test_one_that_replaces_another_of_another_queue_needs_room(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(1))
        desk.enqueue("a", unique=REPLACING, queue="other")
        desk.enqueue("full")
        with pytest.raises(QueueFullError):
            desk.enqueue("b", unique=REPLACING)

        assert (desk.state("a"), desk.engine.depth("q")) == (State.WAITING, 1)

    def test_of_one_key_in_one_batch_one_needs_room(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(1))
        job = NewJob("task", queue="q", unique=Unique("key"))
        first, second = desk.engine.enqueue([job, job])
        assert (first.id, second.reused) == (second.id, True)

        replacing = NewJob("task", queue="q", unique=REPLACING)
        *_, last = desk.engine.enqueue([replacing, replacing, replacing])
        assert desk.engine.count() == {State.WAITING: 1, State.CANCELLED: 3}
        assert desk.state(last.id) is State.WAITING

    def test_a_schedule_whose_queue_is_full_leaves_no_trace(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(1))
        desk.enqueue("a")
        job = NewJob("task", queue="q", unique=Unique("key"))
        desk.engine.set_schedule(Schedule("s", "* * * * *", job))
        desk.wait(60 * SECOND)
        desk.engine.upkeep()
        assert len(desk.heard("schedule.skipped")) == 1

        assert desk.claim() == "a"
        (added,) = desk.engine.enqueue([job])
        assert not added.reused


class TestDropOldest:
    def test_the_oldest_that_wait_make_room(self, desk: Desk, limits) -> None:
        desk.engine.bound("q", DROPPING)
        desk.enqueue("a", *limits)
        desk.enqueue("b", *limits, priority=9)
        desk.enqueue("c", *limits)

        assert desk.job("a").state is State.DISCARDED
        assert desk.job("a").reason == "dropped to make room"
        assert desk.engine.depth("q") == 2
        desk.enqueue("d e", *limits)
        assert [view.id for view in desk.engine.jobs(state=State.WAITING)] == ["e", "d"]
        assert {event.facts["job"] for event in desk.heard("job.discarded")} == {"a", "b", "c"}

    def test_those_that_run_or_are_scheduled_are_left_alone(self, desk: Desk, limits) -> None:
        desk.engine.bound("q", DROPPING)
        desk.enqueue("running", *limits)
        desk.claim()
        desk.enqueue("s t", *limits, due=desk.clock.now() + SECOND)
        with pytest.raises(QueueFullError):
            desk.enqueue("c", *limits)

        assert desk.engine.count() == {State.RUNNING: 1, State.SCHEDULED: 2}

    def test_more_than_ever_fit_are_refused_and_nobody_dropped(self, desk: Desk) -> None:
        desk.engine.bound("q", DROPPING)
        desk.enqueue("a b")
        with pytest.raises(QueueFullError):
            desk.enqueue("c d e")

        assert desk.engine.count() == {State.WAITING: 2}

    def test_what_waited_for_the_one_dropped_goes_on(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(1, OnFull.DROP_OLDEST))
        desk.enqueue("a", slots("k", 1))
        desk.enqueue("b", slots("k", 1))

        assert desk.claim() == "b"

    def test_a_job_that_stands_for_one_that_comes_is_not_dropped_for_it(self, desk: Desk) -> None:
        desk.engine.bound("q", DROPPING)
        desk.enqueue("a", unique=Unique("key"))
        desk.enqueue("b")
        added = desk.engine.enqueue(
            [NewJob("task", queue="q", id="c"), NewJob("task", queue="q", unique=Unique("key"))]
        )

        assert [(job.id, job.reused) for job in added] == [("c", False), ("a", True)]
        assert [view.id for view in desk.engine.jobs(state=State.WAITING)] == ["c", "a"]

    def test_one_to_be_replaced_makes_room_only_once(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(1, OnFull.DROP_OLDEST))
        desk.enqueue("a", unique=REPLACING)
        with pytest.raises(QueueFullError):
            desk.engine.enqueue([NewJob("task", queue="q"), NewJob("task", queue="q", unique=REPLACING)])

        assert desk.state("a") is State.WAITING


class TestWarning:
    def test_crossing_the_line_is_told_once(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(10, warning=0.5))
        desk.enqueue("a b c d")
        assert desk.heard("queue.filling") == []
        desk.enqueue("e")
        desk.enqueue("f")

        (event,) = desk.heard("queue.filling")
        assert event.facts == {"tenant": "", "queue": "q", "depth": 5, "bound": 10}


class TestRules:
    def test_they_are_remembered(self, opened) -> None:
        bounds = {("", "a"): Bound(5), ("acme", "a"): Bound(7, OnFull.DROP_OLDEST, 0.8)}
        for (tenant, queue), bound in bounds.items():
            opened().bound(queue, bound, tenant=tenant)

        assert opened().bounds() == bounds

    @pytest.mark.parametrize(
        ("queue", "bound"),
        [
            ("", TWO),
            ("q", Bound(-1)),
            ("q", Bound(True)),
            ("q", Bound(1, warning=0)),
            ("q", Bound(1, warning=2)),
        ],
    )
    def test_nonsense_is_refused(self, desk: Desk, queue, bound) -> None:
        with pytest.raises(InvalidError):
            desk.engine.bound(queue, bound)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "named"])
@pytest.mark.parametrize("bound", [Bound(10), Bound(10, OnFull.DROP_OLDEST)], ids=["reject", "drop"])
def test_many_producers_at_once_never_go_beyond_it(opened, limits, bound, plain) -> None:
    engines = [opened() for _ in range(3)]
    engines[0].bound("q", bound)
    refused, deepest = [], []
    go = threading.Barrier(6)

    def produce(engine: Engine, number: int) -> None:
        go.wait()
        for n in range(8):
            id_ = None if plain else f"{number}-{n}"
            try:
                engine.enqueue([NewJob("task", queue="q", limits=limits, id=id_)])
            except QueueFullError as error:
                refused.append(error.depth)
            deepest.append(engine.depth("q"))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(produce, engines * 2, range(6)))

    assert max(deepest) == 10
    assert engines[0].depth("q") == 10
    if bound.strategy is OnFull.REJECT:
        assert set(refused) == {10}
        assert len(refused) == 38
    else:
        assert refused == []
        assert engines[0].count() == {State.WAITING: 10, State.DISCARDED: 38}
    assert engines[0].doctor() == []
