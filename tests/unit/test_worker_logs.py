"""What a worker tells of its jobs: one record of `penstock.jobs` for each end, with the job in its fields."""

import asyncio
import logging
import threading
import time
import traceback

import pytest

from penstock import App, Cancel, Concurrency, RateLimited, Retry, RetryPolicy, current_job
from penstock.clock import MILLISECOND, SECOND
from penstock.job import UnknownTask
from penstock.logs import JobFields
from penstock.worker import Handler, Worker, unknown_tasks, watchdog
from tests.support.sharing import until
from tests.support.stub_engine import StubEngine
from tests.support.working import holding, work, working

SECRET = "4111-1111"


@pytest.fixture
def app(tmp_path):
    with App(tmp_path / "jobs.db") as app:
        yield app


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO)
    return caplog


def ends(log):
    """Return the records of jobs."""
    return [record for record in log.records if record.name == "penstock.jobs"]


def told(log):
    """Return the only record of a job, and what it says after the name of the job."""
    (record,) = ends(log)
    named = f"{record.task} {record.job_id} "
    assert record.getMessage().startswith(named)
    return record, record.getMessage().removeprefix(named)


def both(app, **options):
    """Return a decorator that makes a plain and an async task of a function."""

    def make(function):
        async def waits(*args):
            return function(*args)

        return app.task(name="plain", **options)(function), app.task(name="waits", **options)(waits)

    return make


def run(app, *tasks, **options):
    """Enqueue a job of each of *tasks* and run them; return the last."""
    jobs = [task.enqueue() for task in tasks]
    app.work(until_idle=True, **options)
    return jobs[-1]


