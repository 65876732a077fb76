"""A workflow whose steps write into a journal: `penstock worker tests.support.flowing:app`.

The store and the journal come from the environment.
"""

import json
import os
import random
import threading

from penstock import App, Concurrency, current_job, first, gather, note, signal, sleep

STORE, JOURNAL = "PENSTOCK_FLOWING_STORE", "PENSTOCK_FLOWING_JOURNAL"

app = App(os.environ.get(STORE, ":memory:"))
journal = os.open(os.environ.get(JOURNAL, os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write(what: str, contact: int, run: int) -> None:
    line = {"what": what, "contact": contact, "run": run, "job": current_job().id}
    os.write(journal, json.dumps(line).encode() + b"\n")


@app.task
def work(contact: int, run: int, number: int) -> int:
    write("began", contact, run)
    threading.Event().wait(random.random() * 0.02)
    write("ended", contact, run)
    return number


@app.workflow
async def inner(contact: int, run: int) -> int:
    return await work.step(contact, run, 100)


@app.workflow(limits=[Concurrency(1, key="contact:{contact}")])
async def outreach(contact: int, run: int) -> int:
    chosen = await note(random.random)
    total = await work.step(contact, run, 1)
    await sleep("10ms")
    total += sum(await gather(*[work.step(contact, run, 10) for _ in range(3)], inner.step(contact, run)))
    which, _ = await first(signal("never"), sleep("10ms"))
    total += 1000 * which
    assert chosen == await note(lambda: chosen)
    return total
