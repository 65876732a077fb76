"""Notifications between processes.

`NOTIFY` inside a transaction makes all commits of the server queue up, so one thread per process
notifies, shortly after commits and at most every few milliseconds however many there were.  Lost notifications,
as when the server is restarted, are made up for by looking now and then.

A thread that waits is woken at once.  Only in a storm, when more than STORM notifications arrive in a second,
the wake-ups are LONGEST_GAP apart and each stands for several notifications.  In a storm of many processes each
notifies the more seldom the more there are: any notification lets a thread look at all that was committed, so those
of all processes together come about as often as those of two.
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from uuid import uuid4
from zlib import crc32

import psycopg
from psycopg import sql as quoting

from penstock.clock import SECOND, monotonic
from penstock.job import Topic
from penstock.store.postgres.session import is_direct

LEAST_GAP: Final = 0.002  # seconds between two notifications
QUIET: Final = 0.005  # after so long without one, a notification may go along with its transaction
LONGEST_GAP: Final = 0.032  # in a storm of one process or two
RAREST_GAP: Final = 0.25  # in a storm of however many
STORM: Final = 200  # notifications, all in one second, that a listener passes on at once
_BLIND: Final = 0.2  # how often to look where notifications do not arrive
_AGAIN: Final = 0.5  # until the next try to connect
_SLICE: Final = 0.5
_LAST: Final = 2.0  # how long closing may take to send what is left

_NOTIFY: Final = quoting.SQL("BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {}, {}; COMMIT")

log = logging.getLogger("penstock.store")


class Signals:
    """A number for each topic, which grows when a process commits something about it."""

    def __init__(self, listen: str, connect: str, schema: str) -> None:
        self._channel = f"penstock_{schema[:40]}_{crc32(schema.encode()):08x}"
        self._self = uuid4().hex
        self._counts = dict.fromkeys(Topic, 0)
        self._lock = threading.Lock()
        self._changed = {topic: threading.Condition(self._lock) for topic in Topic}
        self._waiting = dict.fromkeys(Topic, 0)
        self._paces = {topic: Pace() for topic in Topic}
        self._crowd = Crowd()
        self._closed = threading.Event()
        self._notifier = _Notifier(connect, self._channel, self._self, self._crowd, self._closed)
        self._listener: threading.Thread | None = None
        self._listen = listen
        self._sent = 0  # when a notification was last asked for

    def told(self, topics: set[Topic], *, others: bool = True) -> None:
        """Note what a transaction of this process has committed, and have the *others* hear of it."""
        self._count(topics)
        if others:
            self._notifier.send(topics)

    def notice_at_once(self, topics: set[Topic]) -> tuple[str, str] | None:
        """Return what a transaction may send along, if this process has sent nothing for a while."""
        now = monotonic()
        with self._lock:
            if now - self._sent < int(QUIET * SECOND):
                self._sent = now
                return None
            self._sent = now
        return self._channel, _payload(self._self, topics)

    def notices(self, topics: set[Topic]) -> list[tuple[str, str]]:
        """Return (channel, payload) to send in a transaction of the caller's own, for all processes, this one too."""
        return [(self._channel, _payload("caller", topics))] if topics else []

    def revision(self, topic: Topic) -> int:
        """Return a number that changes when something happens."""
        self._start()
        return self._counts[topic]

    def wait(self, topic: Topic, revision: int, timeout: float) -> int:
        """Wait until something happens, or for *timeout* seconds."""
        end = monotonic() + int(timeout * SECOND)
        self._start()
        with self._lock:
            self._waiting[topic] += 1
            try:
                while self._counts[topic] == revision and not self._closed.is_set():
                    left = end - monotonic()
                    if left <= 0:
                        break
                    self._changed[topic].wait(left / SECOND)
            finally:
                self._waiting[topic] -= 1
            return self._counts[topic]

    def close(self) -> None:
        """End the threads."""
        self._closed.set()
        self._notifier.finish()
        with self._lock:
            for changed in self._changed.values():
                changed.notify_all()

    def _count(self, topics: set[Topic]) -> None:
        with self._lock:
            for topic in topics:
                self._counts[topic] += 1
                self._changed[topic].notify_all()

    def _start(self) -> None:
        if self._listener is not None:
            return
        with self._lock:
            if self._listener is None:
                self._listener = threading.Thread(target=self._hear, name="penstock-listener", daemon=True)
                self._listener.start()

    def _hear(self) -> None:
        while not self._closed.is_set():
            try:
                with psycopg.connect(self._listen, autocommit=True, prepare_threshold=None) as connection:
                    self._listen_on(connection)
            except psycopg.Error as error:
                with suppress(Exception):  # a filter of the user's may raise
                    log.info("cannot listen to PostgreSQL, looking now and then instead: %s", error)
                self._count(set(Topic))
                self._closed.wait(_AGAIN)

    def _listen_on(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        if not is_direct(connection):
            log.warning(
                "there is a pooler before the server, which may pass no notifications on; looking every %d ms "
                "instead.  Name the server itself with ?listen=host:port to hear them",
                _BLIND * 1_000,
            )
            connection.close()
            while not self._closed.wait(_BLIND):
                self._count(set(Topic))
            return
        connection.execute(quoting.SQL("LISTEN {}").format(quoting.Identifier(self._channel)))
        # Notifications from before were not heard.
        self._count(set(Topic))
        while not self._closed.is_set():
            heard = self._heard(connection.notifies(timeout=_SLICE, stop_after=1))
            if pause := self._pause(heard):
                self._closed.wait(pause / SECOND)
                heard |= self._heard(connection.notifies(timeout=0))
            self._count(set(heard))

    def _heard(self, notices: Iterable[psycopg.Notify]) -> Counter[Topic]:
        """Return the topics of other processes' notifications, and how often each came."""
        topics: Counter[Topic] = Counter()
        for notice in notices:
            sender, _, names = notice.payload.partition(" ")
            if sender != self._self:
                self._crowd.heard(sender, monotonic())
                topics.update(Topic[name] for name in names.split() if name in Topic.__members__)
        for topic, count in topics.items():
            self._paces[topic].count(count, monotonic())
        return topics

    def _pause(self, topics: Iterable[Topic]) -> int:
        """Return how long to wait before waking the threads that wait for *topics*.

        While all threads of the process are at work, each topic counts: none is kept waiting.
        """
        now, idle = monotonic(), any(self._waiting.values())
        return max(
            (self._paces[topic].pause(now) for topic in topics if self._waiting[topic] or not idle), default=0
        )


class Pace:
    """When to wake: at once, or LONGEST_GAP after the last time while notifications come faster than STORM."""

    def __init__(self) -> None:
        self._woke = 0
        self._calm_from = 0  # when the notifications so far would have taken their time at the pace of STORM

    def count(self, notifications: int, now: int) -> None:
        """Count what has come; a storm is forgotten within a second of its end."""
        took = notifications * SECOND // STORM
        self._calm_from = min(max(self._calm_from, now - SECOND) + took, now + SECOND // STORM)

    def pause(self, now: int) -> int:
        """Return how long the next wake-up has to wait."""
        wait = max(self._woke + int(LONGEST_GAP * SECOND) - now, 0) if self._calm_from > now else 0
        self._woke = now + wait
        return wait


class Crowd:
    """How many other processes notify, as far as the last second shows."""

    def __init__(self) -> None:
        self._senders: dict[str, int] = {}  # when each was last heard, the one silent for longest first

    def heard(self, sender: str, now: int) -> None:
        """Note a notification of another process."""
        self._senders.pop(sender, None)
        self._senders[sender] = now
        while self._senders[silent := next(iter(self._senders))] < now - SECOND:
            del self._senders[silent]

    def longest_gap(self, now: int) -> float:
        """Return the seconds between two notifications of this process in a storm."""
        others = sum(at > now - SECOND for at in list(self._senders.values()))
        return min(LONGEST_GAP * max(1 + others, 2) / 2, RAREST_GAP)


def _payload(sender: str, topics: set[Topic]) -> str:
    return " ".join([sender, *sorted(topic.name for topic in topics)])


class _Notifier:
    """Sends notifications from a thread that begins with the first of them."""

    def __init__(
        self, connect: str, channel: str, sender: str, crowd: Crowd, closed: threading.Event
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._sender = sender
        self._crowd = crowd
        self._closed = closed
        self._topics: set[Topic] = set()
        self._lock = threading.Lock()
        self._bell = threading.Event()
        self._thread: threading.Thread | None = None

    def send(self, topics: set[Topic]) -> None:
        """Notify other processes of *topics* soon."""
        with self._lock:
            self._topics |= topics
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="penstock-notifier", daemon=True)
                self._thread.start()
        self._bell.set()

    def finish(self) -> None:
        """Send what is left, and end the thread."""
        self._bell.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_LAST)

    def _work(self) -> None:
        connection: psycopg.Connection[tuple[object, ...]] | None = None
        gap = LEAST_GAP
        while not self._closed.is_set():
            # In a storm the gaps grow, so that many workers are not woken for every single job.
            longest = self._crowd.longest_gap(monotonic())
            gap = min(gap * 2, longest) if self._bell.is_set() else LEAST_GAP
            self._bell.wait()
            had = connection
            connection = self._told(connection)
            # A connection may just have been old; a server that cannot be reached need not be asked at once.
            self._closed.wait(gap if connection is not None or had is not None else _AGAIN)
        connection = self._told(connection)  # what came during the last pause
        if connection is not None:
            connection.close()

    def _told(
        self, connection: psycopg.Connection[tuple[object, ...]] | None
    ) -> "psycopg.Connection[tuple[object, ...]] | None":
        self._bell.clear()
        with self._lock:
            topics, self._topics = self._topics, set()
        if not topics:
            return connection
        payload = _payload(self._sender, topics)
        try:
            if connection is None:
                connection = psycopg.connect(self._connect, autocommit=True, prepare_threshold=None)
            # No need to wait for the disk: what it tells of was committed before.
            connection.execute(_NOTIFY.format(quoting.Identifier(self._channel), quoting.Literal(payload)))
        except psycopg.Error as error:
            with suppress(Exception):
                log.info("cannot notify through PostgreSQL; others will look by themselves: %s", error)
            if connection is not None:
                connection.close()
            with self._lock:
                self._topics |= topics  # to be sent through another connection
            self._bell.set()
            return None
        return connection