class TestEnds:
    @pytest.mark.parametrize("kind", [0, 1])
    def test_a_job_that_is_done_is_told_with_the_times_it_waited_and_ran(self, app, log, kind):
        limits = [Concurrency(1, key="a"), Concurrency(1, key="b")]
        task = both(app, queue="mail", limits=limits)(lambda: 1)[kind]
        job = run(app, task)

        record, text = told(log)
        assert (logging.INFO, "done") == (record.levelno, record.outcome)
        assert (job.id, task.name, "mail", 1, ("a", "b")) == (
            record.job_id, record.task, record.queue, record.attempt, record.keys,
        )  # fmt: skip
        assert 0 <= record.ran < record.waited
        assert text.startswith("done in ")
        assert ", waited " in text

    @pytest.mark.parametrize("kind", [0, 1])
    def test_a_failure_is_an_error_with_the_handlers_own_exception_and_none_of_our_frames(
        self, app, log, kind
    ):
        error = ValueError("no such account")

        def fails():
            raise error

        run(app, both(app)(fails)[kind])

        record, text = told(log)
        assert (logging.ERROR, "failed", "ValueError") == (record.levelno, record.outcome, record.error)
        assert text.startswith("failed after ")
        assert text.endswith(": ValueError: no such account")
        assert error is record.exc_info[1]
        files = {frame.filename for frame in traceback.extract_tb(record.exc_info[2])}
        assert {__file__} == files

    def test_a_retry_is_a_warning_that_says_why_and_when_and_which_attempt_it_was(self, app, log):
        @app.task(retry=RetryPolicy.of(3, delay="10ms", jitter=False))
        def fails():
            if current_job().attempt < 3:
                raise ConnectionError("refused")

        run(app, fails)

        first, second, third = ends(log)
        assert [logging.WARNING, logging.WARNING, logging.INFO] == [r.levelno for r in (first, second, third)]
        assert ("retry", 1, 3, 0.01) == (first.outcome, first.attempt, first.attempts, first.retry_in)
        assert first.getMessage().endswith(", attempt 1 of 3, again in 10 ms: ConnectionError: refused")
        assert ", attempt 2 of 3, again in 20 ms: " in second.getMessage()
        assert third.getMessage().endswith(", attempt 3")
        assert not first.exc_info

    def test_a_retry_shows_the_traceback_at_the_level_of_debugging(self, app, log):
        log.set_level(logging.DEBUG, "penstock.jobs")

        @app.task(retry=RetryPolicy.of(2, delay=0))
        def fails():
            raise ConnectionError("refused")

        run(app, fails)

        assert all(record.exc_info for record in ends(log))

    def test_the_last_of_several_attempts_is_an_error_that_counts_them(self, app, log):
        @app.task(retry=RetryPolicy.of(2, delay=0))
        def asks():
            return Retry(after=0, reason="not ready")

        run(app, asks)

        first, last = ends(log)
        assert first.getMessage().endswith(", attempt 1 of 2, again at once: not ready")
        assert logging.ERROR == last.levelno
        assert last.getMessage().endswith(", attempt 2 of 2: not ready")

    def test_an_error_that_is_never_retried_and_a_job_that_is_discarded_are_told_as_such(self, app, log):
        @app.task(retry=RetryPolicy.of(5, never=[KeyError], exhausted="discard"))
        def fails():
            raise KeyError("k")

        run(app, fails)

        record, text = told(log)
        assert "discarded" == record.outcome
        assert ", attempt 1 of 5, an error that is not retried, and is discarded: KeyError: 'k'" in text

    def test_a_timeout_shows_where_the_handler_was(self, app, log):
        @app.task(timeout="20ms")
        async def hangs():
            await asyncio.sleep(30)

        @app.task(timeout="20ms")
        def spins():
            while True:
                time.sleep(0.001)

        run(app, hangs, spins)

        found = {record.task.rpartition(".")[2]: record for record in ends(log)}
        for name, record in found.items():
            assert ("failed", "AttemptTimeout") == (record.outcome, record.error)
            assert "AttemptTimeout: the attempt took longer than 0.02 s" in record.getMessage()
            assert name == traceback.extract_tb(record.exc_info[2])[0].name
        assert {"hangs", "spins"} == set(found)

    def test_a_cancelled_job_is_told_with_its_reason(self, app, log):
        run(app, both(app)(lambda: Cancel("no longer wanted"))[0])

        record, text = told(log)
        assert (logging.INFO, "cancelled") == (record.levelno, record.outcome)
        assert text.endswith(": no longer wanted")

    def limited_once(self, app, log, *args, **kwargs):
        """Return what is told of an attempt that raises `RateLimited`."""

        @app.task(limits=[Concurrency(1, key="api")])
        def limited():
            if not hasattr(app, "told"):
                app.told = True
                raise RateLimited(*args, **kwargs)

        run(app, limited)
        return ends(log)[0]

    def test_too_many_calls_are_a_warning_with_the_reason_and_how_long_it_lasts(self, app, log):
        record = self.limited_once(app, log, "200ms", key="api", reason="429 from the bank")

        assert (logging.WARNING, "limited") == (record.levelno, record.outcome)
        assert 0.1 < record.retry_in <= 0.2
        assert record.getMessage().endswith(": 429 from the bank")

    def test_a_key_that_the_job_does_not_carry_is_named(self, app, log):
        record = self.limited_once(app, log, "10ms", key="apo")

        assert "'apo' is none of its keys" in record.getMessage()

    def test_a_lost_lease_is_told_when_it_is_seen_and_again_at_the_end(self, log):
        engine, (hold, _, go_on) = StubEngine(), holding()
        job = engine.enqueue("hold")
        engine.lost.add(job)
        with working(engine, hold, lease=1):
            engine.until(lambda: engine.beats)
            until(lambda: ends(log))
            go_on.set()
            until(lambda: len(ends(log)) == 2)

        seen, ended = ends(log)
        assert "lost its lease while it ran" in seen.getMessage()
        assert (logging.WARNING, "lost", job) == (ended.levelno, ended.outcome, ended.job_id)
        assert "as done, but its lease was lost: that counts for nothing" in ended.getMessage()

    def test_a_job_that_is_handed_back_is_told(self, log):
        engine, begun = StubEngine(), threading.Event()

        async def hangs():
            begun.set()
            await asyncio.sleep(60)

        engine.enqueue("hangs")
        with working(engine, hangs):
            assert begun.wait(10)

        record, text = told(log)
        assert (logging.INFO, "handed_back") == (record.levelno, record.outcome)
        assert text.endswith(": its worker stops")

    def test_a_task_that_the_worker_does_not_know_is_told_with_the_job(self, log):
        engine = StubEngine()
        job = engine.enqueue("stranger")
        work(engine)

        record = ends(log)[0]
        assert (logging.ERROR, job, "stranger", "unknown") == (
            record.levelno, record.job_id, record.task, record.outcome,
        )  # fmt: skip

    def test_nothing_is_made_for_a_level_that_is_not_logged(self, app, caplog, monkeypatch):
        caplog.set_level(logging.WARNING)
        monkeypatch.setattr("penstock.worker.job_log.fields", None)
        run(app, both(app)(lambda: 1)[0])

        assert [] == caplog.records


