"""Follow events over a WebSocket: the client joins and leaves any number of channels."""

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.dialects.ojs.events import event_filter
from penstock.dialects.ojs.events.event_filter import Wanted
from penstock.dialects.ojs.events.event_format import Shown, lost
from penstock.dialects.ojs.events.event_stream import BUFFER, HEARTBEAT, SendPace, channel_of, entries_wanted
from penstock.dialects.ojs.format.names import written
from penstock.errors import InvalidError, NotFoundError, PenstockError
from penstock.http.codec import decode, encode
from penstock.http.feed import FeedEntry, FeedReader
from penstock.http.routes import Request, converted
from penstock.http.sockets import Socket
from penstock.lifecycle.nesting import TOO_DEEP, is_deep

MOST_CHANNELS: Final = 100
_GOING_AWAY: Final = 1001


class Filter(Struct, frozen=True):
    """Which events of a channel are wanted."""

    event_types: list[str] | None = None
    types: list[str] | None = None
    queues: list[str] | None = None
    job_types: list[str] | None = None


class Message(Struct):
    """What a client says."""

    action: str
    channel: str | None = None
    subscription_id: str | None = None
    filter: Filter = Filter()


async def talk(request: Request, socket: Socket) -> None:
    """Serve one connection until either side ends it."""
    feed = request.service.feed
    feed.check_room()
    reader = feed.open(BUFFER)
    conversation = _Conversation(request, socket, reader)
    tasks = [asyncio.ensure_future(conversation.listen()), asyncio.ensure_future(conversation.tell())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            failure = task.exception()
            if failure is not None and not isinstance(
                failure, OSError
            ):  # an OSError says that the client has gone
                raise failure
    finally:
        reader.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Conversation:
    def __init__(self, request: Request, socket: Socket, reader: FeedReader) -> None:
        self._request = request
        self._socket = socket
        self._reader = reader
        self._names: dict[
            str, tuple[str, Wanted]
        ] = {}  # by the feed's name: the client's own, and what it wants

    async def listen(self) -> None:
        """Do what the client says until it has gone."""
        while (text := await self._socket.receive()) is not None:
            try:
                answer = await self._answer(text)
            except NotFoundError as error:
                answer = {"type": "error", "code": "not_found", "message": str(error)}
            except PenstockError as error:
                answer = {"type": "error", "code": "invalid_request", "message": str(error)}
            await self._send(answer)

    async def tell(self) -> None:
        """Send the events of the channels, at a bounded pace."""
        pace = SendPace()
        while not self._reader.over:
            taken = await self._reader.take(HEARTBEAT)
            if taken is None:
                continue
            channel, entry = taken
            if dropped := self._reader.dropped():
                told = lost(dropped, self._request.service.feed.latest(), entry.event.at)
                await self._event(told, "system", entry)
            name, wanted = self._names.get(channel, ("", None))
            for event in entries_wanted(entry, wanted) if wanted is not None else ():
                await pace.wait()
                await self._event(event, name, entry)
        await self._send({"type": "event", "event": "server.shutdown", "data": {}})
        await self._socket.close(_GOING_AWAY, "the server stops")

    async def _answer(self, text: str) -> dict[str, Any]:
        if is_deep(text):
            raise InvalidError("message", TOO_DEEP)
        try:
            plain = decode(text)
        except (msgspec.DecodeError, RecursionError):
            raise InvalidError("message", "is not JSON") from None
        message = converted(plain, Message)
        name = message.channel or message.subscription_id
        if not name:
            raise InvalidError("channel", "is missing: job:ID, queue:NAME or all")
        match message.action:
            case "subscribe":
                await self._subscribe(name, message.filter)
            case "unsubscribe":
                self._unsubscribe(name)
            case _:
                raise InvalidError("action", f"{message.action[:40]!r} must be subscribe or unsubscribe")
        done = f"{message.action}d"
        return {"type": done, "action": done, "channel": name, "subscription_id": name}

    async def _subscribe(self, name: str, chosen: Filter) -> None:
        types = chosen.event_types if chosen.event_types is not None else chosen.types
        wanted = event_filter.checked(types, chosen.queues, chosen.job_types, self._request.tenant, "filter.")
        channel, _, wanted = await channel_of(self._request, name, wanted)
        if channel not in self._names and len(self._names) >= MOST_CHANNELS:
            raise InvalidError("channel", f"at most {MOST_CHANNELS} channels are allowed on one connection")
        self._names[channel] = (name, wanted)
        self._reader.subscribe(channel, lambda entry: bool(entries_wanted(entry, wanted)))

    def _unsubscribe(self, name: str) -> None:
        for channel, (own, _) in list(self._names.items()):
            if own == name:
                del self._names[channel]
                self._reader.unsubscribe(channel)

    async def _event(self, event: Shown, channel: str, entry: FeedEntry) -> None:
        timestamp = written(entry.event.at)
        body = {"type": "event", "channel": channel, "event": event.name, "data": event.data}
        await self._send({**body, "id": event.id, "timestamp": timestamp})

    async def _send(self, body: dict[str, Any]) -> None:
        await self._socket.send(encode(body).decode())
