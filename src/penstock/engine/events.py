"""Events: what happened, published to the listeners of this process after the commit."""

from typing import TYPE_CHECKING

from penstock.job import Claimed, Event
from penstock.store import gates as gate_rows
from penstock.store import jobs as job_rows
from penstock.store.session import JobRow, Session

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board
    from penstock.engine.admission.lane import Lane, Stand


class Events:
    """The events of one transaction; nothing is gathered when there is no listener."""

    def __init__(self, now: int, *, wanted: bool) -> None:
        self.now = now
        self.wanted = wanted
        self.gathered: list[Event] = []

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

    def exceeded(self, board: "Board", lane: "Lane") -> None:
        """Note that the lane's first job cannot start because of the gate it now stands behind."""
        if not self.wanted or lane.behind is None:
            return
        stand = next(s for s in lane.stands if s.gate == lane.behind)
        numbers = board.posts[stand.gate].gate.numbers(stand.own, self.now)
        rule, limit, current = _broken(board, stand)
        self.tell(
            "limit.exceeded",
            **_gate(board, stand.gate),
            rule=rule, limit=limit, current=current, job=lane.head, numbers=numbers.text,
        )  # fmt: skip

    def released(self, board: "Board", gate: int, job: int) -> None:
        """Note that a job which had to wait at a gate starts."""
        if self.wanted:
            self.tell("limit.released", **_gate(board, gate), job=job)

    def dropped(self, board: "Board", gate: int, job: int) -> None:
        """Note that a job was dropped at a gate."""
        if self.wanted:
            self.tell("limit.dropped", **_gate(board, gate), job=job)


def enqueued(row: JobRow, now: int) -> Event:
    """Return the event of a job that was added by its row alone."""
    _, id_, tenant, queue, task, *_ = row
    return Event("job.enqueued", now, {"job": id_, "task": task, "queue": queue, "tenant": tenant})


def named(db: Session, events: list[Event]) -> list[Event]:
    """Give events the names of the jobs they know by number: id, task, queue and tenant."""
    numbers = {number for event in events if isinstance(number := event.facts.get("job"), int)}
    if numbers:
        found = {job.seq: job for job in job_rows.names(db, list(numbers))}
        for event in events:
            number = event.facts.get("job")
            if isinstance(number, int):
                facts = event.facts
                _, facts["job"], facts["task"], facts["queue"], facts["tenant"] = found[number]
    return events


def _gate(board: "Board", gate: int) -> dict[str, object]:
    """Return a gate's key, and whose it is: not always the job's tenant's."""
    _, owner, key = gate_rows.name(board.db, gate)
    return {"key": key, "owner": owner}


def _broken(board: "Board", stand: "Stand") -> tuple[str, int | None, int]:
    gate = board.posts[stand.gate].gate
    numbers = gate.numbers(stand.own, board.now)
    if numbers.slots is not None and gate.running >= numbers.slots:
        return "slots", numbers.slots, gate.running
    if numbers.rate is not None and gate.starts is not None:
        used = gate.starts.since(board.now - numbers.rate.period)
        if used >= numbers.rate.limit:
            return "rate", numbers.rate.limit, used
    if numbers.throttle is not None:
        return "throttle", numbers.throttle.limit, 1
    return "shut", None, gate.running
