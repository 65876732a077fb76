"""W11: slots that processes share through a store: one caller, many at once, and in blocks."""

import asyncio
import time
from contextlib import closing
from typing import Final

from penstock.app import App
from penstock.bench.figures import Figure, Target, at_least
from penstock.bench.run_context import RunContext
from penstock.policies import Bulkhead

SLOTS: Final = 16
LEAST_ALONE: Final = 2_000
LEAST_TOGETHER: Final = 5_000
LEAST_BLOCKS: Final = 10


def run(context: RunContext) -> list[Figure]:
    """Measure cycles, each of a slot that is borrowed, used for nothing and given back."""
    context.say("W11 shared slots: one caller, sixteen at once, blocks")
    rounds = context.size(3, 1)
    count = context.size(4_000, 1_000)
    with closing(App(context.url("shared"))) as app:
        single = Bulkhead(SLOTS, name="single", shared=app)
        blocks = Bulkhead(SLOTS, name="blocks", shared=app, block=SLOTS)
        alone = max(_plain(single, count) for _ in range(rounds))
        task = max(asyncio.run(_together(single, 1, count)) for _ in range(rounds))
        together = max(asyncio.run(_together(single, SLOTS, count)) for _ in range(rounds))
        in_blocks = max(_plain(blocks, 10 * count) for _ in range(rounds))
    ratio = in_blocks / alone
    wanted = _on_files(context, together, LEAST_TOGETHER)
    return [
        Figure("W11", "one caller", alone, "cycles/s", _on_files(context, alone, LEAST_ALONE)),
        Figure("W11", "one caller, a task", task, "cycles/s", note="a thread asks the store for it"),
        Figure("W11", f"{SLOTS} tasks at once", together, "cycles/s", wanted),
        Figure("W11", f"one caller, block={SLOTS}", in_blocks, "cycles/s"),
        Figure("W11", "to one without blocks", ratio, "x", at_least(ratio, LEAST_BLOCKS)),
    ]


def _on_files(context: RunContext, value: float, bound: int) -> Target | None:
    """Ask for no less than *bound* where a file is the store."""
    return None if context.stores.postgres else at_least(value, bound)


def _plain(bulkhead: Bulkhead, count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        with bulkhead:
            pass
    return count / (time.perf_counter() - began)


async def _together(bulkhead: Bulkhead, callers: int, count: int) -> float:
    async def caller() -> None:
        for _ in range(count // callers):
            async with bulkhead:
                pass

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count // callers * callers / (time.perf_counter() - began)
