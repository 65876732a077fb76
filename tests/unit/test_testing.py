from datetime import UTC, datetime

import pytest

from penstock import App, Concurrency, InvalidError, NotFoundError, Rate, State, Throttle, sleep
from penstock.clock import SECOND, SystemClock
from penstock.limits.rules import Numbers
from penstock.testing import FakeClock, engine_in_memory, in_memory, limits_kept, run_until_idle


def test_a_clock_moves_only_when_it_is_told_to():
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    before = clock.now()

    clock.advance("1m")
    clock.advance(0.5)
    clock.advance_to(before)

    assert before + 60_500_000 == clock.now()


def test_a_job_that_is_due_later_runs_when_the_clock_gets_there():
    app = App("never.db")
    remind = app.task(delay="1d", name="remind")(lambda who: f"reminded {who}")

    with in_memory(app) as clock:
        job = remind.enqueue("ann")

        assert run_until_idle(app) == 0
        assert job.state is State.SCHEDULED

        clock.advance("1d")

        assert run_until_idle(app) == 1
        assert job.result(timeout=0) == "reminded ann"


def test_time_can_be_moved_on_until_nothing_is_left(app):
    starts = []

    @app.task(limits=[Rate(2, per="10s", key="api")])
    def call() -> None:
        starts.append(app.engine.clock.now())

    call.enqueue_many([()] * 6)

    assert run_until_idle(app, advance=True) == 6
    assert all(later - earlier >= 10 * SECOND for earlier, later in zip(starts, starts[2:], strict=False))
    assert starts[-1] - starts[0] < 21 * SECOND


def test_an_app_gets_its_own_store_back(tmp_path):
    with App(tmp_path / "jobs.db") as app:
        task = app.task(lambda: 1, name="one")
        task.enqueue()

        with in_memory(app):
            task.enqueue()
            task.enqueue()

            assert app.engine.count()[State.WAITING] == 2

        assert app.engine.count()[State.WAITING] == 1


def test_jobs_are_found_in_queues_that_no_task_names(app):
    app.task(lambda: 1, name="one").with_options(queue="elsewhere").enqueue()

    assert run_until_idle(app) == 1


def test_a_job_of_an_unknown_task_is_an_error(app):
    App(engine=app.engine).task(lambda: 1, name="stranger").enqueue()

    with pytest.raises(NotFoundError, match="stranger"):
        run_until_idle(app)


def test_jobs_without_end_are_an_error(app):
    @app.task
    def once_more() -> None:
        once_more.enqueue()

    once_more.enqueue()

    with pytest.raises(InvalidError, match="after 20 attempts"):
        run_until_idle(app, most=20)


def test_only_a_fake_clock_can_be_moved():
    app = App(engine=engine_in_memory(SystemClock()))
    app.task(delay="1d", name="later")(lambda: 1).enqueue()

    with pytest.raises(InvalidError, match="cannot be moved"):
        run_until_idle(app, advance=True)


class TestLimitsKept:
    def test_runs_of_workflows_are_judged_too(self, app, monkeypatch):
        @app.workflow(name="flow", limits=[Concurrency(1, key="one")])
        async def flow():
            await sleep("1h")

        with limits_kept(app):
            flow.start()
            flow.start()
            run_until_idle(app, advance=True)

        monkeypatch.setattr("penstock.limits.gate.Gate.opens_at", lambda *_, **__: 0)
        both = [flow.new_instance((), {}) for _ in range(2)]
        with (
            pytest.raises(AssertionError, match=r"one: 2 ran at once when .* started; 1 may"),
            limits_kept(app),
        ):
            app.engine.create_instances(both)

    def test_an_app_that_keeps_them_hears_nothing(self, app):
        call = app.task(
            lambda: None,
            name="call",
            limits=[Rate(2, per="10s", key="api"), Throttle(2, per="1s", key="calm")],
        )

        with limits_kept(app):
            call.enqueue_many([()] * 5)
            run_until_idle(app, advance=True)

    @pytest.mark.parametrize(
        ("limit", "broken"),
        [
            (Concurrency(1, key="api"), "api: 2 ran at once when .* started; 1 may"),
            (Rate(1, per="10s", key="api"), "api: 2 started within 10s when .* did; 1 may"),
            (Throttle(2, per="1s", key="api"), "api: .* started 0s after another; 500ms must lie between"),
        ],
        ids=["slots", "rate", "throttle"],
    )
    def test_an_app_that_breaks_one_is_told(self, app, monkeypatch, limit, broken):
        call = app.task(lambda: None, name="call", limits=[limit])
        monkeypatch.setattr("penstock.limits.gate.Gate.opens_at", lambda *_: 0)
        call.enqueue_many([()] * 2)

        with pytest.raises(AssertionError, match=broken), limits_kept(app):
            app.engine.claim(app.queues, 2, worker="w")

    def test_numbers_that_were_set_from_outside_count(self, app):
        call = app.task(lambda: None, name="call", limits=[Concurrency(1, key="api")])
        app.engine.configure("key", "api", Numbers(slots=2))
        call.enqueue_many([()] * 2)

        with limits_kept(app):
            assert 2 == len(app.engine.claim(app.queues, 2, worker="w").jobs)
