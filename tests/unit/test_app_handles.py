import asyncio
import threading
from contextlib import contextmanager
from datetime import date
from uuid import UUID

import pytest

from penstock import (
    Cancel,
    Concurrency,
    InvalidJobError,
    JobCancelledError,
    JobDiscardedError,
    JobDroppedError,
    JobExpiredError,
    JobFailedError,
    NotFoundError,
    ResultTimeoutError,
    Retry,
    State,
    WrongStateError,
    current_job,
)
from penstock.testing import run_until_idle


@contextmanager
def working(app, **options):
    worker = app.worker(**options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(10)
        assert not thread.is_alive()


def test_a_result_comes_back_as_the_annotated_type(app):
    @app.task
    def tomorrow(day: date) -> dict[UUID, date]:
        return {UUID(int=1): day.replace(day=day.day + 1)}

    job = tomorrow.enqueue(date(2026, 1, 1))
    run_until_idle(app)

    assert {UUID(int=1): date(2026, 1, 2)} == job.result()


def test_a_result_that_is_not_as_annotated_says_so(app):
    @app.task
    def wrong() -> int:
        return "seven"

    job = wrong.enqueue()
    run_until_idle(app)

    with pytest.raises(InvalidJobError, match="return: not as"):
        job.result()


def test_a_job_without_a_result_has_none(app):
    job = app.task(lambda: None, name="none").enqueue()
    run_until_idle(app)

    assert job.result() is None


def test_waiting_for_a_result_ends_when_the_job_does(live):
    @live.task
    def double(number: int) -> int:
        return 2 * number

    with working(live):
        assert [0, 2, 4] == [job.result(timeout=10) for job in double.enqueue_many([(0,), (1,), (2,)])]


def test_many_coroutines_can_wait_at_once(live):
    @live.task
    async def double(number: int) -> int:
        await asyncio.sleep(0.01)
        return 2 * number

    async def results():
        jobs = await asyncio.gather(*(double.aenqueue(number) for number in range(100)))
        return await asyncio.gather(*(job.aresult(timeout=20) for job in jobs))

    with working(live):
        assert [2 * number for number in range(100)] == asyncio.run(results())


def test_coroutines_that_wait_do_not_hold_up_each_other(live):
    """There are more of them than there are threads to wait in."""
    free = threading.Event()

    @live.task
    def slow() -> str:
        return str(free.wait(10))

    @live.task
    def last() -> str:
        free.set()
        return "last"

    async def results():
        jobs = [await slow.aenqueue() for _ in range(40)] + [await last.aenqueue()]
        waiting = [asyncio.create_task(job.aresult(timeout=20)) for job in jobs]
        assert await waiting[-1] == "last"
        return await asyncio.gather(*waiting[:-1])

    with working(live, threads=50):
        assert {"True"} == set(asyncio.run(results()))


def test_a_timeout_ends_the_waiting_and_not_the_job(app):
    job = app.task(lambda: 1, name="one").enqueue()

    with pytest.raises(ResultTimeoutError, match=r"not ended after 0\.01 s"):
        job.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        asyncio.run(job.aresult(timeout="10ms"))

    run_until_idle(app)

    assert job.result(timeout=0) == 1


def test_a_failure_is_told_with_its_traceback(app):
    @app.task(name="tasks.fail")
    def fail() -> None:
        raise ValueError("no such account")

    job = fail.enqueue()
    run_until_idle(app)

    told = r"\(tasks\.fail\) failed: ValueError: no such account"
    with pytest.raises(JobFailedError, match=told) as caught:
        job.result()

    assert (caught.value.kind, caught.value.job) == ("ValueError", job.id)
    assert 'raise ValueError("no such account")' in caught.value.traceback_text


def test_a_failure_is_told_to_a_coroutine_too(app):
    job = app.task(lambda: 1 / 0, name="divide").enqueue()
    run_until_idle(app)

    with pytest.raises(JobFailedError, match="ZeroDivisionError"):
        asyncio.run(job.aresult())


def test_a_dropped_job_is_also_a_key_error(app):
    second = []

    @app.task(limits=[Concurrency(1, key="k", on_limit="drop")])
    def one() -> None:
        second.append(one.enqueue())

    one.enqueue()
    run_until_idle(app)

    with pytest.raises(JobDroppedError, match="a limit was full"):
        second[0].result()
    with pytest.raises(KeyError):
        second[0].result()


def test_a_discarded_job_says_so(app):
    job = app.task(retry={"attempts": 1, "exhausted": "discard"}, name="bad")(lambda: 1 / 0).enqueue()
    run_until_idle(app)

    with pytest.raises(JobDiscardedError):
        job.result()


def test_a_job_cancelled_from_outside_or_inside_says_so(app):
    @app.task
    def give_up() -> None:
        raise Cancel("no longer wanted")

    outside, inside = give_up.enqueue_many([(), ()])

    assert outside.cancel() is State.CANCELLED

    run_until_idle(app)

    with pytest.raises(JobCancelledError):
        outside.result()
    with pytest.raises(JobCancelledError, match="no longer wanted"):
        inside.result()
    with pytest.raises(WrongStateError):
        inside.cancel()


def test_an_expired_job_says_so(app):
    job = app.task(expires="1m", delay="2m", name="late")(lambda: 1).enqueue()
    run_until_idle(app, advance=True)

    with pytest.raises(JobExpiredError):
        job.result()


def test_an_ended_job_can_be_put_back_in_line(app):
    tries = []

    @app.task
    def second_time_lucky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError
        return len(tries)

    job = second_time_lucky.enqueue()
    run_until_idle(app)
    assert job.state is State.FAILED

    job.retry()
    run_until_idle(app)

    assert job.result() == 2


def test_a_handle_can_be_made_from_an_id(app):
    @app.task
    def today() -> date:
        return date(2026, 1, 1)

    id_ = today.enqueue().id
    run_until_idle(app)

    assert app.job(id_).result() == date(2026, 1, 1)
    with pytest.raises(NotFoundError):
        app.job("missing")


def test_a_job_can_say_why_it_waits(app):
    seen = []

    @app.task(limits=[Concurrency(1, key="k")])
    def one() -> None:
        if not seen:
            seen.append(one.enqueue().why())

    one.enqueue()
    run_until_idle(app)

    assert ["k"] == [reason.gate for reason in seen[0].reasons]


def test_a_handler_sees_its_job_and_can_ask_for_another_attempt(app):
    seen = []

    @app.task(retry=3, meta={"who": "ann"})
    async def again() -> str:
        job = current_job()
        seen.append((job.attempt, job.meta))
        job.progress({"done": job.attempt})
        return Retry(after=0) if job.attempt < 3 else "done"

    job = again.enqueue()
    run_until_idle(app)

    assert [(1, {"who": "ann"}), (2, {"who": "ann"}), (3, {"who": "ann"})] == seen
    assert job.result() == "done"
