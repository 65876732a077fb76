"""Workers tell of themselves, and are forgotten an hour after they were last heard from."""

import threading
from contextlib import contextmanager

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.engine.workers import FORGOTTEN, LONGEST
from penstock.errors import InvalidError, NotFoundError
from penstock.job import ENDED, NewJob, WorkerReport, WorkerView
from penstock.worker import presence
from penstock.worker.handler import Handler
from penstock.worker.worker import Worker
from tests.support.timing import until

ANNA = WorkerReport("anna:1", "anna", 1, ("mail",), ("send",), 8, 2, "0.1", 5)


def test_a_worker_is_what_it_told_last(engine, opened, clock):
    engine.hear([ANNA])
    clock.advance(SECOND)
    later = WorkerReport("anna:1", state="stopping", tenant="")
    opened().hear([later])

    assert [WorkerView(later, clock.now())] == engine.workers()


def test_workers_are_listed_by_name_and_by_tenant(engine):
    reports = [WorkerReport(name, tenant=tenant) for name, tenant in (("b", ""), ("a", "acme"), ("a", ""))]
    engine.hear(reports)

    assert [("a", ""), ("a", "acme"), ("b", "")] == [
        (w.report.name, w.report.tenant) for w in engine.workers()
    ]
    assert ["acme"] == [worker.report.tenant for worker in engine.workers("acme")]


def test_one_that_ended_is_forgotten_at_once_and_a_silent_one_after_an_hour(engine, clock):
    engine.hear([ANNA, WorkerReport("bob")])
    engine.hear([WorkerReport("bob", state=ENDED)])
    clock.advance(FORGOTTEN)
    engine.upkeep()
    assert ["anna:1"] == [worker.report.name for worker in engine.workers()]

    clock.advance(1)
    engine.upkeep()
    assert [] == engine.workers()


def test_names_of_tasks_that_are_too_many_are_left_out(engine):
    engine.hear([WorkerReport("w", queues=("q",), tasks=("x" * LONGEST,))])

    assert ((), ("q",)) == ((told := engine.workers()[0].report).tasks, told.queues)


@pytest.mark.parametrize(
    "report", [WorkerReport(""), WorkerReport("a\nb"), WorkerReport("w", host="x" * LONGEST)]
)
def test_what_cannot_be_kept_is_refused(engine, report):
    with pytest.raises(InvalidError):
        engine.hear([ANNA, report])

    assert [] == engine.workers()


@contextmanager
def at_work(engine, handlers=None, **options):
    worker = Worker(engine, handlers or {"t": Handler(lambda: None)}, name="anna:1", **options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(60)


def test_a_worker_tells_of_itself_while_it_runs_and_says_when_it_ends(url):
    engine = open_engine(url)
    engine.enqueue([NewJob("t")])
    with at_work(engine, threads=3):
        until(engine.workers)
        (view,) = engine.workers()
        report = view.report
        assert ("anna:1", ("default",), ("t",), 3, "running") == (
            report.name, report.queues, report.tasks, report.hands, report.state,
        )  # fmt: skip
        assert 0 < report.began <= view.heard

    assert [] == engine.workers()
    engine.close()


def test_what_is_asked_of_a_worker_is_told_when_it_tells_of_itself(engine):
    engine.hear([ANNA, WorkerReport("bob", tenant="acme")])
    engine.ask_worker("anna:1", "quiet")
    engine.ask_worker("bob", "terminate", tenant="acme")
    first = engine.hear([ANNA, WorkerReport("bob", tenant="acme"), WorkerReport("bob")])
    engine.ask_worker("anna:1", "running")

    assert ["quiet", "terminate", ""] == first
    assert [""] == engine.hear([ANNA])
    told = [(entry.verb, entry.subject, entry.tenant) for entry in engine.audit()]
    assert [
        ("worker.resume", "anna:1", ""),
        ("worker.stop", "bob", "acme"),
        ("worker.quiet", "anna:1", ""),
    ] == told


def test_what_was_asked_of_a_worker_that_ended_is_not_asked_of_the_next_of_its_name(engine):
    engine.hear([ANNA])
    engine.ask_worker("anna:1", "terminate")
    engine.hear([WorkerReport("anna:1", state=ENDED)])

    assert [""] == engine.hear([ANNA])


def test_nothing_is_asked_of_a_worker_that_is_not_known(engine):
    with pytest.raises(NotFoundError):
        engine.ask_worker("anna:1", "quiet")

    assert [] == engine.audit()


def test_a_quiet_worker_finishes_what_it_runs_and_claims_nothing_until_it_goes_on(url, monkeypatch):
    monkeypatch.setattr(presence, "TELLS_EVERY", SECOND // 50)
    engine, began, may_end = open_engine(url), threading.Event(), threading.Event()

    def wait():
        began.set()
        assert may_end.wait(60)

    engine.enqueue([NewJob("wait", id="first")])
    with at_work(engine, handlers={"wait": Handler(wait), "t": Handler(lambda: None)}):
        assert began.wait(60)
        until(engine.workers)  # a job may begin before its worker has told of itself
        engine.ask_worker("anna:1", "quiet")
        until(lambda: engine.workers()[0].report.state == "quiet")
        engine.enqueue([NewJob("t", id="second")])
        may_end.set()
        until(lambda: engine.job("first").state == "done")
        heard = engine.workers()[0].heard
        until(lambda: engine.workers()[0].heard > heard)
        meanwhile = engine.job("second").state
        engine.ask_worker("anna:1", "running")
        until(lambda: engine.job("second").state == "done")

    assert "waiting" == meanwhile
    engine.close()


def test_a_worker_that_is_asked_to_stop_finishes_what_it_runs_and_ends(url, monkeypatch):
    monkeypatch.setattr(presence, "TELLS_EVERY", SECOND // 50)
    engine, began, may_end = open_engine(url), threading.Event(), threading.Event()

    def wait():
        began.set()
        assert may_end.wait(60)

    engine.enqueue([NewJob("wait", id="first")])
    worker = Worker(engine, {"wait": Handler(wait)}, name="anna:1")
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert began.wait(60)
        until(engine.workers)
        engine.ask_worker("anna:1", "terminate")
        until(lambda: engine.workers()[0].report.state == "stopping")
        may_end.set()
        thread.join(60)
    finally:
        worker.stop_now()

    assert not thread.is_alive()
    assert ("done", []) == (engine.job("first").state, engine.workers())
    engine.close()
