import asyncio
import importlib
import logging
import threading

import pytest

from penstock import App, JobDroppedError, JobFailedError, State
from penstock.dialects.pynenc import ConcurrencyControlType as Mode
from penstock.dialects.pynenc import (
    InvalidTaskOptionsError,
    Invocation,
    InvocationConcurrencyWithDifferentArgumentsError,
    InvocationStatus,
    PynencBuilder,
    RetryError,
    ReusedInvocation,
)
from penstock.errors import InvalidError, InvalidJobError
from penstock.limits.rules import OnLimit
from penstock.testing import in_memory, run_until_idle


@pytest.fixture
def app():
    app = PynencBuilder().app_id("test").memory().build()
    with in_memory(app):
        yield app


def call(account_id: str, op: str = "fetch") -> str:
    return f"{account_id}:{op}"


def keys(app, **options):
    return app.task(running_concurrency=Mode.KEYS, key_arguments=("account_id",), **options)


def limit_of(invocation):
    [limit] = invocation._handle.refresh().limits
    return limit


def test_the_articles_tasks_run_with_only_their_imports_changed():
    tasks = importlib.import_module("tests.support.pynenc_tasks")

    assert isinstance(tasks.app, App)
    assert {"call_unsafe", "call_keyed", "call_keyed_drop", "refresh_once"} == {
        name.rpartition(".")[2] for name, handler in tasks.app.handlers.items() if not handler.built_in
    }

    with in_memory(tasks.app):
        waiting = tasks.call_keyed("acme", "fetch")
        dropping = tasks.call_keyed_drop("acme", "fetch")
        once = [tasks.refresh_once("acme") for _ in range(3)]

        assert limit_of(waiting).on_limit is OnLimit.WAIT
        assert limit_of(dropping).on_limit is OnLimit.DROP
        assert limit_of(waiting).key != limit_of(dropping).key
        assert len({invocation.invocation_id for invocation in once}) == 1


def test_calling_a_task_enqueues_it_and_the_result_waits(app):
    invocation = app.task(call)("acme", op="push")

    assert isinstance(invocation, Invocation)
    assert invocation.status is InvocationStatus.REGISTERED

    run_until_idle(app)

    assert (invocation.result, invocation.status) == ("acme:push", InvocationStatus.SUCCESS)
    assert {"account_id": "acme", "op": "push"} == invocation.arguments


def test_the_function_itself_is_still_there(app):
    assert app.task(call).func("acme") == "acme:fetch"


def test_a_task_that_runs_can_call_another(app):
    made = []

    @app.task
    def parent() -> str:
        made.append(child(3))
        return parent.invocation.invocation_id

    @app.task
    async def child(number: int) -> int:
        return 2 * number

    invocation = parent()
    run_until_idle(app)

    assert invocation.result == invocation.invocation_id
    assert made[0].result == 6


@pytest.mark.parametrize(
    ("mode", "keys", "expected"),
    [
        (Mode.TASK, (), "pynenc:test_pynenc_tasks.call"),
        ("task", (), "pynenc:test_pynenc_tasks.call"),
        ("ARGUMENTS", (), "pynenc:test_pynenc_tasks.call:account_id=acme,op=fetch"),
        (Mode.KEYS, ("account_id",), "pynenc:test_pynenc_tasks.call:account_id=acme"),
        (Mode.KEYS, ["op", "account_id"], "pynenc:test_pynenc_tasks.call:op=fetch,account_id=acme"),
    ],
)
def test_a_mode_becomes_one_slot_for_what_counts_as_the_same(app, mode, keys, expected):
    task = app.task(running_concurrency=mode, key_arguments=keys)(call)

    limit = limit_of(task("acme"))

    assert (limit.numbers.slots, expected) == (1, limit.key.replace(__name__, "test_pynenc_tasks"))


def test_without_a_mode_there_is_no_limit(app):
    assert () == app.task(key_arguments=("op",))(call)("acme")._handle.refresh().limits


def test_a_call_whose_key_is_busy_is_dropped_unless_it_may_wait(app):
    later = []

    @keys(app)
    def dropping(account_id: str) -> str:
        if not later:
            later.append(dropping(account_id))
        return "ran"

    first = dropping("acme")
    run_until_idle(app)

    assert first.result == "ran"
    assert later[0].status is InvocationStatus.CONCURRENCY_CONTROLLED_FINAL
    with pytest.raises(KeyError):
        _ = later[0].result
    with pytest.raises(JobDroppedError):
        asyncio.run(later[0].async_result())


