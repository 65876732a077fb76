"""W10: what policies cost, compared in one run with the least that can be done: a counter and a deque of futures."""

import asyncio
import time
import tracemalloc
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from penstock.bench.figures import Figure, at_least, at_most
from penstock.bench.run_context import RunContext
from penstock.policies import Bulkhead, Limits, Retrying, Timeout
from penstock.testing import VirtualTime

SLOTS: Final = 5
CROWD: Final = 1_000
KEYS: Final = 100_000
_BATCH: Final = 500
_MICRO: Final = 1_000_000

Call = Callable[[], Awaitable[object]]


class Floor:
    """A counter, a deque of futures, and nothing else."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._line: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._free and not self._line:
            self._free -= 1
            return
        future = asyncio.get_running_loop().create_future()
        self._line.append(future)
        await future

    async def __aexit__(self, *_: object) -> None:
        while self._line:
            future = self._line.popleft()
            if not future.done():
                future.set_result(None)
                return
        self._free += 1


def run(context: RunContext) -> list[Figure]:
    """Measure one call, a crowd, keys, a whole stack, and several limits at once."""
    context.say("W10 policies: one call, a crowd, keys, a stack, several limits")
    rounds = context.size(60, 15)
    return [
        *asyncio.run(_alone(rounds)),
        *asyncio.run(_crowded(rounds)),
        *_keys(context.size(KEYS, KEYS // 10)),
        *_several(),
    ]


async def _alone(rounds: int) -> list[Figure]:
    floor, bulkhead = Floor(SLOTS), Bulkhead(SLOTS)
    bounded = bulkhead(_nothing)
    stack = Retrying(3)(Timeout(10)(Bulkhead(SLOTS)(_nothing)))
    semaphore = asyncio.Semaphore(SLOTS)
    ways: dict[str, Callable[[], Awaitable[float]]] = {
        "bare": lambda: _calls(_nothing),
        "floor": lambda: _blocks(floor),
        "bounded": lambda: _calls(bounded),
        "block": lambda: _blocks(bulkhead),
        "semaphore": lambda: _blocks(semaphore),
        "stack": lambda: _calls(stack),
    }
    best = await _best(ways, rounds)
    decorator = (best["bounded"] - best["bare"]) / best["floor"]
    block = best["block"] / best["floor"]
    stacked = best["stack"] - best["bare"]
    # The target is for a machine on which the floor is 0.4 us.
    allowed = 8 * max(best["floor"] / 0.4, 1)
    wanted = at_most(stacked, allowed, f"<= {allowed:.1f}")
    return [
        Figure("W10", "the floor: counter and deque, async with", best["floor"], "us"),
        Figure("W10", "bulkhead around a function", decorator, "x floor", at_most(decorator, 2)),
        Figure("W10", "bulkhead, async with", block, "x floor", at_most(block, 2)),
        Figure("W10", "asyncio.Semaphore, for comparison", best["semaphore"] / best["floor"], "x floor"),
        Figure("W10", "retry, timeout and bulkhead", stacked, "us more", wanted),
    ]


async def _crowded(rounds: int) -> list[Figure]:
    floor, bulkhead = Floor(SLOTS), Bulkhead(SLOTS)

    async def through_floor() -> None:
        async with floor:
            await asyncio.sleep(0)

    async def through() -> None:
        await asyncio.sleep(0)

    best = await _best(
        {"floor": lambda: _crowd(through_floor), "ours": lambda: _crowd(bulkhead(through))}, rounds
    )
    ratio = best["ours"] / best["floor"]
    return [
        Figure("W10", f"the floor, {CROWD} tasks on {SLOTS} slots", best["floor"], "us"),
        Figure("W10", f"bulkhead, {CROWD} tasks on {SLOTS} slots", ratio, "x floor", at_most(ratio, 1.2)),
    ]


def _keys(count: int) -> list[Figure]:
    bulkhead = Bulkhead(1, key=str)
    pool: Any = bulkhead.pool
    keys = [f"tenant-{number}" for number in range(count)]
    owners = [object() for _ in keys]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    holds = [None] * count
    own = tracemalloc.get_traced_memory()[0] - before
    for place, key in enumerate(keys):
        holds[place] = pool.try_acquire(key, 1, owners[place])
    busy = (tracemalloc.get_traced_memory()[0] - before - own) / count
    for place, key in enumerate(keys):
        pool.release(key, 1, owners[place], holds[place])
    idle = max(tracemalloc.get_traced_memory()[0] - before - own, 0) // count
    tracemalloc.stop()
    return [
        Figure("W10", f"memory of a busy key, {count:,} of them", busy, "bytes", at_most(busy, 100)),
        Figure("W10", "memory of an idle key", idle, "bytes", at_most(idle, 0)),
    ]


def _several() -> list[Figure]:
    together = _throughput(_all_at_once)
    nested = max(_throughput(_nested(order)) for order in ("gth", "ght", "tgh", "thg", "hgt", "htg"))
    ratio = together / nested
    note = "virtual time; all 50, tenant 4, host 6; 800 offered in a second"
    return [
        Figure("W10", "three limits, all or nothing", together, "calls/s"),
        Figure("W10", "to the best nested order", ratio, "x", at_least(ratio, 1), note),
    ]


Limiting = Callable[[dict[str, Bulkhead]], Callable[[Callable[..., Any]], Callable[..., Any]]]


def _all_at_once(limits: dict[str, Bulkhead]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return Limits(*limits.values())


def _nested(order: str) -> Limiting:
    def wrap(limits: dict[str, Bulkhead]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def nest(function: Callable[..., Any]) -> Callable[..., Any]:
            for letter in reversed(order):
                function = limits[letter].bound(function)
            return function

        return nest

    return wrap


def _throughput(limiting: Limiting, seconds: int = 20) -> float:
    """Return how many calls a second end when half of them are for one hot tenant."""
    virtual = VirtualTime()
    limits = {
        "g": Bulkhead(50, name="all"),
        "t": Bulkhead(4, key="tenant", name="tenant"),
        "h": Bulkhead(6, key="host", name="host"),
    }
    done = 0

    async def work(tenant: int, host: int) -> None:  # noqa: ARG001 - they are keys
        nonlocal done
        await asyncio.sleep(0.05)
        done += virtual.now() <= seconds

    call = limiting(limits)(work)

    async def main() -> None:
        tasks = []
        for number in range(800 * seconds):
            tenant = 0 if number % 4 == 0 else number % 97
            tasks.append(asyncio.create_task(call(tenant, number % 13)))
            await asyncio.sleep(1 / 800)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    virtual.run(main())
    return done / seconds


async def _best(ways: dict[str, Callable[[], Awaitable[float]]], rounds: int) -> dict[str, float]:
    """Return the least of many rounds, in turns, so that neighbours disturb all alike."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(await way())
    return {name: min(measured) for name, measured in times.items()}


async def _calls(function: Call) -> float:
    began = time.perf_counter()
    for _ in range(_BATCH):
        await function()
    return (time.perf_counter() - began) / _BATCH * _MICRO


async def _blocks(limit: Any) -> float:  # noqa: ANN401 - anything to come into
    began = time.perf_counter()
    for _ in range(_BATCH):
        async with limit:
            pass
    return (time.perf_counter() - began) / _BATCH * _MICRO


async def _crowd(function: Call) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(function() for _ in range(CROWD)))
    return (time.perf_counter() - began) / CROWD * _MICRO


async def _nothing() -> None:
    pass