class TestDiscretion:
    def pay(self, app, **options):
        @app.task(retry=RetryPolicy.of(2, delay=0))
        def pays(card):
            if current_job().attempt == 1:
                raise ConnectionError("refused")
            return {"card": card}

        pays.enqueue(SECRET)
        app.work(until_idle=True, **options)

    def test_arguments_and_results_are_in_no_record(self, app, log):
        self.pay(app)

        assert not [r for r in log.records if SECRET in str(vars(r)) or SECRET in r.getMessage()]

    def test_arguments_and_results_are_told_where_log_arguments_is_set(self, app, log):
        self.pay(app, log_arguments=True)

        first, last = ends(log)
        assert SECRET in first.arguments
        assert SECRET in last.result
        assert f'called with {last.arguments}, returned {{"card":"{SECRET}"}}' in last.getMessage()

    def test_a_name_or_a_message_cannot_begin_a_line(self, log):
        forged = "x\n2026-01-01 00:00:00.000 ERROR   all is lost\r\x1b[2J\u2028\x85"

        def fails():
            raise ValueError(forged)

        engine = StubEngine()
        engine.enqueue(forged)
        Worker(engine, {forged: Handler(fails)}).run(until_idle=True)

        (record,) = ends(log)
        assert [record.getMessage()] == record.getMessage().splitlines()
        assert "\x1b" not in record.getMessage()
        assert forged == record.task


class TestHandlers:
    """What handlers log themselves."""

    @pytest.fixture
    def seen(self):
        seen = []
        handler = logging.Handler()
        handler.addFilter(JobFields())
        handler.emit = seen.append
        logger = logging.getLogger("shop.till")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        yield seen
        logger.removeHandler(handler)

    def test_each_line_names_its_own_job_however_many_run_at_once(self, app, seen):
        shop, meeting = logging.getLogger("shop.till"), threading.Barrier(4)

        @app.task(limits=[Concurrency(9, key="n:{n}")])
        async def waits(n):
            shop.info("%s", n)
            await asyncio.sleep(0.01)
            await asyncio.gather(asyncio.to_thread(shop.info, "%s", n), self.child(shop, n))
            shop.info("%s", n)

        @app.task(limits=[Concurrency(9, key="n:{n}")])
        def plain(n):
            shop.info("%s", n)
            meeting.wait(10)
            shop.info("%s", n)

        jobs = {f"{n}": (plain if n < 4 else waits).enqueue(n).id for n in range(8)}
        app.work(until_idle=True, threads=4)

        assert 4 * 2 + 4 * 4 == len(seen)
        for record in seen:
            text = record.getMessage()
            assert (jobs[text], (f"n:{text}",), 1, "default") == (
                record.job_id, record.keys, record.attempt, record.queue,
            )  # fmt: skip

    @staticmethod
    async def child(shop, n):
        shop.info("%s", n)

    def test_a_line_from_elsewhere_names_none_and_one_with_fields_of_its_own_keeps_them(self, app, seen):
        shop = logging.getLogger("shop.till")

        @app.task
        def plain():
            shop.info("mine", extra={"task": "housework"})

        run(app, plain)
        shop.info("outside")

        mine, outside = seen
        assert "housework" == mine.task
        assert mine.job_id
        assert not hasattr(outside, "job_id")


