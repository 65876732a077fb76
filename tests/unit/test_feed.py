"""What a feed keeps, and what it says when it cannot keep up."""

import asyncio

from penstock.http import feed as feeds
from penstock.http.feed import ALL, LOST, Feed
from penstock.job import NewJob


def enqueue(engine, count):
    engine.enqueue([NewJob("task") for _ in range(count)])


def test_the_last_events_are_kept_and_what_is_forgotten_is_known(engine):
    feed = Feed(engine, kept=3)
    enqueue(engine, 2)
    first, second = (entry.id for entry in feed.since("")[0])
    enqueue(engine, 2)

    assert [second, *(entry.id for entry in feed.since(second)[0][1:])] == [e.id for e in feed.since("")[0]]
    assert (False, False) == (feed.since(first)[1], feed.since(second)[1])
    enqueue(engine, 1)
    assert (True, False) == (feed.since(first)[1], feed.since(second)[1])


def test_when_the_loop_does_not_come_to_look_the_engine_goes_on_and_the_loss_is_told(engine, monkeypatch):
    monkeypatch.setattr(feeds, "HEARD", 2)
    feed = Feed(engine)
    for _ in range(5):
        enqueue(engine, 1)

    (*kept, last) = feed.since("")[0]
    assert ["job.enqueued"] * 2 == [entry.event.name for entry in kept]
    assert (LOST, {"count": 3}) == (last.event.name, last.event.facts)


def begun(engine):
    """Return a feed that listens; for a coroutine."""
    feed = Feed(engine)
    feed.begin()
    return feed


def reader_of(feed, size):
    """Return a reader of all events that keeps so many."""
    reader = feed.open(size)
    reader.subscribe(ALL, lambda _: True)
    return reader


def test_a_reader_loses_its_oldest_and_hears_how_many(engine):
    async def read():
        feed = begun(engine)
        reader = reader_of(feed, 2)
        enqueue(engine, 5)
        (_, first), (_, second) = await reader.take(5), await reader.take(5)
        kept = feed.since("")[0]

        assert [entry.id for entry in kept[-2:]] == [first.id, second.id]
        assert (3, 0) == (reader.dropped(), reader.dropped())
        assert await reader.take(0) is None
        feed.close()
        assert reader.over

    asyncio.run(read())


def test_what_happened_before_a_reader_subscribes_is_no_news(engine):
    async def read():
        feed = begun(engine)
        enqueue(engine, 1)
        reader = reader_of(feed, 10)
        enqueue(engine, 1)
        _, entry = await reader.take(5)

        assert entry.id == feed.since("")[0][1].id
        assert await reader.take(0.05) is None

    asyncio.run(read())


def test_a_reader_that_has_gone_is_sent_nothing(engine):
    async def read():
        feed = begun(engine)
        reader = reader_of(feed, 10)
        reader.close()
        enqueue(engine, 1)
        feed.since("")

        assert await reader.take(0) is None

    asyncio.run(read())


def test_a_closed_feed_listens_no_more(engine):
    feed = Feed(engine)
    feed.close()
    enqueue(engine, 1)

    assert [] == feed.since("")[0]


def test_an_event_that_makes_one_listener_fail_is_told_to_the_others(engine):
    heard = []

    def fails(_):
        raise RuntimeError("no")

    async def read():
        feed = Feed(engine)
        feed.follow(fails)
        feed.follow(heard.append)
        feed.begin()
        choosy, plain = feed.open(9), reader_of(feed, 9)
        choosy.subscribe(ALL, fails)
        enqueue(engine, 2)
        taken = [await plain.take(5), await plain.take(5)]
        feed.close()
        return taken, choosy.dropped()

    taken, missed = asyncio.run(read())
    assert [entry for _, entry in taken] == heard
    assert 2 == len(heard) == missed
