"""W2, W3, MEM: empty a queue of jobs without limits, of few keys, and of a million jobs."""

import random
from collections.abc import Iterator
from itertools import repeat
from typing import Final

from penstock.bench.figures import Figure, at_least, at_most, middle, promised, spread
from penstock.bench.run_context import RunContext, fill, job, opened
from penstock.bench.worker_processes import Sight, drained
from penstock.job import NewJob
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers

KEYS: Final = 100
MEGABYTES: Final = 150
AT_ONCE: Final = 500  # handlers that do nothing want more at once than the default of workers
_ONE: Final = Numbers(slots=1)


def run_free(context: RunContext) -> list[Figure]:
    """W2: drain no-op jobs, in turn with the same row work in bare statements."""
    count = context.size(20_000, 5_000)
    floors, drains, stricter = [_floor(context, count)], [], []
    for _ in range(context.size(3, 1)):
        drains.append(rate(context, "W2 async handlers", free_jobs(count), at_once=AT_ONCE))
        floors.append(_floor(context, count))
        stricter.append(_floor(context, count, once=True))
    plain = rate(context, "W2 plain functions", free_jobs(count, "plain"), "plain")
    context.rates["free"] = middle(drains)
    # Each drain against the floors just before and after it: a shared disk changes within seconds.
    ratio = middle([2 * drain / sum(floors[turn : turn + 2]) for turn, drain in enumerate(drains)])
    bare = f"floor: the same rows, bare {context.stores.driver}"
    wanted = at_least(ratio, 0.5 if context.stores.postgres else 0.4)
    at_once = f"{AT_ONCE} at once, {spread(drains)}"
    strict = middle([drain / floor for drain, floor in zip(drains, stricter, strict=True)])
    return [
        Figure("W2", bare, middle(floors), "jobs/s", note=spread(floors)),
        Figure("W2", "the same, one commit per batch", middle(stricter), "jobs/s", note=spread(stricter)),
        Figure("W2", "drain, async handlers", middle(drains), "jobs/s", note=at_once),
        Figure("W2", "drain / floors around it", ratio, "x", wanted),
        Figure("W2", "drain / floor of one commit", strict, "x"),
        Figure("W2", "drain, plain functions", plain, "jobs/s", note="in threads"),
    ]


def run_keyed(context: RunContext) -> list[Figure]:
    """W3: jobs of a millisecond over 100 keys with one slot each."""
    if "free" not in context.rates:
        context.rates["free"] = rate(
            context, "W2, to compare with", free_jobs(context.size(20_000, 5_000)), at_once=AT_ONCE
        )
    count = context.size(5_000, 1_000)
    sight = empty(context, f"W3 {KEYS} keys, 1 ms", keyed_jobs(count, KEYS, handler="keyed"), "keyed")
    share = count / sight.seconds / context.rates["free"]
    wanted = at_least(share, 0.25 if context.stores.postgres else 0.35)
    return [
        Figure("W3", "overlaps seen by handlers", sight.overlaps, "", promised(sight.overlaps, 0)),
        Figure("W3", f"1 ms jobs, {KEYS} keys of one slot", count / sight.seconds, "jobs/s"),
        Figure("W3", "of the rate without keys (W2)", share, "x", wanted),
    ]


def run_memory(context: RunContext) -> list[Figure]:
    """MEM: drain a million no-op jobs and read the peak of the worker's resident memory."""
    count = context.size(1_000_000, 100_000)
    sight = empty(context, "MEM", free_jobs(count))
    peak, most = sight.peak_megabytes, at_most(sight.peak_megabytes, MEGABYTES, f"< {MEGABYTES}")
    return [
        Figure("MEM", f"peak of a worker draining {count:,} jobs", peak, "MB", most),
        Figure("MEM", "drain", count / sight.seconds, "jobs/s"),
    ]


def empty(
    context: RunContext, name: str, jobs: Iterator[NewJob], handler: str = "noop", at_once: int = 0
) -> Sight:
    """Enqueue *jobs* and let one worker process do them all."""
    url = context.url("drain")
    count = fill(url, jobs)
    context.say(f"{name}: {count:,} jobs")
    sight = drained(url, handler, at_once)
    with opened(url) as engine:
        done = engine.count().get(State.DONE, 0)
    if done != count:
        raise RuntimeError(f"{name}: {done:,} of {count:,} jobs were done")
    context.clear("drain")
    return sight


def rate(
    context: RunContext, name: str, jobs: Iterator[NewJob], handler: str = "noop", at_once: int = 0
) -> float:
    """Return how many of *jobs* a second one worker process does."""
    waiting = list(jobs)
    return len(waiting) / empty(context, name, iter(waiting), handler, at_once).seconds


def free_jobs(count: int, handler: str = "noop") -> Iterator[NewJob]:
    """Make jobs without limits."""
    return repeat(job(handler), count)


def keyed_jobs(count: int, keys: int | None = None, *, handler: str = "noop") -> Iterator[NewJob]:
    """Make jobs of one slot per key, *keys* of them at random or one for each job."""
    # The same keys in the same order every time, so that runs can be compared.
    chance = random.Random(7)
    for number in range(count):
        key = number if keys is None else chance.randrange(keys)
        yield job(handler, *([key] if handler == "keyed" else []), limits=one_slot(key))


def one_slot(key: int) -> tuple[Limit, ...]:
    """Return the limit of a key with one slot."""
    return (Limit(f"key:{key}", _ONE),)


def _floor(context: RunContext, count: int, *, once: bool = False) -> float:
    url = context.url("floor")
    context.say(f"W2 floor{', one commit per batch' if once else ''}: {count:,} jobs")
    fill(url, free_jobs(count))
    found = context.stores.floor_rate(url, count, once=once)
    context.clear("floor")
    return found
