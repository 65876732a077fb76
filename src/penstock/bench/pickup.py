"""W6: how long from enqueue until the handler begins, in another process that had nothing to do?"""

import random
import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.bench.figures import Figure, at_most, percentile
from penstock.bench.machine import syncs_per_second
from penstock.bench.run_context import RunContext, job, opened
from penstock.bench.worker_processes import Assignment, started, stopped
from penstock.engine import Engine
from penstock.lifecycle.states import State

WARM_UP: Final = 20
SETTLED: Final = 1.0  # seconds in which workers find out that there is nothing to do
PERCENTS: Final = (50, 99)
MILLISECOND: Final = 1_000_000  # nanoseconds


class Case(NamedTuple):
    """So many *jobs* at random moments, *mean* seconds apart on average, for so many idle worker processes."""

    mean: float
    workers: int
    jobs: int

    @property
    def name(self) -> str:
        """What figures of it are called."""
        gap = f"{self.mean:g} s" if self.mean >= 1 else f"{self.mean * 1_000:g} ms"
        return f"{gap} apart, {self.workers} worker{'s' if self.workers > 1 else ''}"

    def pauses(self) -> list[float]:
        """Draw the seconds before each job, those for warming up included: the same for every queue that is measured.

        Jobs that come independently of one another come like this, some at once and some after long.
        """
        chance = random.Random(6)
        few = [SETTLED, *(chance.expovariate(1 / CASES[0].mean) for _ in range(WARM_UP - 1))]
        return few + [chance.expovariate(1 / self.mean) for _ in range(self.jobs)]

    def figures(self, waits: Sequence[float]) -> dict[str, float]:
        """Return what is said of *waits*, in milliseconds, those for warming up left out."""
        return {f"p{percent}, {self.name}": percentile(waits, percent) for percent in PERCENTS}


CASES: Final = tuple(
    Case(mean, workers, jobs) for workers in (1, 4) for mean, jobs in ((0.02, 150), (0.1, 40), (1.0, 10))
)


def run(context: RunContext) -> list[Figure]:
    """Enqueue here, one job now and then; workers elsewhere note when it began."""
    return [figure for case in CASES for figure in _figures(context, case)]


def _figures(context: RunContext, case: Case) -> list[Figure]:
    case = case._replace(jobs=context.size(case.jobs, max(case.jobs // 5, 3)))
    waits, sync = pickups(context, case)
    note = f"with one fdatasync of {sync:.2f} ms"
    found = [Figure("W6", name, value, "ms") for name, value in case.figures(waits).items()]
    return [_with_target(found[0], note) if case.name == CASES[0].name else found[0], *found[1:]]


def pickups(context: RunContext, case: Case) -> tuple[list[float], float]:
    """Return how many milliseconds passed before each job of a case began, and how many one fdatasync takes."""
    context.say(f"W6 {case.jobs} pickups, {case.name}")
    url = context.url("w6")
    with opened(url) as engine, started(Assignment(url, "stamped"), case.workers) as workers:
        before = _send(engine, case.pauses())
        sync = 1_000 / syncs_per_second(context.folder)
        _wait_done(engine, len(before))
        sights = stopped(workers)
    context.clear("w6")
    begun = {number: at for sight in sights for number, at in sight.starts}
    return [(begun[number] - at) / MILLISECOND for number, at in enumerate(before)][WARM_UP:], sync


def _with_target(figure: Figure, note: str) -> Figure:
    return Figure("W6", figure.name, figure.value, "ms", at_most(figure.value, 3, "< 3"), note)


def _send(engine: Engine, pauses: Sequence[float]) -> list[int]:
    rest = threading.Event()
    before = []
    for number, pause in enumerate(pauses):
        rest.wait(pause)
        before.append(time.time_ns())
        engine.enqueue([job("stamped", number)])
    return before


def _wait_done(engine: Engine, count: int) -> None:
    rest = threading.Event()
    for _ in range(1_000):
        if engine.count().get(State.DONE, 0) >= count:
            return
        rest.wait(0.02)
    raise TimeoutError(f"{count} jobs were not done in 20 s")
