"""The engine, at a server: the same verbs, each one request.

Blocking and safe to call from any thread.  Most methods are made from the table of verbs; those written out here
turn their arguments or the answer into other shapes.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Concatenate, Final, ParamSpec, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from penstock.acting import Actor, acting, actor
from penstock.client import verbs, wire
from penstock.client.address import server_address
from penstock.client.changes import Ask, Changes
from penstock.client.rpc import ANSWER, Rpc
from penstock.client.verbs import Verb
from penstock.clock import SECOND, Clock
from penstock.errors import DuplicateJobError, InvalidError, NotFoundError, SchemaError
from penstock.ids import new_id
from penstock.job import (
    LEASE,
    START_GRACE,
    Ahead,
    AuditEntry,
    AuditFilter,
    Beat,
    Claim,
    Claimed,
    CreatedInstance,
    Enqueued,
    FloatingView,
    GateView,
    ImportedJob,
    InstanceState,
    InstanceView,
    Listener,
    NewInstance,
    NewJob,
    Refresh,
    Settled,
    Settlement,
    Spending,
    Topic,
    WorkerReport,
)
from penstock.lifecycle.unique import OnDuplicate
from penstock.limits.rules import Numbers

P = ParamSpec("P")
B = TypeVar("B", bound=Struct)
A = TypeVar("A")

_SLACK: Final = 10.0  # how much longer than asked for an answer to a wait may take
LEAST: Final = 1.0  # seconds for an answer


def remote(verb: Verb[P, B, A]) -> "Callable[Concatenate[RemoteEngine, P], A]":
    """Return the method that sends its arguments as the body of *verb* and returns the answer."""

    def ask(engine: "RemoteEngine", /, *args: P.args, **kwargs: P.kwargs) -> A:
        return engine.rpc.ask(verb, verb.body(*args, **kwargs))

    ask.__name__ = verb.name
    ask.__doc__ = f"{verb.summary}."
    return ask


class RemoteEngine:
    """Jobs, gates and queues behind the server at *url*, to which *token* is sent."""

    overlaps = False  # the server makes one transaction of what its workers ask at once

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self.rpc = Rpc(server_address(url, token))
        self._changes = {
            topic: Changes(self._waiter(topic), f"changes-{topic.name.lower()}") for topic in Topic
        }
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<RemoteEngine {self.rpc.address}>"

    @property
    def clock(self) -> Clock:
        """The server's time; never earlier than it is there."""
        return self.rpc.clock

    # Jobs.

    cancel = remote(verbs.CANCEL)
    retry = remote(verbs.RETRY)
    expedite = remote(verbs.EXPEDITE)
    job = remote(verbs.JOB)
    failures = remote(verbs.FAILURES)
    history = remote(verbs.HISTORY)
    jobs = remote(verbs.JOBS)
    count = remote(verbs.COUNT)
    unknown_tasks = remote(verbs.UNKNOWN_TASKS)
    why = remote(verbs.WHY)

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
            added = self.rpc.ask(verbs.ENQUEUE, wire.EnqueueRequest(sent))
        except DuplicateJobError as error:
            # No other client knows an id that was made here: it is the same request, heard before.
            if error.existing not in made:
                raise
            return enqueued_before(self, sent)
        return [Enqueued(each.id, at=each.at) if each.id in made else each for each in added]

    def import_jobs(self, jobs: Sequence[ImportedJob]) -> list[Enqueued]:
        """Bring in jobs, all or none, each under its own id, with the attempts that it made elsewhere."""
        return self.rpc.ask(verbs.IMPORT_JOBS, wire.ImportRequest(list(jobs))) if jobs else []

    # Attempts.

    claim = remote(verbs.CLAIM)

    def claim_one(
        self,
        job_id: str,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int = START_GRACE,
        tenant: str | None = None,
    ) -> Claimed:
        """Start this job for a worker, before others of its line, if all its gates are open."""
        body = wire.ClaimOneRequest(job_id, worker, lease, grace, tenant)
        while True:
            # An answer without a job was lost on its way, and the job given back meanwhile.
            found = self.rpc.ask(verbs.CLAIM_ONE, body).jobs
            if found:
                return found[0]

    progress = remote(verbs.PROGRESS)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Record how attempts ended; False for one whose lease was lost: what it did counts for nothing.

        So many that one request cannot hold them are sent in several.
        """
        pieces = wire.pieces(wire.reports_of(settlements))
        asked = (self.rpc.ask(verbs.SETTLE, wire.SettleRequest(piece, sequels=True)) for piece in pieces)
        return [answer for answers in asked for answer in answers]

    def exchange(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int = START_GRACE,
        tenant: str | None = None,
        tasks: Sequence[str] | None = None,
        ahead: Ahead | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> tuple[list[Settled], Claim]:
        """Settle, then claim, in one request."""
        take = wire.ClaimRequest(queues, count, worker, lease, grace, tenant, tasks, ahead, relay, standby)
        body = wire.ExchangeRequest(wire.reports_of(settlements), take, sequels=True)
        answer = self.rpc.ask(verbs.EXCHANGE, body)
        return answer.accepted, answer.claim

    def begun(self, reports: Sequence[tuple[int, int, int]]) -> None:
        """Tell how long after its claim each handler began, as (seq, fence, span), so that windows open on time."""
        if reports:
            self.rpc.ask(verbs.BEGUN, wire.BegunRequest(reports))

    def heartbeat(self, attempts: Sequence[tuple[int, int]], *, lease: int = LEASE) -> list[Beat]:
        """Renew the leases of attempts; tell which are lost and which should stop."""
        # An answer that does not come must leave time to ask again.
        timeout = min(max(lease / SECOND / 3, LEAST), ANSWER)
        beats: list[Beat] = []
        for first in range(0, len(attempts), wire.MOST_ATTEMPTS):
            body = wire.HeartbeatRequest(attempts[first : first + wire.MOST_ATTEMPTS], lease)
            answered = self.rpc.ask(verbs.HEARTBEAT, body, timeout=timeout)
            beats += answered
        return beats

    def spend(self, reports: Sequence[Spending]) -> list[bool]:
        """Report what running attempts used, as (seq, fence, what by key); False for one that lost its lease."""
        return self.rpc.ask(verbs.SPEND, wire.SpendRequest(reports)) if reports else []

    # Instances.

    memo = remote(verbs.MEMO)
    timers = remote(verbs.TIMERS)
    signal = remote(verbs.SIGNAL)
    cancel_instance = remote(verbs.CANCEL_INSTANCE)
    pause_instance = remote(verbs.PAUSE_INSTANCE)
    resume_instance = remote(verbs.RESUME_INSTANCE)
    retry_instance = remote(verbs.RETRY_INSTANCE)
    instance = remote(verbs.INSTANCE)

    def create_instances(self, new: Sequence[NewInstance]) -> list[CreatedInstance]:
        """Start workflows, all or none; durable when this returns, and nothing is started twice."""
        if not new:
            return []
        sent = [each if each.id is not None else replace(each, id=new_id()) for each in new]
        made = {each.id for each, given in zip(sent, new, strict=True) if given.id is None}
        try:
            return self.rpc.ask(verbs.CREATE_INSTANCES, wire.CreateInstancesRequest(sent))
        except DuplicateJobError as error:
            # No other client knows an id that was made here: it is the same request, heard before.
            if error.existing not in made:
                raise
            return [self._created(each) for each in sent]

    def instances(
        self,
        tenant: str | None = None,
        offset: int = 0,
        limit: int = 50,
        *,
        workflow: str | None = None,
        state: InstanceState | None = None,
    ) -> tuple[list[InstanceView], int]:
        """Return a page of instances, newest first and without their steps, and how many there are."""
        body = wire.InstancesRequest(tenant, offset, limit, workflow, state)
        page = self.rpc.ask(verbs.INSTANCES, body)
        return page.instances, page.total

    # Queues and gates.

    pause = remote(verbs.PAUSE)
    resume = remote(verbs.RESUME)
    configure = remote(verbs.CONFIGURE)
    override = remote(verbs.OVERRIDE)
    clear_override = remote(verbs.CLEAR_OVERRIDE)
    shut = remote(verbs.SHUT)
    gate = remote(verbs.GATE)

    def gates(self, *, prefix: str = "", offset: int = 0, limit: int = 50) -> tuple[list[GateView], int]:
        """Return a page of gates by name, and how many there are."""
        page = self.rpc.ask(verbs.GATES, wire.GatesRequest(prefix, offset, limit))
        return page.gates, page.total

    def queues(self) -> list[dict[str, object]]:
        """Return every queue that has jobs or rules."""
        found = self.rpc.ask(verbs.QUEUES, wire.EmptyRequest())
        return [{**each, "numbers": msgspec.convert(each["numbers"], Numbers | None)} for each in found]

    # Floating limits.

    floating = remote(verbs.FLOATING)
    set_floating = remote(verbs.SET_FLOATING)
    delete_floating = remote(verbs.DELETE_FLOATING)
    refresh_floating = remote(verbs.REFRESH_FLOATING)

    def floating_limits(
        self, *, tenant: str | None = None, prefix: str = "", offset: int = 0, limit: int = 50
    ) -> tuple[list[FloatingView], int]:
        """Return a page of floating limits by key, of one tenant or of all, and how many there are."""
        page = self.rpc.ask(verbs.FLOATING_LIMITS, wire.FloatingLimitsRequest(tenant, prefix, offset, limit))
        return page.limits, page.total

    def refreshes(
        self,
        handlers: Collection[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        queues: Collection[str] = (),
        tenant: str | None = None,
    ) -> list[Refresh]:
        """Lend due refreshes to a worker that has one of these handlers; see `RefreshesFor`."""
        if not handlers and not queues:
            return []
        body = wire.RefreshesRequest(handlers, count, worker, lease, queues, tenant)
        return self.rpc.ask(verbs.REFRESHES, body)

    def renew_refreshes(self, lent: Sequence[tuple[int, int]], *, lease: int = LEASE) -> list[bool]:
        """Leave refreshes, as (gate, fence), to the worker that has them; False for one that it has no more."""
        return self.rpc.ask(verbs.RENEW_REFRESHES, wire.RenewRefreshesRequest(lent, lease)) if lent else []

    def refreshed(self, refresh: Refresh, *, value: int | None = None, error: str = "") -> bool:
        """Take a refreshed value, or an error; False if another worker was given the refresh meanwhile."""
        return self.rpc.ask(verbs.REFRESHED, wire.RefreshedRequest(refresh, value, error.replace("\0", "")))

    # The store.

    def acting(self, actor: Actor) -> AbstractContextManager[None]:
        """Let *actor* be the one who acts; the server is told the reason, and knows who by the token."""
        return acting(actor)

    def begin_bulk(self, verb: str, kind: str, subject: str, *, tenant: str = "") -> Actor:  # noqa: ARG002 - the engine's
        """Return who acts: at a server each change of a bulk operation has an entry of its own."""
        return actor()

    workers = remote(verbs.WORKERS)

    def hear(self, reports: Sequence[WorkerReport]) -> list[str]:
        """Tell of workers; return what is asked of each."""
        return self.rpc.ask(verbs.HEAR, wire.HearRequest(reports))

    def audit(
        self, wanted: AuditFilter | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return changes that fit, newest first; *before* an entry's number for the next page."""
        given = {} if wanted is None else asdict(wanted)
        return self.rpc.ask(verbs.AUDIT, wire.AuditRequest(**given, before=before, limit=limit))

    doctor = remote(verbs.DOCTOR)
    advice = remote(verbs.ADVICE)

    def upkeep(self) -> dict[str, int]:
        """Do nothing: the server keeps its store up to date."""
        return {}

    def prune(self, older_than: int, most: int | None = None) -> int:
        """Delete jobs that ended before then; with a *most*, as workers ask, leave that to the server."""
        return 0 if most is not None else self.rpc.ask(verbs.PRUNE, wire.PruneRequest(older_than))

    # Listening and waiting.

    def listen(self, listener: Listener) -> Callable[[], None]:  # noqa: ARG002 - it is never called
        """Raise: events of a server are read over HTTP."""
        raise InvalidError("listen", "events of a server are read over HTTP, and not here")

    def revision(self, topic: Topic = Topic.WORK) -> int:
        """Return a number that changes whenever any process changed something about *topic*."""
        return self._changes[topic].revision()

    def wait(self, revision: int, timeout: float, topic: Topic = Topic.WORK) -> int:
        """Wait until something about *topic* changed after *revision*, or for *timeout* seconds; return the new one."""
        return self._changes[topic].wait(revision, timeout)

    def close(self) -> None:
        """Close all connections."""
        for changes in self._changes.values():
            changes.close()
        self.rpc.close()

    def _created(self, new: NewInstance) -> CreatedInstance:
        found = self.instance(new.id or "", new.tenant)
        return CreatedInstance(found.id, found.state.value)

    def _check(self) -> None:
        """Raise unless the server speaks this protocol and accepts the token."""
        hello = self.rpc.ask(verbs.HELLO, wire.EmptyRequest())
        if hello.protocol != wire.PROTOCOL:
            raise SchemaError(
                f"the server at {self.rpc.address} speaks version {hello.protocol} of the protocol, "
                f"not {wire.PROTOCOL}"
            )

    def _waiter(self, topic: Topic) -> Ask:
        def wait(revision: int | None, timeout: float) -> int:
            body = wire.WaitRequest(topic.name.lower(), revision, timeout)
            return self.rpc.ask(verbs.WAIT, body, timeout=timeout + _SLACK)

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
        return Enqueued(engine.job(id_, job.tenant).id)
    except NotFoundError:
        # An earlier job stood for this one: enqueue it again to learn which.
        return engine.enqueue([job])[0]
