"""Workflows in Python, from `start` to the end, on every store."""

import asyncio
import logging
from contextlib import suppress

import pytest

from penstock import (
    App,
    Cancel,
    Concurrency,
    Configured,
    InvalidJobError,
    InvalidWorkflowError,
    JobCancelledError,
    JobFailedError,
    Rate,
    Restart,
    Retry,
    State,
    StepFailedError,
    WrongStateError,
    chain,
    current_job,
    first,
    gather,
    group,
    note,
    signal,
    sleep,
)
from penstock.app.passes import Passing
from penstock.job import Settlement
from penstock.lifecycle.outcomes import Conducted
from penstock.limits.rules import Numbers
from penstock.testing import FakeClock, limits_kept, run_until_idle


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def app(opened):
    app = App(engine=opened())
    yield app
    assert app.engine.doctor() == []


@pytest.fixture
def double(app):
    @app.task(name="double")
    def double(number):
        return number * 2

    return double


def keys(run):
    return {step.key: step.state.value for step in run.steps()}


class TestSteps:
    def test_steps_follow_each_other(self, app, double):
        @app.workflow(name="flow")
        async def flow(number: int) -> int:
            return await double.step(await double.step(number))

        run = flow.start(3)
        run_until_idle(app)

        assert 12 == run.result(0)
        assert {"double": "done", "double#1": "done"} == keys(run)

    def test_results_have_the_types_they_are_annotated_with(self, app):
        @app.task(name="pair")
        def pair() -> tuple[int, int]:
            return 1, 2

        @app.workflow(name="flow")
        async def flow() -> tuple[str, tuple[int, int]]:
            found = await pair.step()
            return type(found).__name__, found

        run = flow.start()
        run_until_idle(app)

        assert ("tuple", (1, 2)) == run.result(0)

    def test_a_step_has_the_limits_the_queue_and_the_retries_of_its_task(self, app):
        tries = []

        @app.task(
            name="call",
            queue="calls",
            retry={"attempts": 3, "delay": 0},
            limits=[Rate(1, per="1m", key="api")],
        )
        def call():
            tries.append(current_job().attempt)
            if len(tries) < 3:
                raise Retry(after=0)
            return len(tries)

        @app.workflow(name="flow")
        async def flow():
            return await call.step()

        with limits_kept(app):
            run = flow.start()
            run_until_idle(app, advance=True)

        assert 3 == run.result(0)
        assert [1, 2, 3] == tries

    def test_a_step_that_failed_raises_and_its_run_fails(self, app):
        @app.task(name="pay")
        def pay():
            raise ValueError("declined")

        @app.workflow(name="flow")
        async def flow():
            await pay.step()

        run = flow.start()
        run_until_idle(app)

        with pytest.raises(JobFailedError, match="step pay failed: ValueError: declined") as caught:
            run.result(0)
        assert "StepFailedError" == caught.value.kind
        assert "await pay.step()" in caught.value.traceback_text
        assert "in conduct" not in caught.value.traceback_text

    def test_a_failure_can_be_caught(self, app, double):
        @app.task(name="pay")
        def pay():
            raise ValueError("declined")

        @app.workflow(name="flow")
        async def flow():
            try:
                await pay.step()
            except StepFailedError as error:
                return [error.kind, await double.step(2)]

        run = flow.start()
        run_until_idle(app)

        assert ["ValueError", 4] == run.result(0)

    def test_a_failed_run_is_logged_with_its_error(self, app, caplog):
        @app.workflow(name="flow")
        async def flow():
            raise RuntimeError("a mistake in the body")

        run = flow.start()
        with caplog.at_level(logging.INFO, "penstock.jobs"):
            app.work(until_idle=True)

        assert "failed" == run.state
        assert "its run has ended: RuntimeError: a mistake in the body" in caplog.text

    def test_steps_belong_to_the_tenant_of_their_run(self, app):
        @app.task(name="whose")
        def whose():
            return current_job().tenant

        @app.workflow(name="flow")
        async def flow():
            return await whose.step()

        run = flow.start(tenant="acme")
        run_until_idle(app)

        assert "acme" == run.result(0)
        assert "acme" == run.tenant

    def test_a_unique_task_is_a_step_of_its_own(self, app):
        @app.task(name="once", unique=True)
        def once():
            return 1

        @app.workflow(name="flow")
        async def flow():
            return await gather(once.step(), once.step())

        run = flow.start()
        run_until_idle(app)

        assert [1, 1] == run.result(0)

    def test_a_step_has_no_id_of_its_own(self, app, double):
        @app.workflow(name="flow")
        async def flow():
            try:
                await double.with_options(id="mine").step(1)
            except InvalidJobError as error:
                return error.field

        run = flow.start()
        run_until_idle(app)

        assert "id" == run.result(0)

    def test_outside_a_body_there_are_no_steps(self, double):
        with pytest.raises(InvalidWorkflowError, match=r"double\.step\(\) belongs in the body of a workflow"):
            double.step(1)


