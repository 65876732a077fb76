"""W12: how many cycles of enqueue, lease and report does the gRPC server serve, beside one that stores nothing?"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from penstock.bench.figures import Figure, at_least, at_most, middle, spread
from penstock.bench.run_context import RunContext, batches, fill, opened
from penstock.bench.silo_child import run as run_on_loop
from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.methods import SERVICE
from penstock.dialects.silo.stored import TASK
from penstock.engine import Engine
from penstock.job import NewJob, RefreshesFor, RefreshReport, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Floating, Limit, Numbers

CALLS: Final = 32  # under way at a time
BLOCKED: Final = 20_000
IDLE: Final = 10_000  # floating keys
BATCH: Final = 500
_PAYLOAD: Final = pb.SerializedBytes(msgpack=msgspec.msgpack.encode({"order": 123, "to": "a@example.com"}))


class Child:
    """The server process: the addresses of the real service and of the one that stores nothing."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.real, self.floor = self._line().split()

    def seconds(self) -> float:
        """Return how much processor time it has used."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        print(file=self._process.stdin, flush=True)
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - the same
        return self._process.stdout.readline()


def run(context: RunContext) -> list[Figure]:
    """Enqueue, lease and report over gRPC, one call at a time and many."""
    span, rounds = context.size(6, 2), context.size(3, 1)
    context.say(f"W12 cycles over gRPC, {rounds} rounds of {span} s each")
    url = context.url("w12")
    floors, ones, many = [], [], []
    with serving(url) as child:
        measure(child, child.real, CALLS, 0.5)
        for _ in range(rounds):
            floors.append(measure(child, child.floor, CALLS, span))
            ones.append(measure(child, child.real, 1, span)[0])
            many.append(measure(child, child.real, CALLS, span))
        pairs = list(zip(many, floors, strict=True))
        share = middle([ours / floor for (ours, _), (floor, _) in pairs])
        work = middle([ours / floor for (_, ours), (_, floor) in pairs])
        more = middle([ours / one for (ours, _), one in zip(many, ones, strict=True)])
    context.clear("w12")
    free, behind, beside = _leases(context)
    cycles, bare = [each for each, _ in many], [each for each, _ in floors]
    return [
        Figure(
            "W12", f"cycles over gRPC, {CALLS} calls at a time", middle(cycles), "/s", note=spread(cycles)
        ),
        Figure("W12", "cycles over gRPC, one call at a time", middle(ones), "/s", note=spread(ones)),
        Figure("W12", "the gRPC stack storing nothing", middle(bare), "/s", note=spread(bare)),
        Figure("W12", "of the cycles of the bare stack", share, "", at_least(share, 0.35)),
        Figure("W12", "processor time of a cycle / the bare stack's", work, "", at_most(work, 2.5)),
        Figure("W12", f"{CALLS} calls at a time / one", more, "", at_least(more, 3)),
        _lease_figure(f"lease behind {BLOCKED:,} blocked / none", free, behind, 1.2),
        _lease_figure(f"lease beside {IDLE:,} idle floating keys / none", free, beside, 1.1),
    ]


def _lease_figure(name: str, free: float, other: float, bound: float) -> Figure:
    note = f"{free:.2f} ms and {other:.2f} ms"
    return Figure("W12", name, other / free, "", at_most(other / free, bound), note)


@contextmanager
def serving(url: str) -> Iterator[Child]:
    """Serve the store at *url* in a process of its own."""
    command = [sys.executable, "-m", "penstock.bench.silo_child", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        yield Child(process)
    finally:
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        process.stdin.close()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def measure(child: Child, address: str, calls: int, span: float) -> tuple[float, float]:
    """Return cycles per second, and the processor seconds that the server used for each."""
    used = child.seconds()
    rate, count = run_on_loop(_cycles(address, calls, span))
    return rate, (child.seconds() - used) / count


async def _cycles(address: str, calls: int, span: float) -> tuple[float, int]:
    async with grpc.aio.insecure_channel(address) as channel:
        began = time.perf_counter()
        end = began + span
        counts = await asyncio.gather(*(_cycling(Calls(channel), f"key-{n}", end) for n in range(calls)))
        return sum(counts) / (time.perf_counter() - began), sum(counts)


async def _cycling(calls: "Calls", key: str, end: float) -> int:
    done = 0
    while time.perf_counter() < end:
        await calls.enqueue(key)
        await calls.report(await calls.lease())
        done += 1
    return done


class Calls:
    """The three calls of a cycle: as little as a client can do."""

    def __init__(self, channel: Any) -> None:  # noqa: ANN401 - grpc has no types
        self._enqueue = _call(channel, "Enqueue", pb.EnqueueResponse)
        self._lease = _call(channel, "LeaseTasks", pb.LeaseTasksResponse)
        self._report = _call(channel, "ReportOutcome", pb.ReportOutcomeResponse)
        self._wanted = pb.LeaseTasksRequest(worker_id="bench", max_tasks=1)

    async def enqueue(self, key: str) -> None:
        """Add a job with one concurrency limit."""
        limit = pb.Limit(concurrency=pb.ConcurrencyLimit(key=key, max_concurrency=5))
        await self._enqueue(pb.EnqueueRequest(payload=_PAYLOAD, priority=50, limits=[limit]))

    async def lease(self) -> pb.Task:
        """Take a task; ask again until there is one."""
        while not (found := await self._lease(self._wanted)).tasks:
            pass
        task: pb.Task = found.tasks[0]
        return task

    async def report(self, task: pb.Task) -> None:
        """Say that a task is done."""
        await self._report(pb.ReportOutcomeRequest(shard=task.shard, task_id=task.id, success=_PAYLOAD))


def _call(channel: Any, name: str, answer: Any) -> Any:  # noqa: ANN401 - the same
    return channel.unary_unary(SERVICE + name, lambda message: message.SerializeToString(), answer.FromString)


def _leases(context: RunContext) -> list[float]:
    """Return milliseconds of a lease: alone, behind many blocked jobs, and beside many idle floating keys.

    They are measured in turn, so that whatever else the machine does falls on all of them.
    """
    names = ("w12", "w12-behind", "w12-beside")
    alone, behind, beside = map(context.url, names)
    shut = (Limit("shut", Numbers(slots=0)),)
    fill(behind, (NewJob(TASK, '"x"', limits=shut, priority=50) for _ in range(BLOCKED)))
    with opened(beside) as engine:
        _make_idle_keys(engine)
    with serving(alone) as one, serving(behind) as two, serving(beside) as three:
        addresses = [child.real for child in (one, two, three)]
        run_on_loop(_lease_times(addresses, 50))
        found = run_on_loop(_lease_times(addresses, context.size(600, 100)))
    for name in names:
        context.clear(name)
    return found


def _make_idle_keys(engine: Engine) -> None:
    """Let many keys float that no job uses any more."""
    minute = 60_000_000
    jobs = (
        NewJob(
            TASK, '"x"', "idle", limits=(Limit(f"idle-{n}", Numbers(slots=1), floating=Floating("", minute)),)
        )
        for n in range(IDLE)
    )
    for batch in batches(jobs, BATCH):
        engine.enqueue(batch)
        claimed = engine.claim(["idle"], BATCH, worker="bench").jobs
        while more := engine.claim(["idle"], BATCH, worker="bench").jobs:
            claimed += more
        engine.settle([Settlement(job.seq, job.fence, Done()) for job in claimed])
        (lent,) = engine.refreshes_for([RefreshesFor(2 * BATCH, "bench", queues=("idle",))])
        engine.report_refreshes([RefreshReport(each.gate, each.fence, 1) for each in lent])


async def _lease_times(addresses: Sequence[str], count: int) -> list[float]:
    """Return the middle of so many leases at each of *addresses*, in milliseconds."""
    async with AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(grpc.aio.insecure_channel(each)) for each in addresses]
        servers = [(Calls(channel), list[float]()) for channel in channels]
        for _ in range(count):
            for calls, took in servers:
                await calls.enqueue("lease")
                began = time.perf_counter()
                task = await calls.lease()
                took.append((time.perf_counter() - began) * 1_000)
                await calls.report(task)
    return [middle(took) for _, took in servers]
