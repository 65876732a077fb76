"""How full queues and gates are."""

from penstock.clock import SECOND
from penstock.job import KeyGauge
from tests.support.desk import Desk, slots


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
    assert ["Y", "Z"] == [key.key for key in desk.engine.gauges(10, without="X").keys]


def test_nothing_is_full_at_first(desk: Desk) -> None:
    found = desk.engine.gauges(10)

    assert ([], [], 0, 0) == (found.queues, found.keys, found.other_running, found.other_waiting)
