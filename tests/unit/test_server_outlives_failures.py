"""What the server does by itself goes on after an unforeseen failure, and keeps nothing for ever."""

import asyncio
import json
import threading

import pytest

from penstock.background import periodic
from penstock.background.watcher import Watcher
from penstock.dialects.ojs.events import event_socket, event_stream, webhook_delivery, webhook_dispatcher
from penstock.http.outbound_http import Answer
from penstock.job import NewJob, Webhook
from penstock.worker.upkeep import Upkeep
from tests.support.asgi import ask, serving

PATIENCE = 30


def run(work):
    return asyncio.run(asyncio.wait_for(work(), PATIENCE))


class Once:
    """A function that fails the first time, in an unforeseen way; *again* is set when it is called after."""

    def __init__(self, original):
        self._original = original
        self.failed = False
        self.again = threading.Event()

    def __call__(self, *args, **kwargs):
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError
        self.again.set()
        return self._original(*args, **kwargs)


def test_a_request_that_waits_for_a_change_hears_of_it_though_looking_failed_once(engine, monkeypatch):
    once = Once(engine.wait)
    monkeypatch.setattr(engine, "wait", once)

    async def work():
        watcher = Watcher(engine.revision, engine.wait)
        watcher.look()
        await asyncio.to_thread(once.again.wait, PATIENCE)
        token = watcher.look()
        while watcher.look() == token:
            engine.enqueue([NewJob("task")])
            await watcher.changed(token, 0.1)
        watcher.close()

    run(work)
    assert once.failed


def test_the_store_is_kept_up_to_date_though_that_failed_once(engine, monkeypatch):
    once = Once(engine.upkeep)
    monkeypatch.setattr(engine, "upkeep", once)
    thread = Upkeep(engine, None, 0.001).thread

    thread.start()
    assert once.again.wait(PATIENCE)
    thread.stop()
    thread.join(PATIENCE)


def test_the_store_is_kept_up_to_date_though_a_failure_cannot_be_logged(engine, monkeypatch):
    def refuse(record):
        raise AttributeError("job_id")

    monkeypatch.setattr(periodic.log, "filters", [refuse])
    test_the_store_is_kept_up_to_date_though_that_failed_once(engine, monkeypatch)


def test_a_delivery_that_fails_in_an_unforeseen_way_is_tried_again(engine, monkeypatch):
    delivered = asyncio.Event()
    once = Once(delivered.set)

    async def post(*_, **__):
        once()
        return Answer(200, {})

    monkeypatch.setattr(webhook_delivery, "post", post)
    monkeypatch.setattr(webhook_delivery, "DELAYS", (0.01,))

    async def work():
        async with serving(engine) as site:
            hook = Webhook("http://127.0.0.1:9/", ("*",), "secret", id="one")
            to = webhook_delivery.WebhookDelivery(site.service, hook)
            to.offer(webhook_delivery.trial(hook, 0))
            await delivered.wait()
            await asyncio.gather(*to._sending)
            to.close()
            return [(each["state"], each["attempts"]) for each in to.deliveries()]

    assert [("delivered", 2)] == run(work)


def test_new_subscribers_are_seen_though_reading_them_failed_once(engine, monkeypatch):
    once = Once(engine.webhooks)
    monkeypatch.setattr(engine, "webhooks", once)
    monkeypatch.setattr(webhook_dispatcher, "REFRESH", 0.001)

    async def work():
        async with serving(engine):
            await asyncio.to_thread(once.again.wait, PATIENCE)

    run(work)
    assert once.again.is_set()


# Readers of events.


async def conversation(site, said):
    """Open a socket, follow everything, let something happen; return what the server says."""
    incoming = asyncio.Queue()
    incoming.put_nowait({"type": "websocket.connect"})
    incoming.put_nowait(
        {"type": "websocket.receive", "text": json.dumps({"action": "subscribe", "channel": "all"})}
    )
    scope = {
        "type": "websocket",
        "path": "/ojs/v1/ws",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }

    async def send(message):
        said.append(message)
        if "subscribed" in message.get("text", ""):
            await ask(site, "/ojs/v1/jobs", {"type": "a.b", "args": []})

    await site(scope, incoming.get, send)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (event_socket, "converted"),
        (event_socket, "channel_of"),
        (event_socket._Conversation, "_event"),
        (event_socket, "written"),
        (event_socket, "SendPace"),
    ],
)
def test_a_socket_whose_server_fails_is_closed_and_its_reader_forgotten(engine, monkeypatch, place, name):
    monkeypatch.setattr(place, name, Once(getattr(place, name)))
    said = []

    async def work():
        async with serving(engine) as site:
            await conversation(site, said)
            return len(site.service.feed._readers), dict(site.service.feed._channels)

    assert (0, {}) == run(work)
    assert ("websocket.close", 1011) == (said[-1]["type"], said[-1]["code"])


@pytest.mark.parametrize(
    ("place", "name"), [(event_stream, "_written"), (event_stream, "SendPace"), (event_stream, "_follow")]
)
def test_a_stream_whose_server_fails_ends_and_its_reader_is_forgotten(engine, monkeypatch, place, name):
    monkeypatch.setattr(place, name, Once(getattr(place, name)))

    def happens(message):
        if message.get("body"):
            engine.enqueue([NewJob("task")])

    async def work():
        async with serving(engine) as site:
            status, _ = await ask(site, "/ojs/v1/events/stream", method="GET", send=happens)
            return status, len(site.service.feed._readers), dict(site.service.feed._channels)

    assert (200, 0, {}) == run(work)
