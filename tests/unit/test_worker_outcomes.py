"""What a handler does, and how its attempt is told to have ended."""

import asyncio
import json
import sys
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from penstock.errors import InvalidError, LeaseLostError
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited
from penstock.worker import Cancel, RateLimited, Retry, current_job
from penstock.worker.exchanges import UNKNOWN_PAUSE
from penstock.worker.failure import MAX_MESSAGE, MAX_TRACEBACK
from tests.support.clock import BEGINNING, FakeClock
from tests.support.stub_engine import StubEngine
from tests.support.working import end_of, work

MOMENT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def engine():
    return StubEngine(clock=FakeClock())


def both(function):
    """Return *function* as a plain handler and as an async one."""

    async def waits(*args):
        await asyncio.sleep(0)
        return function(*args)

    function.__name__ = "plain"
    return function, waits


def ends_of(engine, function, *args):
    """Return how a plain and an async handler that do *function* end."""
    ids = [engine.enqueue("plain", *args), engine.enqueue("waits", *args)]
    work(engine, *both(function))
    return [engine.outcomes[job] for job in ids]


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("function", "args", "result"),
    [
        (lambda a, b: {"sum": a + b}, (1, 2), '{"sum":3}'),
        (lambda: None, (), "null"),
        (lambda: Point(3), (), '{"x":3}'),
    ],
    ids=["a dictionary", "nothing", "a dataclass"],
)
def test_a_returned_value_is_the_result(engine, function, args, result):
    assert ends_of(engine, function, *args) == [Done(result)] * 2


def test_arguments_may_be_named(engine):
    def handle(first, *, second):
        return [first, second]

    job = engine.enqueue("handle", 1, second=2)
    work(engine, handle)

    assert engine.outcomes[job] == Done("[1,2]")


def test_a_raised_error_is_told_with_its_place_and_its_ancestry(engine):
    class OddError(ValueError):
        pass

    def fail():
        raise OddError("no good")

    for outcome in ends_of(engine, fail):
        assert isinstance(outcome, Failed)
        assert (outcome.kind, outcome.message) == ("OddError", "no good")
        assert "raise OddError" in outcome.traceback
        assert "penstock/worker" not in outcome.traceback
        assert {"OddError", "ValueError", "builtins.ValueError", "Exception"} <= set(outcome.ancestry)
        assert "object" not in outcome.ancestry


def test_a_long_error_is_cut(engine):
    def fail():
        raise ValueError("x" * 100_000)

    for outcome in ends_of(engine, fail):
        assert len(outcome.message) < MAX_MESSAGE + 100
        assert len(outcome.traceback) < MAX_TRACEBACK + 100


def test_an_error_that_cannot_be_shown_is_told_all_the_same(engine):
    class BadError(Exception):
        def __str__(self):
            raise RuntimeError

    def fail():
        raise BadError

    for outcome in ends_of(engine, fail):
        assert outcome.kind == "BadError"
        assert "cannot be shown" in outcome.message


def test_leaving_python_is_a_failure_of_the_job_only(engine):
    for outcome in ends_of(engine, lambda: sys.exit(3)):
        assert outcome.kind == "SystemExit"


def test_a_result_that_is_not_json_is_a_failure_that_says_so(engine):
    for outcome in ends_of(engine, lambda: {threading.Lock()}):
        assert outcome.kind == "ResultNotJSON"
        assert "returned a set" in outcome.message
        assert "has no JSON form" in outcome.message


def test_arguments_that_do_not_fit_are_a_failure(engine):
    for outcome in ends_of(engine, lambda: None, "surplus"):
        assert outcome.kind == "TypeError"


def test_an_unknown_task_is_left_to_another_worker_for_a_while(engine, caplog):
    def known():
        pass

    job = engine.enqueue("stranger")
    work(engine, known)

    outcome = engine.outcomes[job]
    assert outcome == HandedBack(after=UNKNOWN_PAUSE, reason=outcome.reason)
    assert outcome.reason.endswith("does not know task 'stranger'; start or deploy a worker that does")
    assert "'stranger'" in caplog.text
    assert "it knows: known" in caplog.text


def test_a_worker_that_knows_no_task_says_so(engine, caplog):
    engine.enqueue("stranger")
    work(engine)

    assert "it knows: none" in caplog.text


@pytest.mark.parametrize("manner", ["returned", "raised"])
@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (Retry(), Again()),
        (Retry(after="10s", reason="busy"), Again(10_000_000, "busy")),
        (Retry(0), Again(0)),
        (Retry(timedelta(minutes=1)), Again(60_000_000)),
        (Cancel("not wanted"), Cancelled("not wanted")),
        (RateLimited(2), Limited(BEGINNING + 2_000_000)),
        (RateLimited("PT1M", key="api"), Limited(BEGINNING + 60_000_000, "api")),
        (RateLimited(MOMENT, reason="429"), Limited(round(MOMENT.timestamp()) * 1_000_000, None, "429")),
    ],
)
def test_a_handler_may_end_on_purpose(engine, manner, end, outcome):
    def handle():
        if manner == "raised":
            raise end
        return end

    assert ends_of(engine, handle) == [outcome, outcome]


