"""What operators change is written down, in the transaction that makes the change: who, through what, and why."""

import json
import threading

import pytest

from penstock.acting import Actor, user
from penstock.clock import SECOND
from penstock.engine import audit
from penstock.errors import InvalidError, NotFoundError
from penstock.job import (
    AuditFilter,
    Bound,
    Maintenance,
    NewInstance,
    NewJob,
    NewWorkflow,
    Pool,
    Schedule,
    TenantLimits,
    Webhook,
)
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import Exhausted, RetryPolicy
from penstock.limits.groups import Resource
from penstock.limits.rules import Floating, Limit, Numbers, Window
from penstock.workflows.steps import Step

ANNA = Actor("anna", "cli", "the provider is down")
HOOK = Webhook("https://example.com/hidden?token=hidden", ("job.*",), "hidden")
CRON = Schedule("nightly", "0 3 * * *", NewJob("clean", '{"password": "hidden"}'))


def changes(engine, **wanted):
    return [entry.verb for entry in engine.audit(AuditFilter(**wanted))][::-1]


def test_a_change_says_who_made_it_through_what_and_why(engine, clock):
    with engine.acting(ANNA):
        engine.configure("key", "api", Numbers(slots=3))
        engine.configure("key", "api", Numbers(slots=5, rate=Window(100, 60 * SECOND)))

    last, first = engine.audit()
    assert ("anna", "cli", "the provider is down", clock.now()) == (
        last.who,
        last.through,
        last.reason,
        last.at,
    )
    assert ("gate.configure", "gate", "api", "") == (last.verb, last.kind, last.subject, last.tenant)
    assert [{}, {"configured": {"slots": 3}}] == [json.loads(text) for text in (first.before, first.after)]
    assert {"configured": {"slots": 3}} == json.loads(last.before)
    assert {"configured": {"slots": 5, "rate": "100/1m"}} == json.loads(last.after)


def test_without_an_actor_it_is_the_user_of_the_process(engine):
    engine.pause("q")

    (entry,) = engine.audit()
    assert (user().name, "python", "") == (entry.who, entry.through, entry.reason)
    assert "@" in entry.who


def test_an_actor_is_bound_to_its_thread(engine):
    def rival():
        engine.pause("theirs")

    with engine.acting(ANNA):
        thread = threading.Thread(target=rival)
        thread.start()
        thread.join()
        engine.pause("mine")

    assert {"mine": "anna", "theirs": user().name} == {e.subject: e.who for e in engine.audit()}


def test_what_changes_nothing_leaves_no_entry(engine):
    for _ in range(2):
        engine.pause("q")
        engine.configure("key", "api", Numbers(slots=3))
        engine.bound("q", Bound(5))
        engine.set_pool(Pool("p", ("q",)))
        engine.set_setting("s", "1")
        engine.set_tenant_limits("acme", TenantLimits(slots=1))
    engine.resume("other")

    assert len(engine.audit()) == 6


def test_a_refused_change_leaves_no_entry(engine):
    for verb in (engine.clear_override, engine.delete_pool, engine.delete_schedule, engine.cancel):
        with pytest.raises(NotFoundError):
            verb("unknown")

    assert [] == engine.audit()


def test_every_change_of_an_operator_has_an_entry(engine, desk, clock):
    hour = 3_600 * SECOND
    floats = Limit("F", Numbers(slots=2), floating=Floating("compute", 60 * SECOND))
    desk.enqueue("floats", floats, tenant="")
    desk.enqueue("failed", retry=RetryPolicy(1, exhausted=Exhausted.KEEP))
    desk.claim()
    desk.settle("failed", Failed("Error", "no"))
    desk.enqueue("later", due=clock.now() + hour)
    desk.enqueue("waits")
    engine.create_instances([NewInstance("flow", queue="passes", id="run")])
    engine.start_workflow(NewWorkflow((Step("a", NewJob("t")),), id="chain"))
    made = [
        ("gate.configure", lambda: engine.configure("key", "api", Numbers(slots=3))),
        ("queue.configure", lambda: engine.configure("queue", "q", Numbers(slots=3))),
        ("type.configure", lambda: engine.configure("type", "t", Numbers(slots=3))),
        ("gate.override", lambda: engine.override("api", Numbers(slots=1), until=clock.now() + hour)),
        ("gate.clear", lambda: engine.clear_override("api")),
        ("gate.shut", lambda: engine.shut("api", clock.now() + hour, reason="too many")),
        ("queue.pause", lambda: engine.pause("q")),
        ("queue.resume", lambda: engine.resume("q")),
        ("queue.bound", lambda: engine.bound("q", Bound(5))),
        ("queue.bound", lambda: engine.bound("q", None)),
        ("pool.put", lambda: engine.set_pool(Pool("p", ("x", "y"), slots=3))),
        ("pool.delete", lambda: engine.delete_pool("p")),
        ("tenant.limits", lambda: engine.set_tenant_limits("acme", TenantLimits(waiting=1))),
        ("job.retry", lambda: engine.retry("failed")),
        ("job.cancel", lambda: engine.cancel("failed", "not needed")),
        ("job.forget", lambda: engine.forget("failed")),
        ("job.expedite", lambda: engine.expedite("later")),
        ("floating.set", lambda: engine.set_floating("F", value=3)),
        ("floating.refresh", lambda: engine.refresh_floating("F")),
        ("floating.delete", lambda: engine.delete_floating("F")),
        ("schedule.put", lambda: engine.set_schedule(CRON)),
        ("schedule.disable", lambda: engine.pause_schedule("nightly")),
        ("schedule.enable", lambda: engine.resume_schedule("nightly")),
        ("schedule.delete", lambda: engine.delete_schedule("nightly")),
        ("group.put", lambda: engine.put_resource_group("pool")),
        ("resource.put", lambda: engine.put_resource("pool", Resource("a"))),
        ("resource.put", lambda: engine.put_resource("pool", Resource("a", weight=2))),
        ("resource.delete", lambda: engine.delete_resource("pool", "a")),
        ("group.delete", lambda: engine.delete_resource_group("pool")),
        ("rate_resource.put", lambda: engine.put_rate_resource("api2", Window(1, SECOND))),
        ("rate_resource.delete", lambda: engine.delete_rate_resource("api2")),
        ("webhook.add", lambda: engine.add_webhook(HOOK)),
        ("setting.put", lambda: engine.set_setting("http:x", "hidden")),
        ("setting.delete", lambda: engine.set_setting("http:x", None)),
        ("maintenance", lambda: engine.set_maintenance(Maintenance(clock.now()))),
        ("maintenance", lambda: engine.set_maintenance(None)),
        ("instance.pause", lambda: engine.pause_instance("run")),
        ("instance.resume", lambda: engine.resume_instance("run")),
        ("instance.cancel", lambda: engine.cancel_instance("run")),
        ("instance.retry", lambda: engine.retry_instance("run")),
        ("workflow.cancel", lambda: engine.cancel_workflow("chain")),
    ]  # fmt: skip
    for _, change in made:
        change()

    assert [verb for verb, _ in made] == [e.verb for e in engine.audit(limit=100)][::-1]
    assert [] == engine.doctor()