class TestTime:
    def test_a_sleep_takes_no_worker(self, app, clock, double):
        @app.workflow(name="flow")
        async def flow():
            await sleep("2d")
            return await double.step(1)

        run = flow.start()
        run_until_idle(app)
        clock.advance("47h")
        run_until_idle(app)

        assert "running" == run.state
        assert {"sleep": "live"} == keys(run)

        clock.advance("1h")
        run_until_idle(app)

        assert 2 == run.result(0)

    def test_time_can_be_moved_on_to_the_end(self, app, clock):
        @app.workflow(name="flow")
        async def flow():
            for _ in range(3):
                await sleep("1d")

        before = clock.now()
        run = flow.start()
        run_until_idle(app, advance=True)

        assert "done" == run.state
        assert clock.now() - before >= 3 * 86_400_000_000

    def test_a_start_can_be_put_off(self, app, clock):
        @app.workflow(name="flow")
        async def flow():
            return "late"

        run = flow.start(delay="1h")
        run_until_idle(app)

        assert "scheduled" == run.state

        clock.advance("1h")
        run_until_idle(app)

        assert "late" == run.result(0)


class TestSignals:
    @pytest.fixture
    def waits(self, app):
        @app.workflow(name="waits")
        async def waits():
            try:
                return await signal("reply", timeout="7d")
            except TimeoutError:
                return "no reply"

        return waits

    def test_a_signal_wakes_its_run(self, app, waits):
        run = waits.start()
        run_until_idle(app)
        run.signal("reply", {"parts": [1, 2]})
        run_until_idle(app)

        assert {"parts": [1, 2]} == run.result(0)

    def test_one_that_comes_early_is_kept(self, app, waits):
        run = waits.start()
        run.signal("other")
        run.signal("reply", 1)
        run.signal("reply", 2)
        run_until_idle(app)

        assert 1 == run.result(0)

    def test_no_signal_is_a_timeout(self, app, clock, waits):
        run = waits.start()
        run_until_idle(app, advance=True)

        assert "no reply" == run.result(0)

    def test_a_signal_that_came_too_late_for_its_wait_is_there_for_the_next(self, app, clock):
        @app.workflow(name="flow")
        async def flow():
            for _ in range(3):
                which, value = await first(signal("reply"), sleep("1h"))
                if which == 0:
                    return value
            return "none"

        run = flow.start()
        run_until_idle(app)
        clock.advance("1h")
        run.signal("reply", "late")
        run_until_idle(app)

        assert "late" == run.result(0)

    def test_a_signal_that_comes_while_a_pass_gives_up_its_wait_is_not_lost(self, app, clock):
        @app.workflow(name="flow")
        async def flow():
            while True:
                which, value = await first(signal("reply"), sleep("1h"))
                if which == 0:
                    return value

        run = flow.start()
        run_until_idle(app)
        clock.advance("1h")
        (claimed,) = app.engine.claim(["default"], 1, worker="w").jobs
        memo = app.engine.memo(run.id)
        commands = Passing("flow", flow.function, flow.parameters).commands(memo)
        run.signal("reply", "first")
        run.signal("reply", "second")

        assert app.engine.settle([Settlement(claimed.seq, claimed.fence, Conducted(commands, memo.version))])[
            0
        ]
        run_until_idle(app)

        assert "first" == run.result(0)

    def test_a_run_that_has_ended_takes_no_signals(self, app, waits):
        run = waits.start()
        run.signal("reply")
        run_until_idle(app)

        with pytest.raises(WrongStateError):
            run.signal("reply")

    def test_a_payload_must_fit_json(self, app, waits):
        with pytest.raises(InvalidWorkflowError, match="payload"):
            waits.start().signal("reply", object())


