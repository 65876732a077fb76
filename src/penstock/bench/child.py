"""A worker process of the benchmark: `python -m penstock.bench.child ORDER`.

It works as ordered and then prints, as JSON, what its handlers saw.
"""

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec

from penstock.app import App
from penstock.bench.hands import Order, Sight


class Witness:
    """The handlers, and what they see; all but *plain* run in one event loop."""

    def __init__(self, enough: int) -> None:
        self.begun = 0
        self.overlaps = 0
        self.starts: list[tuple[int, int]] = []
        self._enough = enough
        self._running: Counter[int] = Counter()

    async def noop(self) -> None:
        """Do nothing, in the loop."""

    def plain(self) -> None:
        """Do nothing, in a thread."""

    async def counted(self) -> None:
        """Count, and stop the worker when it is enough."""
        self.begun += 1
        if self.begun == self._enough:
            stop()

    async def keyed(self, key: int) -> None:
        """Take a millisecond, and notice company."""
        self._running[key] += 1
        self.overlaps += self._running[key] > 1
        await asyncio.sleep(0.001)
        self._running[key] -= 1

    async def stamped(self, number: int) -> None:
        """Note the moment at once."""
        self.starts.append((number, time.time_ns()))


def main() -> None:
    """Work as ordered."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    witness = Witness(order.enough)
    app = App(order.url)
    app.task(name=f"bench.{order.handler}")(getattr(witness, order.handler))
    threading.Thread(target=_watch, args=(order,), daemon=True).start()
    # Opened beforehand: what is measured is work, not the start of a process.
    began = app.engine.clock.now()
    clock = time.perf_counter()
    app.work(until_idle=order.idle)
    seconds = time.perf_counter() - clock
    sight = Sight(began, seconds, witness.overlaps, _peak_megabytes(), witness.starts)
    sys.stdout.buffer.write(msgspec.json.encode(sight))


def stop() -> None:
    """Have this worker finish what runs and return."""
    os.kill(os.getpid(), signal.SIGTERM)


def _watch(order: Order) -> None:
    if order.idle or order.enough:
        threading.Event().wait(order.patience)
    else:
        sys.stdin.buffer.read()
    stop()


def _peak_megabytes() -> float:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    main()
