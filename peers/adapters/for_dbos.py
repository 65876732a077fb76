"""DBOS: durable workflows, started in the process that runs them."""

import asyncio
from types import SimpleNamespace

import common
from dbos import DBOS


class Dbos:
    def __init__(self, order: SimpleNamespace) -> None:
        self.order = order
        self.tasks: list[asyncio.Task] = []

    def install(self) -> None:
        self.connect(1)

    def connect(self, _callers: int) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self.order.url,
                "log_level": "CRITICAL",
                "run_admin_server": False,
            }
        )

        @DBOS.step()
        async def step(number: int) -> None:
            if number == 0:
                await self.witness.run("noop")

        @DBOS.workflow()
        async def flow(steps: int) -> None:
            for number in range(steps):
                await step(number)

        self.flow = flow
        DBOS.launch()

    async def work(self, witness: common.Witness) -> asyncio.Task:
        self.witness = witness
        (kind,) = self.order.kinds
        self.room = asyncio.Semaphore(self.order.settings["at_once"])
        steps = int(kind.partition(" ")[2])
        self.tasks = [asyncio.create_task(self._one(steps)) for _ in range(self.order.until)]
        return asyncio.create_task(asyncio.sleep(3_600))

    def left(self) -> bool:
        return not all(task.done() for task in self.tasks)

    async def _one(self, steps: int) -> None:
        async with self.room:
            handle = await DBOS.start_workflow_async(self.flow, steps)
            await handle.get_result()


common.main(Dbos)