class TestSlots:
    def test_a_run_holds_its_slots_from_the_first_step_to_the_end(self, app, clock, double):
        @app.workflow(name="flow", limits=[Concurrency(1, key="contact:{email}")])
        async def flow(email):
            await double.step(1)
            await sleep("1d")
            return email

        one, two, other = flow.start("ann"), flow.start("ann"), flow.start("bob")
        run_until_idle(app)

        assert ["running", "deferred", "running"] == [run.state for run in (one, two, other)]
        assert "contact:ann: 1 running of 1 at once" in two.why().sentence

        run_until_idle(app, advance=True)

        assert ["ann", "ann", "bob"] == [run.result(0) for run in (one, two, other)]

    def test_the_same_start_again_finds_the_run(self, app):
        @app.workflow(name="flow")
        async def flow(email, box):
            await sleep(1)

        one = flow.start("ann", box="a", unique="camp-42")
        two = flow.start("ann", box="b", unique="camp-42")

        assert (one.id, True) == (two.id, two.reused)
        assert not one.reused

    def test_a_key_without_numbers_is_ruled_from_outside(self, app, clock):
        @app.task(name="send", limits=[Configured(key="mailbox:{box}")])
        def send(box):
            return box

        @app.workflow(name="flow")
        async def flow():
            return await gather(*[send.step("a") for _ in range(3)])

        app.engine.configure("key", "mailbox:a", Numbers(slots=0))
        run = flow.start()
        run_until_idle(app)

        assert "running" == run.state

        app.engine.configure("key", "mailbox:a", None)
        run_until_idle(app)

        assert ["a", "a", "a"] == run.result(0)


class TestTogether:
    def test_all_at_once(self, app, double):
        @app.workflow(name="flow")
        async def flow(numbers):
            return await gather(*[double.step(number) for number in numbers])

        run = flow.start([1, 2, 3])
        run_until_idle(app)

        assert [2, 4, 6] == run.result(0)

    def test_the_first_to_end(self, app, clock, double):
        @app.task(name="slow", delay="1h")
        def slow():
            return "slow"

        @app.workflow(name="flow")
        async def flow():
            which, value = await first(slow.step(), sleep("1m"))
            return [which, value]

        run = flow.start()
        run_until_idle(app, advance=True)

        assert [1, None] == run.result(0)
        assert {"slow": "cancelled", "sleep": "done", "first": "done"} == keys(run)
        assert State.CANCELLED in {job.state for job in app.engine.jobs(task="slow")}

    def test_branches(self, app, double):
        async def twice(number):
            return await double.step(await double.step(number))

        @app.workflow(name="flow")
        async def flow():
            return await gather(twice(1), twice(2))

        run = flow.start()
        run_until_idle(app)

        assert [4, 8] == run.result(0)

    def test_what_lives_when_a_run_ends_is_cancelled(self, app, clock):
        @app.task(name="fails")
        def fails():
            raise ValueError

        @app.task(name="later", delay="1d")
        def later(): ...

        @app.workflow(name="flow")
        async def flow():
            await gather(fails.step(), later.step())

        run = flow.start()
        run_until_idle(app)

        assert "failed" == run.state
        assert {"cancelled"} == {job.state.value for job in app.engine.jobs(task="later")}


