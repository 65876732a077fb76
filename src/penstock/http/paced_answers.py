"""Hold answers until the moments for which their jobs were granted, and tell the engine when they went out.

Workers of other systems do not say when they begin.  For them a start is the moment at which the answer that hands the
job out is sent.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from penstock.clock import MILLISECOND, SECOND, Clock, since_boot
from penstock.job import AHEAD, START_GRACE, Ahead, Claimed, ClaimFor, Settlement
from penstock.worker.starter import Starter

LONGEST: Final = 5 * SECOND  # that an answer may take from its claim, on a machine that is very busy
STEP: Final = 10 * MILLISECOND  # a clock that is off by this was set


class HeldAnswer:
    """A job on its way to its worker; times are microseconds since the machine was started."""

    __slots__ = ("begin_from", "claimed", "due", "ended", "offset", "sent_at")

    def __init__(self, claimed: Claimed, offset: int) -> None:
        self.claimed = claimed
        self.offset = offset
        self.begin_from = (claimed.begin_from or claimed.started) + offset
        self.due = asyncio.Event()
        self.sent_at = 0
        self.ended = False

    @property
    def key(self) -> tuple[int, int]:
        return self.claimed.seq, self.claimed.fence

    def begun(self) -> int:
        """Return when the answer had been sent; 0 if it was not."""
        return self.sent_at

    def after(self, moment: int) -> int:
        """Return how long after its claim a moment is."""
        return max(0, moment - self.offset - self.claimed.started)


class PacedAnswers:
    """The answers of one server that hand out jobs whose starts are remembered."""

    def __init__(self, clock: Clock) -> None:
        self.stopping = False
        self.grace = START_GRACE  # how long an answer may take from its claim
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: dict[tuple[int, int], HeldAnswer] = {}
        self._begun: dict[
            tuple[int, int], int
        ] = {}  # how long after its claim each began, until the engine knows
        self._offset = 0
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
        planned, begun = self._starter.ask(), self.take_begun()
        held = tuple((*answer.key, answer.after(at)) for answer, at in planned.items())
        single = sum(each.count == 1 for each in wanted)
        ahead = Ahead(AHEAD, 0, held, tuple(begun))
        return [
            replace(each, grace=self.grace, ahead=replace(ahead, most=single if each.count == 1 else 0))
            for each in wanted
        ]

    def plan(self, jobs: Iterable[Claimed]) -> None:
        """Take jobs that the claims which were asked last have granted."""
        offset = since_boot() - self._clock.now()
        self._offset = max(offset, self._offset) if abs(offset - self._offset) < STEP else offset
        answers = [HeldAnswer(job, self._offset) for job in jobs if job.begin_by]
        self._held.update((answer.key, answer) for answer in answers)
        self._starter.plan(answers)
        self._starter.send_due()

    async def hold(self, jobs: Sequence[Claimed]) -> None:
        """Wait for the moments of all these jobs."""
        for job in jobs:
            answer = self._held.get((job.seq, job.fence))
            if answer is None:
                continue
            await answer.due.wait()
            while since_boot() < answer.begin_from:  # noqa: ASYNC110 - it was released a little early
                await asyncio.sleep(0)

    def note_late(self, *, late: bool) -> None:
        """Give answers more time if some came too late, and less again while they come in time."""
        if late:
            self.grace = min(2 * self.grace, LONGEST)
        else:
            self.grace = max(self.grace - self.grace // 16, START_GRACE)

    def sent(self, jobs: Iterable[Claimed]) -> bool:
        """Note that the answer with these jobs has been sent; tell whether the engine should hear of that."""
        for job in jobs:
            answer = self._held.pop((job.seq, job.fence), None)
            if answer is not None:
                answer.sent_at = since_boot()
                self._begun[answer.key] = answer.after(answer.sent_at)
        return bool(self._begun)

    def gone(self, jobs: Iterable[Claimed]) -> None:
        """Forget jobs that were given back."""
        for job in jobs:
            answer = self._held.pop((job.seq, job.fence), None)
            if answer is not None:
                answer.ended = True

    def take_begun(self) -> list[tuple[int, int, int]]:
        """Return the starts that the engine has not heard of, as for `begun`."""
        begun, self._begun = self._begun, {}
        return [(*key, span) for key, span in begun.items()]

    def with_begin(self, settlement: Settlement) -> Settlement:
        """Have a settlement tell when its attempt began, unless the engine knows."""
        span = self._begun.pop((settlement.seq, settlement.fence), None)
        return settlement if span is None else replace(settlement, began_after=span)

    def _release(self, answers: Sequence[HeldAnswer]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            for answer in answers:
                self._loop.call_soon_threadsafe(answer.due.set)
