"""One engine behind many requests: their verbs are batched, and they wait on one thread."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

from penstock.background.watcher import Watcher
from penstock.clock import MILLISECOND, SECOND, monotonic
from penstock.engine import Engine
from penstock.errors import StoreError
from penstock.http.batcher import Adding, Answer, Batcher, Fetching, Leased, Leasing, Question, answers
from penstock.http.feed import BlockedSince, Feed
from penstock.http.paced_answers import PacedAnswers
from penstock.job import (
    AT_ONCE,
    LEAD,
    Beat,
    Claim,
    Claimed,
    ClaimFor,
    Enqueued,
    NewJob,
    Refresh,
    RefreshesFor,
    RefreshReport,
    Renewal,
    Settlement,
    Topic,
)
from penstock.lifecycle.outcomes import HandedBack

T = TypeVar("T")

THREADS: Final = 16
PROMPT: Final = 1.0  # seconds that a request which failed waits until its jobs are given back
AGAIN: Final = 0.5  # seconds between two tries to give jobs back
# How many attempts are remembered with their fences; of others the store is asked.
REMEMBERED: Final = 100_000
LEAST_PAUSE: Final = MILLISECOND
IN_FLIGHT: Final = (
    100 * MILLISECOND
)  # how long a fetch waits for a job that another transaction lets become due
_UNBEGUN: Final = HandedBack()

log = logging.getLogger("penstock.server")


class Claims:
    """The jobs claimed for one request.  Until its answer is being sent they can be given back."""

    __slots__ = ("jobs",)

    def __init__(self, jobs: list[Claimed] | None = None) -> None:
        self.jobs = jobs or []

    def unheard(self) -> list[Claimed]:
        """Return the jobs to give back because the answer will not arrive."""
        jobs, self.jobs = self.jobs, []
        return jobs


class EngineService:
    """What routes ask of the engine.  Its coroutines belong to one event loop."""

    def __init__(self, engine: Engine, *, test_mode: bool = False, loopback: bool = False) -> None:
        self.engine = engine
        self.test_mode = test_mode
        self.loopback = loopback  # whether only this machine can reach it
        self.feed = Feed(engine)
        self.feed.follow(BlockedSince().note)
        self.at_start: list[Callable[[], None]] = []  # called on the loop when it starts
        self.at_end: list[Callable[[], None]] = []
        self.began = monotonic()
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock")
        self._paced = PacedAnswers(engine.clock)
        self._working: Batcher[Question | Fetching, Answer] = Batcher(
            self._together, self.threads, unwanted=self._take_back
        )
        # Where one statement adds jobs without a transaction, it need not wait for one.
        self._adding = (
            self._working if engine.store.add_free is None else Batcher(self._together, self.threads)
        )
        self._refreshing: Batcher[RefreshesFor, list[Refresh]] = Batcher(engine.refreshes_for, self.threads)
        self._refreshed: Batcher[RefreshReport, bool] = Batcher(engine.report_refreshes, self.threads)
        # Heartbeats look at no gate, so they wait for no transaction that holds them.
        self._beating: Batcher[Renewal, Beat] = Batcher(engine.heartbeats, self.threads)
        self._renewing: Batcher[tuple[int, int, int], bool] = Batcher(self._renew_together, self.threads)
        self._taking_back: set[asyncio.Task[None]] = set()
        # By id, then by tenant: what was fetched here, and by which worker.
        self._held: OrderedDict[str, dict[str, tuple[Claimed, str]]] = OrderedDict()
        self._parts: dict[type, object] = {}
        self._lasting: dict[type, object] = {}
        self._watchers = {topic: self._watcher(topic) for topic in Topic}
        self._work = self._watchers[Topic.WORK]

    @property
    def uptime(self) -> float:
        """Seconds since the service began."""
        return (monotonic() - self.began) / SECOND

    async def run(self, work: Callable[[Engine], T]) -> T:
        """Run *work*, which blocks, in a thread, for whom the caller acts."""
        run = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self.threads, run, work, self.engine)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Add jobs, all or none; they are durable when this returns."""
        added = await self._adding.ask(Adding(jobs))
        assert isinstance(added, list)  # noqa: S101 - for mypy
        return added

    async def settle(self, settlement: Settlement) -> int | None:
        """Record how an attempt ended; return when, None if its lease was lost."""
        settled = await self._working.ask(self._paced.with_begin(settlement))
        self._paced.settled(settlement)
        assert settled is None or isinstance(settled, int)  # noqa: S101 - for mypy
        return settled

    async def claim(self, wanted: ClaimFor, claims: Claims, wait: float = 0.0) -> list[Claimed]:
        """Start jobs for a worker and note them in *claims*; with *wait*, wait so many seconds for the first.

        A job that is just becoming due in another transaction is waited for a moment, also without *wait*.
        """
        jobs = await self._claim(wanted, claims, wait)
        for job in jobs:
            self.remember(job, wanted.worker)
        return jobs

    async def _claim(self, wanted: ClaimFor, claims: Claims, wait: float = 0.0) -> list[Claimed]:
        began = monotonic()
        end = began + int(wait * SECOND)
        while True:
            revision = self._work.look() if wait else 0
            claim = await self.take(Fetching(wanted), claims)
            while not claim.jobs and claim.more:
                claim = await self.take(Fetching(wanted), claims)
            latest = max(end, began + IN_FLIGHT) if claim.next_at == AT_ONCE else end
            left = latest - monotonic()
            if claim.jobs or left <= 0 or self.draining:
                break
            if wait:
                await self._work.changed(revision, self._pause(claim, left) / SECOND)
            else:
                await asyncio.sleep(LEAST_PAUSE / SECOND)
        return claim.jobs

    async def take(self, wanted: ClaimFor | Fetching, claims: Claims) -> Claim:
        """Start jobs for a worker, without waiting, and note them in *claims*."""
        self._paced.begin()
        claim = await self._working.ask(wanted)
        assert isinstance(claim, Claim)  # noqa: S101 - for mypy
        claims.jobs += claim.jobs
        return claim

    async def lease(
        self, wanted: ClaimFor, refreshing: RefreshesFor, claims: Claims
    ) -> tuple[list[Claimed], list[Refresh]]:
        """Start jobs for a worker, noted in *claims*, and lend it due refreshes, in one transaction.

        Their fences are not remembered here: the worker tells them.
        """
        self._paced.begin()
        leased = await self._working.ask(Fetching(wanted, refreshing))
        assert isinstance(leased, Leased)  # noqa: S101 - for mypy
        claims.jobs += leased.claim.jobs
        jobs = leased.claim.jobs
        if not jobs and (leased.claim.more or leased.claim.next_at == AT_ONCE):
            jobs = await self._claim(wanted, claims)
        return jobs, leased.refreshes

    async def claim_one(self, job_id: str, worker: str, lease: int, tenant: str, claims: Claims) -> Claimed:
        """Start this job for a worker, if all its gates are open, and note it in *claims*."""
        self._paced.begin()

        def work(engine: Engine) -> tuple[None, Claim]:
            job = engine.claim_one(job_id, worker=worker, lease=lease, grace=self._paced.grace, tenant=tenant)
            self._paced.plan([job])
            return None, Claim([job], more=False, next_at=None)

        _, claim = await self.run_claiming(work, claims)
        return claim.jobs[0]

    async def beat(self, renewal: Renewal) -> Beat:
        """Renew the lease of an attempt; tell whether it stands and whether it should stop."""
        return await self._beating.ask(renewal)

    async def renew_refresh(self, gate: int, fence: int, lease: int) -> bool:
        """Leave a refresh to the worker that has it; False if it has it no more."""
        return await self._renewing.ask((gate, fence, lease))

    async def refreshes(self, wanted: RefreshesFor) -> list[Refresh]:
        """Lend due refreshes of floating limits to a worker.

        Those of an answer that does not arrive are lent to another worker when their lease is over.
        """
        return await self._refreshing.ask(wanted)

    async def refreshed(self, report: RefreshReport) -> bool:
        """Take what a worker computed; False if another worker was given the refresh meanwhile."""
        return await self._refreshed.ask(report)

    async def run_claiming(
        self, work: Callable[[Engine], tuple[T, Claim]], claims: Claims
    ) -> tuple[T, Claim]:
        """Run *work*, which also claims, in a thread; note in *claims* what it claimed."""
        asked = asyncio.ensure_future(self.run(work))
        try:
            answer, claim = await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(self._leave)  # a thread cannot be stopped
            raise
        claims.jobs += claim.jobs
        return answer, claim

    async def wait(self, topic: Topic, revision: int | None, timeout: float) -> int:  # noqa: ASYNC109 - it is no failure
        """Wait until something happened about *topic* after *revision*, or so many seconds; return the new revision."""
        watcher = self._watchers[topic]
        if revision == watcher.look():
            await watcher.changed(revision, timeout)
        return watcher.look()

    def begin(self) -> None:
        """Start what goes on without requests, on the running loop."""
        self.feed.begin()
        for start in self.at_start:
            start()

    @property
    def draining(self) -> bool:
        """Whether requests may no longer wait."""
        return self._work.closed

    def drain(self) -> None:
        """End all waiting: the server is about to stop."""
        self.feed.close()
        for watcher in self._watchers.values():
            watcher.close()

    def revision(self, topic: Topic) -> int:
        """Return a number that changes whenever any process did something about *topic*."""
        return self._watchers[topic].look()

    async def changed(self, revision: int, seconds: float, topic: Topic) -> None:
        """Return once something happened about *topic* after *revision*, or after so many *seconds*."""
        await self._watchers[topic].changed(revision, seconds)

    async def hand_back(self, jobs: Sequence[Claimed], outcome: HandedBack = _UNBEGUN) -> None:
        """Give back attempts that were never begun: they keep their place, and count for nothing."""
        for job in jobs:
            if self._held.get(job.id, {}).get(job.tenant, (None,))[0] == job:
                self.forget(job.id, job.tenant)
        self._paced.gone(jobs)
        if jobs:
            settlements = [Settlement(job.seq, job.fence, outcome) for job in jobs]
            await self.run(lambda engine: engine.settle(settlements))

    async def give_back(self, claims: Claims) -> None:
        """Give back what was claimed for an answer that will not arrive.  Raises nothing but cancellation.

        If the store cannot be reached this goes on by itself, until the leases run out.
        """
        if task := self._give_back_soon(claims.unheard()):
            await asyncio.wait([task], timeout=PROMPT)

    async def in_time(self, jobs: Sequence[Claimed]) -> list[Claimed]:
        """Wait for the moments of these attempts; return those that may begin still, the others are given back.

        Their gates remember them as begun by then, and a worker that hears of one later would begin later.
        """
        await self._paced.hold(jobs)
        late = [job for job in jobs if job.begin_by and not self._paced.in_time(job)]
        if any(job.begin_by for job in jobs):
            self._paced.note_late(late=bool(late))
        if not late:
            return list(jobs)
        await self.hand_back(late)
        return [job for job in jobs if job not in late]

    def answered(self, claims: Claims) -> None:
        """Note that the answer has been sent for which these jobs were claimed: that is when they start."""
        if self._paced.sent(claims.jobs):
            asyncio.get_running_loop().call_later(LEAD / SECOND, self._tell_begun)

    def _tell_begun(self) -> None:
        """Tell the engine of starts, if no claim has told it meanwhile."""
        begun = self._paced.take_begun()
        if begun and not self._work.closed:
            self.threads.submit(self._report_begun, begun)

    def _report_begun(self, begun: Sequence[tuple[int, int, int]]) -> None:
        try:
            self.engine.begun(begun)
        except Exception as error:  # noqa: BLE001 - the gates remember them a little later than they were
            log.warning("the start of %d jobs could not be told: %s", len(begun), error)

    def _take_back(self, answer: Answer) -> None:
        """Give back what was claimed for a request that was cancelled."""
        claim = answer.claim if isinstance(answer, Leased) else answer
        if isinstance(claim, Claim):
            self._give_back_soon(claim.jobs)

    def _leave(self, asked: "asyncio.Future[tuple[T, Claim]]") -> None:
        if not asked.cancelled() and asked.exception() is None:
            self._give_back_soon(asked.result()[1].jobs)

    def _give_back_soon(self, jobs: Sequence[Claimed]) -> "asyncio.Task[None] | None":
        if not jobs:
            return None
        task = asyncio.get_running_loop().create_task(self._until_given_back(jobs))
        self._taking_back.add(task)
        task.add_done_callback(self._taking_back.discard)
        return task

    async def _until_given_back(self, jobs: Sequence[Claimed]) -> None:
        end = max(job.lease for job in jobs)
        while True:
            try:
                await self.hand_back(jobs)
            except StoreError as error:
                if self.engine.clock.now() > end:
                    log.warning("%d jobs could not be given back: %s", len(jobs), error)
                    return
            except Exception:
                log.exception("%d jobs are not given back before their leases run out", len(jobs))
                return
            else:
                return
            await asyncio.sleep(AGAIN)

    def remember(self, job: Claimed, worker: str) -> None:
        """Remember the fence of an attempt, and its worker."""
        self._held.setdefault(job.id, {})[job.tenant] = (job, worker)
        self._held.move_to_end(job.id)
        if len(self._held) > REMEMBERED:
            self._held.popitem(last=False)

    def held(self, job_id: str, tenant: str | None) -> tuple[Claimed, str] | None:
        """Return an attempt that was fetched here, and its worker; without a *tenant* if it is the only one."""
        found = self._held.get(job_id, {})
        if tenant is None:
            return next(iter(found.values())) if len(found) == 1 else None
        return found.get(tenant)

    def forget(self, job_id: str, tenant: str) -> Claimed | None:
        """Forget an attempt that has ended; return it if it was fetched here."""
        held = self._held.get(job_id, {})
        found = held.pop(tenant, None)
        if not held:
            self._held.pop(job_id, None)
        return None if found is None else found[0]

    def part(self, kind: type[T]) -> T:
        """Return the part of this *kind*, kept in memory; it is made when it is first asked for."""
        found = self._lasting.get(kind, self._parts.get(kind))
        if not isinstance(found, kind):
            found = self._parts[kind] = kind()
        return found

    def keep(self, part: object) -> None:
        """Keep *part* as the one of its kind, also when all else is forgotten."""
        self._lasting[type(part)] = part

    def forget_all(self) -> None:
        """Forget every attempt, all events, and all parts but those kept."""
        self._held.clear()
        self._parts.clear()
        self.feed.forget()

    def close(self) -> None:
        """End the threads; the engine stays open."""
        self.feed.close()
        for end in self.at_end:
            end()
        for watcher in self._watchers.values():
            watcher.close()
        self._paced.close()
        self.threads.shutdown(wait=False, cancel_futures=True)
        self._held.clear()

    def _watcher(self, topic: Topic) -> Watcher:
        engine = self.engine
        return Watcher(
            lambda: engine.revision(topic), lambda revision, seconds: engine.wait(revision, seconds, topic)
        )

    def _pause(self, claim: Claim, left: int) -> int:
        """Return how long to wait for something to happen, at most *left*."""
        if claim.next_at is None:
            return left
        return max(min(left, claim.next_at - self.engine.clock.now()), LEAST_PAUSE)

    def _renew_together(self, asked: Sequence[tuple[int, int, int]]) -> list[bool]:
        answers: dict[tuple[int, int, int], bool] = {}
        for lease in {lease for _, _, lease in asked}:
            lent = [(gate, fence) for gate, fence, each in asked if each == lease]
            found = self.engine.renew_refreshes(lent, lease=lease)
            answers |= {(*each, lease): alive for each, alive in zip(lent, found, strict=True)}
        return [answers[each] for each in asked]

    def _together(self, questions: Sequence[Question | Fetching]) -> Sequence[Answer | Exception]:
        fetches = [question.wanted for question in questions if isinstance(question, Fetching)]
        if not fetches:
            return answers(self.engine, [each for each in questions if not isinstance(each, Fetching)])
        asked = iter(self._paced.ask(fetches))
        found = answers(
            self.engine, [_asked(each, asked) if isinstance(each, Fetching) else each for each in questions]
        )
        for question, answer in zip(questions, found, strict=True):
            claim = answer.claim if isinstance(answer, Leased) else answer
            if isinstance(question, Fetching) and isinstance(claim, Claim):
                self._paced.plan(claim.jobs)
        return found


def _asked(fetching: Fetching, claims: Iterator[ClaimFor]) -> Question:
    """Return what is asked of the engine for the next of these *claims*."""
    wanted = next(claims)
    return wanted if fetching.refreshing is None else Leasing(wanted, fetching.refreshing)
