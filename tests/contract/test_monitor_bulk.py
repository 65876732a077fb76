"""Bulk operations of the monitor: batches that go on by themselves, progress, a stop, and one entry in the audit."""

import json
import threading
from contextlib import closing, suppress
from urllib.parse import quote

import pytest

from penstock.acting import Actor
from penstock.engine import Engine
from penstock.errors import ConflictError, StoreBusyError
from penstock.job import Count, JobQuery, NewJob
from penstock.lifecycle.states import State
from penstock.monitor import operations
from tests.support.monitored import OPERATOR, TENANT, VIEWER, monitored
from tests.support.timing import until

WHY = "the provider is back"
JOBS = 2_000


def enqueue(engine, count, **facts):
    engine.enqueue([NewJob("t", id=f"job-{n}", queue="q", **facts) for n in range(count)])


def shown(site, token=OPERATOR):
    """Return the operations of this process, as programs see them."""
    return site.program(token, "/operations").json["here"]


def over(site):
    return until(
        lambda: (found := shown(site)) and found[0]["state"] != "running" and found[0], 120, every=0.05
    )


def entry_of(engine):
    """Return the entry of the bulk operation, once it says how that ended."""
    return until(lambda: (found := engine.audit(limit=1)[0]).after and found)


def cancelled(engine):
    return engine.count().get(State.CANCELLED, 0)


def test_all_that_fit_are_changed_in_batches_and_counted_in_one_entry(engine, site, anna):
    enqueue(engine, JOBS)
    engine.enqueue([NewJob("other", queue="elsewhere")])

    form = anna.get("/bulk/cancel?queue=q")
    answer = anna.send("/bulk/cancel?queue=q", reason=WHY)
    ended = over(site)

    assert f"Touches {JOBS:,} jobs now." in form.shown
    assert {"form", "fixed", "queue", "reason"} == set(form.fields)
    assert "/operations" == answer.header("location")
    assert ("done", JOBS, 0) == (ended["state"], ended["done"], ended["passed"])
    assert JOBS == cancelled(engine)
    entry = entry_of(engine)
    assert ("job.cancel", "jobs", "queue=q", "anna", "monitor", WHY, JOBS) == (
        entry.verb, entry.kind, entry.subject, entry.who, entry.through, entry.reason, entry.touched,
    )  # fmt: skip
    assert {"ended": "done", "left": 0} == json.loads(entry.after)
    assert 1 == len(engine.audit())


@pytest.fixture
def halting(monkeypatch):
    """Have batches wait in their middle: the third one tells that it is there, and goes on when it may."""
    there, may_go_on, batches = threading.Event(), threading.Event(), []
    change = Engine.change_jobs

    def change_jobs(engine, *args):
        batches.append(len(args[1]))
        if len(batches) == 3:
            there.set()
            assert may_go_on.wait(60)
        return change(engine, *args)

    monkeypatch.setattr(Engine, "change_jobs", change_jobs)
    yield there, may_go_on, batches
    may_go_on.set()


def test_one_that_is_stopped_in_the_middle_says_how_far_it_came(engine, site, anna, halting):
    there, may_go_on, batches = halting
    enqueue(engine, JOBS)
    page = anna.follow(anna.send("/bulk/cancel?state=waiting", reason=WHY))
    assert there.wait(60)
    (meanwhile,) = shown(site)
    number = meanwhile["number"]

    stopped = anna.post("/operations/stop", form=page.fields["form"], number=number, reason="wrong jobs")
    may_go_on.set()
    ended = over(site)

    assert 303 == stopped.status
    assert ("running", sum(batches[:2])) == (meanwhile["state"], meanwhile["done"])
    assert ("stopped", 3, sum(batches)) == (ended["state"], len(batches), ended["done"])
    assert 0 < ended["done"] < JOBS
    entry = entry_of(engine)
    assert (ended["done"], {"ended": "stopped", "left": 0}) == (entry.touched, json.loads(entry.after))
    assert ended["done"] == cancelled(engine)
    again = anna.post("/operations/stop", form=page.fields["form"], number=number, reason="wrong jobs")
    assert 409 == again.status


def test_the_server_does_not_wait_for_one_to_end_and_its_batches_are_whole(engine, halting, monkeypatch):
    there, may_go_on, batches = halting
    enqueue(engine, JOBS)
    close = operations.Operations.close

    def close_in_the_middle(self):
        threading.Timer(0.2, may_go_on.set).start()
        close(self)

    monkeypatch.setattr(operations.Operations, "close", close_in_the_middle)
    with monitored(engine) as site:
        site.browser().send("/bulk/cancel?queue=q", reason=WHY)
        assert there.wait(60)

    assert sum(batches) == cancelled(engine) == engine.audit(limit=1)[0].touched
    assert len(batches) == 3


def test_chosen_jobs_are_changed_and_those_that_may_not_be_are_left(engine, site, anna):
    enqueue(engine, 3)
    engine.enqueue([NewJob("t", id="a b/c", tenant="x y"), NewJob("t", id="ended")])
    engine.cancel("ended")
    jobs = ["/job-0", f"{quote('x y')}/{quote('a b/c', safe='')}", "/ended", "/nothing"]

    page = anna.get("/jobs")
    query = "&".join(f"job={quote(job, safe='')}" for job in jobs)
    anna.send(f"/bulk/cancel?{query}", reason=WHY)
    ended = over(site)

    assert all(f'value="{job}"' in page.text for job in jobs[:3])
    assert (2, 2) == (ended["done"], ended["passed"])
    assert (State.CANCELLED, State.WAITING) == (engine.job("a b/c", "x y").state, engine.job("job-1").state)


