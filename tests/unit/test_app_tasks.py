import asyncio
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from types import ModuleType, SimpleNamespace

import pytest

from penstock import (
    App,
    Concurrency,
    DuplicateJobError,
    InvalidJobError,
    InvalidLimitError,
    Rate,
    RetryPolicy,
    State,
    Unique,
)
from penstock.app.task import task_name
from penstock.clock import SECOND
from penstock.job import JobView
from penstock.lifecycle.retry import Backoff
from penstock.testing import START

NOW = int(START.timestamp()) * SECOND


def sync(account_id: str, op: str = "fetch") -> str:
    return f"{account_id}:{op}"


def enqueued(task, *args, **kwargs) -> JobView:
    return task.enqueue(*args, **kwargs).refresh()


def test_a_task_that_is_called_is_just_the_function(app):
    task = app.task(sync)

    assert task("acme", op="push") == "acme:push"
    assert app.engine.count().get(State.WAITING, 0) == 0


def test_a_task_looks_like_its_function(app):
    task = app.task(sync)

    assert task.__name__ == "sync"
    assert task.function is sync
    assert repr(task) == f"<Task {__name__}.sync>"


def test_what_a_function_carries_does_not_disturb_its_task(app):
    def named() -> int:
        return 1

    named.name = named.function = named.enqueue_many = "mine"

    assert app.task(named).name.endswith(".named")
    assert len(app.task(named, name="other").enqueue_many([()])) == 1


def test_enqueueing_makes_a_job_with_the_arguments_of_the_call(app):
    job = enqueued(app.task(sync), "acme", op="push")

    assert (job.state, job.queue) == (State.WAITING, "default")
    assert job.args == '{"args":["acme"],"kwargs":{"op":"push"}}'


def test_wrong_arguments_are_refused_before_anything_is_enqueued(app):
    task = app.task(sync, name="sync")

    with pytest.raises(TypeError, match=r"sync\(\): missing a required argument: 'account_id'"):
        task.enqueue()

    assert not app.engine.count()


def test_options_given_at_the_declaration_hold_for_every_job(app):
    task = app.task(
        queue="mail",
        tenant="blue",
        priority=7,
        cost=3,
        delay="10s",
        expires="1m",
        timeout=timedelta(seconds=5),
        retry=4,
        meta={"source": "web"},
    )(sync)

    job = enqueued(task, "acme")

    assert ("mail", "blue", 7, 3) == (job.queue, job.tenant, job.priority, job.cost)
    assert (NOW + 10 * SECOND, NOW + 60 * SECOND) == (job.due, job.expires)
    assert (job.max_attempts, job.meta, job.state) == (4, '{"source":"web"}', State.SCHEDULED)


def test_options_can_be_changed_for_some_jobs_and_the_task_stays_as_it_was(app):
    task = app.task(queue="mail", priority=7)(sync)

    changed = enqueued(task.with_options(priority=1, due=START + timedelta(hours=1), id="mine"), "acme")
    usual = enqueued(task, "acme")

    assert ("mine", "mail", 1) == (changed.id, changed.queue, changed.priority)
    assert changed.due == NOW + 3600 * SECOND
    assert (usual.priority, usual.due) == (7, None)


def test_none_clears_what_the_declaration_said(app):
    task = app.task(delay="10s", expires="1m", timeout="5s", unique=True)(sync)
    plain = {"delay": None, "due": None, "expires": None, "timeout": None, "unique": None, "id": None}

    job = task.with_options(**plain).new_job(("acme",), {}, NOW)

    assert (None, None, None, None) == (job.due, job.expires, job.timeout, job.unique)
    assert task.with_options(delay=None, due=START).new_job(("acme",), {}, 0).due == NOW
    assert task.with_options(due=START, delay=None).new_job(("acme",), {}, 0).due == NOW


def test_limits_are_filled_in_from_the_arguments_of_each_call(app):
    limits = [
        Concurrency(1, key="account:{account_id}"),
        Rate(100, per="1m", key=lambda account_id, op="fetch": f"op:{op}"),
    ]
    job = enqueued(app.task(limits=limits)(sync), "acme")

    assert ["account:acme", "op:fetch"] == [limit.key for limit in job.limits]


