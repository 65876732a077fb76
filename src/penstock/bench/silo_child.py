"""A server process of the benchmark: `python -m penstock.bench.silo_child STORE`; it prints two addresses.

At the first it serves Silo's clients.  At the second is the floor: the same gRPC server, the same messages read and
written the same way, nothing stored.  For each line that it reads it prints how much processor time it has used.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import closing
from typing import Any, TypeVar

import uvicorn

from penstock.dialects.served import SERVED
from penstock.dialects.silo import shown
from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.call import Call
from penstock.dialects.silo.methods import METHODS, Method
from penstock.dialects.silo.new_job import new_job, task_group
from penstock.dialects.silo.server import SiloServer, SiloSettings
from penstock.dialects.silo.stored import task_numbers, text_of
from penstock.engine import open_engine
from penstock.http.access import PUBLIC
from penstock.http.app import app_for
from penstock.http.tokens import Keyring
from penstock.http.uvicorn_server import UPKEEP_EVERY
from penstock.job import Claimed, NewJob
from penstock.worker.upkeep import Upkeep

T = TypeVar("T")
ID = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f"
_last: list[NewJob] = [NewJob("silo")]


async def enqueue(call: Call, sent: pb.EnqueueRequest) -> pb.EnqueueResponse:
    """Read a job and answer with its id."""
    call.check_shard(sent.shard)
    _last[0] = new_job(sent, call.tenant(sent))
    return pb.EnqueueResponse(id=ID)


async def lease(call: Call, sent: pb.LeaseTasksRequest) -> pb.LeaseTasksResponse:
    """Read a request for tasks and answer with the job that came last."""
    call.check_shard(sent.shard)
    job = _last[0]
    claimed = Claimed(
        1, ID, job.task, job.args, task_group(sent.task_group), 1, 1, 0, 0, None, job.meta, "", 0, number=1
    )
    return pb.LeaseTasksResponse(tasks=[shown.task(claimed)])


async def report(call: Call, sent: pb.ReportOutcomeRequest) -> pb.ReportOutcomeResponse:
    """Read an outcome and answer."""
    call.check_shard(sent.shard)
    task_numbers(sent.task_id)
    text_of(sent.success.msgpack, "success")
    return pb.ReportOutcomeResponse()


FLOOR = {
    "Enqueue": Method(pb.EnqueueRequest, enqueue, PUBLIC),
    "LeaseTasks": Method(pb.LeaseTasksRequest, lease, PUBLIC),
    "ReportOutcome": Method(pb.ReportOutcomeRequest, report, PUBLIC),
}


def _tell_time(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    for _ in sys.stdin:
        print(time.process_time(), flush=True)
    loop.call_soon_threadsafe(stop.set)


async def serve(store: str) -> None:
    """Serve until standard input closes."""
    stop = asyncio.Event()
    with closing(open_engine(store)) as engine:
        service = app_for(engine, SERVED).service
        service.begin()
        upkeep = Upkeep(engine, None, UPKEEP_EVERY).thread
        upkeep.start()
        addresses: list[str] = []
        servers = [
            SiloServer(service, Keyring(), SiloSettings(), addresses.append, methods)
            for methods in (METHODS, FLOOR)
        ]
        for server in servers:
            await server.start()
        print(*addresses, flush=True)
        threading.Thread(target=_tell_time, args=(asyncio.get_running_loop(), stop), daemon=True).start()
        await stop.wait()
        for server in servers:
            await server.stop(1)
        upkeep.stop()
        upkeep.join(5)
        service.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* on the loop that the server itself would choose."""
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        return runner.run(work)


if __name__ == "__main__":
    run(serve(sys.argv[1]))