class TestNotesAndRestarts:
    def test_a_note_is_kept(self, app, clock):
        drawn = []

        def draw():
            drawn.append(len(drawn))
            return len(drawn)

        @app.workflow(name="flow")
        async def flow():
            number = await note(draw)
            await sleep(1)
            return number

        run = flow.start()
        run_until_idle(app, advance=True)

        assert 1 == run.result(0)
        assert [0] == drawn

    def test_a_restart_keeps_the_slot(self, app, clock):
        @app.workflow(name="flow", limits=[Concurrency(1, key="one")])
        async def flow(count: int, *, most: int = 3):
            await sleep(1)
            return Restart(count + 1, most=most) if count < most else count

        run, other = flow.start(0), flow.start(3)
        run_until_idle(app)
        clock.advance(1)
        run_until_idle(app)

        assert ["running", "deferred"] == [run.state, other.state]
        assert {"sleep": "live"} == keys(run)

        run_until_idle(app, advance=True)

        assert [3, 3] == [run.result(0), other.result(0)]

    def test_a_restart_with_arguments_that_do_not_fit_fails(self, app):
        @app.workflow(name="flow")
        async def flow():
            raise Restart(1)

        run = flow.start()
        run_until_idle(app)

        with pytest.raises(JobFailedError, match="too many positional arguments"):
            run.result(0)


class TestChildren:
    def test_a_workflow_is_a_step_of_another(self, app, double):
        @app.workflow(name="inner", limits=[Concurrency(1, key="inner:{number}")])
        async def inner(number):
            await sleep(1)
            return await double.step(number)

        @app.workflow(name="outer")
        async def outer():
            return await gather(*[inner.step(number) for number in (1, 1, 2)])

        run = outer.start()
        run_until_idle(app, advance=True)

        assert [2, 2, 4] == run.result(0)
        assert {"inner": "done", "inner#1": "done", "inner#2": "done"} == keys(run)

    def test_the_failure_of_one_is_that_of_a_step(self, app):
        @app.workflow(name="inner")
        async def inner():
            raise KeyError("gone")

        @app.workflow(name="outer")
        async def outer():
            try:
                await inner.step()
            except StepFailedError as error:
                return error.kind

        run = outer.start()
        run_until_idle(app)

        assert "KeyError" == run.result(0)


class TestByHand:
    @pytest.fixture
    def sleepy(self, app, double):
        @app.workflow(name="sleepy")
        async def sleepy():
            await sleep("1d")
            return await double.step(1)

        return sleepy

    def test_a_run_can_be_cancelled(self, app, sleepy):
        run = sleepy.start()
        run_until_idle(app)

        assert "cancelled" == run.cancel("no longer wanted")
        with pytest.raises(JobCancelledError, match="no longer wanted"):
            run.result(0)

    def test_a_body_can_cancel_its_run(self, app):
        @app.workflow(name="flow")
        async def flow():
            raise Cancel("nothing to do")

        run = flow.start()
        run_until_idle(app)

        assert "cancelled" == run.state

    def test_a_run_can_be_paused(self, app, clock, sleepy):
        run = sleepy.start()
        run_until_idle(app)
        run.pause()
        clock.advance("2d")
        run_until_idle(app)

        assert "paused" == run.state

        run.resume()
        run_until_idle(app)

        assert 2 == run.result(0)

    def test_a_run_goes_on_from_the_step_that_failed(self, app):
        calls = []

        @app.task(name="works")
        def works():
            calls.append("works")

        @app.task(name="breaks")
        def breaks():
            calls.append("breaks")
            if calls.count("breaks") == 1:
                raise ValueError
            return "mended"

        @app.workflow(name="flow")
        async def flow():
            await works.step()
            return await breaks.step()

        run = flow.start()
        run_until_idle(app)

        assert "failed" == run.state

        run.retry()
        run_until_idle(app)

        assert "mended" == run.result(0)
        assert ["works", "breaks", "breaks"] == calls

    def test_a_retry_tries_again_what_was_undone_and_undoes_nothing_twice(self, app):
        calls = []

        @app.task(name="breaks")
        def breaks():
            calls.append("breaks")
            if len(calls) == 1:
                raise ValueError
            return "mended"

        undo = app.task(lambda: calls.append("undo"), name="undo")

        @app.workflow(name="flow")
        async def flow():
            try:
                return await breaks.step()
            except StepFailedError:
                await undo.step()
                raise

        run = flow.start()
        run_until_idle(app)
        assert "failed" == run.state
        run.retry()
        run_until_idle(app)

        assert "mended" == run.result(0)
        assert ["breaks", "undo", "breaks"] == calls

    def test_a_retry_after_a_cancel_leaves_alone_what_the_body_has_dealt_with(self, app, clock):
        calls = []

        @app.task(name="breaks")
        def breaks():
            calls.append("breaks")
            raise ValueError

        works = app.task(lambda: calls.append("works"), name="works")

        @app.workflow(name="flow")
        async def flow():
            with suppress(StepFailedError):
                await breaks.step()
            await works.step()
            return await signal("go")

        run = flow.start()
        run_until_idle(app)
        clock.advance(1)
        run.cancel()
        run.retry()
        run.signal("go", "went")
        run_until_idle(app)

        assert "went" == run.result(0)
        assert ["breaks", "works"] == calls

    def test_a_run_is_found_again(self, app, sleepy):
        run = sleepy.start(id="mine")

        assert "mine" == run.id == app.run("mine").id


