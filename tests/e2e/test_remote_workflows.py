"""Workflows in Python over a server: apps and workers that know nothing but its URL."""

import threading
from contextlib import closing, contextmanager

import pytest

from penstock import (
    AccessError,
    App,
    Concurrency,
    JobFailedError,
    NotFoundError,
    Restart,
    chain,
    current_job,
    first,
    gather,
    note,
    signal,
    sleep,
)
from penstock.client import RemoteEngine
from penstock.job import Child, NewInstance, NewJob, Save, Settlement, Start
from penstock.job.instances import Entry, EntryState
from penstock.lifecycle.outcomes import Conducted
from penstock.limits.rules import Limit, Numbers
from tests.support.server import guarded, served
from tests.support.timing import until

PATIENCE = 30


def declared(url):
    """Return an app at *url* with a few workflows."""
    app = App(url)

    @app.task(name="double")
    def double(number: int) -> int:
        return number * 2

    @app.task(name="fails")
    def fails() -> None:
        raise ValueError("no")

    @app.workflow(name="inner")
    async def inner(number: int) -> int:
        return await double.step(number)

    @app.workflow(name="outer", limits=[Concurrency(1, key="contact:{email}")])
    async def outer(email: str) -> list:
        number = await note(lambda: 5)
        numbers = await gather(*[double.step(each) for each in range(3)], inner.step(number))
        await sleep("50ms")
        which, _ = await first(signal("never"), sleep("20ms"))
        return [email, numbers, which, await signal("reply", timeout="1m")]

    @app.workflow(name="breaks")
    async def breaks() -> None:
        await fails.step()

    @app.workflow(name="again")
    async def again(count: int) -> int:
        return Restart(count + 1) if await double.step(count) < 6 else count

    @app.workflow(name="forever")
    async def forever() -> None:
        await signal("never")

    return app, {each.name: each for each in (double, inner, outer, breaks, again, forever)}


@contextmanager
def at_work(app):
    worker = app.worker()
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(20)


@pytest.fixture
def remote(server):
    app, declared_ = declared(server.url)
    with app:
        yield app, declared_


def test_a_workflow_runs_from_start_to_end(remote):
    app, flows = remote
    with at_work(app):
        run = flows["outer"].start("ann")
        other = flows["outer"].start("ann")
        run.signal("reply", {"yes": True})

        assert ["ann", [0, 2, 4, 10], 1, {"yes": True}] == run.result(PATIENCE)
        other.signal("reply", 2)
        assert 2 == other.result(PATIENCE)[-1]
        assert {"done", "cancelled"} == {step.state.value for step in run.steps()}


def test_failures_restarts_and_chains(remote):
    app, flows = remote
    with at_work(app):
        broken, restarted = flows["breaks"].start(), flows["again"].start(0)
        chained = chain(flows["double"].call(1), flows["double"], flows["double"].partial()).start()

        with pytest.raises(JobFailedError, match="step fails failed: ValueError: no"):
            broken.result(PATIENCE)
        assert 3 == restarted.result(PATIENCE)
        assert 8 == chained.result(PATIENCE)


def test_runs_are_moved_by_hand(remote):
    app, flows = remote
    with at_work(app):
        run = flows["forever"].start(id="mine", unique="once")

        assert flows["forever"].start(unique="once").reused
        assert "running" == app.run("mine").state
        run.pause()
        assert "paused" == run.state
        run.resume()
        run.cancel()  # at once, or when a pass that runs just now has ended
        until(lambda: run.state == "cancelled", PATIENCE)
        run.retry()
        until(lambda: run.state == "running", PATIENCE)
        assert ["mine"] == [each.id for each in app.engine.instances(workflow="forever")[0]]


def test_a_start_that_is_sent_twice_starts_once(remote, monkeypatch):
    app, _ = remote
    ask = app.engine.rpc.ask

    def ask_twice(verb, body, **options):
        if verb.name == "create_instances":
            ask(verb, body, **options)
        return ask(verb, body, **options)

    monkeypatch.setattr(app.engine.rpc, "ask", ask_twice)
    (made,) = app.engine.create_instances([NewInstance("forever")])

    assert "running" == made.state
    assert 1 == app.engine.instances(workflow="forever")[1]


def test_what_no_pass_may_ask_for_is_refused(remote):
    app, _ = remote
    engine = app.engine
    engine.create_instances([NewInstance("forever")])
    (claimed,) = engine.claim(["default"], 1, worker="w").jobs

    with pytest.raises(Exception, match="neither save entries"):
        engine.settle(
            [Settlement(claimed.seq, claimed.fence, Conducted((Save(Entry("a", EntryState.DONE)),)))]
        )


class TestTenants:
    TOKENS = ("the-token-of-acme-only tenant=acme", "the-token-of-bolt-only tenant=bolt", "the-token-of-all")

    @pytest.fixture
    def at(self, tmp_path):
        with guarded(tmp_path, *self.TOKENS) as server:
            yield lambda token: server.url.replace("//", f"//:{token}@")

    def test_a_tenant_sees_its_own_runs_only(self, at):
        app, flows = declared(at("the-token-of-acme-only"))
        other = RemoteEngine(at("the-token-of-bolt-only"))

        @app.workflow(name="whose")
        async def whose() -> str:
            return current_job().tenant

        with app, at_work(app):
            run = whose.start()
            waits = flows["forever"].start(id="mine")

            assert "acme" == app.run(run.id, tenant="acme").result(PATIENCE)
            assert "acme" == app.run("mine", tenant="acme").refresh().tenant
            for call in (other.instance, other.memo, other.pause_instance, other.cancel_instance):
                with pytest.raises(NotFoundError):
                    call("mine")
            with pytest.raises(NotFoundError):
                other.signal("mine", "never")
            assert ([], 0) == other.instances()
            assert "acme" == app.engine.instance(waits.id).tenant
        other.close()

    @pytest.mark.parametrize("asked", ["start", "job", "child"])
    def test_a_tenant_passes_no_gates_that_all_share(self, at, asked):
        shared = (Limit("all", Numbers(slots=1), shared=True),)
        new = NewInstance("forever", limits=shared)
        engine = RemoteEngine(at("the-token-of-acme-only"))
        engine.create_instances([NewInstance("forever")])
        (claimed,) = engine.claim(["default"], 1, worker="w").jobs
        commands = {"job": Start("a", NewJob("task", limits=shared)), "child": Child("a", new)}

        def ask():
            if asked == "start":
                return engine.create_instances([new])
            return engine.settle([Settlement(claimed.seq, claimed.fence, Conducted((commands[asked],)))])

        with closing(engine), pytest.raises(AccessError, match="shared by all tenants"):
            ask()


def test_a_server_that_is_killed_goes_on_where_it_was(tmp_path):
    with served(tmp_path / "jobs.db") as server:
        app, flows = declared(server.url)
        with app, at_work(app):
            run = flows["outer"].start("ann")
            until(lambda: any(step.key == "signal:reply" for step in run.steps()), PATIENCE)
            server.kill()
            server.restart()
            run.signal("reply", 7)

            assert ["ann", [0, 2, 4, 10], 1, 7] == run.result(PATIENCE)
