"""What handlers report that they used."""

import asyncio
import threading

import pytest

from penstock import InvalidError, Rate, current_job
from penstock.lifecycle.states import State
from penstock.testing import limits_kept, run_until_idle
from tests.support.timing import until

HOUR = "1h"


LIMITS = [
    Rate(1_000, per=HOUR, key="tokens:{model}", cost="{tokens}"),
    Rate(99, per=HOUR, key="requests:{model}"),
]


def used(app, key):
    return app.engine.gate(key).recent


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_handler_gives_back_what_it_did_not_use_while_it_runs(live, kind):
    go_on = threading.Event()

    def hold(model, tokens):
        current_job().spend("tokens:gpt", 10)
        go_on.wait(10)

    async def hold_async(model, tokens):
        current_job().spend("tokens:gpt", 10)
        await asyncio.to_thread(go_on.wait, 10)

    task = live.task(name="hold", limits=LIMITS)(hold if kind == "def" else hold_async)
    job = task.enqueue("gpt", tokens=800)
    worker = live.worker()
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(lambda: used(live, "tokens:gpt") == 10)
        assert job.refresh().state is State.RUNNING
        go_on.set()
        job.result(timeout=10)
    finally:
        worker.stop_now()
        thread.join(10)

    assert (10, 1) == (used(live, "tokens:gpt"), used(live, "requests:gpt"))


def test_what_was_reported_last_counts_when_the_attempt_ends(live):
    @live.task(limits=LIMITS)
    def ask(model: str, tokens: int) -> None:
        for amount in (1, 900, 30):
            current_job().spend(f"tokens:{model}", amount)

    ask.enqueue("gpt", tokens=100)
    live.work(until_idle=True)

    assert used(live, "tokens:gpt") == 30


def test_an_attempt_that_fails_reports_too(live):
    @live.task(limits=LIMITS, retry=1)
    def ask(model: str, tokens: int) -> None:
        current_job().spend(f"tokens:{model}", 5)
        raise ValueError

    ask.enqueue("gpt", tokens=100)
    live.work(until_idle=True)

    assert used(live, "tokens:gpt") == 5


def test_one_that_reports_nothing_keeps_its_estimate(live):
    @live.task(limits=LIMITS)
    def ask(model: str, tokens: int) -> None: ...

    ask.enqueue("gpt", tokens=100)
    live.work(until_idle=True)

    assert used(live, "tokens:gpt") == 100


@pytest.mark.parametrize(
    ("key", "amount", "problem"),
    [
        ("tokens", 1, "key: 'tokens' is no key of this job, whose keys are: 'requests:gpt', 'tokens:gpt'"),
        ("tokens:gpt", -1, "used: -1 must be a whole number from 0"),
        ("tokens:gpt", "many", "used: 'many' must be a whole number"),
    ],
)
def test_a_report_that_makes_no_sense_is_an_error_in_the_handler(live, key, amount, problem):
    found = []

    @live.task(limits=LIMITS)
    def ask(model: str, tokens: int) -> None:
        try:
            current_job().spend(key, amount)
        except InvalidError as error:
            found.append(str(error))

    ask.enqueue("gpt", tokens=100)
    live.work(until_idle=True)

    assert problem in found[0]
    assert used(live, "tokens:gpt") == 100


def test_a_job_without_keys_has_none_to_report_on(live):
    found = []

    @live.task
    def ask() -> None:
        try:
            current_job().spend("tokens", 1)
        except InvalidError as error:
            found.append(str(error))

    ask.enqueue()
    live.work(until_idle=True)

    assert ["key: 'tokens' is no key of this job, whose keys are: none"] == found


def test_a_job_run_on_the_spot_reports_at_once(app):
    seen = []

    @app.task(limits=LIMITS)
    def ask(model: str, tokens: int) -> None:
        current_job().spend("tokens:gpt", 7)
        seen.append(used(app, "tokens:gpt"))

    ask.enqueue("gpt", tokens=100)
    run_until_idle(app)

    assert [7] == seen


def test_what_was_used_counts_where_a_test_looks_whether_limits_were_kept(app):
    @app.task(limits=Rate(100, per=HOUR, key="tokens", cost=60))
    def ask() -> None:
        current_job().spend("tokens", 20)

    with limits_kept(app):
        for _ in range(3):
            ask.enqueue()
        run_until_idle(app)

    assert used(app, "tokens") == 60
