"""Hold answers until the moments for which their jobs were granted, and tell the engine when they went out.

Workers of other systems do not say when they begin.  For them a start is the moment at which the answer that hands the
job out is sent.
"""

import asyncio
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from penstock.clock import SECOND, Clock, since_boot
from penstock.job import AHEAD, START_GRACE, Ahead, Claimed, ClaimFor, Settlement
from penstock.worker.attempt import BEGIN_MARGIN
from penstock.worker.starter import Starter, UpperOffset

LONGEST: Final = 5 * SECOND  # that an answer may take from its claim, on a machine that is very busy


class HeldAnswer:
    """Jobs on their way to their worker, which start together when the answer is sent.

    Times are microseconds since the machine was started.  What to add to the engine's time to get them is *offset* or
    more, and *latest* or less: no answer is sent before its moment, and none seems to be sent earlier than it was.
    """

    __slots__ = (
        "begin_by", "begin_from", "due", "ended", "gates", "jobs", "latest", "offset", "sent_at", "spaced",
    )  # fmt: skip

    def __init__(self, jobs: Sequence[Claimed], offset: int, latest: int) -> None:
        self.jobs = jobs
        self.offset = offset
        self.latest = latest
        self.begin_from = max(job.begin_from or job.started for job in jobs) + latest
        self.begin_by = min(job.begin_by for job in jobs) + offset
        self.gates = {gate for job in jobs for gate in job.gates.split(",")}
        self.spaced = {gate for job in jobs for gate in job.spaced.split(",")}
        self.due = asyncio.Event()
        self.sent_at = 0
        self.ended = False

    def begun(self) -> int:
        """Return when the answer had been sent; 0 if it was not."""
        return self.sent_at

    def expected(self, planned: int) -> list[tuple[int, int, int]]:
        """Return of each job, as (seq, fence, span), how long after its claim it is *planned*."""
        return self._spans(planned - self.latest)

    def reports(self) -> list[tuple[int, int, int]]:
        """Return of each job, as (seq, fence, span), how long after its claim the answer was sent, at the latest."""
        return self._spans(self.sent_at - self.offset)

    def _spans(self, moment: int) -> list[tuple[int, int, int]]:
        return [(job.seq, job.fence, max(0, moment - job.started)) for job in self.jobs]


class PacedAnswers:
    """The answers of one server that hand out jobs whose starts are remembered."""

    def __init__(self, clock: Clock) -> None:
        self.stopping = False
        self._clock = clock
        self.grace = START_GRACE  # how long an answer may take from its claim
        self._asked = since_boot() - clock.now()  # the offset when claims were last asked
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._held: dict[tuple[int, int], HeldAnswer] = {}
        # How long after its claim each began, until the engine knows.
        self._begun: dict[tuple[int, int], int] = {}
        self._latest = UpperOffset(clock)
        self._starter: Starter[HeldAnswer] = Starter(self, self._release)

    def begin(self) -> None:
        """Work on the running loop from now on."""
        if self._loop is None:
            self._starter.thread.start()
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        self.stopping = True
        self._starter.thread.stop()

    def ask(self, wanted: Sequence[ClaimFor]) -> list[ClaimFor]:
        """Return claims as they are asked now, with what is held here and what has begun.

        Only an answer with a single job can be held for its moment.
        """
        self._asked = since_boot() - self._clock.now()
        planned, begun = self._starter.ask(), self.take_begun()
        held = tuple(each for answer, at in planned.items() for each in answer.expected(at))
        single = sum(each.count == 1 for each in wanted)
        ahead = Ahead(AHEAD, 0, held, tuple(begun))
        return [
            replace(each, grace=self.grace, ahead=replace(ahead, most=single if each.count == 1 else 0))
            for each in wanted
        ]

    def plan(self, jobs: Sequence[Claimed]) -> None:
        """Take the jobs that one of the claims which were asked last has granted: one answer hands them out."""
        jobs = [job for job in jobs if job.begin_by]
        if not jobs:
            return
        # If the clock was set meanwhile, the smaller offset makes everything seem later: that is safe.
        offset = min(self._asked, since_boot() - self._clock.now())
        with self._lock:
            latest = self._latest.hear(max(job.started for job in jobs))
            latest = max([latest, *(answer.latest for answer in self._held.values())])
            answer = HeldAnswer(jobs, offset, latest)
            self._held.update(((job.seq, job.fence), answer) for job in jobs)
        self._starter.plan([answer])
        self._starter.send_due()

    async def hold(self, jobs: Sequence[Claimed]) -> None:
        """Wait for the moment of these jobs, which one answer hands out; no longer than they may wait."""
        for answer in self._answers(jobs):
            left = (answer.begin_by - since_boot()) / SECOND
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0, left)):
                    await answer.due.wait()
                while since_boot() < answer.begin_from:  # noqa: ASYNC110 - it was released a little early
                    await asyncio.sleep(0)

    def in_time(self, job: Claimed) -> bool:
        """Tell whether the answer with a job can still be sent before its gates take it for begun."""
        answer = self._held.get((job.seq, job.fence))
        return answer is None or since_boot() < answer.begin_by - BEGIN_MARGIN

    def note_late(self, *, late: bool) -> None:
        """Give answers more time if some came too late, and less again while they come in time."""
        if late:
            self.grace = min(2 * self.grace, LONGEST)
        else:
            self.grace = max(self.grace - self.grace // 16, START_GRACE)

    def sent(self, jobs: Sequence[Claimed]) -> bool:
        """Note that the answer with these jobs has been sent; tell whether the engine should hear of that."""
        answers, now = self._answers(jobs), since_boot()
        with self._lock:
            for answer in answers:
                answer.sent_at = now
                reports = {(seq, fence): span for seq, fence, span in answer.reports()}
                self._begun |= {key: span for key, span in reports.items() if key in self._held}
                for key in reports:
                    self._held.pop(key, None)
            return bool(self._begun)

    def gone(self, jobs: Iterable[Claimed]) -> None:
        """Forget jobs that were given back."""
        with self._lock:
            for job in jobs:
                answer = self._held.pop((job.seq, job.fence), None)
                if answer is not None:
                    left = any(self._held.get((each.seq, each.fence)) is answer for each in answer.jobs)
                    answer.ended = answer.ended or not left

    def take_begun(self) -> list[tuple[int, int, int]]:
        """Return the starts that the engine has not heard of, as for `begun`."""
        with self._lock:
            begun, self._begun = self._begun, {}
        return [(*key, span) for key, span in begun.items()]

    def with_begin(self, settlement: Settlement) -> Settlement:
        """Have a settlement tell when its attempt began, unless the engine knows.

        Until it is `settled` a claim may tell of it too: which of the two comes first is not known.
        """
        with self._lock:
            span = self._begun.get((settlement.seq, settlement.fence))
        return settlement if span is None else replace(settlement, began_after=span)

    def settled(self, settlement: Settlement) -> None:
        """Note that the engine knows when this attempt began."""
        with self._lock:
            self._begun.pop((settlement.seq, settlement.fence), None)

    def _answers(self, jobs: Sequence[Claimed]) -> list[HeldAnswer]:
        with self._lock:
            found = [self._held.get((job.seq, job.fence)) for job in jobs]
        return list(dict.fromkeys(answer for answer in found if answer is not None))

    def _release(self, answers: Sequence[HeldAnswer]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            for answer in answers:
                self._loop.call_soon_threadsafe(answer.due.set)
