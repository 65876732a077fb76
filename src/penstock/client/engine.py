"""The engine, at a server: the same verbs, each one question.

Blocking and safe to call from any thread.  What a worker asks is not tried again here, because a worker tries
again by itself; what others ask is, for a few seconds, while the server is away.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from penstock.client import wire
from penstock.client.address import server_address
from penstock.client.changes import Ask, Changes
from penstock.client.rpc import ANSWER, PATIENCE, Rpc
from penstock.clock import SECOND, Clock
from penstock.engine import LEASE, START_GRACE
from penstock.engine.publisher import Listener
from penstock.errors import DuplicateJobError, InvalidError, NotFoundError, SchemaError
from penstock.ids import new_id
from penstock.job import (
    Beat,
    Claim,
    Enqueued,
    Failure,
    FloatingView,
    GateView,
    JobView,
    NewJob,
    Refresh,
    Settled,
    Settlement,
    Why,
)
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate
from penstock.limits.rules import Numbers
from penstock.store.session import Topic

T = TypeVar("T")

_SLACK: Final = 10.0  # how much longer than asked for an answer to a wait may take
LEAST: Final = 1.0  # seconds for an answer
_NOTHING: Final = wire.EmptyBody()


class RemoteEngine:
    """Jobs, gates and queues behind a server at *url*, which knows us by *token*."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self._rpc = Rpc(server_address(url, token))
        self._changes = {
            topic: Changes(self._waiter(topic), f"changes-{topic.name.lower()}") for topic in Topic
        }
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<RemoteEngine {self._rpc.address}>"

    @property
    def clock(self) -> Clock:
        """The server's time; never earlier than it is there."""
        return self._rpc.clock

    # Jobs.

    def enqueue(self, jobs: Sequence[NewJob], *, connection: object = None) -> list[Enqueued]:
        """Add jobs, all or none; they are durable when this returns.

        Nothing is added twice if an answer is lost on its way: their ids are made here.
        """
        if connection is not None:
            raise InvalidError("connection", "jobs at a server cannot be part of a transaction of yours")
        if not jobs:
            return []
        sent, made = named(jobs)
        try:
            added = self._ask("enqueue", wire.EnqueueBody(sent), list[Enqueued])
        except DuplicateJobError as error:
            # Nobody else knows an id that was made here: it is the same question, heard before.
            if error.existing not in made:
                raise
            return enqueued_before(self, sent)
        return [Enqueued(each.id, at=each.at) if each.id in made else each for each in added]

    def claim(
        self, queues: Sequence[str], count: int, *, worker: str, lease: int = LEASE, grace: int = START_GRACE
    ) -> Claim:
        """Start up to *count* jobs of these queues for a worker, the best first."""
        return self._tell("claim", wire.ClaimBody(list(queues), count, worker, lease, grace), Claim)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Record how attempts ended; False for one whose lease was lost: what it did counts for nothing."""
        if not settlements:
            return []
        body = wire.SettleBody(wire.reports_of(settlements), sequels=True)
        return self._tell("settle", body, list[Settled])

    def exchange(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int = START_GRACE,
    ) -> tuple[list[Settled], Claim]:
        """Settle, then claim, in one question."""
        take = wire.ClaimBody(list(queues), count, worker, lease, grace)
        body = wire.ExchangeBody(wire.reports_of(settlements), take, sequels=True)
        answer = self._tell("exchange", body, wire.Exchanged)
        return answer.accepted, answer.claim

    def begun(self, reports: Sequence[tuple[int, int, int]]) -> None:
        """Tell how long after its claim each handler began, as (seq, fence, span), so that windows open on time."""
        if reports:
            self._tell("begun", wire.BegunBody(list(reports)), type(None))

    def heartbeat(self, attempts: Sequence[tuple[int, int]], *, lease: int = LEASE) -> list[Beat]:
        """Renew the leases of attempts; tell which are lost and which should stop."""
        if not attempts:
            return []
        # An answer that does not come must leave time to ask again.
        timeout = min(max(lease / SECOND / 3, LEAST), ANSWER)
        body = wire.HeartbeatBody(list(attempts), lease)
        return self._rpc.ask("heartbeat", body, list[Beat], timeout=timeout)

    def progress(self, seq: int, fence: int, value: str) -> bool:
        """Keep how far a running attempt is, as JSON; False if its lease was lost."""
        return self._tell("progress", wire.ProgressBody(seq, fence, value), bool)

    def cancel(self, job_id: str, reason: str = "cancelled on request") -> State:
        """Cancel a job: at once if it waits; if it runs its worker is asked to stop."""
        return self._ask("cancel", wire.CancelBody(job_id, reason), State)

    def retry(self, job_id: str) -> None:
        """Stand an ended job in line again, with all its attempts."""
        self._ask("retry", wire.JobBody(job_id), type(None))

    # Rules.

    def pause(self, queue: str) -> None:
        """Let nothing start from a queue."""
        self._ask("pause", wire.QueueBody(queue), type(None))

    def resume(self, queue: str) -> None:
        """Let jobs start from a queue again."""
        self._ask("resume", wire.QueueBody(queue), type(None))

    def configure(self, scope: str, name: str, numbers: Numbers | None, *, tenant: str = "") -> None:
        """Set the numbers of a key, a queue or a job type for everybody; None removes them."""
        self._ask("configure", wire.ConfigureBody(scope, name, numbers, tenant), type(None))

    def override(self, key: str, numbers: Numbers, *, until: int | None = None, tenant: str = "") -> None:
        """Let other numbers rule a key until then, or until cleared."""
        self._ask("override", wire.OverrideBody(key, numbers, until, tenant), type(None))

    def clear_override(self, key: str, *, tenant: str = "") -> None:
        """End an override and a shut-until of a key."""
        self._ask("clear_override", wire.GateBody(key, tenant), type(None))

    def shut(self, key: str, until: int, *, tenant: str = "", reason: str = "") -> None:
        """Let nothing through a gate until then."""
        self._ask("shut", wire.ShutBody(key, until, tenant, reason), type(None))

    # Looking.

    def job(self, job_id: str) -> JobView:
        """Return one job."""
        return self._ask("job", wire.JobBody(job_id), JobView)

    def failures(self, job_id: str) -> list[Failure]:
        """Return the failed attempts of a job, the first one first."""
        return self._ask("failures", wire.JobBody(job_id), list[Failure])

    def jobs(
        self,
        *,
        state: State | None = None,
        queue: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        key: str | None = None,
        before: int | None = None,
        begins: str | None = None,
        limit: int = 50,
    ) -> list[JobView]:
        """Return jobs, newest first, perhaps of an id that *begins* so; *before* a job's number for the next page."""
        wanted = wire.JobsBody(state, queue, task, tenant, key, before, limit, begins)
        return self._ask("jobs", wanted, list[JobView])

    def count(self, *, queue: str | None = None, task: str | None = None) -> dict[State, int]:
        """Return how many jobs are in each state."""
        return self._ask("count", wire.CountBody(queue, task), dict[State, int])

    def gate(self, key: str, tenant: str = "") -> GateView:
        """Return one gate with its numbers in force."""
        return self._ask("gate", wire.GateBody(key, tenant), GateView)

    def gates(self, *, prefix: str = "", offset: int = 0, limit: int = 50) -> tuple[list[GateView], int]:
        """Return a page of gates by name, and how many there are."""
        page = self._ask("gates", wire.GatesBody(prefix, offset, limit), wire.GatePage)
        return page.gates, page.total

    def queues(self) -> list[dict[str, object]]:
        """Return every queue that has jobs or rules."""
        found = self._ask("queues", _NOTHING, list[dict[str, Any]])
        return [{**each, "numbers": msgspec.convert(each["numbers"], Numbers | None)} for each in found]

    def why(self, job_id: str) -> Why:
        """Say why a job waits."""
        return self._ask("why", wire.JobBody(job_id), Why)

    def doctor(self) -> list[str]:
        """Recompute every counter; return what is not as it should be."""
        return self._ask("doctor", _NOTHING, list[str])

    def advice(self) -> list[str]:
        """Return what somebody should look after in the database, though nothing is wrong with the jobs."""
        return self._ask("advice", _NOTHING, list[str])

    # Upkeep.

    def upkeep(self) -> dict[str, int]:
        """Do nothing: the server keeps its store up to date."""
        return {}

    def prune(self, older_than: int, most: int | None = None) -> int:
        """Delete jobs that ended before then; with a *most*, as workers ask, leave that to the server."""
        return 0 if most is not None else self._ask("prune", wire.PruneBody(older_than), int)

    # Floating limits.

    def refreshes(
        self, handlers: Collection[str], count: int, *, worker: str, lease: int = LEASE
    ) -> list[Refresh]:
        """Lend due refreshes to a worker that has one of these handlers."""
        if not handlers:
            return []
        return self._tell(
            "refreshes", wire.RefreshesBody(list(handlers), count, worker, lease), list[Refresh]
        )

    def refreshed(self, refresh: Refresh, *, value: int | None = None, error: str = "") -> bool:
        """Take a refreshed value, or an error; False if another worker was given the refresh meanwhile."""
        return self._tell("refreshed", wire.RefreshedBody(refresh, value, error.replace("\0", "")), bool)

    def floating(self, key: str, tenant: str = "") -> FloatingView:
        """Return the floating limit of a key."""
        return self._ask("floating", wire.GateBody(key, tenant), FloatingView)

    def set_floating(
        self,
        key: str,
        *,
        value: int | None = None,
        every: int | None = None,
        metadata: str | None = None,
        tenant: str = "",
    ) -> None:
        """Change the value, the interval or the metadata of a floating limit."""
        self._ask("set_floating", wire.SetFloatingBody(key, value, every, metadata, tenant), type(None))

    def delete_floating(self, key: str, *, tenant: str = "") -> None:
        """Let a key float no longer."""
        self._ask("delete_floating", wire.GateBody(key, tenant), type(None))

    # Listening and waiting.

    def listen(self, listener: Listener) -> Callable[[], None]:  # noqa: ARG002 - there is nobody to tell
        """Raise: a server tells of what happens in its own way, at /ojs/v1/events."""
        raise InvalidError("listen", "a server tells of what happens at /ojs/v1/events, and not here")

    def token(self, topic: Topic = Topic.WORK) -> int:
        """Return a number that changes whenever any process did something about *topic*."""
        return self._changes[topic].token()

    def wait(self, token: int, timeout: float, topic: Topic = Topic.WORK) -> int:
        """Wait until somebody did something after *token*, or for *timeout* seconds; return the new token."""
        return self._changes[topic].wait(token, timeout)

    def close(self) -> None:
        """Hang up."""
        for changes in self._changes.values():
            changes.close()
        self._rpc.close()

    def _check(self) -> None:
        """Raise unless it is a server that we understand, and that lets us in."""
        hello = self._tell("hello", _NOTHING, wire.Hello)
        if hello.protocol != wire.PROTOCOL:
            where = self._rpc.address
            raise SchemaError(
                f"the server at {where} speaks version {hello.protocol} of the protocol, not {wire.PROTOCOL}"
            )

    def _ask(self, verb: str, body: object, kind: type[T]) -> T:
        return self._rpc.ask(verb, body, kind, patience=PATIENCE)

    def _tell(self, verb: str, body: object, kind: type[T]) -> T:
        return self._rpc.ask(verb, body, kind)

    def _waiter(self, topic: Topic) -> Ask:
        def wait(token: int | None, timeout: float) -> int:
            body = wire.WaitBody(topic.name.lower(), token, timeout)
            return self._rpc.ask("wait", body, int, timeout=timeout + _SLACK)

        return wait


def named(jobs: Sequence[NewJob]) -> tuple[list[NewJob], set[str]]:
    """Return *jobs*, each with an id, and the ids that were made."""
    made: set[str] = set()
    sent = []
    for job in jobs:
        if job.id is None:
            id_ = new_id()
            made.add(id_)
            job = replace(job, id=id_)  # noqa: PLW2901 - the same job, named
        sent.append(job)
    return sent, made


def enqueued_before(engine: RemoteEngine, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Return what became of named *jobs* that were enqueued though the answer was lost: all of them, or none."""
    return [_found(engine, job) for job in jobs]


def _found(engine: RemoteEngine, job: NewJob) -> Enqueued:
    id_ = job.id or ""
    if job.unique is None or job.unique.on_duplicate is not OnDuplicate.REUSE:
        return Enqueued(id_)
    try:
        return Enqueued(engine.job(id_).id)
    except NotFoundError:
        # An earlier job stood for this one, and is asked for once more.
        return engine.enqueue([job])[0]