class TestDivergence:
    def test_a_body_that_no_longer_fits_stops_keeps_its_slot_and_goes_on_after_a_deploy(
        self, app, clock, caplog
    ):
        limits = [Concurrency(1, key="one")]
        one, two = (app.task(lambda: 1, name=name) for name in ("one", "two"))

        @app.workflow(name="flow", limits=limits)
        async def flow():
            await one.step()
            await sleep("1h")

        run, other = flow.start(), flow.start()
        run_until_idle(app)

        async def changed():
            await two.step()
            await sleep("1h")

        flow.function, right = changed, flow.function
        clock.advance("1h")
        run_until_idle(app)

        assert "remembers step one, but the body asks for two instead" in caplog.text
        assert ["running", "deferred"] == [run.state, other.state]

        flow.function = right
        clock.advance("30s")
        run_until_idle(app, advance=True)

        assert ["done", "done"] == [run.state, other.state]


class TestFlows:
    def test_a_chain_hands_results_on(self, app, double):
        seen = {}

        @app.task(name="add")
        def add(number, more=1):
            seen[current_job().id] = current_job().parents
            return number + more

        run = chain(double.call(1), add, add.partial(more=10), double).start()
        run_until_idle(app)

        assert 26 == run.result(0)
        assert [[2], [2, 3]] == list(seen.values())

    def test_a_whole_call_gets_nothing_from_before(self, app, double):
        run = chain(double.call(1), double.call(5)).start()
        run_until_idle(app)

        assert 10 == run.result(0)

    def test_a_group_is_a_list(self, app, double):
        run = group(double.call(1), chain(double.call(1), double)).start()
        run_until_idle(app)

        assert [2, 4] == run.result(0)

    def test_a_group_in_a_chain_gathers(self, app, double):
        total = app.task(sum, name="total")
        run = chain(double.call(1), group(double, double.call(5), chain(double, double)), total).start()
        run_until_idle(app)

        assert 4 + 10 + 8 == run.result(0)

    def test_a_task_can_be_mapped(self, app, double):
        @app.task(name="add")
        def add(one, other, more=0):
            return one + other + more

        one, other, none = (
            double.map([1, 2]).start(),
            add.map([1, 2], [10, 20], more=100).start(),
            double.map([]).start(),
        )
        run_until_idle(app)

        assert [[2, 4], [111, 122], []] == [each.result(0) for each in (one, other, none)]

    def test_a_task_can_be_mapped_over_what_came_before(self, app, double):
        numbers = app.task(lambda: [1, 2, 3], name="numbers")
        run = chain(numbers, double.map(), app.task(sum, name="total")).start()
        run_until_idle(app)

        assert 12 == run.result(0)

    def test_a_step_that_fails_ends_the_chain(self, app, double):
        fails = app.task(lambda _: 1 / 0, name="fails")
        run = chain(double.call(1), fails, double).start()
        run_until_idle(app)

        with pytest.raises(JobFailedError, match="step fails failed: ZeroDivisionError"):
            run.result(0)

    def test_options_of_a_step_travel_with_it(self, app, double):
        run = chain(double.with_options(queue="slow", retry=5, timeout="1m", meta={"a": 1}).call(1)).start()
        run_until_idle(app)

        (job,) = app.engine.jobs(task="double")
        assert ("slow", 5) == (job.queue, job.max_attempts)
        assert 2 == run.result(0)

    def test_what_cannot_travel_is_refused(self, double):
        with pytest.raises(InvalidWorkflowError, match="id: cannot be changed for one step"):
            chain(double.with_options(id="mine").call(1)).start()

    def test_mistakes_are_told_before_anything_starts(self, app, double):
        with pytest.raises(InvalidWorkflowError, match="at least one"):
            chain()
        with pytest.raises(InvalidWorkflowError, match="7 is no task"):
            group(7)
        with pytest.raises(TypeError, match="double"):
            chain(double.call(1, 2)).start()
        with pytest.raises(InvalidWorkflowError, match="needs a step before it"):
            double.map().start()

    def test_a_worker_that_does_not_know_a_task_leaves_the_chain_to_others(self, app, double):
        stranger = App(engine=app.engine)
        stranger.task(lambda: 1, name="other")
        run = chain(double.call(1)).start()

        assert 1 == run_until_idle(stranger)
        assert "running" == run.state

        run_until_idle(app, advance=True)

        assert 2 == run.result(0)

    def test_limits_and_uniqueness_of_a_flow(self, app, double):
        one = chain(double.call(1)).start(unique="once", limits=[Concurrency(1, key="flows")])
        two = chain(double.call(1)).start(unique="once")

        assert two.reused
        assert one.id == two.id


