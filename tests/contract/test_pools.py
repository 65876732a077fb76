"""Pools: queues that share a number of slots, whichever worker fetches from which of them."""

from collections.abc import Callable

import pytest

from penstock.engine import Engine
from penstock.errors import InvalidError, NotFoundError
from penstock.job import Order, Pool
from tests.support.desk import LEASE, Desk, slots

POOL = Pool("main", ("a", "b"), Order.WEIGHTED, (3, 1), 3)
pytestmark = pytest.mark.usefixtures("healthy")


def test_a_pool_is_kept_replaced_and_deleted(desk: Desk, opened: Callable[[], Engine]) -> None:
    desk.engine.set_pool(POOL)
    other = Pool("main", ("c",), Order.STRICT, (1,), None, "acme")
    desk.engine.set_pool(other)

    assert [POOL, other] == opened().pools()
    assert [other] == opened().pools("acme")
    desk.engine.set_pool(Pool("main", ("a",)))
    assert [Pool("main", ("a",), weights=(1,))] == opened().pools("")
    desk.engine.delete_pool("main")
    with pytest.raises(NotFoundError):
        desk.engine.delete_pool("main")
    assert [other] == opened().pools()


@pytest.mark.parametrize(
    "pool",
    [
        Pool("", ("a",)),
        Pool("x", ()),
        Pool("x", ("a", "a")),
        Pool("x", ("a\nb",)),
        Pool("x", ("a",), weights=(0,)),
        Pool("x", ("a",), weights=(1, 1)),
        Pool("x", ("a",), slots=-1),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused(desk: Desk, pool: Pool) -> None:
    with pytest.raises(InvalidError):
        desk.engine.set_pool(pool)


def test_no_more_run_in_all_its_queues_than_there_are_slots(desk: Desk) -> None:
    desk.engine.set_pool(POOL)
    desk.enqueue("a1 a2 a3", queue="a")
    desk.enqueue("b1 b2", slots("k", 9), queue="b")
    desk.enqueue("c1", queue="c")

    assert "a1 a2" == desk.claim(2, ["a"])
    assert "b1" == desk.claim(9, ["b"])
    assert "c1" == desk.claim(9, ["a", "b", "c"])
    desk.settle("a1")
    assert "a3" == desk.claim(9, ["a", "b"])
    desk.settle("a2 b1")
    assert "b2" == desk.claim(9, ["a", "b"])


def test_who_runs_already_counts_and_who_was_freed_of_the_pool_does_not(desk: Desk) -> None:
    desk.enqueue("a1 a2 a3 a4", queue="a")
    desk.claim(2, ["a"])

    desk.engine.set_pool(POOL)
    assert "a3" == desk.claim(9, ["a"])
    desk.engine.set_pool(POOL)
    assert "" == desk.claim(9, ["a"])
    desk.engine.set_pool(Pool("main", ("b",), slots=3))
    assert "a4" == desk.claim(9, ["a"])
    desk.settle("a1 a2 a3 a4")


def test_raising_lowering_and_removing_the_number_takes_effect_at_once(desk: Desk) -> None:
    desk.enqueue("a1 a2 a3 a4 a5 a6", queue="a")
    desk.engine.set_pool(Pool("main", ("a",), slots=0))
    assert "" == desk.claim(9, ["a"])
    desk.engine.set_pool(Pool("main", ("a",), slots=2))
    assert "a1 a2" == desk.claim(9, ["a"])
    desk.engine.set_pool(Pool("main", ("a",), slots=1))
    desk.settle("a1")
    assert "" == desk.claim(9, ["a"])
    desk.engine.set_pool(Pool("main", ("a",)))
    assert "a3" == desk.claim(1, ["a"])
    desk.engine.set_pool(Pool("main", ("a",), slots=2))
    assert "" == desk.claim(9, ["a"])
    desk.engine.delete_pool("main")
    assert "a4 a5 a6" == desk.claim(9, ["a"])
    desk.settle("a2 a3 a4 a5 a6")


def test_a_job_that_its_own_limit_keeps_holds_no_slot_of_the_pool(desk: Desk) -> None:
    desk.engine.set_pool(Pool("main", ("a",), slots=2))
    desk.enqueue("a1 a2 a3", slots("k", 1), queue="a")
    desk.enqueue("a4 a5", queue="a")

    assert "a1 a4" == desk.claim(9, ["a"])
    desk.settle("a1")
    assert "a2" == desk.claim(9, ["a"])


def test_a_lost_worker_frees_its_slot(desk: Desk) -> None:
    desk.engine.set_pool(Pool("main", ("a",), slots=1))
    desk.enqueue("a1 a2", queue="a")
    desk.claim(9, ["a"])

    desk.clock.advance(LEASE + 1)

    assert "a1" == desk.claim(9, ["a"])
