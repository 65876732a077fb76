"""DBOS: durable workflows, started in the process that runs them, or by a queue with a partition for each key."""

import asyncio
import os
from types import SimpleNamespace

import common
import sqlalchemy
from dbos import DBOS, DBOSClient

QUEUE = "bench"
LEFT = sqlalchemy.text(
    "SELECT EXISTS (SELECT FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING'))"
)


class Dbos:
    def __init__(self, order: SimpleNamespace) -> None:
        self.order = order
        self.tasks: list[asyncio.Task] = []

    def install(self) -> None:
        self._launch()

    def connect(self, _callers: int) -> None:
        # What is launched works too, so those that only look or enqueue are clients.
        if self.order.verb == "work":
            self._launch()
        else:
            engine = sqlalchemy.create_engine(self.order.url.replace("postgresql:", "postgresql+psycopg:"))
            self.connection = engine.connect()
            self.client = DBOSClient(system_database_engine=engine)

    def one(self, kind: str, number: int) -> None:
        self.many(kind, [number])

    def many(self, kind: str, numbers: list[int]) -> None:
        with self.connection.begin():
            for number in numbers:
                options = {"workflow_name": kind, "queue_name": QUEUE, "queue_partition_key": f"key-{number}"}
                self.client.enqueue_in_transaction(self.connection, options, number)

    async def work(self, witness: common.Witness) -> asyncio.Task:
        self.witness = witness
        (kind,) = self.order.kinds
        if kind == "keyed":
            # Nobody looks into a queue that is not registered, so work begins here.
            await DBOS.register_queue_async(QUEUE, partition_concurrency=1, **self.order.settings)
        else:
            self.room = asyncio.Semaphore(self.order.settings["at_once"])
            steps = int(kind.partition(" ")[2])
            self.tasks = [asyncio.create_task(self._one(steps)) for _ in range(self.order.until)]
        return asyncio.create_task(asyncio.sleep(3_600))

    def left(self) -> bool:
        if self.order.verb == "work":
            return not all(task.done() for task in self.tasks)
        with self.connection.begin():
            return self.connection.execute(LEFT).scalar()

    def _launch(self) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self.order.url,
                "executor_id": str(os.getpid()),
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

        @DBOS.workflow(name="keyed")
        async def keyed(number: int) -> None:
            await self.witness.run("keyed", number)

        self.flow = flow
        DBOS.launch()

    async def _one(self, steps: int) -> None:
        async with self.room:
            handle = await DBOS.start_workflow_async(self.flow, steps)
            await handle.get_result()


common.main(Dbos)
