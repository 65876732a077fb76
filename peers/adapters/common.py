"""What the adapters in Python share: orders in, handlers that count, facts out.

An adapter runs inside its peer's own environment, so nothing but the standard library is at hand here.
It reads one order from its input, a line of JSON, obeys, and prints what it found as a line of JSON.
Times are nanoseconds of the clock that all processes of one machine share.
"""

import asyncio
import inspect
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

now = time.monotonic_ns

GLANCE = 0.002  # seconds between two looks at the handlers' count
POLL = 0.005  # seconds between two looks at the store
WATCH = 0.25  # the same while others work, whom a look takes from
PER_CALL = 1_000  # jobs in one call of a peer that takes many


class Witness:
    """The handlers' side of the story: when they began, and who ran beside whom.

    *spans* are the key, begin and end of those with a key, to be laid beside those of other processes.
    """

    def __init__(self, order: SimpleNamespace) -> None:
        self.began = 0
        self.first = 0
        self.begun = 0
        self.overlaps = 0
        self.starts: list[tuple[int, int]] = []
        self.spans: list[tuple[int, int, int]] = []
        self.told = False
        self._order = order
        self._running: Counter[str | int] = Counter()
        self._lock = threading.Lock()

    async def run(self, kind: str, number: int = 0) -> None:
        """Handle a job in an event loop."""
        began = self._enter(kind, number)
        if kind == "keyed":
            await asyncio.sleep(self._order.milliseconds / 1_000)
            self._leave(number, began)
        elif kind == "busy":
            await asyncio.sleep(3_600)

    def run_plain(self, kind: str, number: int = 0) -> None:
        """Handle a job in a thread."""
        began = self._enter(kind, number)
        if kind == "keyed":
            time.sleep(self._order.milliseconds / 1_000)
            self._leave(number, began)
        elif kind == "busy":
            threading.Event().wait(3_600)

    def seen_enough(self) -> bool:
        """Tell whether as many handlers began as were asked for, or ran as long, or there is no more input."""
        if self._order.until:
            return self.begun >= self._order.until
        if self._order.seconds:
            return bool(self.first) and now() - self.first > self._order.seconds * 1e9
        return self.told

    def _enter(self, kind: str, number: int) -> int:
        began = now()
        with self._lock:
            if kind != "busy":
                self.begun += 1
                self.first = self.first or began
            if kind in {"keyed", "busy"}:
                key = number if kind == "keyed" else kind
                self._running[key] += 1
                self.overlaps += self._running[key] > 1
            elif kind != "noop":
                self.starts.append((number, began))
        return began

    def _leave(self, key: int, began: int) -> None:
        with self._lock:
            self._running[key] -= 1
            self.spans.append((key, began, now()))


def main(adapter: type, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Read an order, obey and tell what was found; leave without ceremony, as a killed process would."""
    order = SimpleNamespace(**json.loads(sys.stdin.readline()))
    verb = {"install": _install, "enqueue": _enqueue, "send": _send, "watch": _watch, "work": _work}[
        order.verb
    ]
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        facts = runner.run(verb(adapter(order), order))
        print(json.dumps(facts), flush=True)
        os._exit(0)


async def _install(adapter: object, _: SimpleNamespace) -> dict[str, object]:
    await _done(adapter.install())
    return {}


async def _enqueue(adapter: object, order: SimpleNamespace) -> dict[str, object]:
    await _done(adapter.connect(order.callers))
    one, spent = adapter.one, 0
    for kind, numbers in order.jobs:
        began = now()
        if order.callers > 1:
            await _by_callers(one, kind, numbers, order.callers)
        elif order.bulk:
            for start in range(0, len(numbers), PER_CALL):
                await _done(adapter.many(kind, numbers[start : start + PER_CALL]))
        else:
            for number in numbers:
                await _done(one(kind, number))
        spent += now() - began
    return {"seconds": spent / 1e9}


async def _by_callers(one: Callable, kind: str, numbers: Sequence[int], callers: int) -> None:
    shares = [numbers[start::callers] for start in range(callers)]
    if inspect.iscoroutinefunction(one):

        async def call(share: Sequence[int]) -> None:
            for number in share:
                await one(kind, number)

        await asyncio.gather(*(call(share) for share in shares))
    else:

        def call_plain(share: Sequence[int]) -> None:
            for number in share:
                one(kind, number)

        with ThreadPoolExecutor(callers) as pool:
            list(pool.map(call_plain, shares))


async def _send(adapter: object, order: SimpleNamespace) -> dict[str, object]:
    await _done(adapter.connect(1))
    before = []
    for number, pause in enumerate(order.pauses):
        await asyncio.sleep(pause)
        before.append(now())
        await _done(adapter.one("stamped", number))
    return {"before": before}


async def _watch(adapter: object, order: SimpleNamespace) -> dict[str, object]:
    """Wait until nothing is left of what others do."""
    await _done(adapter.connect(1))
    deadline = now() + order.bound * 1e9
    while left := await _done(adapter.left()):
        if now() > deadline:
            break
        await asyncio.sleep(WATCH)
    return {"whole": not left}


async def _work(adapter: object, order: SimpleNamespace) -> dict[str, object]:
    witness = Witness(order)
    await _done(adapter.connect(1))
    if order.together:
        # What is measured is work, not the start of processes: all begin at one word.
        print(json.dumps({"connected": True}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    deadline = now() + order.bound * 1e9
    witness.began = now()
    worker = await _done(adapter.work(witness))
    print(json.dumps({"ready": True}), flush=True)
    threading.Thread(target=_await_end_of_input, args=(witness,), daemon=True).start()
    while not witness.seen_enough() and now() < deadline and not _failed(worker):
        await asyncio.sleep(GLANCE)
    whole = witness.seen_enough()
    # What is left is asked only now, so that asking costs the handlers nothing.
    while not (order.seconds or order.together) and whole and await _done(adapter.left()):
        await asyncio.sleep(POLL)
        whole = now() < deadline
    return {
        "began": witness.began,
        "first": witness.first,
        "ended": now(),
        "begun": witness.begun,
        "whole": whole,
        "overlaps": witness.overlaps,
        "starts": witness.starts,
        "spans": witness.spans,
    }


def _await_end_of_input(witness: Witness) -> None:
    sys.stdin.read()
    witness.told = True


def _failed(worker: object) -> bool:
    if isinstance(worker, asyncio.Task) and worker.done():
        worker.result()
        return True
    return False


async def _done(result: object) -> object:
    """Await *result* if it must be: some peers block, others do not."""
    return await result if inspect.isawaitable(result) else result
