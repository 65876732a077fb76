"""What can be seen of gates and queues from outside, and how full they are."""

import pytest

from penstock.clock import SECOND
from penstock.errors import NotFoundError
from penstock.job import START_GRACE, FloatingGauge, KeyGauge, NewJob
from penstock.limits.rules import Floating, Limit, Numbers, Window
from penstock.store.session import Locks
from tests.support.desk import Desk, rate, slots
from tests.support.stores import on_postgres

HOUR = 3_600 * SECOND


def test_a_gate_shows_the_last_numbers_that_were_brought_to_it(desk: Desk) -> None:
    desk.enqueue("a", rate("k", 7, HOUR))
    desk.settle(desk.claim())

    desk.engine.upkeep()

    gate = desk.engine.gate("k")
    assert (Numbers(rate=Window(7, HOUR)), 1) == (gate.numbers, gate.recent)


def test_a_gate_to_which_nobody_has_come_yet_shows_what_will_be_brought(desk: Desk) -> None:
    desk.enqueue("a", slots("k", 3), due=desk.clock.now() + HOUR)
    desk.enqueue("b", slots("kk", 3))

    gate = desk.engine.gate("k")

    assert (Numbers(slots=3), 0, 0) == (gate.numbers, gate.running, gate.waiting)
    with pytest.raises(NotFoundError):
        desk.engine.gate("k", "acme")
    with pytest.raises(NotFoundError):
        desk.engine.gate("other")


@on_postgres
def test_a_job_that_came_while_somebody_else_had_the_gates_is_seen(desk: Desk, opened, store) -> None:
    other = opened()

    def while_held(db: object) -> None:
        other.enqueue([NewJob("task", id="a", queue="q", limits=(slots("k", 3),))])

    desk.engine.store.write(while_held, locks=Locks.GATES)

    assert 1 == desk.engine.gate("k").waiting
    desk.claim()
    assert (0, 1) == (desk.engine.gate("k").waiting, desk.engine.gate("k").running)


def test_a_window_moves_on_when_its_oldest_start_leaves_it(desk: Desk) -> None:
    desk.enqueue("a b", rate("k", 7, HOUR))
    assert None is desk.engine.gate("k").window_resets_at
    desk.claim(1)
    began = desk.clock.now()
    desk.clock.advance(60 * SECOND)
    desk.claim(1)

    assert began + START_GRACE + HOUR == desk.engine.gate("k").window_resets_at
    desk.clock.advance(HOUR - 30 * SECOND)
    assert began + START_GRACE + HOUR + 60 * SECOND == desk.engine.gate("k").window_resets_at


def test_gates_are_listed_by_tenant(desk: Desk) -> None:
    for tenant in ("", "acme"):
        limits = tuple(Limit(key, Numbers(slots=1)) for key in ("a", "b", "@own"))
        desk.engine.enqueue([NewJob("task", queue="q", tenant=tenant, limits=limits)])

    def names(**facts: str) -> list[str]:
        page, total = desk.engine.gates(**facts)
        assert total == len(page)
        return [f"{gate.tenant}/{gate.key}" for gate in page]

    assert ["acme/@own", "acme/a", "acme/b"] == names(tenant="acme")
    assert ["/@own", "/a", "/b"] == names(tenant="")
    assert ["/@own", "acme/@own", "/a", "acme/a", "/b", "acme/b"] == names()


def test_jobs_of_all_tenants_pass_a_shared_gate(desk: Desk) -> None:
    for tenant, shared in (("acme", True), ("globex", True), ("", False), ("initech", False)):
        limit = Limit("k", Numbers(slots=2), shared=shared)
        desk.engine.enqueue(
            [NewJob("task", id=tenant or "nobody", queue="q", tenant=tenant, limits=(limit,))]
        )

    assert "nobody acme initech" == desk.claim()
    desk.settle("nobody")
    assert "globex" == desk.claim()
    assert (2, 1) == (desk.engine.gate("k").running, desk.engine.gate("k", "initech").running)
    assert desk.job("globex").limits[0].shared


def test_the_numbers_of_a_queue_and_a_type_can_be_seen(desk: Desk) -> None:
    desk.engine.configure("queue", "q", Numbers(slots=3))
    desk.engine.configure("type", "task", Numbers(rate=Window(1, SECOND)))

    assert Numbers(slots=3) == desk.engine.configured("queue", "q")
    assert Numbers(rate=Window(1, SECOND)) == desk.engine.configured("type", "task")
    assert None is desk.engine.configured("queue", "task")
    desk.engine.configure("queue", "q", None)
    assert None is desk.engine.configured("queue", "q")


def test_queues_are_counted_by_what_their_jobs_do(desk: Desk) -> None:
    desk.enqueue("a b c")
    desk.enqueue("d e", slots("X", 1))
    desk.enqueue("later", due=desk.clock.now() + SECOND)
    desk.claim(2)

    assert [("q", "running", 2), ("q", "scheduled", 1), ("q", "waiting", 3)] == desk.engine.gauges(10).queues


def test_the_busiest_keys_are_named_and_the_others_counted_together(desk: Desk) -> None:
    desk.enqueue("a b c", slots("X", 1))
    desk.enqueue("d e", slots("Y", 1))
    desk.enqueue("f", slots("Z", 1))
    desk.claim(3)
    found = desk.engine.gauges(2)

    assert [KeyGauge("", "X", 1, 2), KeyGauge("", "Y", 1, 1)] == found.keys
    assert (1, 0) == (found.other_running, found.other_waiting)
    assert 3 == len(desk.engine.gauges(10).keys)


def test_floating_limits_in_use_are_gauged_with_their_age(desk: Desk) -> None:
    for key in ("X", "Y", "Z"):
        desk.enqueue(key, Limit(key, Numbers(slots=2), floating=Floating("how_many", 60 * SECOND)))
    lent = {each.key: each for each in desk.engine.refreshes(["how_many"], 9, worker="w")}
    desk.engine.refreshed(lent["X"], value=5)
    desk.engine.refreshed(lent["Y"], error="down")
    desk.wait(3 * SECOND)

    found = {each.key: each for each in desk.engine.gauges(10).floating}

    assert FloatingGauge("", "X", 5, 0, 3 * SECOND) == found["X"]
    assert FloatingGauge("", "Y", 2, 1, None) == found["Y"]
    assert 2 == len(desk.engine.gauges(2).floating)
    for name in ("X", "Y", "Z"):
        desk.engine.cancel(name)
    desk.wait(60 * SECOND)
    desk.engine.refreshes(["how_many"], 9, worker="w")
    assert [] == desk.engine.gauges(10).floating


def test_nothing_is_full_at_first(desk: Desk) -> None:
    found = desk.engine.gauges(10)

    assert ([], [], 0, 0) == (found.queues, found.keys, found.other_running, found.other_waiting)
