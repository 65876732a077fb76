"""W8: do more worker processes do more work?"""

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from penstock.bench import drain
from penstock.bench.figures import Figure, at_least, middle, spread
from penstock.bench.run_context import RunContext, fill, opened
from penstock.bench.worker_processes import Assignment, Sight, started, stopped
from penstock.clock import SECOND
from penstock.engine import Engine
from penstock.job import NewJob
from penstock.lifecycle.states import State

AT_ONCE: Final = 20
NOISE: Final = 0.9  # of "no less"
_LOOKS: Final = 240
_PAUSE: Final = 0.5


def run(context: RunContext) -> list[Figure]:
    """Measure the whole of what 1, 2, 4 and 8 processes do, and whether 4 do four times the work of one."""
    return [*_no_ops(context), *_slow(context)]


def _no_ops(context: RunContext) -> list[Figure]:
    count = context.size(60_000, 5_000)
    rates = _rates(context, "noop", dict.fromkeys((1, 2, 4, 8), count), drain.AT_ONCE)
    figures = [_rate(f"no-op jobs, {process_count(processes)}", found) for processes, found in rates.items()]
    for fewer, more in pairwise(rates):
        found = ratio(rates[more], rates[fewer])
        figures.append(Figure("W8", f"no-op jobs, {more} / {fewer}", found, "x", at_least(found, NOISE)))
    return figures


def _slow(context: RunContext) -> list[Figure]:
    each = context.size(5_000, 1_000)
    rates = _rates(context, "slow", {1: each, 4: 4 * each}, AT_ONCE)
    what = f"20 ms jobs, {AT_ONCE} at once"
    whole = ratio(rates[4], rates[1])
    return [
        *(_rate(f"{what}, {process_count(processes)}", found) for processes, found in rates.items()),
        Figure("W8", f"{what}, 4 / 1", whole, "x", at_least(whole, 3.5)),
    ]


def _rates(
    context: RunContext, handler: str, backlogs: dict[int, int], at_once: int
) -> dict[int, list[float]]:
    """Return the jobs per second of so many processes on their backlog, in turns."""
    rates: dict[int, list[float]] = {processes: [] for processes in backlogs}
    for turn in range(context.size(3, 1)):
        for processes in backlogs if turn % 2 else reversed(backlogs):
            count = backlogs[processes]
            context.say(f"W8 {count:,} {handler} jobs, {process_count(processes)}: turn {turn + 1}")
            jobs = drain.free_jobs(count, handler)
            rates[processes].append(together(context, handler, jobs, count, processes, at_once)[0])
    return rates


def together(
    context: RunContext, handler: str, jobs: Iterator[NewJob], count: int, processes: int, at_once: int
) -> tuple[float, list[Sight]]:
    """Return how many of *count* jobs so many processes do in a second, and what their handlers saw."""
    url = context.url("together")
    fill(url, jobs)
    with opened(url) as engine:
        with started(Assignment(url, handler, at_once=at_once), processes) as workers:
            _await_end(engine)
            sights = stopped(workers)
        last = max(view.finished or 0 for view in engine.jobs(state=State.DONE, limit=count))
    context.clear("together")
    return count * SECOND / (last - min(sight.began for sight in sights)), sights


def _await_end(engine: Engine) -> None:
    rest = threading.Event()
    for _ in range(_LOOKS):
        # Seldom, because a look takes from what is measured.
        rest.wait(_PAUSE)
        if engine.count().keys() == {State.DONE}:
            return
    raise TimeoutError(f"the jobs were not done in {_LOOKS * _PAUSE:.0f} s")


def ratio(some: list[float], others: list[float]) -> float:
    """Return the middle of the ratios of two measurements, made in turns."""
    # Turn by turn, because a shared machine changes within seconds.
    return middle([one / other for one, other in zip(some, others, strict=True)])


def _rate(name: str, found: list[float]) -> Figure:
    return Figure("W8", name, middle(found), "jobs/s", note=spread(found))


def process_count(processes: int) -> str:
    """Return so many processes in words."""
    return "1 process" if processes == 1 else f"{processes} processes"
