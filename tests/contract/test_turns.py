"""Turns: a job refused too often is served next, and nothing is kept for it once it cannot use it."""

from itertools import count, islice

import pytest

from penstock.clock import SECOND
from penstock.job import Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit
from tests.support.desk import Desk, rate, slots, throttle


def give_the_turn(desk: Desk, name: str, *limits) -> str:
    """Have *name*, of the queue `slow`, refused at X until it has the turn; return who is kept waiting by that."""
    desk.enqueue("fast0", slots("X", 1), queue="fast")
    desk.claim(queues=["fast"])
    desk.enqueue(name, slots("X", 1), *limits, queue="slow")
    for n in range(1, 9):
        desk.enqueue(f"fast{n}", slots("X", 1), queue="fast")
        desk.settle(f"fast{n - 1}")
        if desk.claim(queues=["fast"]) == "":
            return f"fast{n}"
        assert desk.claim(queues=["slow"]) == ""
    pytest.fail(f"{name} never had the turn")


def turns(desk: Desk) -> list[tuple[object, ...]]:
    return desk.engine.store.read(lambda db: db.all("SELECT * FROM turn"))


def test_a_turn_ends_with_its_holder_though_another_stands_before_it(desk: Desk) -> None:
    waiter = give_the_turn(desk, "slow")
    desk.enqueue("first", slots("X", 1), queue="slow", priority=9)  # the head of the lane now
    assert turns(desk)
    desk.engine.cancel("slow")

    assert turns(desk) == []
    assert desk.claim(queues=["fast", "slow"]) == "first"
    desk.settle("first")
    assert desk.claim(queues=["fast", "slow"]) == waiter
    desk.settle(waiter)
    for _ in range(3):
        desk.engine.upkeep()
    desk.enqueue("later", slots("X", 1), queue="slow")
    assert desk.claim(queues=["slow"]) == "later"
    assert desk.engine.doctor() == []


def test_a_start_that_voids_a_turn_rings_the_gates_that_were_kept_for_it(desk: Desk) -> None:
    waiter = give_the_turn(desk, "slow", throttle("Y", 1))
    assert desk.claim(queues=["fast"]) == ""  # X is free, and kept
    desk.enqueue("urgent", throttle("Y", 1), queue="fast", priority=1)

    started = desk.claim(1, queues=["fast"])
    assert started == "urgent"
    # Now the clock keeps the holder from Y, so X must not be kept for it any longer.
    assert desk.claim(queues=["fast"]) == waiter
    assert desk.engine.doctor() == []


def test_a_turn_is_void_while_one_of_its_gates_is_shut_by_hand(desk: Desk) -> None:
    waiter = give_the_turn(desk, "slow", slots("Y", 1))
    assert desk.claim(queues=["fast"]) == ""
    desk.engine.shut("Y", desk.clock.now() + 3600 * SECOND)

    assert desk.claim(queues=["fast"]) == waiter


def overtakers(
    desk: Desk, small: Limit, large: Limit, *, step: int = 0, backlog: int = 6, **facts: int
) -> int:
    """Keep a key busy with jobs that bring *large*; return how many start before one that brings *small*."""
    names = (f"large{n}" for n in count())
    desk.enqueue("early", small)  # from now on the key remembers what it must
    desk.settle(desk.claim())
    desk.enqueue(" ".join(islice(names, 3 + backlog)), large)
    running = desk.claim(3).split()
    desk.enqueue("small", small, **facts)
    for overtaken in range(40):
        if running:
            desk.settle(running.pop(0), began=desk.clock.now())
        desk.wait(step)
        desk.enqueue(next(names), large)
        running += desk.claim(3).split()
        if "small" in running:
            return overtaken
    pytest.fail("the job with the smaller number was overtaken for ever")


SMALLER = {
    "slots": (slots("K", 1), slots("K", 3), 0),
    "slots, one less": (slots("K", 2), slots("K", 3), 0),
    "a rate": (rate("K", 1), rate("K", 5), SECOND // 8),
    "a throttle": (throttle("K", 1), throttle("K", 10), SECOND // 10),
    "a rate beside slots": (rate("K", 2), slots("K", 3), SECOND // 8),
    "slots beside a rate": (slots("K", 1), rate("K", 50), SECOND // 50),
}


@pytest.mark.parametrize("kind", SMALLER)
@pytest.mark.parametrize("backlog", [0, 6])
def test_a_job_with_a_smaller_number_is_overtaken_boundedly(desk: Desk, kind: str, backlog: int) -> None:
    small, large, step = SMALLER[kind]

    assert overtakers(desk, small, large, step=step, backlog=backlog) < 30
    desk.settle("small")
    assert desk.engine.doctor() == []


def test_a_job_of_higher_priority_and_a_smaller_number_starts_before_lower_ones(desk: Desk) -> None:
    assert overtakers(desk, slots("K", 1), slots("K", 3), priority=10) == 2  # those that ran when it came


def test_jobs_with_larger_numbers_go_on_once_the_smaller_one_started(desk: Desk) -> None:
    overtakers(desk, slots("K", 1), slots("K", 3))

    desk.claim(3)
    assert desk.engine.count()[State.RUNNING] == 3


def test_a_smaller_number_in_a_queue_without_workers_holds_up_no_other(desk: Desk) -> None:
    desk.enqueue("a b c d e f g h i j k l", slots("K", 3))
    running = desk.claim(3).split()
    desk.enqueue("small", slots("K", 1), queue="idle")
    for _ in range(9):
        desk.settle(running.pop(0))
        running += desk.claim(3).split()
        assert len(running) == 3


def test_a_clock_that_shuts_one_gate_of_a_holder_keeps_nothing_at_the_others(desk: Desk) -> None:
    desk.enqueue("first", throttle("K", 1, 3600 * SECOND), slots("Y", 1))
    assert desk.claim() == "first"
    desk.settle("first", began=desk.clock.now())
    desk.enqueue("small", throttle("K", 1, 3600 * SECOND), slots("Y", 1))
    passed = []
    for n in range(12):
        desk.wait(SECOND // 10)
        desk.enqueue(f"large{n}", throttle("K", 10))
        desk.enqueue(f"y{n}", slots("Y", 1))
        started = desk.claim(3).split()
        assert f"y{n}" in started
        passed += [name for name in started if name.startswith("large")]
        for name in started:
            desk.settle(name, began=desk.clock.now())

    assert len(passed) < 10  # at K the others wait for it
    desk.wait(3600 * SECOND)
    assert desk.claim(1) == "small"


def test_a_gate_that_the_clock_opens_counts_no_refusal_at_another_that_jobs_leave_with_it(desk: Desk) -> None:
    desk.enqueue("a later", rate("A", 1, SECOND))
    desk.enqueue("b", rate("B", 2, 100 * SECOND))
    assert desk.claim(2) == "a b"
    desk.enqueue("heavy", rate("B", 2, 100 * SECOND, cost=2))
    assert desk.claim(2) == ""
    before = refusals(desk, "heavy")
    desk.wait(2 * SECOND)
    ended = [desk.attempts[name] for name in ("a", "b")]
    settled = [Settlement(attempt.seq, attempt.fence, Done(None)) for attempt in ended]
    _, claim = desk.engine.exchange(settled, ["q"], 3, worker="worker")

    assert [job.id for job in claim.jobs] == ["later"]
    assert refusals(desk, "heavy") == before


def refusals(desk: Desk, name: str) -> int:
    question = "SELECT refused FROM lane_job JOIN job USING (seq) WHERE id = ?"
    ((count,),) = desk.engine.store.read(lambda db: db.all(question, name))
    return count