@pytest.mark.parametrize(
    ("header", "until"),
    [
        ("20", BEGINNING + 20_000_000),
        (" 0 ", BEGINNING),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_000_000),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777_000_000),
        ("Sun Nov  6 08:49:37 1994", 784_111_777_000_000),
        ("Sat, 07 Nov 2093 08:49:37 GMT", 3_908_422_177_000_000),
        (None, BEGINNING + 60_000_000),
        ("", BEGINNING + 60_000_000),
    ],
)
def test_rate_limited_takes_what_a_retry_after_header_says(engine, header, until):
    """Once: `RateLimited("20")` failed the job."""

    def handle():
        raise RateLimited(header, reason="429")

    assert ends_of(engine, handle) == 2 * [Limited(until, None, "429")]


@pytest.mark.parametrize("header", ["soon", "Sun, 31 Feb 2026 00:00:00 GMT", "-1", "120, 120", 5_000 * "9"])
def test_a_retry_after_that_cannot_be_read_is_a_failure_that_names_it(engine, header):
    def handle():
        raise RateLimited(header)

    for outcome in ends_of(engine, handle):
        assert (outcome.kind, outcome.message[:8]) == ("InvalidError", "until: '")
        assert "RateLimited(header)" in outcome.traceback


def test_a_moment_needs_a_time_zone():
    with pytest.raises(InvalidError, match="time zone"):
        RateLimited(datetime(2026, 3, 1, 12, 0))


def test_a_handler_sees_its_job(engine):
    def look():
        job = current_job()
        return [job.id, job.task, job.queue, job.attempt, job.lease_lost, job.cancel_asked, job.stopping]

    plain, waits = ends_of(engine, look)

    assert json.loads(plain.result) == ["job-1", "plain", "default", 1, False, False, False]
    assert json.loads(waits.result) == ["job-2", "waits", "default", 1, False, False, False]


def test_a_handler_sees_when_its_time_is_up(engine):
    def look():
        return current_job().deadline

    timed, free = end_of(engine, look, timeout=3_600_000_000), end_of(engine, look)

    deadline = datetime.fromisoformat(json.loads(timed.result)).timestamp()
    assert BEGINNING // 1_000_000 + 3600 <= deadline < BEGINNING // 1_000_000 + 3700
    assert free == Done("null")


def test_there_is_no_job_outside_a_handler():
    with pytest.raises(LookupError, match="inside a handler"):
        current_job()


def test_what_a_handler_leaves_in_its_context_is_gone_for_the_next(engine):
    variable = ContextVar("variable", default="clean")

    def soil():
        before = variable.get()
        variable.set("dirty")
        return before

    engine.enqueue("soil", count=3)
    work(engine, soil, threads=1)

    assert list(engine.outcomes.values()) == [Done('"clean"')] * 3


def test_an_async_handler_that_takes_too_long_is_cancelled(engine):
    cancelled = []

    async def sleep():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    assert end_of(engine, sleep, timeout=20_000) == Failed(
        "AttemptTimeout", "the attempt took longer than 0.02 s", ancestry=("AttemptTimeout",)
    )
    assert cancelled


def test_a_timeout_of_the_handlers_own_is_its_own_failure(engine):
    async def fail():
        raise TimeoutError("mine")

    assert end_of(engine, fail, timeout=60_000_000).kind == "TimeoutError"


def test_a_plain_function_that_takes_too_long_is_interrupted(engine):
    def spin():
        while True:
            pass

    assert end_of(engine, spin, timeout=20_000).kind == "AttemptTimeout"


def test_a_plain_function_that_swallows_its_timeout_has_timed_out_all_the_same(engine):
    def stubborn():
        end = threading.Event()
        while True:
            try:
                end.wait(0.001)
            except BaseException:  # noqa: BLE001
                return "made it"

    assert end_of(engine, stubborn, timeout=20_000).kind == "AttemptTimeout"


def test_the_timeout_of_the_handler_holds_for_jobs_that_carry_none(engine):
    async def sleep():
        await asyncio.sleep(60)

    job = engine.enqueue("sleep")
    work(engine, sleep, timeout=10_000)

    assert engine.outcomes[job].kind == "AttemptTimeout"


# A strike that lands in a callback of the interpreter, such as that of a weak reference, is lost there.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_timeouts_that_just_fail_to_strike_do_no_harm(engine):
    """The function ends at about the moment of its timeout, over and over, in one thread."""

    def brief():
        threading.Event().wait(0.002)
        return "fine"

    engine.enqueue("brief", timeout=2_100, count=300)
    work(engine, brief, threads=1)

    ends = engine.outcomes.values()
    assert 300 == len(ends)
    assert all(end == Done('"fine"') or end.kind == "AttemptTimeout" for end in ends)


def test_progress_is_shown_and_the_last_of_it_is_never_lost(engine):
    def step():
        for done in range(50):
            current_job().progress({"done": done})

    job = engine.enqueue("step")
    work(engine, step)

    shown = engine.shown[job]
    assert shown[-1] == '{"done":49}'
    assert len(shown) < 10


def test_progress_must_be_json(engine):
    for outcome in ends_of(engine, lambda: current_job().progress(object())):
        assert outcome.kind == "TypeError"


def test_an_error_about_another_jobs_lease_is_an_error(engine):
    def fail():
        raise LeaseLostError("another")

    for outcome in ends_of(engine, fail):
        assert outcome.kind == "LeaseLostError"