def test_a_call_whose_key_is_busy_waits_if_it_may(app):
    seen, later = [], []

    @keys(app, reroute_on_concurrency_control=True)
    def waiting(account_id: str) -> str:
        if not later:
            later.extend([waiting("acme"), waiting("globex")])
            seen.extend(invocation.status for invocation in [first, *later])
        return "ran"

    first = waiting("acme")
    run_until_idle(app)

    assert [InvocationStatus.RUNNING, InvocationStatus.REROUTED, InvocationStatus.REGISTERED] == seen
    assert ["ran", "ran"] == [invocation.result for invocation in later]


def test_a_second_registration_is_the_first_while_it_waits_and_while_it_runs(app):
    during = []

    @app.task(registration_concurrency=Mode.KEYS, key_arguments=("account_id",))
    def refresh(account_id: str) -> None:
        if not during:
            during.append(refresh(account_id))

    first = refresh("acme")
    before, other = refresh("acme"), refresh("globex")
    run_until_idle(app)
    after = refresh("acme")

    assert isinstance(before, ReusedInvocation)
    assert isinstance(during[0], ReusedInvocation)
    assert {first.invocation_id} == {before.invocation_id, during[0].invocation_id}
    assert not isinstance(other, ReusedInvocation)
    assert not isinstance(after, ReusedInvocation)
    assert before.result is None


@pytest.mark.parametrize(
    ("mode", "reused"),
    [(Mode.TASK, [True, True]), (Mode.ARGUMENTS, [True, False]), (Mode.DISABLED, [False, False])],
)
def test_a_mode_says_which_registrations_are_the_same(app, mode, reused):
    task = app.task(registration_concurrency=mode)(call)
    task("acme")

    again = [task("acme", "fetch"), task("globex")]

    assert reused == [isinstance(invocation, ReusedInvocation) for invocation in again]


def test_a_reused_invocation_shows_arguments_that_were_not_taken(app):
    task = app.task(registration_concurrency=Mode.KEYS, key_arguments=("account_id",))(call)
    task("acme", "fetch")

    same, different = task("acme", "fetch"), task("acme", "push")

    assert same.diff_arg is None
    assert {"account_id": "acme", "op": "push"} == different.diff_arg


def test_arguments_are_compared_as_they_travel(app):
    task = app.task(registration_concurrency=Mode.TASK)(lambda pair: pair)
    task((1, 2))

    assert task([1, 2]).diff_arg is None
    assert task([1, 3]).diff_arg == {"pair": [1, 3]}


def test_different_arguments_can_be_an_error_instead(app):
    task = app.task(
        registration_concurrency=Mode.KEYS, key_arguments=("account_id",), on_diff_non_key_args_raise=True
    )(call)
    first = task("acme", "fetch")

    assert isinstance(task("acme", "fetch"), ReusedInvocation)
    with pytest.raises(
        InvocationConcurrencyWithDifferentArgumentsError, match="op: 'fetch' -> 'push'"
    ) as caught:
        task("acme", "push")

    assert caught.value.existing_invocation_id == first.invocation_id


def test_a_batch_keeps_its_limits_and_its_order(app):
    ran = []

    @keys(app, reroute_on_concurrency_control=True)
    def keyed(account_id: str, op: int) -> int:
        ran.append(op)
        return op

    group = keyed.parallelize([("acme", 1), {"account_id": "acme", "op": 2}, keyed.args("acme", op=3)])
    run_until_idle(app)

    assert [1, 2, 3] == ran == list(group.results)
    assert len({limit_of(invocation).key for invocation in group}) == 1
    assert len(group) == 3


def test_a_group_can_be_awaited(app):
    group = app.task(call).parallelize([("a",), ("b",)])
    run_until_idle(app)

    async def results():
        return [result async for result in group.async_results()]

    assert ["a:fetch", "b:fetch"] == asyncio.run(results())


@pytest.mark.parametrize("is_async", [False, True])
def test_only_the_chosen_errors_are_retried_and_at_once(app, is_async):
    tries = []

    def flaky(kind: str) -> str:
        tries.append(kind)
        if kind == "asked":
            raise RetryError("once more")
        raise {"chosen": ConnectionError, "other": ValueError}[kind]("broken")

    async def flaky_async(kind: str) -> str:
        return flaky(kind)

    task = app.task(max_retries=2, retry_for=(ConnectionError,))(flaky_async if is_async else flaky)
    chosen, other, asked = task("chosen"), task("other"), task("asked")
    run_until_idle(app)

    assert {"chosen": 3, "other": 1, "asked": 3} == {kind: tries.count(kind) for kind in tries}
    assert (chosen.num_retries, other.num_retries, chosen.status) == (2, 0, InvocationStatus.FAILED)
    with pytest.raises(ConnectionError, match="broken"):
        _ = chosen.result
    with pytest.raises(ValueError, match="broken") as caught:
        _ = other.result
    with pytest.raises(RetryError):
        _ = asked.result

    assert isinstance(caught.value.__cause__, JobFailedError)