class TestDeclaring:
    def test_a_body_is_async(self, app):
        with pytest.raises(InvalidWorkflowError, match="must be an `async def`"):
            app.workflow(lambda: 1, name="flow")

    def test_two_of_a_name_are_refused(self, app, double):
        async def body(): ...

        for name in ("double", "penstock.chain"):
            with pytest.raises(InvalidJobError, match="there are two"):
                app.workflow(body, name=name)

    def test_an_option_that_a_workflow_has_not_is_named(self, app):
        async def body(): ...

        with pytest.raises(TypeError, match="no option 'retry'"):
            app.workflow(body, name="flow", retry=3)

    def test_an_argument_with_the_name_of_an_option_is_an_argument(self, app):
        @app.workflow(name="flow")
        async def flow(priority):
            return priority

        run = flow.with_options(priority=5).start(priority="high")
        run_until_idle(app)

        assert "high" == run.result(0)

    def test_called_it_is_just_the_function(self, app):
        @app.workflow(name="flow")
        async def flow():
            return 7

        assert 7 == asyncio.run(flow())

    def test_one_that_is_enqueued_as_a_job_says_what_to_do(self, app):
        @app.workflow(name="flow")
        async def flow(): ...

        other = App(engine=app.engine)
        job = other.task(lambda: 1, name="flow").enqueue()
        run_until_idle(app)

        with pytest.raises(JobFailedError, match=r"flow\.start"):
            job.result(0)


def test_a_worker_is_idle_while_a_run_waits_for_a_signal_and_not_while_it_sleeps(opened, url):
    with App(url) as app:

        @app.workflow(name="flow")
        async def flow():
            await sleep("200ms")
            return await signal("go")

        run = flow.start()
        app.work(until_idle=True)

        assert {"sleep": "done", "signal:go": "live"} == keys(run)

        run.signal("go", 7)
        app.work(until_idle=True)

        assert 7 == run.result(0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_worker_runs_workflows(app, is_async):
    if is_async:

        @app.task(name="plus")
        async def plus(number):
            return number + 1
    else:

        @app.task(name="plus")
        def plus(number):
            return number + 1

    @app.workflow(name="flow")
    async def flow(number):
        for _ in range(5):
            number = await plus.step(number)
        return number

    runs = [flow.start(number) for number in range(10)]
    app.work(until_idle=True)

    assert [number + 5 for number in range(10)] == [run.result(0) for run in runs]
