"""Look back on events, or follow them: by polling, as server-sent events, over a WebSocket."""

import re
from typing import Any, Final

from msgspec import Struct

from penstock.dialects.ojs.events import event_filter
from penstock.dialects.ojs.events.event_filter import Wanted, words
from penstock.dialects.ojs.events.event_format import STATE_CHANGED, shown
from penstock.dialects.ojs.events.event_socket import talk
from penstock.dialects.ojs.events.event_stream import channel_of, stream
from penstock.errors import InvalidError
from penstock.http.access import JOBS
from penstock.http.routes import Reply, Request, Route, Stream
from penstock.http.sockets import SocketRoute

_CURSOR: Final = re.compile(r"evt_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-[0-9])?")
_HERE: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventShape(Struct):
    """An event."""

    specversion: str
    id: str
    type: str
    source: str
    time: str
    data: dict[str, Any]
    subject: str | None = None


class EventsAnswer(Struct):
    """Events, the oldest first, and the cursor to go on from."""

    events: list[EventShape]
    cursor: str
    has_more: bool


async def poll(request: Request) -> Reply:
    """Return what happened after a cursor, the oldest first."""
    wanted, after = _wanted(request), _cursor(request)
    limit = request.number("limit", 100, 1, 1_000)
    entries, missed = request.service.feed.since(after.removeprefix("evt_")[:36])
    found: list[object] = []
    cursor = after
    # Other events tell changes of state already; a client gets these only if it names them.
    with_states = wanted.types is not None and STATE_CHANGED in wanted.types
    for entry in entries:
        for event in shown(entry):
            if event.id <= after or (event.live and not with_states) or not wanted.takes(event):
                continue
            if len(found) == limit:
                return _page(found, cursor, missed=missed, more=True)
            found.append(event.body)
            cursor = event.id
        events = shown(entry)
        cursor = max(cursor, events[-1].id if events else f"evt_{entry.id}")
    return _page(found, cursor or f"evt_{request.service.feed.latest()}", missed=missed, more=False)


def _page(events: list[object], cursor: str, *, missed: bool, more: bool) -> Reply:
    body: dict[str, object] = {"events": events, "cursor": cursor, "has_more": more}
    if missed:
        body["events_dropped"] = True
    return Reply(body)


async def follow(request: Request) -> Stream:
    """Send the events of a channel as they happen."""
    return await _streamed(request, request.query.get("channel", "all"))


async def follow_job(request: Request) -> Stream:
    """Send the events of a job as they happen, until it has ended."""
    return await _streamed(request, f"job:{request.params['id']}")


async def follow_queue(request: Request) -> Stream:
    """Send the events of a queue as they happen."""
    return await _streamed(request, f"queue:{request.params['name']}")


async def _streamed(request: Request, name: str) -> Stream:
    channel, job, wanted = await channel_of(request, name, _wanted(request))
    after = request.headers.get("last-event-id", "")
    # An unknown id cannot be replayed from: the spec says to go on from now.
    after = after if _CURSOR.fullmatch(after) else _cursor(request)
    request.service.feed.check_room()
    return Stream(stream(request, channel, job, wanted, after), dict(_HERE))


def _wanted(request: Request) -> Wanted:
    query = request.query
    types = words(query.get("types") or query.get("event_types"))
    return event_filter.checked(
        types, words(query.get("queues")), words(query.get("job_types")), request.tenant
    )


def _cursor(request: Request) -> str:
    field = "after" if "after" in request.query else "cursor"
    cursor = request.query.get(field, "")
    if cursor and not _CURSOR.fullmatch(cursor):
        raise InvalidError(
            field, f"{cursor[:60]!r} must be the cursor of an earlier answer, or the id of an event"
        )
    return cursor


_QUERY: Final = ("types", "queues", "job_types", "after")
_SSE: Final = "text/event-stream"
ROUTES: Final = (
    Route(
        "GET", "/events", poll, JOBS, "Look back on events", EventsAnswer, query=(*_QUERY, "cursor", "limit")
    ),
    Route("GET", "/events/stream", follow, JOBS, "Follow events", query=("channel", *_QUERY), media=_SSE),
    Route(
        "GET", "/jobs/{id}/events", follow_job, JOBS, "Follow the events of a job", query=_QUERY, media=_SSE
    ),
    Route(
        "GET",
        "/queues/{name}/events",
        follow_queue,
        JOBS,
        "Follow the events of a queue",
        query=_QUERY,
        media=_SSE,
    ),
)
SOCKETS: Final = (SocketRoute("/ojs/v1/ws", talk, JOBS, "ojs.v1"),)
