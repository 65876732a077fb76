"""Listeners hear of transactions in the order in which these could see each other."""

import threading

from penstock.engine.events import Publisher
from penstock.job import Event

ENQUEUED, STARTED, DONE = (Event(name, 0) for name in ("enqueued", "started", "done"))


def listening() -> tuple[Publisher, list[str]]:
    telling, heard = Publisher(), []
    telling.listen(lambda event: heard.append(event.name))
    return telling, heard


def test_what_was_numbered_first_is_told_first():
    telling, heard = listening()
    first, second = telling.number(), telling.number()

    telling.told(second, [STARTED])
    assert [] == heard

    telling.told(first, [ENQUEUED])
    assert ["enqueued", "started"] == heard


def test_a_transaction_that_did_not_commit_holds_up_no_other():
    telling, heard = listening()
    first, second = telling.number(), telling.number()
    telling.told(first, ())
    telling.told(second, [STARTED])

    assert ["started"] == heard


def test_a_thread_that_comes_while_another_tells_leaves_it_to_that_one():
    telling, heard = listening()
    inside, go = threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        if event is ENQUEUED:
            inside.set()
            go.wait(10)

    telling.listen(slow)
    telling.listeners.reverse()  # the slow one goes first
    other = threading.Thread(target=lambda: telling.told(telling.number(), [ENQUEUED]))
    other.start()
    assert inside.wait(10)

    telling.told(telling.number(), [STARTED])
    assert [] == heard

    go.set()
    other.join()
    assert ["enqueued", "started"] == heard


def test_a_listener_may_have_more_told_meanwhile():
    telling, heard = listening()

    def answer(event: Event) -> None:
        if event is STARTED:
            telling.told(telling.number(), [DONE])

    telling.listen(answer)
    telling.told(telling.number(), [STARTED])

    assert ["started", "done"] == heard


def test_a_mistake_with_one_event_keeps_no_listener_from_the_next():
    telling, heard = listening()

    def fail(event: Event) -> None:
        heard.append(f"failing on {event.name}")
        raise ValueError("no")

    telling.listen(fail)
    telling.told(telling.number(), [ENQUEUED, STARTED])

    assert ["enqueued", "started", "failing on enqueued", "failing on started"] == heard
