"""Latest wins: the newest call of a unique key keeps the place in line of the job it replaces, or waits for its end."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.clock import SECOND
from penstock.errors import DuplicateJobError, InvalidJobError, QueueFullError
from penstock.job import Bound, Enqueued, NewJob, Schedule
from penstock.lifecycle.outcomes import Again, Cancelled, Failed, HandedBack, Limited, Outcome
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.retry import Exhausted, RetryPolicy
from penstock.lifecycle.states import LIVE, State
from penstock.lifecycle.unique import OnDuplicate, Unique
from tests.support.desk import LEASE, Desk, slots, work_of
from tests.support.stores import on_sqlite

NO = Failed("ValueError", "no")
REUSE = Unique("k")
REJECT = Unique("k", on_duplicate=OnDuplicate.REJECT)
LATEST = Unique("k", on_duplicate=OnDuplicate.REPLACE)
X = slots("X", 1)
HEALTHY = pytest.mark.usefixtures("healthy")
FREE_AND_LIMITED = pytest.mark.parametrize("limits", [(), (X,)], ids=["free", "limited"])


def call(desk: Desk, name: str, unique: Unique = LATEST, **facts: Any) -> Enqueued:
    """Enqueue one job; return the answer, but for its moment."""
    facts.setdefault("queue", "q")
    (answer,) = desk.engine.enqueue([NewJob("task", id=name, unique=unique, **facts)])
    return replace(answer, at=0)


def run_and_call(desk: Desk, *terms: Unique, **facts: Any) -> None:
    """Let job *a* run and call *b*, which waits for its end."""
    call(desk, "a")
    desk.claim()
    call(desk, "b", *terms, **facts)


def quiet(seconds: int, max_wait: int | None = None) -> Unique:
    most = None if max_wait is None else max_wait * SECOND
    return Unique("k", on_duplicate=OnDuplicate.REPLACE, quiet=seconds * SECOND, max_wait=most)


@HEALTHY
class TestPlace:
    @FREE_AND_LIMITED
    def test_the_newest_call_keeps_the_place_of_the_job_it_replaces(self, desk: Desk, limits) -> None:
        call(desk, "a", limits=limits)
        desk.enqueue("other", *limits)
        call(desk, "b", limits=limits)

        assert desk.claim(1) == "b"
        assert (desk.state("a"), desk.job("a").reason) == (State.CANCELLED, "replaced by b")

    @FREE_AND_LIMITED
    def test_a_job_that_is_called_all_the_time_runs_when_its_first_call_would_have(
        self, desk: Desk, limits
    ) -> None:
        call(desk, "call-0", limits=limits)
        for number in range(1, 6):
            desk.enqueue(f"other-{number}", *limits)
            call(desk, f"call-{number}", limits=limits)

        assert desk.claim(1) == "call-5"

    def test_one_that_waits_behind_a_shut_gate_keeps_its_place_there(self, desk: Desk) -> None:
        desk.enqueue("running", X)
        desk.claim()
        call(desk, "a", limits=(X,))
        desk.enqueue("other", X)
        call(desk, "b", limits=(X,))

        assert desk.engine.why("b").place == 0
        desk.settle("running")
        assert desk.claim() == "b"

    def test_one_in_the_middle_of_its_lane_is_replaced_there(self, desk: Desk) -> None:
        desk.enqueue("first", X)
        call(desk, "a", limits=(X,))
        desk.enqueue("last", X)
        call(desk, "b", limits=(X,))

        started = []
        for _ in range(3):
            started.append(desk.claim())
            desk.settle(started[-1])
        assert started == ["first", "b", "last"]

    def test_with_another_priority_it_goes_where_that_and_its_age_put_it(self, desk: Desk) -> None:
        call(desk, "a")
        desk.enqueue("low")
        desk.enqueue("high", priority=1)
        call(desk, "b", priority=1)

        assert desk.claim(1) == "b"  # it came before the other of its new priority
        assert desk.claim() == "high low"

    def test_with_other_limits_it_goes_where_its_age_puts_it(self, desk: Desk) -> None:
        call(desk, "a", limits=(X,))
        desk.enqueue("other", slots("Y", 1))
        call(desk, "b", limits=(slots("Y", 1),))

        assert desk.claim() == "b"

    def test_in_another_queue_it_comes_before_those_who_came_later(self, desk: Desk) -> None:
        call(desk, "a")
        desk.enqueue("other", queue="r")
        call(desk, "b", queue="r")

        assert desk.claim(queues=["q"]) == ""
        assert desk.claim(queues=["r"]) == "b other"

    def test_it_inherits_the_refusals_and_the_turn(self, desk: Desk) -> None:
        """A job that others overtake gets its turn though it is called again and again; and so does a call then."""
        desk.enqueue("fast-0", X, queue="fast")
        desk.claim(queues=["fast"])
        call(desk, "slow-0", limits=(X,), queue="slow")
        for number in range(1, 9):  # the workers of the slow queue come a moment late
            desk.enqueue(f"fast-{number}", X, queue="fast")
            desk.settle(f"fast-{number - 1}")
            if desk.claim(queues=["fast"]) == "":
                break
            desk.claim(queues=["slow"])
            call(desk, f"slow-{number}", limits=(X,), queue="slow")
        call(desk, "slow-last", limits=(X,), queue="slow")

        assert number < 8
        assert desk.claim(queues=["fast"]) == ""
        assert desk.claim(queues=["slow"]) == "slow-last"

    def test_with_another_cost_it_inherits_the_refusals(self, desk: Desk) -> None:
        both = (slots("X", 1), slots("Y", 1))
        desk.enqueue("x", both[0])
        desk.enqueue("y", both[1])
        desk.claim()
        call(desk, "a", limits=both)
        desk.settle("x")
        desk.claim()
        call(desk, "b", limits=both, cost=2)

        rows = desk.engine.store.read(lambda db: db.all("SELECT refused FROM lane_job"))
        assert rows == [(1,)]
        call(desk, "c", limits=(*both, slots("Z", 1)))  # which waits in another lane
        rows = desk.engine.store.read(lambda db: db.all("SELECT refused FROM lane_job"))
        assert rows == [(0,)]

    def test_one_that_is_scheduled_gives_way_to_one_that_is_due_at_once(self, desk: Desk) -> None:
        call(desk, "a", due=desk.clock.now() + 60 * SECOND)
        call(desk, "b")

        assert desk.claim() == "b"
        assert desk.state("a") is State.CANCELLED

    def test_one_that_waits_gives_way_to_one_that_is_due_later(self, desk: Desk) -> None:
        call(desk, "a")
        call(desk, "b", due=desk.clock.now() + 60 * SECOND)

        assert desk.claim() == ""
        desk.wait(60 * SECOND)
        assert desk.claim() == "b"

    def test_one_that_waits_for_its_next_attempt_is_replaced_and_the_newest_has_all_of_its_own(
        self, desk: Desk
    ) -> None:
        policy = RetryPolicy(attempts=2, delay=60 * SECOND, jitter=False)
        call(desk, "a", retry=policy)
        desk.claim()
        desk.settle("a", NO)
        call(desk, "b", retry=policy)

        assert desk.claim() == "b"
        assert desk.job("b").attempt == 1
        assert (desk.state("a"), desk.job("a").attempt) == (State.CANCELLED, 1)

    def test_one_that_was_replaced_stands_for_its_key_no_more(self, desk: Desk) -> None:
        hour = Unique("k", window=3600 * SECOND, on_duplicate=OnDuplicate.REPLACE)
        call(desk, "a", hour)
        call(desk, "b", Unique("k", window=SECOND, on_duplicate=OnDuplicate.REPLACE))
        desk.claim()
        desk.settle("b")
        desk.wait(SECOND)

        assert call(desk, "c", hour) == Enqueued("c")

    def test_one_that_was_replaced_when_it_would_have_run_again_stands_for_its_key_no_more(
        self, desk: Desk
    ) -> None:
        hour = Unique("k", window=3600 * SECOND, on_duplicate=OnDuplicate.REPLACE)
        call(desk, "a", hour, retry=RetryPolicy(attempts=2))
        desk.claim()
        call(desk, "b", Unique("k", window=SECOND, on_duplicate=OnDuplicate.REPLACE))
        desk.settle("a", NO)
        desk.claim()
        desk.settle("b")
        desk.wait(SECOND)

        assert call(desk, "c", hour) == Enqueued("c")

    def test_many_calls_leave_one_row_for_their_key(self, desk: Desk) -> None:
        for number in range(20):
            call(desk, f"call-{number}")

        rows = desk.engine.store.read(lambda db: db.all("SELECT seq FROM uniqueness"))
        assert len(rows) == 1

    def test_calls_of_one_batch_replace_each_other_in_order(self, desk: Desk) -> None:
        desk.enqueue("first")
        jobs = [NewJob("task", id=name, queue="q", unique=LATEST, limits=(X,)) for name in "abc"]
        assert [answer.id for answer in desk.engine.enqueue(jobs)] == ["a", "b", "c"]
        desk.enqueue("last", X)

        assert desk.claim() == "first c"


ENDS: list[tuple[str, Callable[[Desk], object], State]] = [
    ("done", lambda desk: desk.settle("a"), State.DONE),
    ("failed", lambda desk: desk.settle("a", Failed("ValueError", "no", final=True)), State.FAILED),
    ("cancelled", lambda desk: desk.settle("a", Cancelled()), State.CANCELLED),
    ("asked to stop", lambda desk: (desk.engine.cancel("a"), desk.settle("a", NO)), State.CANCELLED),
    ("failed, to be retried", lambda desk: desk.settle("a", NO), State.CANCELLED),
    ("to be run again later", lambda desk: desk.settle("a", Again(60 * SECOND)), State.CANCELLED),
    ("handed back", lambda desk: desk.settle("a", HandedBack()), State.CANCELLED),
    ("told to slow down", lambda desk: desk.settle("a", Limited(0, None, "")), State.CANCELLED),
    ("lost", lambda desk: (desk.wait(LEASE), desk.engine.upkeep()), State.CANCELLED),
]


@HEALTHY
class TestWhileItRuns:
    @FREE_AND_LIMITED
    def test_the_newest_call_is_remembered_and_runs_after_it(self, desk: Desk, limits) -> None:
        call(desk, "a", limits=limits)
        desk.claim()

        assert call(desk, "b", limits=limits) == Enqueued("b")
        assert desk.state("b") is State.WAITING
        assert desk.claim() == ""
        desk.settle("a")
        assert desk.claim() == "b"
        assert desk.state("a") is State.DONE

    @pytest.mark.parametrize(("how", "state"), [end[1:] for end in ENDS], ids=[end[0] for end in ENDS])
    @FREE_AND_LIMITED
    def test_however_the_running_one_leaves_off_the_newest_call_runs_next(
        self, desk: Desk, how: Callable[[Desk], object], state: State, limits
    ) -> None:
        policy = RetryPolicy(attempts=3, delay=60 * SECOND, jitter=False)
        call(desk, "a", retry=policy, limits=limits)
        desk.claim()
        call(desk, "b", limits=limits)
        desk.enqueue("other", *limits)
        how(desk)
        if limits:
            desk.engine.clear_override("X")

        assert desk.claim(1) == "b"  # before the one that came later
        assert desk.state("a") is state
        desk.settle("b")
        desk.claim()
        desk.settle("other")
        assert desk.claim() == ""

    def test_one_that_is_discarded_makes_way(self, desk: Desk) -> None:
        call(desk, "a", retry=RetryPolicy(attempts=1, exhausted=Exhausted.DISCARD))
        desk.claim()
        call(desk, "b")
        desk.settle("a", NO)

        assert desk.state("a") is State.DISCARDED
        assert desk.claim() == "b"

    def test_only_the_newest_of_several_is_remembered(self, desk: Desk) -> None:
        call(desk, "a")
        desk.claim()
        for name in "bcd":
            call(desk, name)
        desk.settle("a")

        assert desk.claim() == "d"
        assert [desk.job(name).reason for name in "bc"] == ["replaced by c", "replaced by d"]
        assert desk.engine.count() == {State.RUNNING: 1, State.DONE: 1, State.CANCELLED: 2}

    def test_it_never_runs_beside_the_one_it_waits_for(self, desk: Desk) -> None:
        call(desk, "call-0")
        desk.claim()
        for number in range(1, 8):
            call(desk, f"call-{number}")
            assert desk.claim() == ""
            desk.settle(f"call-{number - 1}")
            assert desk.claim() == f"call-{number}"

    def test_one_that_lost_its_worker_is_not_run_again_beside_it(self, desk: Desk) -> None:
        run_and_call(desk)
        desk.wait(LEASE)

        assert desk.claim() == "b"
        assert desk.settle("a") == [False]
        assert desk.claim() == ""

    def test_the_first_call_remembered_has_the_place(self, desk: Desk) -> None:
        call(desk, "a", limits=(X,))
        desk.claim()
        call(desk, "b", limits=(X,))
        desk.enqueue("other", X)
        call(desk, "c", limits=(X,))
        desk.settle("a")

        assert desk.claim() == "c"

    def test_it_can_be_cancelled_and_the_running_one_goes_on(self, desk: Desk) -> None:
        call(desk, "a", retry=RetryPolicy(attempts=2, jitter=False, delay=0))
        desk.claim()
        call(desk, "b")

        assert desk.engine.cancel("b") is State.CANCELLED
        desk.settle("a", NO)
        assert desk.claim() == "a"
        assert call(desk, "c") == Enqueued("c")
        desk.settle("a")
        assert desk.claim() == "c"

    def test_it_expires_like_any_that_waits(self, desk: Desk) -> None:
        run_and_call(desk, expires=desk.clock.now() + SECOND)
        desk.wait(SECOND)
        desk.engine.upkeep()

        assert desk.state("b") is State.EXPIRED
        desk.settle("a")
        assert desk.claim() == ""

    def test_it_stands_for_its_key(self, desk: Desk) -> None:
        run_and_call(desk)

        assert call(desk, "c", REUSE) == Enqueued("b", reused=True)
        with pytest.raises(DuplicateJobError) as caught:
            call(desk, "c", REJECT)
        assert caught.value.existing == "b"

    def test_it_keeps_its_own_due_time(self, desk: Desk) -> None:
        run_and_call(desk, due=desk.clock.now() + 60 * SECOND)
        desk.settle("a")

        assert desk.state("b") is State.SCHEDULED
        desk.wait(60 * SECOND)
        assert desk.claim() == "b"

    def test_it_is_listed_and_counted_as_waiting(self, desk: Desk) -> None:
        run_and_call(desk)

        assert [job.id for job in desk.engine.jobs(state=State.WAITING)] == ["b"]
        assert desk.engine.count() == {State.RUNNING: 1, State.WAITING: 1}
        assert [(q.queue, q.counts) for q in desk.engine.tally()] == [("q", {"running": 1, "waiting": 1})]
        assert ("q", "waiting", 1) in desk.engine.gauges(10).queues

    def test_it_waits_at_the_keys_that_it_will_come_to(self, desk: Desk) -> None:
        run_and_call(desk, limits=(X, slots("new", 3)))

        view = desk.engine.gate("new")
        assert (view.waiting, view.numbers.slots) == (1, 3)

    @FREE_AND_LIMITED
    def test_the_keys_it_will_come_to_are_listed(self, desk: Desk, limits) -> None:
        run_and_call(desk, limits=limits)

        gates, number = desk.engine.gates()
        assert [(gate.key, gate.waiting) for gate in gates] == [("X", 1) for _ in limits]
        assert number == len(limits)

    def test_why_names_the_job_it_waits_for(self, desk: Desk) -> None:
        run_and_call(desk)

        assert desk.engine.why("b").sentence == "waits for job a to end"

    def test_it_takes_room_in_a_queue_that_has_a_bound(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(1))
        run_and_call(desk)
        call(desk, "c")  # in the place of b

        with pytest.raises(QueueFullError):
            desk.enqueue("other")

    def test_a_job_whose_state_does_not_count_is_not_waited_for(self, desk: Desk) -> None:
        waiting = Unique("k", frozenset({State.SCHEDULED, State.WAITING}), on_duplicate=OnDuplicate.REPLACE)
        call(desk, "a", waiting)
        desk.claim()
        call(desk, "b", waiting)

        assert desk.claim() == "b"

    @pytest.mark.parametrize(
        "unique",
        [
            Unique("k", window=3600 * SECOND, on_duplicate=OnDuplicate.REPLACE),
            Unique("k", LIVE | {State.DONE}, on_duplicate=OnDuplicate.REPLACE),
        ],
        ids=["window", "states"],
    )
    def test_one_that_has_ended_and_still_counts_rejects_it(self, desk: Desk, unique: Unique) -> None:
        call(desk, "a", unique)
        desk.claim()
        desk.settle("a")

        with pytest.raises(DuplicateJobError):
            call(desk, "b", unique)

    def test_a_settlement_in_a_batch_with_another_job_of_its_fence_loses_nobody(self, desk: Desk) -> None:
        """A row that was taken by mistake is put back as it was, with the mark that it has a successor."""
        call(desk, "a")
        desk.enqueue("other")
        desk.claim()
        lost = desk.attempts["a"]
        desk.wait(LEASE)
        desk.claim()
        call(desk, "b")
        desk.attempts["other"], desk.attempts["stale"] = desk.attempts["other"], lost
        assert desk.settle("stale other") == [False, True]

        desk.settle("a")
        assert desk.claim() == "b"

    def test_the_job_of_a_schedule_waits_for_the_one_before(self, desk: Desk) -> None:
        job = NewJob("task", queue="q", unique=LATEST)
        desk.engine.set_schedule(Schedule("s", "* * * * *", job, overlap=Overlap.ALLOW))
        desk.wait(60 * SECOND)
        first = desk.claim(lease=3600 * SECOND)
        desk.wait(60 * SECOND)

        assert desk.claim() == ""
        desk.settle(first)
        second = desk.claim()
        assert second not in ("", first)

    def test_a_job_run_again_by_hand_does_not_push_in(self, desk: Desk) -> None:
        run_and_call(desk)
        desk.settle("a", NO)

        with pytest.raises(DuplicateJobError):
            desk.engine.retry("a")

    def test_events_tell_of_the_replacement_and_of_no_retry(self, desk: Desk) -> None:
        call(desk, "a", retry=RetryPolicy(attempts=3))
        desk.claim()
        call(desk, "b")
        desk.settle("a", NO)

        assert desk.heard("job.retrying") == []
        (event,) = desk.heard("job.cancelled")
        assert (event.facts["job"], event.facts["reason"]) == ("a", "replaced by b")


@HEALTHY
class TestPause:
    def test_a_job_waits_for_a_pause_in_the_calls(self, desk: Desk) -> None:
        for name in "abc":
            call(desk, name, quiet(5))
            assert desk.state(name) is State.SCHEDULED
            desk.wait(3 * SECOND)
            assert desk.claim() == ""
        desk.wait(2 * SECOND - 1)
        assert desk.claim() == ""
        desk.wait(1)

        assert desk.claim() == "c"
        assert [desk.job(name).reason for name in "ab"] == ["replaced by b", "replaced by c"]

    def test_it_waits_for_no_longer_than_it_may(self, desk: Desk) -> None:
        begin = desk.clock.now()
        for number in range(4):
            call(desk, f"call-{number}", quiet(5, max_wait=12))
            desk.wait(3 * SECOND)

        assert desk.clock.now() - begin == 12 * SECOND
        assert desk.claim() == "call-3"

    def test_after_the_longest_wait_it_keeps_its_place_in_line(self, desk: Desk) -> None:
        for number in range(5):
            call(desk, f"call-{number}", quiet(5, max_wait=12))
            desk.wait(3 * SECOND)
            desk.engine.upkeep()
        desk.enqueue("other")
        call(desk, "last", quiet(5, max_wait=12))

        assert desk.state("last") is State.WAITING
        assert desk.claim() == "last other"

    def test_a_call_after_the_pause_and_before_the_start_begins_another_pause(self, desk: Desk) -> None:
        call(desk, "a", quiet(5))
        desk.wait(5 * SECOND)
        desk.engine.upkeep()
        assert desk.state("a") is State.WAITING
        call(desk, "b", quiet(5))

        assert desk.claim() == ""
        desk.wait(5 * SECOND)
        assert desk.claim() == "b"

    def test_calls_while_it_runs_have_a_pause_of_their_own(self, desk: Desk) -> None:
        call(desk, "a", quiet(5, max_wait=6))
        desk.wait(5 * SECOND)
        assert desk.claim() == "a"
        desk.wait(SECOND)
        call(desk, "b", quiet(5, max_wait=6))  # the first of the calls that are yet to be served
        desk.wait(3 * SECOND)
        call(desk, "c", quiet(5, max_wait=6))
        desk.settle("a")

        assert desk.state("c") is State.SCHEDULED
        desk.wait(3 * SECOND - 1)
        assert desk.claim() == ""
        desk.wait(1)
        assert desk.claim() == "c"

    def test_a_pause_that_ended_while_the_earlier_one_ran_is_over(self, desk: Desk) -> None:
        call(desk, "a", quiet(1))
        desk.wait(SECOND)
        desk.claim()
        call(desk, "b", quiet(1))
        desk.wait(SECOND)
        desk.settle("a")

        assert desk.claim() == "b"

    def test_a_call_that_waits_for_no_pause_goes_at_once(self, desk: Desk) -> None:
        call(desk, "a", quiet(5))
        call(desk, "b")

        assert desk.claim() == "b"

    def test_a_retry_waits_for_no_pause(self, desk: Desk) -> None:
        call(desk, "a", quiet(5), retry=RetryPolicy(attempts=2, delay=SECOND, jitter=False))
        desk.wait(5 * SECOND)
        desk.claim()
        desk.settle("a", NO)
        desk.wait(SECOND)

        assert desk.claim() == "a"

    def test_calls_after_a_failed_attempt_are_calls_of_their_own(self, desk: Desk) -> None:
        call(desk, "a", quiet(5, max_wait=6), retry=RetryPolicy(attempts=2, delay=60 * SECOND, jitter=False))
        desk.wait(5 * SECOND)
        desk.claim()
        desk.settle("a", NO)
        desk.wait(SECOND)
        call(desk, "b", quiet(5, max_wait=6))

        desk.wait(5 * SECOND - 1)
        assert desk.claim() == ""
        desk.wait(1)
        assert desk.claim() == "b"

    def test_calls_of_one_batch_are_one_burst(self, desk: Desk) -> None:
        desk.engine.enqueue([NewJob("task", id=name, queue="q", unique=quiet(5)) for name in "abc"])

        desk.wait(5 * SECOND)
        assert desk.claim() == "c"

    def test_why_tells_how_long_it_waits(self, desk: Desk) -> None:
        call(desk, "a", quiet(5, max_wait=60))
        desk.wait(2 * SECOND)
        call(desk, "b", quiet(5, max_wait=60))

        why = desk.engine.why("b")
        assert why.earliest == desk.clock.now() + 5 * SECOND
        assert (
            why.sentence
            == "waits until no call has come for 5s, at the latest 58s from now: 1m after the first call"
        )

    def test_why_tells_of_both_if_the_earlier_one_runs(self, desk: Desk) -> None:
        run_and_call(desk, quiet(5))

        assert desk.engine.why("b").sentence == "waits for job a to end; waits until no call has come for 5s"

    def test_two_processes_count_the_same_calls(self, desks: list[Desk]) -> None:
        for number in range(4):
            call(desks[number % 2], f"call-{number}", quiet(5, max_wait=12))
            desks[0].wait(3 * SECOND)

        assert [desk.claim() for desk in desks] == ["call-3", ""]

    def test_the_clock_of_the_store_decides(self, desk: Desk) -> None:
        """A caller names no moment: each call is one of a transaction, whose time the store tells."""
        with pytest.raises(InvalidJobError, match="due"):
            call(desk, "a", quiet(5), due=desk.clock.now() + SECOND)

    def test_a_schedule_waits_for_a_pause_too(self, desk: Desk) -> None:
        job = NewJob("task", queue="q", unique=quiet(5))
        desk.engine.set_schedule(Schedule("s", "* * * * *", job))
        desk.wait(60 * SECOND)
        assert desk.claim() == ""
        call(desk, "a", quiet(5))
        desk.wait(5 * SECOND)

        assert desk.claim() == "a"


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"quiet": 5}, "quiet"),
        ({"quiet": 5, "on_duplicate": "reject"}, "quiet"),
        ({"quiet": 0, "on_duplicate": "replace"}, "quiet"),
        ({"quiet": 5, "max_wait": 4, "on_duplicate": "replace"}, "max_wait"),
        ({"max_wait": 4, "on_duplicate": "replace"}, "max_wait"),
        ({"quiet": 5, "window": 10, "on_duplicate": "replace"}, "quiet"),
        ({"quiet": 5, "states": ["waiting"], "on_duplicate": "replace"}, "quiet"),
    ],
)
def test_a_pause_that_makes_no_sense_is_refused(terms: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        Unique("k", **terms)

    assert caught.value.field == field


def test_a_successor_that_its_job_does_not_know_of_is_found_by_the_doctor(desk: Desk) -> None:
    run_and_call(desk)
    desk.engine.store.write(lambda db: db.run("UPDATE running SET has_successor = 0"))

    (complaint,) = desk.engine.doctor()
    assert complaint.startswith("job b waits for the end of job number")


@FREE_AND_LIMITED
@pytest.mark.parametrize("outcome", [None, HandedBack(), Again(60 * SECOND)], ids=["done", "again", "later"])
def test_a_successor_that_a_process_of_an_older_version_knew_nothing_of_is_not_lost(
    desk: Desk, limits, outcome: Outcome | None
) -> None:
    call(desk, "a", limits=limits, retry=RetryPolicy(attempts=3))
    desk.claim()
    call(desk, "b", limits=limits)
    desk.engine.store.write(lambda db: db.run("UPDATE running SET has_successor = 0"))
    desk.settle("a", outcome)
    desk.engine.upkeep()

    assert desk.claim() == "b"
    assert desk.engine.doctor() == []


def test_a_successor_of_one_that_runs_again_waits_for_that(desk: Desk) -> None:
    """One that an older version rescued runs again, and does not know who waits for it."""
    run_and_call(desk)
    desk.engine.store.write(lambda db: db.run("UPDATE running SET has_successor = 0"))
    desk.engine.upkeep()

    assert desk.claim() == ""
    assert desk.engine.doctor() == []
    desk.settle("a")
    assert desk.claim() == "b"


def test_two_jobs_of_one_key_are_found_by_the_doctor(desk: Desk) -> None:
    call(desk, "a", REUSE)
    call(desk, "b", Unique("other"))
    desk.engine.store.write(lambda db: db.run("UPDATE uniqueness SET key = ?", "\x1fk"))

    assert desk.engine.doctor() == ["2 jobs stand for the unique key 'k' at once"]


@on_sqlite
def test_jobs_without_a_unique_key_pay_nothing_for_those_that_have_one(desk: Desk) -> None:
    job = NewJob("task", id="a", queue="q", limits=(X,))
    works = [
        work_of(desk.engine, lambda: desk.engine.enqueue([job])),
        work_of(desk.engine, desk.claim),
        work_of(desk.engine, lambda: desk.settle("a")),
    ]

    texts = " ".join(statement for work in works for statement in work.statements)
    assert " successor " not in texts
    assert " uniqueness " not in texts.replace(" meta, uniqueness, enqueued", "")


def test_it_outlives_the_process_that_remembered_it(desk: Desk, opened) -> None:
    run_and_call(desk)

    there = Desk(opened(), desk.clock)
    there.attempts = desk.attempts
    there.settle("a")

    assert there.claim() == "b"


def test_outcomes_are_all_tried() -> None:
    """A new way to end an attempt belongs among the ends above; only a pass, which replaces no other, is conducted."""
    assert len(Outcome.__args__) == 6 + 1  # type: ignore[attr-defined]
