"""The tasks of the demo: the same call to the provider, under one limit after another.

`penstock demo` runs this module in workers of their own: `penstock worker penstock.demo.tasks:app`.
"""

import json
import os
import threading
from http.client import HTTPConnection

from penstock import App, Concurrency, Rate, Throttle, sleep
from penstock.clock import monotonic
from penstock.demo import NAP, PROVIDER, STORE
from penstock.demo.provider import BEGAN, WORKER

app = App(os.environ.get(STORE, ":memory:"))


@app.task
def call_unsafe(account_id: str, op: str) -> str:
    return call(account_id, op)


@app.task(limits=[Concurrency(1, key="B keyed:{account_id}")])
def call_keyed(account_id: str, op: str) -> str:
    return call(account_id, op)


@app.task(limits=[Concurrency(1, key="C drop:{account_id}", on_limit="drop")])
def call_or_drop(account_id: str, op: str) -> str:
    return call(account_id, op)


@app.task(limits=[Concurrency(1, key="D refresh:{account_id}")], unique=["account_id"])
def refresh_once(account_id: str, op: str = "refresh") -> str:
    return call(account_id, op)


@app.task(limits=[Concurrency(3, key="E three:{account_id}")])
def call_three(account_id: str, op: str) -> str:
    return call(account_id, op)


@app.task(limits=[Rate(5, per="1s", key="F rate")])
def call_rated(account_id: str, op: str) -> str:
    return call(account_id, op)


@app.task(limits=[Throttle(5, per="1s", key="G spaced")])
def call_spaced(account_id: str, op: str) -> str:
    return call(account_id, op)


@app.task(limits=[Concurrency(1, key="H both:{account_id}"), Rate(4, per="1s", key="H both")])
def call_both(account_id: str, op: str) -> str:
    return call(account_id, op)


@app.workflow(limits=[Concurrency(1, key="I flow:{account_id}")])
async def call_twice(account_id: str, op: str) -> str:
    await call_unsafe.step(account_id, op)
    await sleep(NAP)
    return await call_unsafe.step(account_id, op)


@app.task
def say_hello() -> None:
    """Show the provider that this worker is up."""
    _post("/hello", {WORKER: str(os.getpid())})


def call(account_id: str, op: str) -> str:
    """Call the provider and tell it when this handler began."""
    began = monotonic()
    return _post(f"/call/{account_id}/{op}", {BEGAN: str(began)})["outcome"]


_own = threading.local()


def _post(path: str, headers: dict[str, str]) -> dict[str, str]:
    # Each thread keeps its connection, so that a call reaches the provider without delay.
    connection: HTTPConnection | None = getattr(_own, "connection", None)
    if connection is None:
        connection = _own.connection = HTTPConnection(os.environ[PROVIDER], timeout=10)
    connection.request("POST", path, headers={**headers, "Content-Length": "0"})
    with connection.getresponse() as response:
        answer: dict[str, str] = json.load(response)
    return answer
