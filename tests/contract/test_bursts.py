"""A throttle with bursts: a bucket that fills at an even pace, kept across processes and for as long as it matters."""

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import GUARD
from penstock.lifecycle.outcomes import HandedBack
from penstock.limits.rules import Limit, Numbers, Window
from tests.support.desk import Desk

pytestmark = pytest.mark.usefixtures("healthy")


def bucket(burst: int, cost: int | None = None) -> Limit:
    """Two starts a second, after a burst."""
    return Limit("k", Numbers(throttle=Window(2, SECOND, burst)), cost=cost)


def names(count: int) -> str:
    return " ".join(f"j{n}" for n in range(count))


def begin(desk: Desk, count: int = 100) -> int:
    """Claim, and have all that start begin at once and end, as long as some do; return how many did.

    A start counts from a millisecond after it was told, so the last of a burst comes with the claim after that.
    """
    found = 0
    while found < count and (claimed := desk.claim(count - found)):
        desk.begun(claimed)
        desk.settle(claimed)
        desk.wait(2 * MILLISECOND)
        found += len(claimed.split())
    return found


def test_a_full_bucket_lets_a_burst_through_and_then_two_a_second(desk: Desk) -> None:
    desk.enqueue(names(60), bucket(40))
    assert 40 == begin(desk)

    started = []
    for _ in range(6):
        desk.wait(SECOND // 2)
        started.append(begin(desk))
    assert [1] * 6 == started


def test_a_bucket_emptied_long_ago_and_kept_busy_stays_empty(desk: Desk) -> None:
    desk.enqueue(names(200), bucket(5))
    assert 5 == begin(desk)

    for _ in range(150):
        desk.wait(SECOND // 2 - 2 * MILLISECOND)
        assert begin(desk) <= 1


def test_an_idle_bucket_fills_again(desk: Desk) -> None:
    desk.enqueue(names(60), bucket(5))
    assert 5 == begin(desk)
    desk.wait(SECOND + 2 * MILLISECOND)
    assert 2 == begin(desk)

    desk.wait(60 * SECOND)
    assert 5 == begin(desk)


def test_every_process_takes_from_the_same_bucket(desks: list[Desk]) -> None:
    one, other = desks
    one.enqueue(names(60), bucket(6))

    assert 4 == begin(one, 4)
    assert 2 == begin(other)
    assert 0 == begin(one)


def test_a_start_that_is_handed_back_unbegun_goes_back_into_the_bucket(desk: Desk) -> None:
    desk.enqueue(names(9), bucket(3))
    claimed = desk.claim()
    assert 2 == len(claimed.split())

    desk.settle(claimed, HandedBack(begun=False))
    assert 3 == begin(desk)


def test_a_costly_start_takes_its_cost_from_the_bucket(desk: Desk) -> None:
    desk.enqueue(names(9), bucket(5, cost=2))
    assert 2 == begin(desk)

    desk.wait(SECOND // 2 + MILLISECOND)
    assert 1 == begin(desk)


def test_what_was_not_used_goes_back_into_the_bucket_at_once(desk: Desk) -> None:
    desk.enqueue(names(9), bucket(5, cost=5))
    assert desk.claim() == "j0"

    assert desk.spend("j0", k=0)
    assert desk.claim() == "j1"


def test_other_numbers_in_force_hold_at_once(desk: Desk) -> None:
    desk.enqueue(names(60), bucket(5))
    assert 5 == begin(desk)

    desk.engine.override("k", Numbers(throttle=Window(2, SECOND)))
    desk.wait(SECOND // 2 + 2 * MILLISECOND)
    assert 1 == begin(desk)
    desk.engine.clear_override("k")
    assert 0 == begin(desk)


def test_why_tells_of_the_burst_and_when_the_bucket_has_enough(desk: Desk) -> None:
    desk.enqueue(names(6), bucket(3))
    began = desk.clock.now()
    assert 3 == begin(desk)

    why = desk.engine.why("j4")
    assert "starts 500ms apart after a burst of 3" in why.sentence
    assert began + GUARD + SECOND == why.earliest
    assert "t2/1000000/3" == desk.engine.gate("k").numbers.text
