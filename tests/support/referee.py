"""Drive the engine and the model side by side, and stop at the first difference.

Operations are plain tuples that name jobs, so that a failing run can be replayed with operations
left out and shrunk to the few that matter.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from typing import Any

from msgspec.structs import replace

from penstock.clock import SECOND
from penstock.engine import Engine, open_engine
from penstock.errors import NotFoundError, WrongStateError
from penstock.job import START_GRACE, Claim, Claimed, ClaimFor, NewJob, Order, Settlement
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited, Outcome
from penstock.lifecycle.retry import Backoff, Exhausted, RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, OnLimit, numbers_from_text
from tests.support.clock import FakeClock
from tests.support.model import Answer, GateName, Job, Mismatch, Model

Operation = tuple[Any, ...]
# A job, how its attempt ended, and how long after its claim its handler began.
Report = tuple[str, Operation, int | None]

LEASE = 15 * SECOND
FOREVER = 2**63 - 1
ASKED_WHY = 5  # of those that wait


class Referee:
    """An engine, the model, and a clock they share.

    Mode A asks for equal answers; B follows the engine and asks who was passed over; C also lets
    turns decide and asks only who was left.  *at_door* means that the engine finds the gates taken
    whenever it enqueues, so that jobs are let in later.
    """

    def __init__(self, mode: str, store: str = ":memory:", *, at_door: bool = False) -> None:
        self.mode = mode
        self.at_door = at_door
        self.clock = FakeClock()
        self.model = Model(self.clock.now)
        self.engine: Engine = open_engine(store, clock=self.clock, turns=mode == "C")
        self._attempts: dict[str, Claimed] = {}
        self._claimed_at: dict[str, int] = {}
        self._lost: dict[str, Claimed] = {}

    def do(self, operation: Operation) -> None:
        """Carry out one operation on both; an operation that makes no sense any more does nothing."""
        verb, *rest = operation
        getattr(self, f"_{verb}")(*rest)

    def close(self) -> None:
        self.engine.close()

    # -- Operations

    def _enqueue(self, wanted: Sequence[dict[str, Any]]) -> None:
        jobs = [self._job(**ask) for ask in wanted]
        if self.at_door:
            self._upkeep()  # so that letting them in does nothing else
        answers = self.engine.enqueue(jobs)
        if self.at_door:
            self.engine.upkeep()
        self.model.enqueue(jobs)
        if self.at_door:
            self.model.tick()  # some are past their time at once, if the clock was set back
        same("enqueued", [job.id for job in jobs], [answer.id for answer in answers])
        for job in jobs:
            assert job.id
            same(f"state of {job.id}", self.model.jobs[job.id].state, self.engine.job(job.id).state)

    def _claim(self, queues: Sequence[str], count: int, lease: int = LEASE) -> None:
        self._check_claims([ClaimFor(tuple(queues), count, "w", lease, START_GRACE)])

    def _claims(self, requests: Sequence[tuple[Sequence[str], int, int]], order: str = "priority") -> None:
        """Claim for several in one transaction: it comes to the same as one after the other."""
        self._check_claims(
            [
                ClaimFor(tuple(queues), count, f"w{n}", lease, START_GRACE, order=Order(order))
                for n, (queues, count, lease) in enumerate(requests)
            ]
        )

    def _settle(self, reports: Sequence[Report]) -> None:
        settlements, wanted = self._settlements(reports)
        same("settled", self.model.settle(wanted), [bool(each) for each in self.engine.settle(settlements)])
        for name, *_ in wanted:
            same(f"state of {name}", self.model.jobs[name].state, self.engine.job(name).state)

    def _exchange(self, reports: Sequence[Report], queues: Sequence[str], count: int) -> None:
        """Settle and claim in one transaction."""
        settlements, wanted = self._settlements(reports)
        accepted, claim = self.engine.exchange(settlements, queues, count, worker="w", lease=LEASE)
        same("settled", self.model.settle(wanted), [bool(each) for each in accepted])
        before = self._waiting()
        self._check_claim(claim, ClaimFor(tuple(queues), count, "w", LEASE, START_GRACE))
        self._compare_states(before)

    def _settle_late(self, name: str) -> None:
        """Settle an attempt that ended before."""
        if (claimed := self._lost.get(name)) is not None:
            same(
                "settled late", [False], self.engine.settle([Settlement(claimed.seq, claimed.fence, Done())])
            )

    def _begun(self, name: str, lag: int) -> None:
        if (claimed := self._attempts.get(name)) is not None:
            at = self._moment(name, lag)
            self.engine.begun([(claimed.seq, claimed.fence, at - claimed.started)])
            self.model.begun(name, claimed.fence, at)

    def _beat(self, name: str, lease: int = LEASE) -> None:
        if (claimed := self._attempts.get(name)) is not None:
            (beat,) = self.engine.heartbeat([(claimed.seq, claimed.fence)], lease=lease)
            expected = self.model.heartbeat(name, claimed.fence, lease)
            same("beat", expected, (beat.alive, beat.cancel_asked))

    def _cancel(self, name: str) -> None:
        if name in self.model.jobs:
            answer = refused(lambda: self.engine.cancel(name))
            same(f"cancel {name}", self.model.cancel(name), answer)

    def _retry(self, name: str) -> None:
        if name in self.model.jobs:
            answer = refused(lambda: self.engine.retry(name) or State.WAITING)
            same(f"retry {name}", self.model.retry(name), answer is not None)

    def _configure(self, scope: str, name: str, text: str | None) -> None:
        numbers = None if text is None else numbers_from_text(text)
        self.engine.configure(scope, name, numbers)
        self.model.configure((scope, "", name), numbers)

    def _override(self, key: str, text: str, span: int | None) -> None:
        until = None if span is None else self.clock.now() + span
        self.engine.override(key, numbers_from_text(text), until=until)
        self.model.override(("key", "", key), numbers_from_text(text), until)

    def _clear_override(self, key: str) -> None:
        with suppress(NotFoundError):  # nobody has named the key yet
            self.engine.clear_override(key)
        self.model.clear_override(("key", "", key))

    def _shut(self, key: str, span: int) -> None:
        until = self.clock.now() + span
        self.engine.shut(key, until)
        self.model.shut(("key", "", key), until)

    def _pause(self, queue: str) -> None:
        self.engine.pause(queue)
        self.model.pause(queue, paused=True)

    def _resume(self, queue: str) -> None:
        self.engine.resume(queue)
        self.model.pause(queue, paused=False)

    def _advance(self, span: int) -> None:
        if span < 0:
            self._upkeep()  # so that both have seen the later time
        self.clock.advance(span)

    def _upkeep(self) -> None:
        self.engine.upkeep()
        self.model.tick()

    def _doctor(self) -> None:
        same("doctor", [], self.engine.doctor())

    def _compare(self) -> None:
        """Compare every job and every gate."""
        self._upkeep()
        self._doctor()
        views = {view.id: view for view in self.engine.jobs(limit=1_000_000)}
        same("jobs", self.model.jobs.keys(), views.keys())
        for name, job in self.model.jobs.items():
            same(f"state of {name}", job.state, views[name].state)
            same(f"attempts of {name}", job.attempt, views[name].attempt)
        self._compare_gates()
        self._compare_reasons()

    # -- Comparisons

    def _check_claims(self, requests: Sequence[ClaimFor]) -> None:
        before = self._waiting()
        claims = self.engine.claims(requests)
        for claim, wanted in zip(claims, requests, strict=True):
            self._check_claim(claim, wanted)
        self._compare_states(before)

    def _check_claim(self, claim: Claim, wanted: ClaimFor) -> None:
        jobs, next_at = self._claim_on(claim, wanted)
        # Strictly one queue after the other is as much as a claim for each, as long as there is room.
        steps = [[queue] for queue in wanted.queues] if wanted.order is Order.STRICT else [wanted.queues]
        left = jobs
        for queues in steps:
            mine = [job for job in left if job.queue in queues]
            same("order of queues", left[: len(mine)], mine)
            left = left[len(mine) :]
            self._compare_started(
                mine, queues, wanted.count - (len(jobs) - len(mine) - len(left)), wanted.lease
            )
        if len(jobs) < wanted.count:
            self._compare_next(wanted.queues, next_at)

    def _compare_started(self, jobs: list[Claimed], queues: Sequence[str], count: int, lease: int) -> None:
        names = [job.id for job in jobs]
        if self.mode == "A":
            started = self.model.claim(queues, count, lease)
            same("started", [job.name for job in started], names)
        else:
            answer = Answer(names, self._turns())
            started = self.model.follow(queues, count, lease, answer, ordered=self.mode == "B")
        for job, claimed in zip(started, jobs, strict=True):
            self._compare_attempt(job, claimed)

    def _compare_states(self, names: Collection[str]) -> None:
        for name in names:
            same(f"state of {name}", self.model.jobs[name].state, self.engine.job(name).state)

    def _waiting(self) -> set[str]:
        return {job.name for job in self.model.waiting()}

    def _compare_attempt(self, job: Job, claimed: Claimed) -> None:
        same(f"attempt of {job.name}", job.attempt, claimed.attempt)
        same(f"lease of {job.name}", job.lease, claimed.lease)
        if job.starts and claimed.begin_by != self.model.now + START_GRACE:
            raise Mismatch(f"{job.name} must begin by {self.model.now + START_GRACE}, not {claimed.begin_by}")
        job.fence = claimed.fence
        self._attempts[job.name] = claimed
        self._claimed_at[job.name] = self.model.now

    def _compare_next(self, queues: Sequence[str], next_at: int | None) -> None:
        """The engine may ask to be asked again too early, never too late."""
        opening = self.model.opening_before(queues, FOREVER if next_at is None else next_at)
        if opening is not None and self.mode == "A":
            raise Mismatch(
                f"a claim on {queues} starts something at {opening}; told to come back at {next_at}"
            )

    def _compare_gates(self) -> None:
        views, total = self.engine.gates(limit=1_000)
        same("gates", len(views), total)
        for view in views:
            name: GateName = ("key", view.tenant, view.key)
            same(f"running at {name}", self.model.running(name, self.model.now), view.running)
            passing = [job for job in self.model.waiting() if any(name == gate for gate, _, _ in job.gates)]
            same(f"waiting at {name}", len(passing), view.waiting)

    def _compare_reasons(self) -> None:
        for job in self.model.waiting()[:ASKED_WHY]:
            shut = {name for scope, _, name in self.model.shut_gates(job) if scope == "key"}
            reasons = {reason.gate for reason in self.engine.why(job.name).reasons}
            if not shut <= reasons:
                raise Mismatch(f"{job.name} waits for {shut}, but why says {reasons}")

    # -- Small things

    def _claim_on(self, claim: Claim, wanted: ClaimFor) -> tuple[list[Claimed], int | None]:
        """Claim again for as long as the answer is that there is more."""
        jobs = list(claim.jobs)
        while claim.more and len(jobs) < wanted.count:
            (claim,) = self.engine.claims([replace(wanted, count=wanted.count - len(jobs))])
            jobs += claim.jobs
        return jobs, claim.next_at

    def _settlements(
        self, reports: Sequence[Report]
    ) -> tuple[list[Settlement], list[tuple[str, int, Outcome, int | None]]]:
        """Return those reports that are about attempts, as the engine and as the model take them."""
        settlements, wanted = [], []
        for name, outcome, lag in reports:
            if (claimed := self._attempts.pop(name, None)) is not None:
                ended = self._outcome(*outcome)
                began = None if lag is None else self._moment(name, lag)
                after = None if began is None else began - claimed.started
                settlements.append(Settlement(claimed.seq, claimed.fence, ended, after))
                wanted.append((name, claimed.fence, ended, began))
                self._lost[name] = claimed
        return settlements, wanted

    def _moment(self, name: str, lag: int) -> int:
        """Return when the handler of an attempt began, *lag* after its claim; it can not be yet to come."""
        return min(self._claimed_at[name] + lag, self.model.now)

    def _turns(self) -> dict[GateName, str]:
        if self.mode != "C":
            return {}
        question = """
            SELECT kind, gate.tenant, name, job.id
            FROM turn JOIN gate ON gate.id = turn.gate JOIN job ON job.seq = turn.seq WHERE until IS NULL OR until > ?
            """
        rows = self.engine.store.read(lambda db: db.all(question, self.model.now))
        return {(kind, tenant, name): holder for kind, tenant, name, holder in rows}

    def _job(self, name: str, **ask: Any) -> NewJob:
        ask["limits"] = tuple(
            Limit(key, numbers_from_text(text), OnLimit(on_limit))
            for key, text, on_limit in ask.get("limits", ())
        )
        for moment in ask.keys() & {"due", "expires"}:
            ask[moment] += self.clock.now()
        ask["retry"] = RetryPolicy(
            attempts=ask.pop("attempts", 1),
            backoff=Backoff.FIXED,
            delay=ask.pop("delay", 0),
            jitter=False,
            exhausted=Exhausted.DISCARD if ask.pop("discard", False) else Exhausted.KEEP,
        )
        return NewJob(id=name, task=ask.pop("task", "t1"), **ask)

    def _outcome(self, kind: str, *facts: Any) -> Outcome:
        match kind:
            case "done":
                return Done()
            case "failed":
                return Failed("ValueError", "no")
            case "again":
                return Again(*facts)
            case "cancelled":
                return Cancelled()
            case "limited":
                span, key = facts
                return Limited(self.clock.now() + span, key)
            case _:
                return HandedBack(*facts)


def same(what: str, expected: object, actual: object) -> None:
    """Raise unless engine and model agree."""
    if expected != actual:
        raise Mismatch(f"{what}: the model says {expected!r}, the engine {actual!r}")


def refused(call: Callable[[], State]) -> State | None:
    """Return the answer, or None where the engine says that the job's state does not allow it."""
    try:
        return call()
    except WrongStateError:
        return None


def replay(mode: str, operations: Sequence[Operation]) -> None:
    """Carry out *operations* on a fresh engine and model."""
    with closing(Referee(mode)) as referee:
        for operation in operations:
            referee.do(operation)


def failure(mode: str, operations: Sequence[Operation]) -> str | None:
    """Return what goes wrong when *operations* are replayed."""
    try:
        replay(mode, operations)
    except Exception as error:  # noqa: BLE001 - an engine that breaks is a finding too
        return f"{type(error).__name__}: {error}"
    return None