def test_a_cost_can_be_computed_from_the_arguments(app):
    task = app.task(cost=lambda account_id, op="fetch": len(op))(sync)

    assert enqueued(task.with_options(limits=[Rate(100, per=1, key="k")]), "acme", "four").cost == 4


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (3, RetryPolicy.of(attempts=3)),
        ({"attempts": 5, "backoff": "fixed", "delay": "2s"}, RetryPolicy(5, Backoff.FIXED, 2 * SECOND)),
        (RetryPolicy.of(attempts=2, jitter=False), RetryPolicy.of(attempts=2, jitter=False)),
    ],
)
def test_a_retry_policy_can_be_written_in_three_ways(app, retry, expected):
    task = app.task(retry=retry)(sync)

    assert expected == task.new_job(("acme",), {}, 0).retry


MISTAKES = {
    InvalidLimitError: [{"limits": [Concurrency(1, key="account:{acount_id}")]}, {"limits": [3]}],
    TypeError: [{"prioritty": 4}],
    InvalidJobError: [
        {"queue": "two\nlines"}, {"priority": 101}, {"cost": 0}, {"timeout": 0}, {"tenant": 4},
        {"expires": datetime(2026, 1, 1)}, {"meta": {"bad": object()}}, {"retry": 0}, {"retry": {"atempts": 3}},
        {"unique": ["acount_id"]}, {"unique": "{acount_id}"}, {"unique": Unique("{acount_id}")},
        {"unique": "account_id"}, {"unique": []}, {"unique": 5}, {"unique": {"window": "soon"}},
        {"unique": {"by": True, "widow": "1m"}}, {"quiet": "5s"}, {"max_wait": "5s"},
        {"unique": True, "max_wait": "5s"}, {"unique": True, "quiet": 0},
        {"unique": True, "quiet": "5s", "max_wait": "4s"}, {"unique": True, "quiet": "5s", "delay": "1s"},
        {"unique": {"on_duplicate": "reuse"}, "quiet": "5s"}, {"unique": {"window": "1m"}, "quiet": "5s"},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("error", "option"), [(error, option) for error, options in MISTAKES.items() for option in options]
)
def test_a_mistake_in_an_option_is_an_error_at_the_declaration(app, option, error):
    with pytest.raises(error):
        app.task(**option)(sync)


def test_a_time_and_a_delay_exclude_each_other(app):
    with pytest.raises(InvalidJobError, match="not both"):
        app.task(sync).with_options(due=datetime.now(UTC), delay=3)


@pytest.mark.parametrize(
    "unique",
    [
        ["account_id"],
        ("account_id",),
        "refresh:{account_id}",
        Unique("refresh:{account_id}"),
        {"by": ["account_id"], "window": "1m"},
    ],
)
def test_a_call_that_is_the_same_again_answers_with_the_first_job(app, unique):
    task = app.task(unique=unique)(sync)

    first, again, other = task.enqueue_many([("acme", "a"), ("acme", "b"), ("globex", "a")])

    assert (first.id, False, True, False) == (again.id, first.reused, again.reused, other.reused)
    assert first.id != other.id


def test_with_unique_true_all_arguments_count_and_defaults_with_them(app):
    task = app.task(unique=True)(sync)

    handles = task.enqueue_many([("acme",), {"account_id": "acme", "op": "fetch"}, ("acme", "push")])

    assert [False, True, False] == [handle.reused for handle in handles]


def test_two_tasks_with_the_same_unique_words_do_not_take_each_others_jobs(app):
    one = app.task(name="one", unique="{account_id}")(sync)
    two = app.task(name="two", unique="{account_id}")(sync)

    assert not one.enqueue("acme").reused
    assert not two.enqueue("acme").reused


@pytest.mark.parametrize("unique", ["refresh:{op}", Unique("refresh:{op}"), {"by": "refresh:{op}"}])
def test_a_unique_key_is_not_made_of_none(app, unique):
    task = app.task(unique=unique)(sync)

    with pytest.raises(InvalidJobError, match=r"refresh:\{op\}' cannot be filled in: op is None") as refused:
        task.enqueue("acme", None)

    assert "unique" == refused.value.field


def test_a_duplicate_can_be_rejected_instead(app):
    task = app.task(unique={"on_duplicate": "reject"})(sync)
    first = task.enqueue("acme")

    with pytest.raises(DuplicateJobError) as caught:
        task.enqueue("acme")

    assert caught.value.existing == first.id


def test_with_quiet_the_latest_call_wins(app):
    task = app.task(unique=["account_id"], quiet="5s", max_wait="1m")(sync)

    unique = task.new_job(("acme",), {}, 0).unique
    assert (5_000_000, 60_000_000, "replace") == (unique.quiet, unique.max_wait, unique.on_duplicate)
    first, second = task.enqueue("acme"), task.enqueue("acme")
    assert ["cancelled", "scheduled"] == [first.state, second.state]


def test_one_call_may_wait_for_another_pause_or_for_none(app):
    task = app.task(unique=True, quiet="5s", max_wait="1m")(sync)

    longer = task.with_options(quiet="1m", max_wait=None).new_job(("acme",), {}, 0).unique
    assert (60_000_000, None) == (longer.quiet, longer.max_wait)
    none = task.with_options(quiet=None, max_wait=None, delay="1s").new_job(("acme",), {}, 0)
    assert (None, "reuse", 1_000_000) == (none.unique.quiet, none.unique.on_duplicate, none.due)


def test_a_unique_key_written_out_may_wait_for_a_pause(app):
    task = app.task(unique=Unique("{account_id}"), quiet="5s")(sync)

    assert "replace" == task.new_job(("acme",), {}, 0).unique.on_duplicate


def test_what_is_wrong_with_a_pause_is_said_with_what_to_do(app):
    with pytest.raises(InvalidJobError, match="give unique as well") as caught:
        app.task(quiet="5s")(sync)
    assert "quiet" == caught.value.field
    with pytest.raises(InvalidJobError, match="excludes a delay"):
        app.task(unique=True, quiet="5s")(sync).with_options(delay="1s")


def test_many_calls_are_enqueued_at_once_in_three_ways(app):
    task = app.task(sync)

    handles = task.enqueue_many([("a",), {"account_id": "b"}, task.with_options(priority=9).call("c")])

    assert [0, 0, 9] == [handle.refresh().priority for handle in handles]
    assert not task.enqueue_many([])


def test_many_calls_are_enqueued_all_or_none(app):
    task = app.task(sync)

    with pytest.raises(InvalidJobError, match="op"):
        task.enqueue_many([("a",), ("b", object())])
    with pytest.raises(TypeError, match="neither a tuple"):
        task.enqueue_many([("a",), "b"])

    assert not app.engine.count()


def test_calls_of_several_tasks_are_enqueued_at_once(app):
    one, two = app.task(sync, name="one"), app.task(sync, name="two")

    handles = app.enqueue_many([one.call("a"), two.call("b")])

    assert ["one", "two"] == [handle.refresh().task for handle in handles]


def test_a_coroutine_can_enqueue(app):
    task = app.task(sync)

    async def many():
        return await asyncio.gather(*(task.aenqueue(str(number)) for number in range(50)))

    assert len({handle.id for handle in asyncio.run(many())}) == 50


def test_a_task_is_called_by_its_module_and_function(app):
    assert f"{__name__}.sync" == app.task(sync).name


def test_a_task_of_a_script_is_called_as_if_the_script_were_imported(monkeypatch):
    def task(): ...

    task.__module__, task.__qualname__ = "__main__", "task"
    script = ModuleType("__main__")
    script.__file__ = "folder/tasks.py"
    monkeypatch.setitem(sys.modules, "__main__", script)

    assert task_name(task) == "tasks.task"

    script.__spec__ = SimpleNamespace(name="package.tasks")

    assert task_name(task) == "package.tasks.task"


def test_two_tasks_of_one_name_are_an_error(app):
    app.task(sync)

    with pytest.raises(InvalidJobError, match="two tasks called"):
        app.task(sync)


def test_a_function_without_a_name_must_be_given_one(app):
    with pytest.raises(InvalidJobError, match="no name of its own"):
        app.task(partial(sync, "acme"))

    assert enqueued(app.task(partial(sync, "acme"), name="partial"), op="x").task == "partial"


def test_options_must_be_named(app):
    with pytest.raises(TypeError, match="is not a function"):
        app.task("mail")


def test_an_app_takes_a_url_or_an_engine():
    with pytest.raises(TypeError, match="not both"):
        App(":memory:", engine=object())
