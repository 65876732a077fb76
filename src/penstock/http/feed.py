"""The latest events: kept to look back on, and handed at once to followers and readers.

The engine's threads only put events at the end of a list; all the rest is done on the event loop.  Readers
have buffers of a fixed size, which lose their oldest: a slow reader does not slow the engine.
An event on which one follower fails reaches the others all the same.

A feed knows what was done through its own process's engine.  Several servers on one database have a feed each,
and every event is in exactly one of them.
"""

import asyncio
import logging
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from penstock.engine import Engine
from penstock.errors import StoreBusyError
from penstock.ids import new_id
from penstock.job import Event

KEPT: Final = 10_000  # events to look back on
HEARD: Final = 100_000  # events that the loop has not taken in yet
AT_ONCE: Final = 1_000  # events taken in before the loop does other work
SOON: Final = 0.01  # seconds: many transactions wake the loop once
READERS: Final = 1_000
ALL: Final = "all"
LOST: Final = "system.events_dropped"
BLOCKED: Final = 100_000  # jobs of which it is known since when they are blocked
_UNBLOCKED: Final = frozenset({"job.started", "job.cancelled", "job.expired", "job.discarded"})

log = logging.getLogger("penstock.server")


class FeedEntry:
    """An event under its id; ids grow, also from one process to the next.  A dialect keeps its own form in *shown*."""

    __slots__ = ("event", "id", "shown")

    def __init__(self, id_: str, event: Event) -> None:
        self.id = id_
        self.event = event
        self.shown: object = None


Wants = Callable[[FeedEntry], bool]


class Feed:
    """The events of one engine.  All but `_hear` belongs to the event loop."""

    def __init__(self, engine: Engine, kept: int = KEPT) -> None:
        self._heard: deque[Event] = deque()
        self._lost = 0
        self._due = True  # whether the loop will look, or cannot yet
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: deque[FeedEntry] = deque(maxlen=kept)
        self._forgotten = new_id()  # the last id that cannot be looked back on
        self._followers: list[Callable[[FeedEntry], None]] = []
        self._channels: dict[str, dict[FeedReader, Wants]] = {}
        self._readers: set[FeedReader] = set()
        self._now = engine.clock.now
        self._stop = engine.listen_to_batches(self._hear)

    def begin(self) -> None:
        """Take in events from now on, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._take_in()

    def follow(self, follower: Callable[[FeedEntry], None]) -> None:
        """Have *follower* called on the loop with every event that is taken in."""
        self._followers.append(follower)

    def since(self, cursor: str) -> tuple[Sequence[FeedEntry], bool]:
        """Return the events from an id on (all, if it is empty), and whether some of those are forgotten."""
        self._take_in()
        kept = list(self._kept)
        if not cursor:
            return kept, False
        return kept[bisect_left(kept, cursor, key=lambda entry: entry.id) :], cursor < self._forgotten

    def latest(self) -> str:
        """Return an id that is later than all there are, and earlier than all there will be."""
        return new_id()

    def check_room(self) -> None:
        """Raise if there are too many readers."""
        if len(self._readers) >= READERS:
            raise StoreBusyError(f"{READERS} readers are listening already; try again later")

    def open(self, most: int) -> "FeedReader":
        """Return a new reader that buffers up to *most* events."""
        reader = FeedReader(self, most)
        self._readers.add(reader)
        return reader

    def tell(self, name: str, **facts: object) -> None:
        """Add an event that is not the engine's."""
        self._add(Event(name, self._now(), facts))

    def forget(self) -> None:
        """Forget all events."""
        self._take_in()
        self._kept.clear()
        self._forgotten = new_id()

    def close(self) -> None:
        """Stop listening, and end every reader."""
        self._stop()
        self._stop = lambda: None
        for reader in list(self._readers):
            reader.end()

    def _hear(self, events: Sequence[Event]) -> None:
        """Note events.  Called by any thread, one at a time."""
        if len(self._heard) >= HEARD:
            self._lost += len(events)
            return
        self._heard.extend(events)
        if not self._due:
            self._due = True
            if self._loop is not None:
                with suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(self._take_in_soon)

    def _take_in_soon(self) -> None:
        if self._loop is not None:
            self._loop.call_later(SOON, self._take_in)

    def _take_in(self) -> None:
        self._due = False  # before looking: an event added later calls this again
        heard = self._heard
        for _ in range(AT_ONCE):
            if not heard:
                break
            self._add(heard.popleft())
        if heard and self._loop is not None and not self._due:
            self._due = True
            self._loop.call_soon(self._take_in)
        if self._lost:
            lost, self._lost = self._lost, 0
            self.tell(LOST, count=lost)

    def _add(self, event: Event) -> None:
        entry = FeedEntry(new_id(), event)
        if len(self._kept) == self._kept.maxlen:
            self._forgotten = self._kept[0].id
        self._kept.append(entry)
        for follower in self._followers:
            try:
                follower(entry)
            except Exception:
                log.exception("a follower failed on %s", event.name)
        if self._channels:
            self._hand_out(entry)

    def _hand_out(self, entry: FeedEntry) -> None:
        facts = entry.event.facts
        for channel in (ALL, f"job:{facts.get('job')}", f"queue:{facts.get('queue')}"):
            readers = self._channels.get(channel)
            for reader, wants in list(readers.items()) if readers else ():
                try:
                    wanted = wants(entry)
                except Exception:
                    log.exception("cannot tell whether a reader wants %s", entry.event.name)
                    reader.miss()
                else:
                    if wanted:
                        reader.offer(channel, entry)

    def join(self, reader: "FeedReader", channel: str, wants: Wants) -> None:
        """Hand a reader the events it *wants* of a channel: `all`, `job:ID` or `queue:NAME`."""
        self._take_in()  # earlier events are not for it
        self._channels.setdefault(channel, {})[reader] = wants

    def leave(self, reader: "FeedReader", channel: str) -> None:
        """Hand a reader no more events of a channel."""
        readers = self._channels.get(channel, {})
        readers.pop(reader, None)
        if not readers:
            self._channels.pop(channel, None)

    def gone(self, reader: "FeedReader") -> None:
        """Forget a reader that has ended."""
        self._readers.discard(reader)