class TestSlowOnes:
    @pytest.fixture(autouse=True)
    def looked(self, monkeypatch):
        """Have the watch look often; return what waits until it has looked so many times more."""
        monkeypatch.setattr(watchdog, "EVERY", 5 * MILLISECOND)
        monkeypatch.setattr(watchdog, "PATIENCE", 50 * MILLISECOND)
        looks, look = [], watchdog.Watchdog._look

        def counted(self):
            looks.append(None)
            return look(self)

        monkeypatch.setattr(watchdog.Watchdog, "_look", counted)

        def looked(times):
            wanted = len(looks) + times
            until(lambda: len(looks) >= wanted)

        return looked

    def test_a_handler_that_blocks_the_event_loop_is_named_once_with_its_stack_and_again_when_it_is_over(
        self, log, looked
    ):
        engine, release = StubEngine(), threading.Event()

        async def blocks():
            release.wait(10)

        async def quick():
            pass

        job = engine.enqueue("blocks")
        with working(engine, blocks, quick):
            until(lambda: ends(log))
            engine.enqueue("quick")
            looked(20)  # often enough to be told again, if it were
            release.set()
            until(lambda: len(ends(log)) == 4)

        blocked = [record for record in ends(log) if "the event loop" in record.getMessage()]
        assert [job, job] == [record.job_id for record in blocked]
        first, second = blocked
        assert logging.WARNING == first.levelno
        assert "blocks the event loop" in first.getMessage()
        assert "in blocks\n    release.wait(10)" in first.stack_info
        assert "perform.py" not in first.stack_info
        assert "blocked the event loop for " in second.getMessage()

    def test_a_task_of_a_handlers_own_that_blocks_the_event_loop_is_told_of_with_its_stack(self, log):
        engine, release = StubEngine(), threading.Event()

        async def child():
            release.wait(10)

        async def blocks():
            await asyncio.gather(child(), child())

        engine.enqueue("blocks")
        with working(engine, blocks):
            until(lambda: ends(log))
            release.set()
            until(lambda: len(ends(log)) == 3)

        first = ends(log)[0]
        assert "blocks the event loop" in first.getMessage()
        assert "in child\n    release.wait(10)" in first.stack_info

    def test_a_loop_that_comes_round_is_not_told_of(self, log, looked, monkeypatch):
        monkeypatch.setattr(watchdog, "PATIENCE", 10 * SECOND)
        engine = StubEngine()

        async def waits():
            await asyncio.to_thread(looked, 20)

        engine.enqueue("waits")
        work(engine, waits)

        assert ["done"] == [record.outcome for record in ends(log)]

    def test_a_plain_handler_that_goes_on_after_its_timeout_is_told_of_once_with_its_stack(self, log, looked):
        engine, (hold, _, release) = StubEngine(), holding()
        job = engine.enqueue("hold", timeout=10 * MILLISECOND)
        with working(engine, hold):
            until(lambda: ends(log))
            looked(20)
            release.set()
            until(lambda: job in engine.outcomes)

        first = ends(log)[0]
        assert job == first.job_id
        assert "still runs, though its timeout of 10 ms is over" in first.getMessage()
        assert "in hold\n" in first.stack_info
        assert 1 == sum("still runs" in record.getMessage() for record in ends(log))


class TestTheWorkerItself:
    def test_an_app_without_tasks_is_warned_of(self, app, log):
        app.work(until_idle=True)

        (warning,) = [record for record in log.records if record.levelno == logging.WARNING]
        assert "has no tasks" in warning.getMessage()

    def test_it_says_how_many_tasks_and_which_queues_it_has(self, app, log):
        both(app, queue="mail")(lambda: 1)
        app.work(until_idle=True)

        assert "begins: 2 tasks, queues mail" in log.text

    def test_stopping_names_a_few_of_the_jobs_that_are_left(self, log):
        engine, begun = StubEngine(), threading.Semaphore(0)

        async def hangs():
            begun.release()
            await asyncio.sleep(60)

        engine.enqueue("hangs", count=5)
        with working(engine, hangs) as worker:
            for _ in range(5):
                assert begun.acquire(timeout=10)
            worker.stop()
            until(lambda: "left to finish" in log.text)

        left = "5 jobs (hangs job-1, hangs job-2, hangs job-3 and 2 more) are left to finish within 30s"
        assert f"stopping: {left}" in log.text
        assert "stopping now: handing back what runs, 5 in all" in log.text


class TestUnknownTasks:
    def test_a_task_that_no_worker_asks_for_is_told_of_once(self, log, monkeypatch):
        monkeypatch.setattr(unknown_tasks, "EVERY", 0)
        engine = StubEngine(unknown=[UnknownTask("q", "stranger", 0, 3)])
        tasks = unknown_tasks.UnknownTasks(engine, ["q"])
        tasks.look()
        tasks.look()
        engine.unknown.append(UnknownTask("q", "other", 0, 1))
        tasks.look()

        assert ["stranger", "other"] == [record.args[0] for record in log.records]
        assert "3 of its jobs wait" in log.records[0].getMessage()

    def test_a_worker_looks_seldom(self):
        asked = []
        engine = StubEngine()
        engine.unknown_tasks = lambda queues: asked.append(queues) or []
        tasks = unknown_tasks.UnknownTasks(engine, ["q"])
        tasks.look()
        tasks.look()

        assert [["q"]] == asked
