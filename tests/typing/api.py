"""Uses the public API as users do.  Checked by mypy, never run."""

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from penstock import (
    App,
    Call,
    Cancel,
    Client,
    Concurrency,
    Configured,
    FloatingLimit,
    JobDroppedError,
    JobHandle,
    Rate,
    RateLimited,
    Restart,
    Retry,
    RetryPolicy,
    Run,
    State,
    Throttle,
    Unique,
    Winner,
    chain,
    current_job,
    first,
    gather,
    group,
    note,
    signal,
    sleep,
)
from penstock.dialects.pynenc import ConcurrencyControlType as Mode
from penstock.dialects.pynenc import Invocation, InvocationStatus, PynencBuilder, ReusedInvocation
from penstock.testing import FakeClock, app_for_tests, engine_in_memory, in_memory, run_until_idle

app = App("jobs.db")


@app.task
def bare(account_id: str, op: str = "fetch") -> int:
    return len(account_id + op)


@app.task(
    name="sync",
    queue="mail",
    priority=5,
    limits=[
        Concurrency(1, key="account:{account_id}"),
        Rate(100, per="1m", key="api:stripe"),
        Throttle(5, per=timedelta(seconds=1), key=lambda account_id: f"spaced:{account_id}", on_limit="drop"),
        Concurrency.floating(3, key="pool", handler="capacity", every="30s"),
    ],
    retry=RetryPolicy.of(attempts=5, never=[ValueError]),
    unique=["account_id"],
    timeout="30s",
    expires=3600,
    cost=len,
    meta={"source": "web"},
)
def with_options(account_id: str) -> list[str]:
    job = current_job()
    if job.cancel_asked:
        raise Cancel("no longer wanted")
    if job.attempt > 3:
        raise RateLimited("10s")
    if job.failures:
        raise RateLimited({"Retry-After": "20"}.get("Retry-After"), key="pool")
    return [job.id]


@app.task
async def coroutine(number: int) -> float:
    if number > 3:
        raise Retry(after="1s")
    return number / 2


@app.task(limits=Concurrency(1, key="one"))
def with_one_limit() -> None: ...
@app.task(unique=["account_id"], quiet="5s", max_wait=timedelta(minutes=1))
def refresh_quietly(account_id: str) -> None: ...


@app.task(unique={"by": True, "window": "10m", "on_duplicate": "reject"})
async def coroutine_with_options(number: int) -> str:
    return str(number)


@app.floating("capacity")
def capacity(limit: FloatingLimit) -> int:
    return limit.value + len(limit.key) + len(limit.metadata)


@app.workflow(limits=[Concurrency(1, key="contact:{email}"), Configured(key="outside")], queue="flows")
async def outreach(email: str, box: str = "a") -> float:
    assert_type(await bare.step(email), int)
    await sleep("2d")
    assert_type(await gather(coroutine.step(1), coroutine.step(2)), list[float])
    assert_type(await first(bare.step(email), bare.step(box)), Winner[int])
    assert_type(await note(len, box), int)
    await signal("reply", timeout=timedelta(days=7))
    bare.step(3)  # type: ignore[arg-type]
    return await coroutine.step(3)


@app.workflow
async def parent() -> str:
    assert_type(await outreach.step("ann", box="b"), float)
    raise Restart


def start() -> None:
    run = outreach.start("ann", unique="camp-42", delay="1h")
    assert_type(run, Run[float])
    assert_type(run.result(timeout=60), float)
    assert_type(run.signal("reply", {"yes": True}), str)
    run.pause()
    run.resume()
    run.retry()
    run.cancel()
    assert_type(bare.map(["a", "b"]).start().result(), list[int])
    chain(bare.call("acme"), coroutine, group(coroutine.partial(), coroutine)).start(unique="once")
    outreach.with_options(colour="red")  # type: ignore[call-arg]
    app.workflow(retry=3)  # type: ignore[call-overload]


assert_type(bare("acme"), int)
assert_type(bare.enqueue("acme", op="push"), JobHandle[int])
assert_type(bare.enqueue("acme").result(timeout="30s"), int)
assert_type(bare.enqueue_many([("a",), {"account_id": "b"}]), list[JobHandle[int]])
assert_type(bare.call("acme"), Call[int])
assert_type(with_options.enqueue("acme").result(), list[str])
assert_type(coroutine.enqueue(3), JobHandle[float])
assert_type(coroutine_with_options.enqueue(3).result(), str)
assert_type(bare.enqueue("acme").state, State)

bare.with_options(
    queue="other", due=datetime.now(UTC), unique=Unique("{account_id}"), id="mine", retry=3
).enqueue("acme")
bare.with_options(delay="1m", retry={"attempts": 3, "backoff": "fixed"}).enqueue("acme")
app.enqueue_many([bare.call("acme"), coroutine.call(3)])

bare.enqueue(3)  # type: ignore[arg-type]
bare.enqueue()  # type: ignore[call-arg]
bare.enqueue("acme", colour="red")  # type: ignore[call-arg]
bare.with_options(prioritty=3)  # type: ignore[call-arg]
app.task(queue=3)  # type: ignore[call-overload]


async def wait() -> None:
    handle = await coroutine.aenqueue(3)
    assert_type(handle, JobHandle[float])
    assert_type(await handle.aresult(), float)
    assert_type(await coroutine(3), float)
    await app.awork(until_idle=True, queues=["mail"], threads=4)


def work() -> None:
    app.work(until_idle=True, concurrency=10)
    app.work(queues={"mail": 3, "reports": 1}, lease="30s", drain_timeout=None)
    try:
        app.job("id").result(3)
    except JobDroppedError as error:
        print(error.job)


def produce() -> None:
    with Client("http://127.0.0.1:8080", token="a-token-of-theirs") as client:
        handle = client.enqueue(
            "sync", "acme", kwargs={"op": "push"}, queue="mail", limits=[Concurrency(1, key="k")]
        )
        assert_type(handle, JobHandle[Any])
        assert_type(client.job("id").state, State)
        assert_type(client.cancel("id"), State)
        client.result("id", timeout="30s")
        client.enqueue(bare, "acme")
        client.enqueue("sync", colour="red")  # type: ignore[call-arg]


def test() -> None:
    clock = FakeClock()
    engine_in_memory(clock)
    with in_memory(app) as moved:
        moved.advance("1h")
        run_until_idle(app, advance=True)
    app_for_tests(clock).close()


pynenc = PynencBuilder().app_id("demo").sqlite("demo.db").thread_runner(min_threads=1, max_threads=8).build()


@pynenc.task
def plain(account_id: str) -> int:
    return len(account_id)


@pynenc.task(
    running_concurrency=Mode.KEYS,
    registration_concurrency="keys",
    key_arguments=("account_id",),
    reroute_on_concurrency_control=True,
    max_retries=3,
    retry_for=(ConnectionError,),
)
async def keyed(account_id: str, op: str) -> str:
    return account_id + op


assert_type(plain("acme"), Invocation[int])
assert_type(plain("acme").result, int)
assert_type(keyed("acme", "op").result, str)
assert_type(keyed("acme", "op").status, InvocationStatus)
assert_type(list(plain.parallelize([("a",), {"account_id": "b"}, plain.args("c")]).results), list[int])

plain(3)  # type: ignore[arg-type]
pynenc.task(reroute=True)  # type: ignore[call-overload]

invocation = plain("acme")
if isinstance(invocation, ReusedInvocation):
    print(invocation.diff_arg, invocation.invocation_id)
