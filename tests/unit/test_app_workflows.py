"""What an app makes of workflows: handlers, queues, limits without numbers, and what a step is told."""

import asyncio

import pytest

from penstock import App, Concurrency, Configured, InvalidLimitError, chain, current_job, signal
from penstock.limits.rules import Numbers
from penstock.testing import run_until_idle


class TestHandlers:
    def test_passes_run_where_the_tasks_do(self, app):
        @app.task(name="one")
        async def one(): ...

        @app.workflow(name="flow")
        async def flow(): ...

        assert {True} == {handler.is_async for handler in app.handlers.values()}

        app.task(lambda: 1, name="plain")

        assert {"one"} == {name for name, handler in app.handlers.items() if handler.is_async}

    def test_every_app_can_run_chains_and_groups(self, app):
        own = {name for name, handler in app.handlers.items() if handler.built_in}

        assert {"penstock.chain", "penstock.group"} == own

    def test_the_queues_of_workflows_are_served(self, app):
        app.task(lambda: 1, name="one", queue="tasks")

        @app.workflow(queue="flows")
        async def flow(): ...

        assert ("flows", "tasks") == app.queues


def test_coroutines_start_signal_and_wait_for_runs(app):
    double = app.task(lambda number: 2 * number, name="double")

    @app.workflow(name="flow")
    async def flow(number: int) -> int:
        return await double.step(number + await signal("more"))

    async def use():
        run, chained = await flow.astart(3), await chain(double.call(5), double).astart()
        await run.asignal("more", 4)
        await asyncio.to_thread(run_until_idle, app)
        return await run.aresult(10), await chained.aresult(10)

    assert (14, 20) == asyncio.run(use())


class TestConfigured:
    def test_a_key_without_numbers(self, app):
        task = app.task(lambda box: box, name="send", limits=[Configured(key="box:{box}")])
        (limit,) = task.enqueue("a").refresh().limits

        assert ("box:a", Numbers()) == (limit.key, limit.numbers)

    def test_it_joins_a_limit_with_numbers(self, app):
        limits = [Configured(key="box"), Concurrency(2, key="box")]
        (limit,) = app.task(lambda: 1, name="send", limits=limits).enqueue().refresh().limits

        assert Numbers(slots=2) == limit.numbers

    def test_its_starts_may_have_a_cost(self, app):
        app.task(lambda n: n, name="send", limits=[Configured(key="box", cost="{n}")]).enqueue(5)

        with pytest.raises(InvalidLimitError):
            Configured(key="box", cost=0)

    def test_numbers_can_be_set_while_jobs_wait(self, app):
        task = app.task(lambda: 1, name="send", limits=[Configured(key="box")])
        app.engine.configure("key", "box", Numbers(slots=0))
        jobs = task.enqueue_many([()] * 3)
        run_until_idle(app)

        assert {"waiting"} == {job.state for job in jobs}

        app.engine.configure("key", "box", None)
        run_until_idle(app)

        assert {"done"} == {job.state for job in jobs}


class TestParents:
    def test_a_job_of_no_chain_has_none(self, app):
        job = app.task(lambda: current_job().parents, name="look").enqueue()
        run_until_idle(app)

        assert [] == job.result(0)

    def test_results_that_are_too_large_are_left_out(self, app):
        large = app.task(lambda: "x" * 100_000, name="large")

        @app.task(name="look")
        def look(text):
            try:
                return current_job().parents
            except LookupError as error:
                return [len(text), str(error)]

        run = chain(large, look).start()
        run_until_idle(app)

        size, told = run.result(0)
        assert 100_000 == size
        assert "too large" in told


def test_an_app_in_memory_gives_its_runs_back(app):
    @app.workflow(name="flow")
    async def flow(number: int) -> int:
        return number

    other = App(engine=app.engine)
    run = flow.start(3)
    run_until_idle(app)

    assert 3 == other.run(run.id).result(0)
