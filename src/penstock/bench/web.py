"""W9: how many requests does the server serve, beside the same stack that stores nothing?"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from penstock.bench.figures import Figure, at_least, at_most, middle, spread
from penstock.bench.run_context import RunContext, batches, opened
from penstock.job import NewJob
from penstock.limits.rules import Limit, Numbers

CONNECTIONS: Final = 32
BLOCKED: Final = 20_000
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_PUSH: Final = _encode({"type": "bench.web", "args": [{"order": 123, "to": "somebody@example.com"}]})
_FETCH: Final = _encode({"queues": ["default"], "count": 1, "worker_id": "bench"})


def run(context: RunContext) -> list[Figure]:
    """Push, fetch and ack over HTTP, from one connection and from many."""
    span = context.size(6, 2)
    rounds = context.size(3, 1)
    context.say(f"W9 cycles over HTTP, {rounds} rounds of {span} s each")
    url = context.url("w9")
    floors, ones, many = [], [], []
    with serving(url) as port:
        asyncio.run(_cycles(port, "/ojs/v1", CONNECTIONS, 0.5))
        for _ in range(rounds):
            floors.append(asyncio.run(_cycles(port, "/floor", CONNECTIONS, span)))
            ones.append(asyncio.run(_cycles(port, "/ojs/v1", 1, span)))
            many.append(asyncio.run(_cycles(port, "/ojs/v1", CONNECTIONS, span)))
        share = middle([ours / floor for ours, floor in zip(many, floors, strict=True)])
        more = middle([ours / one for ours, one in zip(many, ones, strict=True)])
        free, behind = _fetch_behind(context, url, port)
    context.clear("w9")
    return [
        Figure("W9", f"cycles, {CONNECTIONS} connections", middle(many), "/s", note=spread(many)),
        Figure("W9", "cycles, one connection", middle(ones), "/s", note=spread(ones)),
        Figure("W9", "the stack storing nothing", middle(floors), "/s", note=spread(floors)),
        Figure("W9", "of the requests of the bare stack", share, "", at_least(share, 0.35)),
        Figure("W9", f"{CONNECTIONS} connections / one", more, "", at_least(more, 2)),
        Figure(
            "W9", f"fetch behind {BLOCKED:,} blocked / none", behind / free, "", at_most(behind / free, 1.2),
            f"{free:.2f} ms and {behind:.2f} ms",
        ),
    ]  # fmt: skip


@contextmanager
def serving(url: str) -> Iterator[int]:
    """Serve the store at *url* in a process of its own; yield its port."""
    command = [sys.executable, "-m", "penstock.bench.web_child", url]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None  # noqa: S101 - it is a pipe
        yield int(server.stdout.readline())
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


async def _cycles(port: int, base: str, connections: int, span: float) -> float:
    """Return cycles of push, fetch and ack per second."""
    end = time.perf_counter() + span
    began = time.perf_counter()
    counts = await asyncio.gather(*(_cycling(port, base, end) for _ in range(connections)))
    return sum(counts) / (time.perf_counter() - began)


async def _cycling(port: int, base: str, end: float) -> int:
    call = await Call.open(port)
    done = 0
    while time.perf_counter() < end:
        await call.post(f"{base}/jobs", _PUSH)
        jobs: list[dict[str, Any]] = []
        while not jobs:
            jobs = _decode(await call.post(f"{base}/workers/fetch", _FETCH))["jobs"]
        await call.post(f"{base}/workers/ack", b'{"job_id":"%s"}' % jobs[0]["id"].encode())
        done += 1
    call.close()
    return done


def _fetch_behind(context: RunContext, url: str, port: int) -> tuple[float, float]:
    """Return milliseconds of a fetch with and without many blocked jobs before it."""
    count = context.size(600, 100)
    free = asyncio.run(_fetches(port, count))
    shut = (Limit("shut", Numbers(slots=0)),)
    with opened(url) as engine:
        blocked = (NewJob("bench.web", '{"args":[]}', limits=shut, priority=50) for _ in range(BLOCKED))
        for batch in batches(blocked, 5_000):
            engine.enqueue(batch)
    asyncio.run(_fetches(port, 50))
    return free, asyncio.run(_fetches(port, count))


async def _fetches(port: int, count: int) -> float:
    call = await Call.open(port)
    took = []
    for _ in range(count):
        await call.post("/ojs/v1/jobs", _PUSH)
        began = time.perf_counter()
        (job,) = _decode(await call.post("/ojs/v1/workers/fetch", _FETCH))["jobs"]
        took.append((time.perf_counter() - began) * 1_000)
        await call.post("/ojs/v1/workers/ack", b'{"job_id":"%s"}' % job["id"].encode())
    call.close()
    return middle(took)


class Call:
    """One connection that stays open: as little as a client can do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "Call":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, body: bytes) -> bytes:
        """Return the body of the answer, which must be a good one."""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = await self._reader.readexactly(length)
        if not answer.startswith(b"http/1.1 20"):
            raise ConnectionError(f"{path}: {answer[:40]!r} {content[:300]!r}")
        return content

    def close(self) -> None:
        self._writer.close()
