"""W13: throttles with a backlog: how much of the limit is used, as the handlers saw it and as answers arrived."""

import asyncio
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from penstock.bench.figures import Figure, Target, at_least
from penstock.bench.run_context import RunContext, fill, job
from penstock.bench.web import Call, serving
from penstock.bench.worker_processes import Assignment, started, stopped
from penstock.clock import SECOND
from penstock.job import NewJob
from penstock.limits.rules import Limit, Numbers, Window

# Starts a second, worker processes, and the percentage that should be used.
IN_PYTHON: Final = (
    (5, 1, 98), (20, 1, 98), (100, 1, 98), (500, 1, 90), (5, 3, 95), (20, 3, 95), (100, 3, 95),
)  # fmt: skip
# Starts a second, how many jobs a fetch asks for, and the percentage that should be used.
OVER_HTTP: Final = ((5, 1, 95), (20, 1, 95), (100, 1, 95), (100, 10, 95))
FETCHERS: Final = 4
SLOW: Final = 5  # a second: such a throttle is watched for longer
_NANOSECONDS: Final = 1_000_000_000
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def run(context: RunContext) -> list[Figure]:
    """Measure the use of throttles, and how close two starts came."""
    figures = [figure for case in IN_PYTHON for figure in _in_python(context, *case)]
    return figures + [_over_http(context, *case) for case in OVER_HTTP]


def used(starts: Sequence[int], limit: int) -> float:
    """Return how many percent of the starts that were allowed between the first and the last there were."""
    span = starts[-1] - starts[0] if starts else 0
    return 100 * (len(starts) - 1) * _NANOSECONDS / span / limit if span else 0.0


def _in_python(context: RunContext, limit: int, processes: int, target: int) -> list[Figure]:
    seconds = _seconds(context, limit)
    url = context.url("w13")
    rule = (Limit("api", Numbers(throttle=Window(limit, SECOND))),)
    fill(url, (job("stamped", number, limits=rule) for number in range(limit * (seconds + 5))))
    name = f"{limit}/s, {processes} process{'es' if processes > 1 else ''}"
    context.say(f"W13 {name}, {seconds} s")
    with started(Assignment(url, "stamped"), processes) as workers:
        threading.Event().wait(seconds + 1)
        sights = stopped(workers)
    context.clear("w13")
    starts = sorted(at for sight in sights for _, at in sight.starts)
    share = used(starts, limit)
    closest = min(later - earlier for earlier, later in pairwise(starts)) / 1_000_000
    gap = 1_000 / limit
    return [
        Figure("W13", f"use of {name}", share, "%", at_least(share, target)),
        Figure(
            "W13",
            f"closest starts, {name}",
            closest,
            "ms",
            Target(f">= {gap:g}", closest >= gap, promise=True),
        ),
    ]


def _over_http(context: RunContext, limit: int, count: int, target: int) -> Figure:
    seconds = _seconds(context, limit)
    url = context.url("w13")
    rule = (Limit("api", Numbers(throttle=Window(limit, SECOND))),)
    fill(url, (NewJob("bench.web", '{"args":[]}', limits=rule) for _ in range(limit * (seconds + 5))))
    name = f"{limit}/s over HTTP{f', up to {count} a fetch' if count > 1 else ''}"
    context.say(f"W13 {name}, {seconds} s")
    with serving(url) as port:
        starts = sorted(asyncio.run(_fetching(port, seconds, count)))
    context.clear("w13")
    share = used(starts, limit)
    return Figure("W13", f"use of {name}", share, "%", at_least(share, target))


async def _fetching(port: int, seconds: int, count: int) -> list[int]:
    """Return when jobs arrived, at several workers that fetch up to *count* at a time."""
    end, starts = time.monotonic() + seconds, list[int]()

    async def fetcher(number: int) -> None:
        call = await Call.open(port)
        wanted = _encode({"queues": ["default"], "count": count, "worker_id": f"w{number}", "wait_ms": 500})
        while time.monotonic() < end:
            jobs = _decode(await call.post("/ojs/v1/workers/fetch", wanted))["jobs"]
            starts.extend(time.monotonic_ns() for _ in jobs)
            for each in jobs:
                await call.post("/ojs/v1/workers/ack", _encode({"job_id": each["id"]}))
        call.close()

    await asyncio.gather(*(fetcher(number) for number in range(FETCHERS)))
    return starts


def _seconds(context: RunContext, limit: int) -> int:
    return context.size(10, 3) if limit > SLOW else context.size(20, 5)
