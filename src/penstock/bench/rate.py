"""W5: a rate of 200 per second with a backlog, as the handlers saw it."""

import threading
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from penstock.bench.figures import Figure, at_least, promised
from penstock.bench.run_context import RunContext, fill, job
from penstock.bench.worker_processes import Assignment, started, stopped
from penstock.clock import SECOND
from penstock.limits.rules import Limit, Numbers, Window

RATE: Final = 200
BACKLOG: Final = 4_000
_NANOSECONDS: Final = 1_000_000_000
_LIMIT: Final = Limit("api", Numbers(rate=Window(RATE, SECOND)))


def run(context: RunContext) -> list[Figure]:
    """Measure the worst window and the use of the limit, with one process and with four."""
    return [*_run(context, 1), *_run(context, 4)]


def worst_window(starts: Sequence[int]) -> int:
    """Count the most *starts* (in order) that any half-open second holds, wherever it begins."""
    return max(
        (bisect_left(starts, start + _NANOSECONDS) - place for place, start in enumerate(starts)), default=0
    )


def _run(context: RunContext, processes: int) -> list[Figure]:
    seconds = context.size(10, 3)
    url = context.url("w5")
    fill(url, (job("stamped", number, limits=(_LIMIT,)) for number in range(BACKLOG)))
    context.say(f"W5 {RATE}/s for {seconds} s, {processes} worker process{'es' if processes > 1 else ''}")
    with started(Assignment(url, "stamped"), processes) as workers:
        # Long enough for the processes to start and for the first start after the last full window.
        threading.Event().wait(seconds + 2.5)
        sights = stopped(workers)
    context.clear("w5")
    starts = sorted(at for sight in sights for _, at in sight.starts)
    return _figures(starts, seconds, [len(sight.starts) for sight in sights])


def _figures(starts: Sequence[int], seconds: int, shares: list[int]) -> list[Figure]:
    name = "1 process" if len(shares) == 1 else f"{len(shares)} processes"
    worst = worst_window(starts)
    used = bisect_left(starts, starts[0] + seconds * _NANOSECONDS) / (RATE * seconds)
    steady = _steady_use(starts, seconds)
    note = f"starts per process: {', '.join(map(str, shares))}" if len(shares) > 1 else ""
    return [
        Figure("W5", f"worst second, {name}", worst, "starts", promised(worst, RATE), note),
        Figure("W5", f"use of the limit over {seconds} s, {name}", used * 100, "%", at_least(used * 100, 99)),
        Figure(
            "W5", f"use once the first burst is over, {name}", steady * 100, "%", at_least(steady * 100, 99)
        ),
    ]


def _steady_use(starts: Sequence[int], seconds: int) -> float:
    """Compare the moment of the first start after *seconds* full windows with the earliest that is allowed."""
    after = RATE * seconds
    if len(starts) <= after:
        return len(starts) / after
    return seconds * _NANOSECONDS / (starts[after] - starts[0])
