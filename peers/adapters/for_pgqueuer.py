"""pgqueuer: jobs by entrypoint; a key with a limit is an entrypoint of its own, known when the worker starts."""

import asyncio
from types import SimpleNamespace

import asyncpg
import common
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver, AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

LEFT = "SELECT EXISTS (SELECT FROM pgqueuer WHERE entrypoint <> 'busy')"


class Pgqueuer:
    def __init__(self, order: SimpleNamespace) -> None:
        self.order = order

    async def install(self) -> None:
        await self.connect(1)
        await self.queries.install()

    async def connect(self, callers: int) -> None:
        # A pool of asyncpg's own asks the server to reset a connection after every call.
        self.idle = [AsyncpgDriver(await asyncpg.connect(self.order.url)) for _ in range(callers)]
        self.queries = Queries(self.idle[0])

    async def one(self, kind: str, number: int) -> None:
        driver = self.idle.pop()
        await Queries(driver).enqueue(_entrypoint(kind, number), str(number).encode())
        self.idle.append(driver)

    async def many(self, kind: str, numbers: list[int]) -> None:
        names = [_entrypoint(kind, number) for number in numbers]
        await self.queries.enqueue(names, [str(number).encode() for number in numbers], [0] * len(numbers))

    async def work(self, witness: common.Witness) -> asyncio.Task:
        if self.order.settings.get("pool"):
            driver = AsyncpgPoolDriver(await asyncpg.create_pool(self.order.url))
        else:
            driver = AsyncpgDriver(await asyncpg.connect(self.order.url))
        queuer = PgQueuer(driver)
        for kind in self.order.kinds:
            for key in range(100) if kind == "keyed" else [0]:
                _register(queuer, witness, kind, key)
        return asyncio.create_task(queuer.run(batch_size=self.order.settings["batch_size"]))

    async def left(self) -> bool:
        return (await self.queries.driver.fetch(LEFT))[0]["exists"]


def _register(queuer: PgQueuer, witness: common.Witness, kind: str, key: int) -> None:
    limit = 1 if kind in {"keyed", "busy"} else 0

    @queuer.entrypoint(_entrypoint(kind, key), concurrency_limit=limit)
    async def handle(job: Job) -> None:
        await witness.run(kind, int(job.payload))


def _entrypoint(kind: str, number: int) -> str:
    return f"key-{number}" if kind == "keyed" else kind


common.main(Pgqueuer, uvloop.new_event_loop)
