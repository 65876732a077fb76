"""Tasks that write when they began and ended into a journal: `penstock worker tests.support.outside:app`.

The store and the journal come from the environment.
"""

import asyncio
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import App, Concurrency, Rate, Throttle, current_job

STORE, JOURNAL = "PENSTOCK_OUTSIDE_STORE", "PENSTOCK_OUTSIDE_JOURNAL"
LONGEST = 0.06

app = App(os.environ.get(STORE, ":memory:"))
journal = os.open(os.environ.get(JOURNAL, os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@contextmanager
def noted() -> Iterator[float]:
    """Write a line before and after; give how long to work."""
    _note("began")
    yield random.random() * LONGEST
    _note("ended")


def _note(what: str) -> None:
    # The clock first, and one that cannot be set: what counts is when the handler ran.
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    job = current_job()
    line = {"what": what, "at": now, "pid": os.getpid(), "job": job.id, "attempt": job.attempt}
    line["looked"] = job._attempt.began * 1_000  # its worker, at the clock, before the handler
    os.write(journal, json.dumps(line).encode() + b"\n")


def work() -> None:
    with noted() as seconds:
        threading.Event().wait(seconds)


async def awork() -> None:
    with noted() as seconds:
        await asyncio.sleep(seconds)


@app.task(limits=[Concurrency(1, key="one:{account}")])
def one(account: int) -> None:
    work()


@app.task(limits=[Concurrency(2, key="two:{account}")])
async def two(account: int) -> None:
    await awork()


@app.task(limits=[Rate(10, per=0.5, key="rated")])
async def rated(account: int) -> None:
    await awork()


@app.task(limits=[Throttle(30, per="1s", key="spaced")])
def spaced(account: int) -> None:
    work()


@app.task(limits=[Concurrency(1, key="one:{account}"), Rate(10, per=0.5, key="rated")])
def both(account: int) -> None:
    work()


@app.task(queue="boxed")
async def boxed(account: int) -> None:
    await awork()


@app.task(limits=[Concurrency(1, key="brief:{account}")])
async def brief(account: int) -> None:
    """So short that a worker hands the slot of its key on."""
    with noted():
        await asyncio.sleep(0.002)
