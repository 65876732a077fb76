"""W6: how long from enqueue until the handler begins, in another process?"""

import random
import threading
import time
from typing import Final

from penstock.bench.figures import Figure, at_most, percentile
from penstock.bench.ground import Ground, job, opened
from penstock.bench.hands import Order, dismiss, hired
from penstock.bench.machine import syncs_per_second
from penstock.engine import Engine
from penstock.lifecycle.states import State

WARM_UP: Final = 20
_PAUSE: Final = 0.02
_MILLISECOND: Final = 1_000_000


def run(ground: Ground) -> list[Figure]:
    """Enqueue here, one job every 20 ms or so; a worker elsewhere notes when it began."""
    count = ground.size(300, 100)
    ground.say(f"W6 {count} pickups")
    url = ground.url("w6")
    with opened(url) as engine, hired(Order(url, "stamped")) as hands:
        _warm_up(engine)
        before, after = _send(engine, count)
        sync = 1_000 / syncs_per_second(ground.folder)
        _wait_done(engine, WARM_UP + count)
        (sight,) = dismiss(hands)
    ground.clear("w6")
    begun = {number: at for number, at in sight.starts if number >= 0}
    whole = [(begun[number] - at) / _MILLISECOND for number, at in enumerate(before)]
    wait = [(begun[number] - at) / _MILLISECOND for number, at in enumerate(after)]
    return _figures(whole, wait, note=f"with one fdatasync of {sync:.2f} ms")


def _figures(whole: list[float], wait: list[float], note: str) -> list[Figure]:
    half = percentile(whole, 50)
    return [
        Figure("W6", "enqueue's call to handler, p50", half, "ms", at_most(half, 3, "< 3"), note),
        Figure("W6", "enqueue's call to handler, p99", percentile(whole, 99), "ms"),
        Figure("W6", "enqueue's return to handler, p50", percentile(wait, 50), "ms"),
        Figure("W6", "enqueue's return to handler, p99", percentile(wait, 99), "ms"),
    ]


def _warm_up(engine: Engine) -> None:
    engine.enqueue([job("stamped", -1)] * WARM_UP)
    _wait_done(engine, WARM_UP)


def _send(engine: Engine, count: int) -> tuple[list[int], list[int]]:
    chance = random.Random(6)
    rest = threading.Event()
    before, after = [], []
    for number in range(count):
        # The jitter keeps the pace from falling into step with a worker that polls.
        rest.wait(_PAUSE * chance.uniform(0.5, 1.5))
        before.append(time.time_ns())
        engine.enqueue([job("stamped", number)])
        after.append(time.time_ns())
    return before, after


def _wait_done(engine: Engine, count: int) -> None:
    rest = threading.Event()
    for _ in range(1_000):
        if engine.count().get(State.DONE, 0) >= count:
            return
        rest.wait(0.02)
    raise TimeoutError(f"{count} jobs were not done in 20 s")
