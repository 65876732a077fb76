import asyncio
import threading

import pytest

from penstock import App, Concurrency, FloatingLimit, InvalidError, InvalidLimitError
from penstock.clock import SECOND
from penstock.job import NewJob
from penstock.testing import START, app_for_tests, run_until_idle


def test_working_until_idle_runs_what_is_there_and_returns(live):
    @live.task
    def first(number: int) -> int:
        return second.enqueue(number + 1).id and number

    @live.task(queue="other")
    async def second(number: int) -> int:
        return number

    job = first.enqueue(1)
    live.work(until_idle=True)

    assert job.result(timeout=0) == 1
    assert [2] == [live.job(view.id).result(timeout=0) for view in live.engine.jobs(queue="other")]


def test_a_worker_serves_the_queues_that_the_tasks_name(live):
    live.task(queue="b", name="one")(lambda: 1)
    live.task(queue="a", name="two")(lambda: 2)
    live.task(queue="a", name="three")(lambda: 3)

    assert ("a", "b") == live.queues
    assert ("default",) == App(":memory:").queues


def test_a_worker_can_be_awaited_and_cancelled(live):
    began = threading.Event()

    @live.task
    def slow() -> str:
        began.set()
        return "done"

    async def main():
        working = asyncio.create_task(live.awork())
        job = await slow.aenqueue()
        assert await job.aresult(timeout=10) == "done"
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(main())


def test_a_worker_can_be_awaited_until_idle(live):
    job = live.task(lambda: 7, name="seven").enqueue()

    asyncio.run(live.awork(until_idle=True))

    assert job.result(timeout=0) == 7


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_floating_limit_is_computed_by_what_was_registered_for_it(kind):
    asked = []
    app = app_for_tests()

    def capacity(limit: FloatingLimit) -> int:
        asked.append(limit)
        return 3

    async def capacity_async(limit: FloatingLimit) -> int:
        return capacity(limit)

    app.floating("capacity")(capacity if kind == "plain" else capacity_async)
    limit = Concurrency.floating(
        1, key="pool:{name}", handler="capacity", every="10s", metadata={"plan": "free"}, most=4
    )
    task = app.task(limits=[limit], name="use")(lambda name: name)
    task.enqueue("a")
    run_until_idle(app)
    app.engine.clock.advance("11s")
    task.enqueue("a")
    run_until_idle(app)

    assert FloatingLimit("pool:a", "", 1, {"plan": "free"}, None, 0, 0, 4) == asked[0]
    assert FloatingLimit("pool:a", "", 3, {"plan": "free"}, START, 0, 0, 4) == asked[1]
    assert app.engine.floating("pool:a").value == 3
    assert app.engine.floating("pool:a").every == 10 * SECOND


def test_two_computations_of_one_name_are_an_error():
    app = App(":memory:")
    app.floating("capacity")(lambda limit: 1)

    with pytest.raises(InvalidLimitError, match="two called"):
        app.floating("capacity")(lambda limit: 1)


@pytest.mark.parametrize(
    "compute",
    [lambda key, current, metadata: 1, lambda: 1, None, 5],
    ids=["three", "none", "nothing", "number"],
)
def test_a_computation_takes_one_argument(compute):
    with pytest.raises(InvalidLimitError, match="handler"):
        App(":memory:").floating("capacity")(compute)


def test_a_computation_has_a_name_and_a_time_limit_that_make_sense():
    with pytest.raises(InvalidLimitError, match="name"):
        App(":memory:").floating("")(lambda limit: 1)
    with pytest.raises(InvalidError, match="timeout"):
        App(":memory:").floating("capacity", timeout="soon")
    with pytest.raises(InvalidError, match="timeout"):
        App(":memory:").floating("capacity", timeout=0)


@pytest.mark.parametrize(
    "args", ['{"args":["a"]}', '{"args":[1,2]}', "nonsense"], ids=["wrong type", "too many", "no JSON"]
)
def test_arguments_that_do_not_fit_fail_without_a_traceback_of_ours(live, args):
    """The traceback was filled with penstock's own frames."""

    @live.task(name="one", retry=1)
    def one(x: int) -> None: ...

    (job,) = live.engine.enqueue([NewJob("one", args)])
    live.work(until_idle=True)

    error = live.engine.job(job.id).error
    assert error["message"] in error["traceback"]
    assert 1 == len(error["traceback"].splitlines())
