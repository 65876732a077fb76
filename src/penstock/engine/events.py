"""Events: what happened, told to the listeners of this process after the commit, in an order that makes sense.

A transaction takes a number before it commits.  A transaction that sees its writes takes a later number.  Events
are published by these numbers, so a job's start never comes before its enqueue, whichever threads committed them.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.engine.in_use import in_use
from penstock.job import DROPPED_BY_LIMIT, INSTANCES, Claimed, Event, Listener
from penstock.store import gates as gate_rows
from penstock.store import jobs as job_rows
from penstock.store.session import JobRow, Session

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board
    from penstock.engine.admission.lane import Lane, Stand

T = TypeVar("T")
Batch = Sequence[Event]
_log = logging.getLogger("penstock.engine")


class Events:
    """The events of one transaction; nothing is gathered when there is no listener."""

    def __init__(self, now: int, *, wanted: bool) -> None:
        self.now = now
        self.wanted = wanted
        self.gathered: list[Event] = []
        self.names: dict[int, dict[str, object]] = {}  # of jobs whose names need not be read
        self._gates: dict[int, dict[str, object]] = {}

    def tell(self, name: str, **facts: object) -> None:
        """Note an event."""
        if self.wanted:
            self.gathered.append(Event(name, self.now, facts))

    def started(self, job: Claimed, worker: str) -> None:
        """Note that a job was handed to a worker."""
        if self.wanted:
            self.tell(
                "job.started",
                job=job.id, task=job.task, queue=job.queue, tenant=job.tenant,
                attempt=job.attempt, worker=worker, enqueued=job.enqueued,
            )  # fmt: skip

    def exceeded(self, job: int, facts: Mapping[str, object]) -> None:
        """Note that a job cannot start, given what `refusal` said."""
        self.tell("limit.exceeded", **facts, job=job)

    def released(self, board: "Board", gate: int, job: int) -> None:
        """Note that a job which had to wait at a gate starts."""
        if self.wanted:
            self.tell("limit.released", **self._gate(board, gate), job=job)

    def dropped(self, board: "Board", gate: int, job: int) -> None:
        """Note that a job was dropped at a gate."""
        self.tell("limit.dropped", **self._gate(board, gate), job=job)
        self.tell("job.discarded", job=job, reason=DROPPED_BY_LIMIT)

    def know(self, seq: int, job: str, task: str, queue: str, tenant: str) -> None:
        """Remember the names of a job, so that they need not be read for its events."""
        self.names[seq] = {"job": job, "task": task, "queue": queue, "tenant": tenant}

    def refusal(self, board: "Board", lane: "Lane", gate: int) -> dict[str, object]:
        """Return what keeps a lane's first job at one of its gates: the rule, its limit and what counts for it."""
        stand = next(s for s in lane.stands if s.gate == gate)
        numbers = board.posts[gate].gate.numbers(stand.own, board.now)
        rule, limit, current = _broken(board, stand, lane.cost_at(stand))
        return {
            **self._gate(board, gate), "rule": rule, "limit": limit, "current": current,
            "numbers": numbers.text,
        }  # fmt: skip

    def _gate(self, board: "Board", gate: int) -> dict[str, object]:
        """Return a gate's key, and whose it is: not always the job's tenant's."""
        if gate not in self._gates:
            _, owner, key = gate_rows.name(board.db, gate)
            self._gates[gate] = {"key": key, "owner": owner}
        return self._gates[gate]


def enqueued(row: JobRow, now: int) -> Event:
    """Return the event of a job that was added by its row alone."""
    _, id_, tenant, queue, task, *_ = row
    return Event("job.enqueued", now, {"job": id_, "task": task, "queue": queue, "tenant": tenant})


def named(db: Session, events: Events) -> list[Event]:
    """Give events the names of the jobs they know by number: id, task, queue and tenant."""
    names = events.names
    known = [
        (event.facts, seq) for event in events.gathered if isinstance(seq := event.facts.get("job"), int)
    ]
    unknown = {seq for _, seq in known if seq not in names}
    if unknown:
        for found in job_rows.names(db, list(unknown)):
            events.know(*found)
    for facts, seq in known:
        facts.update(names[seq])
    # An instance has events of its own; listeners do not hear of it as a job.
    return [event for event in events.gathered if event.facts.get("queue") != INSTANCES]


def _broken(board: "Board", stand: "Stand", cost: int) -> tuple[str, int | None, int]:
    gate = board.posts[stand.gate].gate
    numbers = gate.numbers(stand.own, board.now)
    if numbers.slots is not None and gate.running >= numbers.slots:
        return "slots", numbers.slots, in_use(board.db, gate, numbers, board.posts[stand.gate].following)
    used = 0
    if numbers.rate is not None and gate.starts is not None:
        used = gate.starts.since(board.now - numbers.rate.period)
        if used + cost > numbers.rate.limit:
            return "rate", numbers.rate.limit, used
    if numbers.throttle is not None:
        return "throttle", numbers.throttle.limit, 1
    if gate.rules is None or gate.rules.shut_until <= board.now:
        # It is open, or nearly, but others come first.
        if numbers.rate is not None:
            return "rate", numbers.rate.limit, used
        if numbers.slots is not None:
            return "slots", numbers.slots, gate.running
    return "shut", None, gate.running


class Publisher:
    """The listeners of one engine, and the events that they have not been told yet.

    One thread publishes at a time; other threads leave their events to it and go on.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[Batch], None]] = []
        self._lock = threading.Lock()
        self._last = 0
        self._open: dict[int, Batch | None] = {}  # by number, the first one first; None: not committed yet
        self._ready: list[Event] = []
        self._busy = False

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have *listener* called with each event; call the answer to stop."""

        def each(events: Batch) -> None:
            for event in events:
                if each in self.listeners:  # it may have stopped meanwhile
                    _tell(listener, event, event.name)

        return self.listen_to_batches(each)

    def listen_to_batches(self, listener: Callable[[Batch], None]) -> Callable[[], None]:
        """Have *listener* called with batches of events; call the answer to stop."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def number(self) -> int:
        """Return the number of a transaction that is about to commit."""
        with self._lock:
            self._last += 1
            self._open[self._last] = None
            return self._last

    def told(self, number: int, events: Batch) -> None:
        """Tell the events of a transaction once those before it are told; none if it did not commit."""
        with self._lock:
            self._open[number] = events
            while self._open and (known := self._open[first := next(iter(self._open))]) is not None:
                self._ready.extend(known)
                del self._open[first]
            if self._busy or not self._ready:
                return
            self._busy = True
        while batch := self._next():
            for listener in list(self.listeners):
                _tell(listener, batch, "events")

    def _next(self) -> Batch:
        with self._lock:
            batch, self._ready = self._ready, []
            self._busy = bool(batch)
            return batch


def _tell(listener: Callable[[T], None], what: T, name: str) -> None:
    try:
        listener(what)
    except (Exception, SystemExit):  # noqa: BLE001 - a listener's mistake must not undo what was committed
        _log.exception("a listener failed on %s", name)
