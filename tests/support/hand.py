"""A worker process for tests: `python -m tests.support.hand STORE JOURNAL OPTIONS`.

Its handlers write when they began and ended into the journal, a line each.
"""

import asyncio
import json
import logging
import os
import sys
import threading
import time

from penstock.engine import open_engine
from penstock.worker import Handler, Worker, current_job


def main() -> None:
    store, journal, options = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    # The test may not read a line for every job.
    logging.getLogger("penstock.jobs").setLevel(logging.WARNING)
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(what: str, key: str) -> None:
        # The clock first: the record shows when the handler ran, not when the line was written.
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        line = {"what": what, "key": key, "at": now, "pid": os.getpid(), "job": current_job().id}
        os.write(file, json.dumps(line).encode() + b"\n")

    async def wait(key: str, seconds: float) -> int:
        note("began", key)
        try:
            await asyncio.sleep(seconds)
        finally:
            note("ended", key)
        return os.getpid()

    def block(key: str, seconds: float) -> int:
        note("began", key)
        threading.Event().wait(seconds)
        note("ended", key)
        return os.getpid()

    async def hog(key: str, seconds: float) -> int:
        note("began", key)
        time.sleep(seconds)  # noqa: ASYNC251
        note("ended", key)
        return os.getpid()

    handlers = {
        "wait": Handler(wait, is_async=True),
        "block": Handler(block),
        "hog": Handler(hog, is_async=True),
    }
    chosen = json.loads(options)
    tasks = chosen.pop("tasks", ["wait"])
    worker = Worker(open_engine(store), {task: handlers[task] for task in tasks}, **chosen)
    print("ready", flush=True)
    worker.run(signals=True)


if __name__ == "__main__":
    main()