def test_no_secret_is_written_down(engine):
    engine.set_schedule(CRON)
    hook = engine.add_webhook(HOOK)
    engine.change_webhook(hook.id, lambda _: Webhook("https://example.com/hidden2", ("job.*",), "hidden2"))
    engine.set_setting("token", "hidden")
    engine.delete_webhook(hook.id)
    engine.delete_schedule("nightly")

    told = json.dumps([[e.subject, e.before, e.after, e.reason] for e in engine.audit()])
    assert "hidden" not in told
    assert {"secret": "changed", "url": "changed"}.items() <= json.loads(engine.audit()[3].after).items()


def test_changes_are_found_by_subject_and_by_who_and_when(engine, clock):
    with engine.acting(ANNA):
        engine.pause("a")
    clock.advance(SECOND)
    engine.pause("b", tenant="acme")
    engine.configure("queue", "a", Numbers(slots=1))

    assert ["queue.pause", "queue.configure"] == changes(engine, kind="queue", subject="a")
    assert ["queue.pause"] == changes(engine, who="anna")
    assert ["queue.pause", "queue.configure"] == changes(engine, since=clock.now())
    assert ["queue.pause"] == changes(engine, until=clock.now())
    assert ["queue.pause"] == changes(engine, tenant="acme", through="python")
    assert ["queue.configure"] == changes(engine, verb="queue.configure")


def test_pages_go_on_by_number(engine):
    for queue in "abcde":
        engine.pause(queue)

    first = engine.audit(limit=3)
    second = engine.audit(before=first[-1].number, limit=3)
    assert "edcba" == "".join(entry.subject for entry in [*first, *second])


def test_a_bulk_operation_is_one_entry_that_counts_what_it_touched(desk):
    desk.enqueue("a b c")
    engine = desk.engine
    with engine.acting(ANNA), engine.acting(engine.begin_bulk("job.cancel", "jobs", "queue=q")):
        for id_ in "ab":
            engine.cancel(id_)
        with pytest.raises(NotFoundError):
            engine.cancel("unknown")

    (entry,) = engine.audit()
    assert ("job.cancel", "jobs", "queue=q", 2, "anna") == (
        entry.verb, entry.kind, entry.subject, entry.touched, entry.who,
    )  # fmt: skip


def test_pruning_by_hand_is_one_entry_and_by_a_worker_none(desk, clock, monkeypatch):
    monkeypatch.setattr("penstock.engine.upkeep.BATCH", 2)
    desk.enqueue("a b c d e f")
    desk.claim(count=6)
    for id_ in "abcdef":
        desk.settle(id_)
    clock.advance(SECOND)
    desk.engine.prune(clock.now(), 1)
    desk.engine.prune(clock.now())

    (entry,) = desk.engine.audit()
    assert ("jobs.prune", 4) == (entry.verb, entry.touched)


def test_entries_are_kept_for_ninety_days(engine, clock):
    engine.pause("a")
    clock.advance(audit.KEPT)
    engine.pause("b")
    engine.upkeep()
    assert ["b", "a"] == [entry.subject for entry in engine.audit()]

    clock.advance(SECOND)
    engine.upkeep()
    assert ["b"] == [entry.subject for entry in engine.audit()]


@pytest.mark.parametrize(
    ("field", "actor"),
    [
        ("name", Actor("")),
        ("name", Actor("a\nb")),
        ("through", Actor("anna", "\0")),
        ("reason", Actor("anna", reason="x" * 1_001)),
        ("reason", Actor("anna", reason="\0")),
        ("reason", Actor("anna", reason="\ud800")),
    ],
)
def test_an_actor_that_cannot_be_written_down_is_refused(engine, field, actor):
    with pytest.raises(InvalidError, match=field), engine.acting(actor):
        engine.pause("q")


def test_what_is_too_long_is_left_out(engine):
    engine.set_pool(Pool("p", tuple(f"{n:0200}" for n in range(100))))

    (entry,) = engine.audit()
    assert {"left_out"} == set(json.loads(entry.after))