def test_failed_jobs_are_retried_and_ended_ones_forgotten(engine, site, anna):
    enqueue(engine, 30)
    anna.send("/bulk/cancel?queue=q", reason=WHY)
    over(site)
    anna.send("/bulk/retry?state=cancelled", reason=WHY)
    retried = over(site)
    anna.send("/bulk/cancel?queue=q", reason=WHY)
    over(site)
    anna.send("/bulk/forget?queue=q", reason=WHY)
    forgotten = over(site)

    assert (30, 30, {}) == (retried["done"], forgotten["done"], engine.count())


def test_a_busy_store_is_tried_again(engine, site, anna, monkeypatch):
    enqueue(engine, 3)
    change, calls = Engine.change_jobs, []

    def change_jobs(engine, *args):
        calls.append(args)
        if len(calls) == 1:
            raise StoreBusyError("the store is busy")
        return change(engine, *args)

    monkeypatch.setattr(Engine, "change_jobs", change_jobs)
    anna.send("/bulk/cancel?queue=q", reason=WHY)

    assert ("done", 3) == ((ended := over(site))["state"], ended["done"])


def test_one_that_fails_says_why(engine, site, anna, monkeypatch):
    enqueue(engine, 3)

    def change_jobs(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Engine, "change_jobs", change_jobs)
    anna.send("/bulk/cancel?queue=q", reason=WHY)

    assert ("failed", "the monitor made a mistake") == ((ended := over(site))["state"], ended["problem"])
    assert {"ended": "failed", "left": 0} == json.loads(entry_of(engine).after)


def test_a_few_are_under_way_at_once(engine, anna, monkeypatch):
    monkeypatch.setattr(operations, "AT_ONCE", 0)

    answer = anna.send("/bulk/cancel?queue=q", reason=WHY)

    assert 409 == answer.status
    assert "bulk operations are under way" in answer.shown
    assert [] == engine.audit()


def test_one_tenant_keeps_out_neither_another_nor_those_of_none(engine, monkeypatch):
    conduct, may_go_on = operations.Operations._conduct, threading.Event()

    def waiting(self, *args):
        assert may_go_on.wait(60)
        conduct(self, *args)

    monkeypatch.setattr(operations.Operations, "_conduct", waiting)
    wanted = operations.Wanted("cancel", JobQuery(queue="q"))
    with closing(operations.Operations(lambda work: work(engine))) as made:
        try:
            for tenant in ("a", "b", None, "c", "d", "e"):
                with suppress(ConflictError):
                    for _ in range(9):
                        made.start(engine, wanted, Actor("x", "monitor", WHY), tenant, Count())
            begun = [len(made.of(tenant)) for tenant in ("a", "b", "c", "d", "e", None)]
        finally:
            may_go_on.set()

    assert [2, 2, 2, 2, 0, 4 + 8] == begun


@pytest.mark.parametrize(
    "query",
    ["", "state=nonsense", "job=x", "job=/", "since=x", "job=" + "+".join(f"/{n}" for n in range(501))],
)
def test_jobs_that_are_not_named_well_are_refused(engine, anna, query):
    word = anna.get("/gates/pause").fields["form"]
    fields = dict(part.split("=") for part in query.split("&") if part)
    fields = {name: value.replace("+", " ") for name, value in fields.items()}

    answer = anna.post("/bulk/cancel", form=word, reason=WHY, **fields)

    assert 400 <= answer.status < 500
    assert [] == engine.audit()


def test_a_tenant_changes_its_own_jobs_and_sees_its_own_operations(engine, site, acme, anna):
    engine.enqueue([NewJob("t", id="a", queue="q", tenant=tenant) for tenant in ("", "acme", "other")])
    word = acme.get("/gates/pause").fields["form"]

    acme.send("/bulk/cancel?queue=q", reason=WHY)
    ended = until(lambda: (found := shown(site, TENANT)) and found[0]["state"] != "running" and found[0])
    stolen = acme.post("/bulk/cancel", form=word, job="other/a", reason=WHY)
    anna.send("/bulk/cancel?queue=q", reason=WHY)
    until(lambda: shown(site)[0]["state"] != "running")
    number = shown(site)[0]["number"]
    foreign = acme.post("/operations/stop", form=word, number=number, reason=WHY)

    assert (1, [404, 404]) == (ended["done"], [stolen.status, foreign.status])
    assert (1, 2) == (len(shown(site, TENANT)), len(shown(site)))
    assert State.CANCELLED is engine.job("a", "acme").state


def test_a_viewer_sees_progress_and_no_button(engine, site, anna, halting):
    there, may_go_on, _ = halting
    enqueue(engine, JOBS)
    anna.send("/bulk/cancel?queue=q", reason=WHY)
    assert there.wait(60)
    screen = site.browser(VIEWER)
    page, jobs = screen.get("/operations"), screen.get("/jobs")
    own = anna.get("/operations")
    may_go_on.set()
    over(site)

    assert f"of {JOBS:,} at first" in page.shown
    assert ("/operations/stop" in own.text, "/operations/stop" in page.text) == (True, False)
    assert "/bulk/" not in jobs.text
