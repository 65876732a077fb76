"""pgqueuer: jobs by entrypoint; a key with a limit is an entrypoint of its own, known when the worker starts."""

import asyncio
from types import SimpleNamespace

import asyncpg
import common
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

LEFT = "SELECT EXISTS (SELECT FROM pgqueuer WHERE entrypoint <> 'busy')"


class Pgqueuer:
    def __init__(self, order: SimpleNamespace) -> None:
        self.order = order

    async def install(self) -> None:
        await self.connect(1)
        await self.idle[0].install()

    async def connect(self, callers: int) -> None:
        # Callers share connections this way because a pool of asyncpg's has the server reset one after every call.
        self.idle = [Queries(AsyncpgDriver(await asyncpg.connect(self.order.url))) for _ in range(callers)]
        if self.order.verb == "work":
            # With a pool the next jobs are claimed while the last are written down.
            self.pool = await asyncpg.create_pool(self.order.url)

    async def one(self, kind: str, number: int) -> None:
        queries = self.idle.pop()
        await queries.enqueue(_entrypoint(kind, number), str(number).encode())
        self.idle.append(queries)

    async def many(self, kind: str, numbers: list[int]) -> None:
        names = [_entrypoint(kind, number) for number in numbers]
        payloads = [str(number).encode() for number in numbers]
        await self.idle[0].enqueue(names, payloads, [0] * len(numbers))

    async def work(self, witness: common.Witness) -> asyncio.Task:
        queuer = PgQueuer.from_asyncpg_pool(self.pool)
        for kind in self.order.kinds:
            for key in range(self.order.keys) if kind == "keyed" else [0]:
                _register(queuer, witness, kind, key)
        return asyncio.create_task(queuer.run(**self.order.settings))

    async def left(self) -> bool:
        (row,) = await self.idle[0].driver.fetch(LEFT)
        return row["exists"]


def _register(queuer: PgQueuer, witness: common.Witness, kind: str, key: int) -> None:
    limit = 1 if kind in {"keyed", "busy"} else 0

    @queuer.entrypoint(_entrypoint(kind, key), concurrency_limit=limit)
    async def handle(job: Job) -> None:
        await witness.run(kind, int(job.payload))


def _entrypoint(kind: str, number: int) -> str:
    return f"key-{number}" if kind == "keyed" else kind


common.main(Pgqueuer, uvloop.new_event_loop)
