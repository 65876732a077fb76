"""A server process of the benchmark: `python -m penstock.bench.web_child STORE`; it prints its address.

Beside the real routes there is their floor: the same stack, the same bodies read the same way, nothing stored.
"""

import sys
from contextlib import closing
from typing import Any

import uvicorn

from penstock.dialects.ojs.format.envelope import of_new
from penstock.dialects.ojs.format.new_job import new_job
from penstock.dialects.ojs.format.requests import AckBody, FetchBody
from penstock.dialects.served import SERVED
from penstock.engine import open_engine
from penstock.http.access import PUBLIC
from penstock.http.app import app_for
from penstock.http.routes import Reply, Request, Route
from penstock.http.uvicorn_server import UPKEEP_EVERY, Settings, listening
from penstock.job import Enqueued
from penstock.worker.upkeep import Upkeep

ID = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f"


async def push(request: Request) -> Reply:
    """Read a job and answer with it."""
    now = request.now
    return Reply({"job": of_new(new_job(request.json(), None, now), Enqueued(ID, at=now))}, 201)


async def fetch(request: Request) -> Reply:
    """Read a fetch and answer with a job."""
    request.read(FetchBody)
    job: dict[str, Any] = {"id": ID, "type": "bench.web", "queue": "default", "state": "active"}
    return Reply({"jobs": [{**job, "args": [1], "meta": {}}]})


async def ack(request: Request) -> Reply:
    """Read an ack and answer."""
    body = request.read(AckBody)
    return Reply({"acknowledged": True, "id": body.job_id, "job_id": body.job_id, "state": "completed"})


FLOOR = (
    Route("POST", "/floor/jobs", push, PUBLIC, "as /ojs/v1/jobs"),
    Route("POST", "/floor/workers/fetch", fetch, PUBLIC, "as /ojs/v1/workers/fetch"),
    Route("POST", "/floor/workers/ack", ack, PUBLIC, "as /ojs/v1/workers/ack"),
)


def main(store: str) -> None:
    """Serve until standard input closes or a signal comes."""
    with closing(open_engine(store)) as engine:
        upkeep = Upkeep(engine, None, UPKEEP_EVERY).thread
        site = app_for(engine, SERVED, more=FLOOR)
        config = uvicorn.Config(
            site, log_config=None, access_log=False, server_header=False, date_header=False
        )
        sock = listening(Settings(port=0))
        print(sock.getsockname()[1], flush=True)
        upkeep.start()
        uvicorn.Server(config).run(sockets=[sock])
        upkeep.stop()


if __name__ == "__main__":
    main(sys.argv[1])
