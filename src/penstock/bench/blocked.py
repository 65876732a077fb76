"""W4: free jobs behind very many blocked ones."""

import time
from collections.abc import Callable
from itertools import repeat
from typing import Final

from penstock.bench.drain import free_jobs
from penstock.bench.figures import Figure, at_most, middle, promised
from penstock.bench.run_context import BATCH, RunContext, batches, fill, job, opened
from penstock.bench.worker_processes import served
from penstock.clock import MILLISECOND, SECOND
from penstock.job import Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers

FREE: Final = 1_000
AT_ONCE: Final = 100
BOUND: Final = 1.3
_BLOCKED: Final = job("counted", limits=(Limit("busy", Numbers(slots=1)),))


def run(context: RunContext) -> list[Figure]:
    """Measure how long 1,000 free jobs take behind K blocked ones, in rounds over all K."""
    depths = (0, 1_000, 10_000) if context.quick else (0, 1_000, 100_000, 1_000_000)
    urls = {depth: _prepare(context, depth) for depth in depths}
    worker: dict[int, list[float]] = {depth: [] for depth in depths}
    engine: dict[int, list[float]] = {depth: [] for depth in depths}
    # On PostgreSQL most of the work is another process's.
    alone, clock = (
        ("engine alone", time.perf_counter)
        if context.stores.postgres
        else ("engine alone, processor", time.process_time)
    )
    for turn in range(context.size(7, 3)):
        context.say(f"W4 {FREE:,} free jobs behind each: turn {turn + 1}")
        # There and back again, so that no depth is always measured first.
        for depth in depths if turn % 2 else reversed(depths):
            worker[depth].append(_by_worker(urls[depth]))
            engine[depth].append(_by_engine(urls[depth], clock))
    escaped = sum(_escaped(url) for url in urls.values())
    for depth in depths:
        context.clear(f"w4-{depth}")
    return [
        *_figures("worker", worker),
        *_figures(alone, engine),
        Figure("W4", "blocked jobs that ran", escaped, "", promised(escaped, 0)),
    ]


def _figures(who: str, times: dict[int, list[float]]) -> list[Figure]:
    middles = {depth: middle(each) for depth, each in times.items()}
    deepest = max(middles)
    # Turn by turn, because a shared disk changes within seconds.
    ratio = middle([deep / none for deep, none in zip(times[deepest], times[0], strict=True)])
    note = f"{FREE:,} free jobs, median of {len(times[0])}"
    return [
        *(
            Figure("W4", f"{who}, {depth:,} blocked", found, "ms", note=note)
            for depth, found in middles.items()
        ),
        Figure("W4", f"{who}, {deepest:,} / none", ratio, "x", at_most(ratio, BOUND)),
    ]


def _prepare(context: RunContext, depth: int) -> str:
    context.say(f"W4 enqueue {depth:,} blocked jobs")
    url = context.url(f"w4-{depth}")
    with opened(url) as engine:
        # One attempt holds the only slot for the whole run; all the rest wait for it.
        engine.enqueue([_BLOCKED])
        engine.claim(["default"], 1, worker="holder", lease=3_600 * SECOND)
        for batch in batches(repeat(_BLOCKED, depth), BATCH):
            engine.enqueue(batch)
    return url


def _by_worker(url: str) -> float:
    """Return the milliseconds from a worker's beginning to the end of the last free job."""
    fill(url, free_jobs(FREE, "counted"))
    sight = served(url, "counted", FREE)
    with opened(url) as engine:
        last = max(view.finished or 0 for view in engine.jobs(state=State.DONE, limit=FREE))
    return (last - sight.began) / MILLISECOND


def _by_engine(url: str, clock: Callable[[], float]) -> float:
    """Return the milliseconds, by *clock*, that claiming and settling the free jobs take."""
    fill(url, free_jobs(FREE))
    with opened(url) as engine:
        began = clock()
        for _ in range(FREE // AT_ONCE):
            jobs = engine.claim(["default"], AT_ONCE, worker="bench").jobs
            engine.settle([Settlement(each.seq, each.fence, Done()) for each in jobs])
        return (clock() - began) * 1_000


def _escaped(url: str) -> int:
    """Count the jobs of the busy key that ended, or run beside the one that may."""
    with opened(url) as engine:
        running = engine.count().get(State.RUNNING, 0)
        return running - 1 + len(engine.jobs(state=State.DONE, key="busy", limit=FREE))
