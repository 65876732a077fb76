"""An engine made of lists, which does what a test tells it to."""

import json
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from penstock.clock import Clock, SystemClock
from penstock.job import Ahead, Beat, Claim, Claimed, Refresh, Settlement, Spending, UnknownTask, WorkerReport
from penstock.lifecycle.outcomes import Outcome
from penstock.lifecycle.states import State


@dataclass
class StubEngine:
    """Hands out the jobs it was given, oldest first, and remembers what it was told."""

    clock: Clock = field(default_factory=SystemClock)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    settlements: dict[str, Settlement] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    claims: list[tuple[tuple[str, ...], int, int]] = field(default_factory=list)
    relays: list[tuple[tuple[str, int], ...]] = field(default_factory=list)
    standbys: list[int] = field(default_factory=list)  # how many each claim asked to stand by
    most_standing: int = 0  # so many of them it gets at most
    began: dict[str, int] = field(default_factory=dict)
    beats: list[list[str]] = field(default_factory=list)
    shown: dict[str, list[str]] = field(default_factory=dict)
    used: dict[str, list[dict[str, int]]] = field(default_factory=dict)
    values: list[tuple[str, int | None, str]] = field(default_factory=list)
    due: list[Refresh] = field(default_factory=list)
    renewed: list[tuple[int, int]] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    running_elsewhere: int = 0
    parked: int = 0
    scheduled: int = 0
    unknown: list[UnknownTask] = field(default_factory=list)
    reports: list[WorkerReport] = field(default_factory=list)
    next_at: int | None = None
    more: bool = False
    overlaps: bool = False
    # Called with the name of each verb before it is done; may raise.
    hook: Callable[[str], None] = lambda _: None
    # Called with the handlers for which a worker asks refreshes.
    wanted: Callable[[list[str]], None] = lambda _: None

    def __post_init__(self) -> None:
        self._waiting: dict[str, list[Claimed]] = {}
        self._running: dict[int, Claimed] = {}
        self._seq = 0
        self._revision = 0
        self._changed = threading.Condition()

    def enqueue(
        self, task, *args, queue="default", begin_in=None, timeout=None, count=1, after=False, **kwargs
    ) -> str:
        """Add *count* jobs and return the id of the last; *begin_in* microseconds is the time to begin.

        Each begins *after* the one before it, if that is so.
        """
        text = json.dumps({"args": args, "kwargs": kwargs})
        with self._changed:
            for _ in range(count):
                self._seq += 1
                begin_by = 0 if begin_in is None else -begin_in
                job = Claimed(
                    self._seq,
                    f"job-{self._seq}",
                    task,
                    text,
                    queue,
                    1,
                    1,
                    0,
                    begin_by,
                    timeout,
                    "{}",
                    "",
                    0,
                    after=self._seq - 1 if after else 0,
                )
                self._waiting.setdefault(queue, []).append(job)
            self._change()
        return job.id

    def change(self) -> None:
        """Let every thread that waits for a change look again."""
        with self._changed:
            self._change()

    def until(self, true: Callable[[], object], timeout: float = 10) -> None:
        """Wait until *true* is so."""
        with self._changed:
            assert self._changed.wait_for(true, timeout)

    def ended(self, *ids: str) -> None:
        """Wait until the jobs have been settled."""
        self.until(lambda: all(job in self.outcomes for job in ids))

    def claim(
        self,
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int,
        grace: int = 0,
        tenant: str | None = None,
        tasks: Sequence[str] | None = None,
        ahead: Ahead | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> Claim:
        self.hook("claim")
        if ahead is not None and ahead.begun:
            self.begun(ahead.begun)
        with self._changed:
            taken: list[Claimed] = []
            for queue in queues:
                line = self._waiting.get(queue, [])
                some = line[: count - len(taken)]
                some += takewhile(lambda job: job.after, line[len(some) :] if some else ())
                if not any(job.after for job in some):
                    some += line[len(some) :][: min(standby, self.most_standing)]
                del line[: len(some)]
                taken += some
            jobs = [self._dated(job, lease) for job in taken]
            self._running.update((job.seq, job) for job in jobs)
            self.relays.append(tuple(relay))
            self.standbys.append(standby)
            self.claims.append((tuple(queues), count, len(jobs)))
            more, self.more = self.more, False
            if jobs:
                self._revision += 1
            self._changed.notify_all()
            return Claim(jobs, more or any(self._waiting.get(queue) for queue in queues), self.next_at)

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        self.hook("settle")
        with self._changed:
            self.batches.append(len(settlements))
            answers = [self._settle(settlement) for settlement in settlements]
            self._change()
            return answers

    def exchange(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int,
        grace: int = 0,
        tenant: str | None = None,
        tasks: Sequence[str] | None = None,
        ahead: Ahead | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> tuple[list[bool], Claim]:
        return self.settle(settlements), self.claim(
            queues, count, worker=worker, lease=lease, ahead=ahead, relay=relay, standby=standby
        )

    def begun(self, reports: Sequence[tuple[int, int, int]]) -> None:
        self.hook("begun")
        with self._changed:
            for seq, _, at in reports:
                self.began[f"job-{seq}"] = at
            self._changed.notify_all()

    def heartbeat(self, attempts: Sequence[tuple[int, int]], *, lease: int) -> list[Beat]:
        self.hook("heartbeat")
        with self._changed:
            ids = [f"job-{seq}" for seq, _ in attempts]
            self.beats.append(ids)
            self._changed.notify_all()
            return [
                Beat(seq, job not in self.lost, job in self.cancelled)
                for (seq, _), job in zip(attempts, ids, strict=True)
            ]

    def progress(self, seq: int, fence: int, value_json: str) -> bool:
        self.hook("progress")
        with self._changed:
            self.shown.setdefault(f"job-{seq}", []).append(value_json)
            self._changed.notify_all()
            return f"job-{seq}" not in self.lost

    def spend(self, reports: Sequence[Spending]) -> list[bool]:
        self.hook("spend")
        with self._changed:
            for seq, _, used in reports:
                self.used.setdefault(f"job-{seq}", []).append(used)
            self._changed.notify_all()
            return [f"job-{seq}" not in self.lost for seq, _, _ in reports]

    def timers(self, queues: Sequence[str], tenant: str | None = None) -> int:
        return 0

    def hear(self, reports: Sequence[WorkerReport]) -> list[str]:
        self.reports += reports
        return [""] * len(reports)

    def unknown_tasks(self, queues: Sequence[str] | None = None) -> list[UnknownTask]:
        return list(self.unknown)

    def count(
        self, *, queue: str | None = None, tenant: str | None = None, tasks: Sequence[str] | None = None
    ) -> dict[State, int]:
        waiting = sum(len(line) for name, line in self._waiting.items() if queue in {None, name})
        counts = {
            State.RUNNING: len(self._running) + self.running_elsewhere,
            State.WAITING: waiting + self.parked,
            State.SCHEDULED: self.scheduled,
        }
        return {state: count for state, count in counts.items() if count}

    def prune(self, older_than: int, most: int | None = None) -> int:
        self.hook("prune")
        return 0

    def upkeep(self) -> dict[str, int]:
        self.hook("upkeep")
        return {}

    def refreshes(self, handlers: Collection[str], count: int, *, worker: str, lease: int) -> list[Refresh]:
        self.hook("refreshes")
        with self._changed:
            self.wanted(list(handlers))
            due, self.due = self.due[:count], self.due[count:]
            self._changed.notify_all()
            return due

    def renew_refreshes(self, lent: Sequence[tuple[int, int]], *, lease: int) -> list[bool]:
        self.hook("renew_refreshes")
        with self._changed:
            self.renewed += lent
            self._changed.notify_all()
        return [True] * len(lent)

    def refreshed(self, refresh: Refresh, *, value: int | None = None, error: str = "") -> bool:
        with self._changed:
            self.values.append((refresh.key, value, error))
            self._changed.notify_all()
        return True

    def revision(self) -> int:
        return self._revision

    def wait(self, revision: int, timeout: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._revision != revision, timeout)
            return self._revision

    def _settle(self, settlement: Settlement) -> bool:
        job = self._running.pop(settlement.seq, None)
        if job is None or job.id in self.lost:
            return False
        self.outcomes[job.id] = settlement.outcome
        self.settlements[job.id] = settlement
        return True

    def _dated(self, job: Claimed, lease: int) -> Claimed:
        now = self.clock.now()
        begin_by = now - job.begin_by if job.begin_by else 0
        return Claimed(
            job.seq,
            job.id,
            job.task,
            job.args,
            job.queue,
            job.attempt,
            job.fence,
            now + lease,
            begin_by,
            job.timeout,
            job.meta,
            job.tenant,
            now,
            after=job.after,
        )

    def _change(self) -> None:
        self._revision += 1
        self._changed.notify_all()
