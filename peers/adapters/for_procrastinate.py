"""procrastinate: a key is a lock, held by one job at a time."""

import asyncio
from types import SimpleNamespace

import common
import uvloop
from procrastinate import App, PsycopgConnector
from procrastinate.jobs import JobDeferrer

LEFT = """SELECT EXISTS (
    SELECT FROM procrastinate_jobs WHERE task_name <> 'busy' AND status IN ('todo', 'doing')) AS "left" """


class Procrastinate:
    def __init__(self, order: SimpleNamespace) -> None:
        self.order = order

    async def install(self) -> None:
        await self.connect(1)
        await self.app.schema_manager.apply_schema_async()

    async def connect(self, callers: int) -> None:
        size = max(callers, self.order.settings["concurrency"])
        self.app = App(
            connector=PsycopgConnector(conninfo=self.order.url, min_size=callers, max_size=size + 2)
        )
        await self.app.open_async()

    async def one(self, kind: str, number: int) -> None:
        await self._deferrer(kind, number).defer_async(number=number)

    async def many(self, kind: str, numbers: list[int]) -> None:
        jobs = [self._deferrer(kind, number).make_new_job(number=number) for number in numbers]
        await self.app.job_manager.batch_defer_jobs_async(jobs=jobs)

    async def work(self, witness: common.Witness) -> asyncio.Task:
        for kind in self.order.kinds:
            _register(self.app, witness, kind)
        settings = self.order.settings
        return asyncio.create_task(self.app.run_worker_async(install_signal_handlers=False, **settings))

    async def left(self) -> bool:
        return (await self.app.connector.execute_query_one_async(LEFT))["left"]

    def _deferrer(self, kind: str, number: int) -> JobDeferrer:
        lock = {"keyed": f"key-{number}", "busy": "busy"}.get(kind)
        return self.app.configure_task(kind, lock=lock)


def _register(app: App, witness: common.Witness, kind: str) -> None:
    @app.task(name=kind)
    async def handle(number: int) -> None:
        await witness.run(kind, number)


common.main(Procrastinate, uvloop.new_event_loop)
