"""W4: free jobs behind very many blocked ones."""

from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Final

from penstock.bench.drain import free_jobs
from penstock.bench.figures import Figure, at_most, promised
from penstock.bench.ground import BATCH, Ground, batches, fill, job, opened
from penstock.bench.hands import served
from penstock.clock import MILLISECOND, SECOND
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers

FREE: Final = 1_000
BOUND: Final = 1.3
_BLOCKED: Final = job("counted", limits=(Limit("busy", Numbers(slots=1)),))


def run(ground: Ground) -> list[Figure]:
    """Measure how long 1,000 free jobs take behind K blocked ones, in rounds over all K."""
    depths = (0, 1_000, 10_000) if ground.quick else (0, 1_000, 100_000, 1_000_000)
    paths = {depth: _prepare(ground, depth) for depth in depths}
    times: dict[int, list[float]] = {depth: [] for depth in depths}
    for turn in range(ground.size(5, 3)):
        ground.say(
            f"W4 {FREE:,} free jobs behind {', '.join(f'{depth:,}' for depth in depths)}: turn {turn + 1}"
        )
        for depth, path in paths.items():
            times[depth].append(_serve(path))
    escaped = sum(_started(path) for path in paths.values())
    for depth in depths:
        ground.clear(f"w4-{depth}")
    return _figures(times, escaped)


def _figures(times: dict[int, list[float]], escaped: int) -> list[Figure]:
    middles = {depth: median(each) for depth, each in times.items()}
    deepest = max(times)
    ratio = middles[deepest] / middles[0]
    return [
        *(
            Figure(
                "W4",
                f"{FREE:,} free jobs behind {depth:,}",
                middles[depth],
                "ms",
                note=f"median of {len(each)}",
            )
            for depth, each in times.items()
        ),
        Figure("W4", f"behind {deepest:,} / behind none", ratio, "x", at_most(ratio, BOUND)),
        Figure("W4", "blocked jobs that ran", escaped, "", promised(escaped, 0)),
    ]


def _prepare(ground: Ground, depth: int) -> Path:
    ground.say(f"W4 enqueue {depth:,} blocked jobs")
    path = ground.path(f"w4-{depth}")
    with opened(path) as engine:
        # One attempt holds the only slot for the whole run; all the rest wait for it.
        engine.enqueue([_BLOCKED])
        engine.claim(["default"], 1, worker="holder", lease=3_600 * SECOND)
        for batch in batches(repeat(_BLOCKED, depth), BATCH):
            engine.enqueue(batch)
    return path


def _serve(path: Path) -> float:
    """Return the milliseconds from the worker's beginning to the end of the last free job."""
    fill(path, free_jobs(FREE, "counted"))
    sight = served(path, "counted", FREE)
    with opened(path) as engine:
        last = max(view.finished or 0 for view in engine.jobs(state=State.DONE, limit=FREE))
    return (last - sight.began) / MILLISECOND


def _started(path: Path) -> int:
    """Count the jobs of the busy key that ended or run beside the one that may."""
    with opened(path) as engine:
        running = engine.count()[State.RUNNING]
        return running - 1 + len(engine.jobs(state=State.DONE, key="busy", limit=FREE))
