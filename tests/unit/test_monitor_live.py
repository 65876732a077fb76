"""Open pages hear of every change of the store, once a second at most."""

import asyncio

from penstock.monitor import live
from penstock.monitor.live import Live


def heard(states, monkeypatch, listeners=1):
    """Return the first two events of streams on a store that looks like *states*, one after the other."""
    monkeypatch.setattr(live, "EVERY", 0.01)
    rest = iter(states)
    last = states[-1]

    async def look():
        return next(rest, last)

    async def listen(made):
        stream = made.events((None, "anna"), lambda: True)
        assert (await anext(stream)).startswith(b"retry")
        return [await asyncio.wait_for(anext(stream), 20) for _ in range(2)]

    async def work():
        made = Live(look)
        return await asyncio.gather(*(listen(made) for _ in range(listeners)))

    return asyncio.run(work())


def test_a_page_hears_at_once_because_the_store_may_have_changed_since_it_was_made(monkeypatch):
    ((first, second),) = heard(["a", "a", "a", "b"], monkeypatch)

    assert first.startswith(b"event: change")
    assert second.startswith(b"event: change")


def test_all_pages_hear_of_one_look(monkeypatch):
    answers = heard(["a", "b"], monkeypatch, listeners=3)

    assert [answers[0]] * 3 == answers
