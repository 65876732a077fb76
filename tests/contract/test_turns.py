"""Turns: a job refused too often is served next, and nothing is kept for it once it cannot use it."""

import pytest

from penstock.clock import SECOND
from tests.support.desk import Desk, slots, throttle


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
