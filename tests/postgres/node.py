"""A machine of its own with a clock that is wrong: `python -m tests.postgres.node SECONDS URL`.

Answers each line, a Python expression, with a line of JSON.
"""

import json
import sys
import threading
import time

from tests.support.timing import at_once

WALL = ("time", "time_ns")
BOOT = ("clock_gettime", "clock_gettime_ns")
STARTED = 1_000_000  # so many seconds ago, another machine would say


def shift(seconds):
    """Set this process's clock wrong by so many *seconds*, and have its machine started at another time."""
    for name in WALL:
        unit = 10**9 if name.endswith("_ns") else 1
        true = getattr(time, name)
        setattr(time, name, lambda true=true, unit=unit: true() + seconds * unit)
    for name in BOOT:
        unit = 10**9 if name.endswith("_ns") else 1
        true = getattr(time, name)
        setattr(time, name, lambda which, true=true, unit=unit: true(which) + STARTED * unit)


class Node:
    """An engine, and a worker whose handlers note when they began."""

    def __init__(self, url):
        from penstock.engine import open_engine  # noqa: PLC0415 - once the clock is wrong
        from penstock.job import NewJob  # noqa: PLC0415 - the same

        self.NewJob = NewJob
        self.engine = open_engine(url)
        self.began = []

    def note(self):
        # The same for all processes, and never set.
        self.began.append(time.monotonic())
        # So that no machine can do it all.
        time.sleep(0.12)

    def produce(self, threads, each):
        """Enqueue in so many threads, one job after the other; return when it is done."""
        at_once(threads, lambda _: [self.engine.enqueue([self.NewJob("task")]) for _ in range(each)])
        return time.monotonic()

    def work(self):
        from penstock.worker import Worker  # noqa: PLC0415 - the same
        from tests.support.working import handlers  # noqa: PLC0415 - the same

        self.worker = Worker(self.engine, handlers(self.note), concurrency=1, threads=1)
        self.thread = threading.Thread(target=self.worker.run, daemon=True)
        self.thread.start()

    def stop(self):
        self.worker.stop_now()
        self.thread.join()
        return self.began


def main():
    shift(int(sys.argv[1]))
    node = Node(sys.argv[2])
    names = {"node": node, "engine": node.engine, "NewJob": node.NewJob}
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(eval(line, names)), flush=True)


if __name__ == "__main__":
    main()
