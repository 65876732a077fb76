"""Rate resources: keys whose rate is set from outside, and which jobs name without numbers."""

import pytest

from penstock.clock import SECOND
from penstock.errors import NotFoundError
from penstock.job import NewJob
from penstock.limits import UNLIMITED, Limit
from penstock.limits.rules import Window
from tests.support.desk import Desk

DAY = 86_400 * SECOND
KEY = "mailbox:outreach@acme.com"


def add(desk: Desk, count: int, key: str = KEY) -> None:
    desk.engine.enqueue([NewJob("t", queue="q", limits=(Limit(key, UNLIMITED),)) for _ in range(count)])


def started(desk: Desk) -> int:
    return len(desk.engine.claim(["q"], 50, worker="w").jobs)


def test_a_key_without_a_resource_is_free(desk: Desk) -> None:
    add(desk, 5)

    assert 5 == started(desk)


def test_to_change_and_to_delete_one_takes_effect_at_once(desk: Desk) -> None:
    first = desk.engine.put_rate_resource(KEY, Window(2, DAY))
    add(desk, 10)

    assert 2 == started(desk)
    desk.wait(SECOND)
    second = desk.engine.put_rate_resource(KEY, Window(5, DAY))
    assert 3 == started(desk)
    assert (first.id, first.created, 5) == (second.id, second.created, second.gate.numbers.rate.limit)
    assert desk.clock.now() == second.updated
    desk.engine.delete_rate_resource(KEY)
    assert 5 == started(desk)


def test_it_shows_when_the_next_may_start(desk: Desk) -> None:
    desk.engine.put_rate_resource(KEY, Window(1, DAY))
    add(desk, 2)
    began = desk.clock.now()
    started(desk)
    desk.wait(20 * 3_600 * SECOND)

    gate = desk.engine.rate_resource(KEY).gate

    assert 1 == gate.waiting
    assert 0 <= gate.opens_at - (began + DAY) < SECOND


def test_zero_lets_nothing_start_until_it_is_changed(desk: Desk) -> None:
    desk.engine.put_rate_resource(KEY, Window(0, SECOND))
    add(desk, 1)
    desk.wait(DAY)

    assert (0, None) == (started(desk), desk.engine.rate_resource(KEY).gate.opens_at)
    desk.engine.put_rate_resource(KEY, Window(1, SECOND))
    assert 1 == started(desk)


def test_resources_belong_to_tenants(desk: Desk) -> None:
    for tenant in ("a", "b"):
        desk.engine.put_rate_resource(KEY, Window(1, DAY), tenant=tenant)

    assert ["a", "b"] == [view.tenant for view in desk.engine.rate_resources()]
    assert [KEY] == [view.key for view in desk.engine.rate_resources("a")]
    desk.engine.delete_rate_resource(KEY, tenant="a")
    assert [] == desk.engine.rate_resources("a")
    with pytest.raises(NotFoundError):
        desk.engine.delete_rate_resource(KEY, tenant="a")
    with pytest.raises(NotFoundError):
        desk.engine.rate_resource(KEY)
