"""Server-sent events: what one connection gets, how fast, and when it ends."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from msgspec import structs

from penstock.clock import SECOND, monotonic
from penstock.dialects.ojs.events.event_filter import Wanted
from penstock.dialects.ojs.events.event_format import Shown, lost, shown, state_now
from penstock.dialects.ojs.format.names import check_queue
from penstock.dialects.ojs.routes.jobs import show
from penstock.errors import InvalidError
from penstock.http.feed import ALL, FeedEntry, FeedReader
from penstock.http.routes import Request
from penstock.http.tenancy import own
from penstock.job import JobView

PER_SECOND: Final = 100  # events that one connection is sent
BUFFER: Final = 1_000  # events that wait for one connection
HEARTBEAT: Final = 10.0  # seconds of silence
LOOK: Final = 5.0  # seconds after which a job is looked at, since another server may have ended it


class SendPace:
    """Lets so many through in a second, and as many at once."""

    def __init__(self, per_second: int = PER_SECOND) -> None:
        self._gap = SECOND // per_second
        self._most = SECOND - self._gap
        self._full_at = 0  # when the whole burst may pass again

    async def wait(self) -> None:
        """Return when one more may pass."""
        now = monotonic()
        late = self._full_at - now - self._most
        if late > 0:
            await asyncio.sleep(late / SECOND)
            now = monotonic()
        self._full_at = max(self._full_at, now) + self._gap


async def channel_of(request: Request, name: str, wanted: Wanted) -> tuple[str, JobView | None, Wanted]:
    """Return what the feed calls a channel, its job if it is about one, and what is *wanted* of it."""
    kind, found, what = name.partition(":")
    if name in (ALL, "events"):
        return ALL, None, wanted
    if kind == "job" and found:
        job = await own(request, what)
        return f"job:{job.id}", job, structs.replace(wanted, tenant=job.tenant)
    if kind == "queue" and found:
        return f"queue:{check_queue(what, 'channel')}", None, wanted
    raise InvalidError("channel", f"{name[:80]!r} must be job:ID, queue:NAME or all")


def entries_wanted(entry: FeedEntry, wanted: Wanted) -> list[Shown]:
    """Return the events of an entry that are wanted."""
    return [event for event in shown(entry) if wanted.takes(event)]


async def stream(
    request: Request, channel: str, job: JobView | None, wanted: Wanted, after: str
) -> AsyncIterator[bytes]:
    """Send events until the job has ended, the server stops or the client has gone."""
    feed = request.service.feed
    reader = feed.open(BUFFER)
    try:
        missed, earlier = _replay(request, channel, wanted, after) if after else (False, [])
        reader.subscribe(channel, lambda entry: bool(entries_wanted(entry, wanted)))
        # A client that has read this misses nothing from now on.
        yield b"retry: 3000\n: the events of penstock follow\n\n"
        if missed:
            yield _written(lost(1, feed.latest(), request.now), "")
        pace = SendPace()
        for event in earlier:
            await pace.wait()
            yield _written(event)
            if job and event.ends:
                return
        async for chunk in _follow(request, reader, job, wanted, pace):
            yield chunk
    finally:
        reader.close()


def _replay(request: Request, channel: str, wanted: Wanted, after: str) -> tuple[bool, list[Shown]]:
    """Return the events of a channel since one, and whether some of those are forgotten."""
    entries, missed = request.service.feed.since(after.removeprefix("evt_")[:36])
    kind, _, name = channel.partition(":")
    found = [
        event
        for entry in entries
        if kind == ALL or entry.event.facts.get(kind) == name
        for event in entries_wanted(entry, wanted)
        if event.id > after
    ]
    return missed or len(found) > BUFFER, found[-BUFFER:]


async def _follow(
    request: Request, reader: FeedReader, job: JobView | None, wanted: Wanted, pace: SendPace
) -> AsyncIterator[bytes]:
    ended = await _state(request, job) if job else None
    silent = 0.0
    while ended is None:
        patience = LOOK if job else HEARTBEAT
        taken = await reader.take(patience)
        if taken is None:
            if reader.over:
                yield b"event: server.shutdown\ndata: {}\n\n"
                return
            silent += patience
            if silent >= HEARTBEAT:
                silent = 0.0
                yield b":heartbeat\n\n"
            ended = await _state(request, job) if job else None
            continue
        if dropped := reader.dropped():
            yield _written(lost(dropped, request.service.feed.latest(), taken[1].event.at), "")
        for event in entries_wanted(taken[1], wanted):
            await pace.wait()
            yield _written(event)
            if job and event.ends:
                return
    # Events that came meanwhile go before the end.
    while (taken := await reader.take(0)) is not None:
        for event in entries_wanted(taken[1], wanted):
            yield _written(event)
            if event.ends:
                return
    yield _written(ended)


async def _state(request: Request, job: JobView) -> Shown | None:
    """Return the envelope of a job if it has ended."""
    service = request.service
    envelope = await service.run(lambda engine: show(engine, job.id, job.tenant))
    now = state_now(service.feed.latest(), envelope, service.engine.clock.now())
    return now if now.ends else None


def _written(event: Shown, id_: str | None = None) -> bytes:
    id_ = event.id if id_ is None else id_
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {event.name}\ndata: ".encode() + event.text + b"\n\n"