class FeedReader:
    """Follows some channels, with a buffer that loses its oldest event when it is full."""

    def __init__(self, feed: Feed, most: int) -> None:
        self.channels: set[str] = set()
        self.over = False
        self._feed = feed
        self._buffer: deque[tuple[str, FeedEntry]] = deque()
        self._most = most
        self._dropped = 0
        self._ready = asyncio.Event()

    def subscribe(self, channel: str, wants: Wants) -> None:
        """Follow a channel from now on."""
        self.channels.add(channel)
        self._feed.join(self, channel, wants)

    def unsubscribe(self, channel: str) -> None:
        """Follow a channel no longer."""
        self.channels.discard(channel)
        self._feed.leave(self, channel)

    def offer(self, channel: str, entry: FeedEntry) -> None:
        """Put an event into the buffer."""
        if len(self._buffer) >= self._most:
            self._buffer.popleft()
            self.miss()
        self._buffer.append((channel, entry))
        self._ready.set()

    def miss(self) -> None:
        """Count a lost event."""
        self._dropped += 1

    async def take(self, timeout: float) -> tuple[str, FeedEntry] | None:  # noqa: ASYNC109 - waiting is its business
        """Return the next event and its channel; None after *timeout* seconds without one, or once it is over."""
        if not self._buffer and not self.over:
            self._ready.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), timeout)
        return self._buffer.popleft() if self._buffer else None

    def dropped(self) -> int:
        """Return how many events were lost since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def end(self) -> None:
        """Let `take` return at once from now on."""
        self.over = True
        self._ready.set()

    def close(self) -> None:
        """Leave all channels."""
        for channel in list(self.channels):
            self.unsubscribe(channel)
        self._feed.gone(self)


class BlockedSince:
    """Remembers which rule blocked a job and when, and adds that to the event of its release."""

    def __init__(self) -> None:
        self._blocked: OrderedDict[object, tuple[object, int]] = OrderedDict()

    def note(self, entry: FeedEntry) -> None:
        """Remember what an event tells, or add to it what is remembered."""
        event = entry.event
        job = (event.facts.get("tenant"), event.facts.get("job"))
        if event.name == "limit.exceeded":
            self._blocked[job] = (event.facts.get("rule"), event.at)
            if len(self._blocked) > BLOCKED:
                self._blocked.popitem(last=False)
        elif event.name == "limit.released":
            rule, since = self._blocked.get(job, ("slots", None))
            event.facts.setdefault("rule", rule)
            if since is not None:
                event.facts["since"] = since
        elif event.name in _UNBLOCKED and self._blocked:
            self._blocked.pop(job, None)
