"""The tasks of the storm; their handlers tell the provider when they begin and end.

The store and the provider come from the environment.
"""

import asyncio
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import App, Concurrency, FloatingLimit, Rate, Throttle, current_job, signal, sleep
from tests.chaos import rules
from tests.chaos.provider import PROVIDER, Caller, now

# Most handlers are short; a few last long enough for a blow to find them at work.
SHORT, LONG, SHARE_OF_LONG = 0.06, (0.5, 1.5), 0.03  # seconds
# Where many must meet before a limit matters.
LONGER = 4 * SHORT
STEP = 5 * SHORT  # of workflows, so that blows find some
TWO = Concurrency(2, key="two:{account}")
RATED = Rate(rules.RATE, per=rules.RATE_PERIOD, key="rated:{account}")
FLOATING = Concurrency.floating(rules.FIRST_VALUE, key=rules.FLOATING, handler="weather", every="500ms")

app = App()
caller = Caller(os.environ[PROVIDER])
claims: dict[tuple[str, int], tuple[int, int]] = {}  # when (job, fence) was asked for and given


@contextmanager
def noted(short: float, **facts: object) -> Iterator[float]:
    """Tell of the beginning and the end of a handler, with more *facts*; give how long it is to work."""
    began = now()  # first of all: what counts is when the handler begins
    job = current_job()
    attempt = job._attempt
    fence = attempt.claimed.fence
    asked, answered = claims.pop((job.id, fence))
    looked = attempt.began * 1_000
    named = {"job": job.id, "attempt": job.attempt, "fence": fence}
    caller.tell("began", at=began, asked=asked, answered=answered, looked=looked, **named, **facts)
    chance = random.Random(f"{job.id} {job.attempt}")
    completed = False
    try:
        yield chance.uniform(*LONG) if chance.random() < SHARE_OF_LONG else chance.random() * short
        completed = True
    finally:
        caller.tell("ended", completed=completed, **named)


def work(short: float = SHORT, **facts: object) -> None:
    with noted(short, **facts) as seconds:
        threading.Event().wait(seconds)


async def awork(short: float = SHORT, **facts: object) -> None:
    with noted(short, **facts) as seconds:
        await asyncio.sleep(seconds)


@app.task(limits=[Concurrency(1, key="one:{account}")])
def one(account: int) -> None:
    work()


@app.task(limits=[TWO])
async def two(account: int) -> None:
    await awork()


@app.task(limits=[Concurrency(5, key="five")])
def five(account: int) -> None:
    work(LONGER)


@app.task(limits=[RATED])
async def rated(account: int) -> None:
    await awork()


@app.task(limits=[TWO, RATED])
def both(account: int) -> None:
    work()


@app.task(limits=[Throttle(rules.THROTTLE, per="1s", key="spaced")])
def spaced(account: int) -> None:
    work()


@app.task(limits=[FLOATING])
async def floats(account: int) -> None:
    await awork(LONGER)


@app.floating("weather")
def weather(limit: FloatingLimit) -> int:
    return random.choice([value for value in rules.VALUES if value != limit.value])


@app.task(queue=rules.QUEUE)
async def boxed(account: int) -> None:
    await awork()


@app.task
def draft(run: str) -> None:
    work(STEP, run=run, step="draft", passes=rules.PASSES["draft"])


@app.task(limits=[Rate(rules.MAIL, per=rules.MAIL_PERIOD, key="mailbox")])
async def mail(run: str) -> None:
    await awork(STEP, run=run, step="mail", passes=rules.PASSES["mail"])


@app.task
async def file(run: str) -> None:
    await awork(STEP, run=run, step="file", passes=rules.PASSES["file"])


@app.workflow(queue=rules.PASSES_QUEUE, limits=[Concurrency(1, key="contact:{contact}")])
async def outreach(run: str, contact: int) -> None:
    await draft.step(run)
    await sleep(rules.NAP)
    await mail.step(run)
    answer = await signal("answer")
    assert answer == run
    await file.step(run)


TASKS = {task.name.rpartition(".")[2]: task for task in (one, two, five, rated, both, spaced, floats, boxed)}