def test_a_retry_waits_for_its_key_like_any_other(app):
    order = []

    @keys(app, reroute_on_concurrency_control=True, max_retries=1, retry_for=(OSError,))
    def once_bitten(account_id: str, number: int) -> None:
        order.append(number)
        if order.count(number) == 1:
            raise OSError

    for number in range(3):
        once_bitten("acme", number)
    run_until_idle(app)

    assert [0, 0, 1, 1, 2, 2] == sorted(order)
    assert app.engine.count()[State.DONE] == 3


def test_an_error_of_an_unknown_kind_is_told_as_a_failure(app):
    class Peculiar(Exception): ...

    @app.task
    def fail(kind: int) -> None:
        if kind:
            raise Peculiar("odd")
        b"\xff".decode()

    peculiar, builtin = fail(1), fail(0)
    run_until_idle(app)

    for invocation in (peculiar, builtin):
        with pytest.raises(JobFailedError):
            _ = invocation.result


def test_a_cancelled_call_is_final(app):
    invocation = app.task(call)("acme")
    app.job(invocation.invocation_id).cancel()

    assert invocation.status.is_final()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"running_concurrency": Mode.KEYS, "key_arguments": ("acount_id",)}, "no argument 'acount_id'"),
        ({"running_concurrency": Mode.KEYS}, "KEYS needs to know which arguments"),
        ({"registration_concurrency": "keys"}, "KEYS needs to know which arguments"),
        ({"running_concurrency": "sometimes"}, "'sometimes' must be one of"),
        ({"rerout_on_concurrency_control": True}, "there is no such option"),
        ({"max_retries": -1}, "max_retries"),
        ({"retry_for": ("OSError",)}, "must be classes of errors"),
        ({"key_arguments": 4}, "must be the names of arguments"),
        ({"queue": "a queue"}, "queue: 'a queue' must be letters, digits"),
    ],
)
def test_a_mistake_in_an_option_is_an_error_at_the_declaration(app, options, said):
    with pytest.raises(InvalidTaskOptionsError, match=said) as caught:
        app.task(**options)(call)

    assert caught.value.task_id.endswith("call")
    assert isinstance(caught.value, InvalidJobError)


def test_the_builder_can_set_the_modes_of_tasks_that_name_none():
    app = (
        PynencBuilder()
        .concurrency_control(running_concurrency="TASK", registration_concurrency="TASK")
        .build()
    )

    with in_memory(app):
        usual, own = app.task(call), app.task(registration_concurrency=Mode.DISABLED)(lambda: None)

        assert limit_of(usual("acme")).numbers.slots == 1
        assert isinstance(usual("globex"), ReusedInvocation)
        own()
        assert not isinstance(own(), ReusedInvocation)


def test_the_builder_refuses_what_it_does_not_know():
    with pytest.raises(AttributeError):
        PynencBuilder().redis("redis://127.0.0.1")
    with pytest.raises(InvalidError, match="logging_level"):
        PynencBuilder().logging_level("loud")
    with pytest.raises(InvalidError, match="logging_stream"):
        PynencBuilder().logging_stream("paper")
    with pytest.raises(InvalidError, match="threads"):
        PynencBuilder().thread_runner(max_threads=-1)


def test_the_builder_takes_the_whole_chain(tmp_path, capsys):
    app = (
        PynencBuilder()
        .app_id("whole-chain")
        .sqlite(tmp_path / "jobs.db")
        .multi_thread_runner(min_threads=1, max_threads=3)
        .runner_tuning(0.01, 0.01)
        .serializer_json()
        .max_pending_seconds(3.0)
        .logging_stream("stdout")
        .logging_level("warning")
        .build()
    )
    app.logger.info("quiet")
    app.task(call).logger.warning("loud")

    assert not list(tmp_path.iterdir())
    assert "WARNING  pynenc.whole-chain loud" in capsys.readouterr().out
    logging.getLogger("pynenc.whole-chain").handlers.clear()


def test_as_many_run_at_once_as_the_builder_says():
    app = PynencBuilder().memory().thread_runner(min_threads=1, max_threads=3).build()
    together = threading.Barrier(3)

    @app.task
    def meet() -> int:
        return together.wait(10)

    with app:
        invocations = [meet() for _ in range(3)]
        app.work(until_idle=True)

        assert {0, 1, 2} == {invocation.result for invocation in invocations}
