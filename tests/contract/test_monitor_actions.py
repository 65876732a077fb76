"""What operators change from the pages of the monitor, over HTTP: who may, and what becomes of the store."""

import json

import pytest

from penstock.clock import SECOND
from penstock.dialects.served import SERVED
from penstock.errors import NotFoundError
from penstock.job import (
    AuditFilter,
    Bound,
    Maintenance,
    NewJob,
    NewWorkflow,
    OnFull,
    Schedule,
    WorkerReport,
)
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.limits.rules import Floating, Limit, Numbers, Window
from penstock.monitor.actions.table import ACTIONS
from penstock.workflows.steps import Step
from tests.support.desk import slots
from tests.support.monitored import OPERATOR, monitored

WHY = "the provider is down"


def last_change(engine):
    """Return the verb, the subject, the tenant, who made it, through what and why."""
    entry = engine.audit(limit=1)[0]
    return entry.verb, entry.subject, entry.tenant, entry.who, entry.through, entry.reason


def test_a_gate_is_configured(engine, anna):
    answer = anna.send("/gates/configure?key=api", slots="3", rate="100/1m", throttle="10/1s+5", reason=WHY)

    assert 303 == answer.status
    wanted = Numbers(3, Window(100, 60 * SECOND), Window(10, SECOND, 5))
    assert wanted == engine.gate("api").configured
    assert ("gate.configure", "api", "", "anna", "monitor", WHY) == last_change(engine)


def test_the_form_shows_what_is_configured_and_without_it_jobs_bring_their_own(engine, anna):
    engine.configure("key", "api", Numbers(3, throttle=Window(10, SECOND, 5)))

    form = anna.get("/gates/configure?key=api")
    anna.send("/gates/configure?key=api", slots="", throttle="", reason=WHY)

    assert ("3", "", "10/1s+5") == tuple(form.fields[name] for name in ("slots", "rate", "throttle"))
    assert None is engine.gate("api").configured


def test_a_gate_is_overridden_for_a_while(engine, clock, anna):
    anna.send("/gates/override?key=api", **{"slots": "2", "for": "15m", "reason": WHY})

    gate = engine.gate("api")
    assert (Numbers(2), clock.now() + 900 * SECOND) == (gate.override, gate.override_until)
    assert ("gate.override", "api", "", "anna", "monitor", WHY) == last_change(engine)


def test_an_override_without_an_end_lasts_until_it_is_cleared(engine, anna):
    anna.send("/gates/override?key=api", slots="2", reason=WHY)
    until = engine.gate("api").override_until
    anna.send("/gates/clear?key=api", reason=WHY)

    assert (None, None) == (until, engine.gate("api").override)
    assert "gate.clear" == last_change(engine)[0]


def test_a_gate_is_paused_and_resumed_and_stays_shut_as_long_as_it_was_to_be(engine, clock, desk, anna):
    desk.enqueue("a b", slots("api", 1))
    anna.send("/gates/shut?key=api", **{"for": "90", "reason": WHY})
    shut_until = engine.gate("api").shut_until
    anna.send("/gates/pause?key=api", reason=WHY)
    clock.advance(100 * SECOND)
    paused = desk.claim()
    anna.send("/gates/resume?key=api", reason=WHY)

    assert clock.now() - 10 * SECOND == shut_until
    assert ("", "a") == (paused, desk.claim())
    verbs = [entry.verb for entry in engine.audit(AuditFilter(kind="gate"))]
    assert ["gate.resume", "gate.pause", "gate.shut"] == verbs


def test_a_gate_that_is_not_paused_is_not_resumed(engine, anna):
    engine.override("api", Numbers(2))

    answer = anna.send("/gates/resume?key=api", reason=WHY)

    assert 409 == answer.status
    assert "gate api is not paused; this needs a paused gate" in answer.shown
    assert Numbers(2) == engine.gate("api").override


def test_a_form_may_be_the_first_page_that_is_opened(engine):
    with monitored(engine) as site:
        answer = site.browser().send("/gates/pause?key=api", reason=WHY)

    assert 303 == answer.status
    assert ("any request", "monitor") == last_change(engine)[3:5]


def test_the_form_says_how_many_jobs_it_touches(desk, anna):
    desk.enqueue("a b c", slots("api", 1))
    desk.claim()

    assert "Touches 3 jobs now." in anna.get("/gates/pause?key=api").shown


def ended(desk, name, outcome=None):
    """Have a job that has failed."""
    desk.enqueue(name, retry=RetryPolicy(attempts=1))
    desk.claim()
    desk.settle(name, outcome or Failed("Boom", "no", final=True))


def test_a_failed_job_is_retried(engine, desk, anna):
    ended(desk, "a")

    answer = anna.send("/jobs/retry?id=a", reason=WHY)

    assert 303 == answer.status
    assert State.WAITING is engine.job("a").state
    assert ("job.retry", "a", "", "anna", "monitor", WHY) == last_change(engine)


def test_a_waiting_job_is_cancelled_for_the_reason_that_was_given(engine, desk, anna):
    desk.enqueue("a")

    anna.send("/jobs/cancel?id=a", reason=WHY)

    assert (State.CANCELLED, WHY) == ((job := engine.job("a")).state, job.reason)
    assert ("job.cancel", "a", "", "anna", "monitor", WHY) == last_change(engine)


def test_the_worker_of_a_running_job_is_asked_to_stop(engine, desk, anna):
    desk.enqueue("a")
    desk.claim()

    anna.send("/jobs/cancel?id=a", reason=WHY)

    assert (State.RUNNING, True) == ((job := engine.job("a")).state, job.cancel_asked)


def test_a_scheduled_job_is_let_be_due(engine, clock, desk, anna):
    desk.enqueue("a", due=clock.now() + 60 * SECOND)

    anna.send("/jobs/expedite?id=a", reason=WHY)

    assert State.WAITING is engine.job("a").state
    assert "job.expedite" == last_change(engine)[0]


def test_a_copy_of_a_job_is_enqueued(engine, desk, anna):
    ended(desk, "a")
    engine.enqueue([
        NewJob(
            "send", '{"to": 1}', "mail", id="b", priority=3, limits=(slots("api", 2), slots("db", 1)), cost=2,
            timeout=5, retry=RetryPolicy(attempts=7), meta='{"x": 1}', lease=60 * SECOND,
            unique=Unique("once"), due=clock_far(engine),
        )
    ])  # fmt: skip

    anna.send("/jobs/copy?id=b", reason=WHY)

    change = engine.audit(limit=1)[0]
    made, model = engine.job(json.loads(change.after)["id"]), engine.job("b")
    same = (
        "task",
        "args",
        "queue",
        "tenant",
        "priority",
        "limits",
        "cost",
        "timeout",
        "retry",
        "meta",
        "own_lease",
    )
    assert [getattr(model, name) for name in same] == [getattr(made, name) for name in same]
    assert ("job.copy", "b", State.WAITING) == (change.verb, change.subject, made.state)


def clock_far(engine):
    return engine.clock.now() + 3_600 * SECOND


def test_an_ended_job_is_forgotten_and_its_page_is_not_gone_back_to(engine, desk, anna):
    ended(desk, "a")

    answer = anna.send("/jobs/forget?id=a&back=/job%3Fid%3Da", reason=WHY)

    assert "/jobs" == answer.header("location")
    with pytest.raises(NotFoundError):
        engine.job("a")
    assert ("job.forget", "a", "", "anna", "monitor", WHY) == last_change(engine)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("retry", "this needs a failed, discarded, cancelled or expired job"),
        ("forget", "this needs a job that has ended"),
    ],
)
def test_a_job_in_a_state_that_does_not_allow_it_stays_as_it_is(engine, desk, anna, change, told):
    desk.enqueue("a")

    answer = anna.send(f"/jobs/{change}?id=a", reason=WHY)

    assert 409 == answer.status
    assert told in answer.shown
    assert [] == engine.audit()


def test_a_queue_is_paused_and_resumed(engine, desk, anna):
    desk.enqueue("a b")
    form = anna.get("/queues/pause?queue=q")
    anna.send("/queues/pause?queue=q", reason=WHY)
    paused = desk.claim()
    anna.send("/queues/resume?queue=q", reason=WHY)

    assert "Touches 2 jobs now." in form.shown
    assert ("", "a b") == (paused, desk.claim())
    assert ("queue.resume", "q", "", "anna", "monitor", WHY) == last_change(engine)


def test_a_queue_is_bounded_and_the_bound_taken_away(engine, anna):
    anna.send("/queues/bound?queue=q", most="1,000", full="drop_oldest", warning="80", reason=WHY)
    bounds = engine.bounds()
    form = anna.get("/queues/bound?queue=q")
    anna.send("/queues/bound?queue=q", most="", warning="", reason=WHY)

    assert {("", "q"): Bound(1_000, OnFull.DROP_OLDEST, 0.8)} == bounds
    assert ("1000", "80") == (form.fields["most"], form.fields["warning"])
    assert "<option selected>drop_oldest</option>" in form.text
    assert {} == engine.bounds()


@pytest.mark.parametrize(
    "fields",
    [{"most": "x"}, {"most": "1", "full": "explode"}, {"most": "1", "warning": "101"}, {"warning": "5"}],
)
def test_a_bound_that_cannot_be_is_refused(engine, anna, fields):
    assert 400 <= anna.send("/queues/bound?queue=q", **{"reason": WHY, **fields}).status < 500
    assert [] == engine.audit()


@pytest.mark.parametrize(
    ("action", "asked", "verb"),
    [
        ("quiet", "quiet", "worker.quiet"),
        ("stop", "terminate", "worker.stop"),
        ("resume", "", "worker.resume"),
    ],
)
def test_a_worker_is_asked_to_do_something(engine, anna, action, asked, verb):
    engine.hear([WorkerReport("w", running=3)])
    engine.ask_worker("w", "quiet" if action != "quiet" else "running")

    form = anna.get(f"/workers/{action}?worker=w")
    anna.send(f"/workers/{action}?worker=w", reason=WHY)

    assert "Touches 3 jobs now." in form.shown
    assert [asked] == engine.hear([WorkerReport("w")])
    assert (verb, "w", "", "anna", "monitor", WHY) == last_change(engine)


def test_a_schedule_is_disabled_enabled_and_fired(engine, anna):
    engine.set_schedule(Schedule("nightly", "0 3 * * *", NewJob("clean", queue="q")))
    before = engine.schedule("nightly").next_at

    anna.send("/schedules/disable?schedule=nightly", reason=WHY)
    off = engine.schedule("nightly").enabled
    anna.send("/schedules/fire?schedule=nightly", reason=WHY)
    fired = engine.schedule("nightly")
    anna.send("/schedules/enable?schedule=nightly", reason=WHY)

    assert (False, 1, before) == (off, fired.fired, engine.schedule("nightly").next_at)
    assert "clean" == engine.job(fired.last_job).task
    verbs = [entry.verb for entry in engine.audit(AuditFilter(who="anna"))]
    assert ["schedule.enable", "schedule.fire", "schedule.disable"] == verbs


def test_a_schedule_whose_last_job_lives_fires_only_if_its_overlap_lets_it(engine, anna):
    job = NewJob("clean", queue="q")
    engine.set_schedule(Schedule("nightly", "0 3 * * *", job, overlap=Overlap.SKIP))
    anna.send("/schedules/fire?schedule=nightly", reason=WHY)

    again = anna.send("/schedules/fire?schedule=nightly", reason=WHY)

    assert 409 == again.status
    assert "its last job lives" in again.shown
    assert 1 == engine.schedule("nightly").fired


def test_an_instance_is_paused_resumed_cancelled_and_retried(runs, anna):
    runs.create("x")
    runs.conduct()
    form = anna.get("/workflows/pause?id=x")
    states = []
    for action in ("pause", "resume", "cancel", "retry"):
        anna.send(f"/workflows/{action}?id=x", reason=WHY)
        states.append(runs.state("x"))

    assert "Touches 1 job now." in form.shown
    assert ["paused", "running", "cancelled", "running"] == states
    verbs = [entry.verb for entry in runs.engine.audit(AuditFilter(who="anna"))]
    assert ["instance.retry", "instance.cancel", "instance.resume", "instance.pause"] == verbs


def test_a_flow_is_cancelled(engine, anna, acme):
    flow = engine.start_workflow(NewWorkflow((Step("a", NewJob("t", queue="q")),)))
    stolen = acme.get(f"/flows/cancel?id={flow.id}")
    form = anna.get(f"/flows/cancel?id={flow.id}")

    anna.send(f"/flows/cancel?id={flow.id}", reason=WHY)

    assert 404 == stolen.status
    assert "Touches 1 job now." in form.shown
    assert "cancelled" == engine.workflow(flow.id).state
    assert ("workflow.cancel", flow.id, "", "anna", "monitor", WHY) == last_change(engine)


def test_a_floating_limit_is_refreshed(engine, clock, desk, anna):
    limit = Limit("api", Numbers(slots=2, floats=True), floating=Floating("probe", 3_600 * SECOND))
    desk.enqueue("a", limit)
    (lent,) = engine.refreshes(["probe"], 1, worker="w")
    engine.refreshed(lent, value=5)

    anna.send("/floating/refresh?key=api", reason=WHY)

    assert ["api"] == [lent.key for lent in engine.refreshes(["probe"], 1, worker="w")]
    assert ("floating.refresh", "api", "", "anna", "monitor", WHY) == last_change(engine)


def test_maintenance_begins_and_ends(engine, clock, desk, anna):
    desk.enqueue("a")
    anna.send("/settings/begin-maintenance", **{"for": "30m", "reason": WHY})
    found, started = engine.maintenance(), desk.claim()
    anna.send("/settings/end-maintenance", reason=WHY)

    assert Maintenance(clock.now(), WHY, clock.now() + 1_800 * SECOND) == found
    assert ("", "a") == (started, desk.claim())
    assert ("maintenance", "maintenance", "", "anna", "monitor", WHY) == last_change(engine)


# Actions on what must be there; the others add a gate or a pause for a name that nothing has yet.
GONE = [
    path for path, action in ACTIONS.items() if action.names and action.kind not in ("jobs", "operation")
    and path not in ("/gates/configure", "/gates/override", "/gates/pause", "/gates/shut", "/queues/pause",
                     "/queues/resume", "/queues/bound")
]  # fmt: skip


def test_what_is_gone_is_told_and_nothing_is_changed(engine, anna):
    word = anna.get("/gates/pause").fields["form"]
    for path in GONE:
        name = ACTIONS[path].names[0].name

        answer = anna.post(path, **{name: "nothing", "form": word, "reason": WHY})

        assert 404 == answer.status
        assert "nothing" in answer.shown
    assert [] == engine.audit()


def test_jobs_of_two_tenants_with_one_id_are_told_apart(engine, acme, anna):
    engine.enqueue([NewJob("t", id="a", tenant=tenant) for tenant in ("", "acme", "other")])

    acme.send("/jobs/cancel?id=a", reason=WHY)
    anna.send("/jobs/cancel?id=a", reason=WHY)

    states = {tenant: engine.job("a", tenant).state for tenant in ("", "acme", "other")}
    assert {"": State.CANCELLED, "acme": State.CANCELLED, "other": State.WAITING} == states


def test_no_dialect_has_the_address_of_an_action():
    owned = [path for dialect in SERVED for path in dialect.paths]

    assert [] == [path for path in ACTIONS if path.startswith(tuple(owned))]


def test_what_was_done_is_told_once_on_the_page_it_leads_back_to(anna):
    answer = anna.send("/gates/pause?key=api&back=/", reason=WHY)
    first, second = anna.follow(answer), anna.get("/")

    assert "/" == answer.header("location")
    assert "The gate is paused." in first.shown
    assert "The gate is paused." not in second.shown


def test_a_wrong_value_brings_the_form_back_filled_in_with_what_is_wrong_beside_it(engine, anna):
    answer = anna.send("/gates/override?key=api", slots="two", rate="100/1m", reason=WHY)

    assert 400 <= answer.status < 500
    assert "'two' must be a whole number" in answer.shown
    assert ("two", "100/1m", WHY, "api") == tuple(
        answer.fields[name] for name in ("slots", "rate", "reason", "key")
    )
    assert 'aria-describedby="p-slots h-slots" aria-invalid="true"' in answer.text
    assert [] == engine.audit()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"slots": "-1"}, "'-1' must be a whole number"),
        ({"slots": "9" * 40}, "must be a whole number"),
        ({"slots": "٣"}, "must be a whole number"),
        ({"rate": "100"}, "must be a number and a time, as in 100/1m"),
        ({"rate": "1/0s"}, "must be at least a microsecond"),
        ({"throttle": "1/1s+0"}, "burst"),
        ({"slots": "1", "for": "soon"}, "write 90 (seconds), 15m, 2h or 1d"),
        ({"slots": "1", "reason": ""}, "must not be empty"),
        ({"slots": "1", "reason": " "}, "must not be empty"),
        ({"slots": "1", "reason": "x" * 501}, "at most 500 characters"),
        ({}, "give at least one of slots, rate and throttle"),
        ({"slots": "1", "key": ""}, "must not be empty"),
        ({"slots": "1", "key": "a\x07b"}, "control characters"),
        ({"slots": "1", "key": "k" * 1_025}, "at most 1,024"),
    ],
)
def test_what_cannot_be_read_changes_nothing(engine, anna, fields, told):
    answer = anna.send("/gates/override?key=api", **{"reason": WHY, **fields})

    assert 400 <= answer.status < 500
    assert told in answer.shown
    assert [] == engine.audit()


def test_a_key_with_markup_is_shown_as_it_is_and_changed(engine, anna):
    key = "<b onclick=alert(1)>\u202e&amp;"
    answer = anna.post("/gates/pause", form=anna.get("/gates/pause").fields["form"], key=key, reason=WHY)
    form = anna.get("/gates/resume?key=%3Cb+onclick%3Dalert(1)%3E%E2%80%AE%26amp%3B")

    assert 303 == answer.status
    assert "<b onclick" not in form.text
    assert Numbers(0) == engine.gate(key).override


def test_a_program_with_a_token_sends_json_and_gets_json(engine, site):
    done = site.program(OPERATOR, "/gates/override", {"key": "api", "slots": 4, "reason": WHY})
    wrong = site.program(OPERATOR, "/gates/override", {"key": "api", "slots": "x", "reason": WHY})
    form = site.program(OPERATOR, "/gates/override?key=api")

    assert (200, {"action": "/gates/override", "done": "The override is in force."}) == (
        done.status,
        done.json,
    )
    assert Numbers(4) == engine.gate("api").override
    assert wrong.json["error"]["message"].startswith("slots: 'x' must be a whole number")
    assert {"number": 0, "more": False} == form.json["touches"]


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"slots": {}}', b'{"slots": 1.5}', b"\xff"])
def test_json_that_cannot_be_read_is_refused(engine, site, body):
    answer = site.ask(
        "POST", "/gates/override", body, authorization=f"Bearer {OPERATOR}", content_type="application/json",
        accept="application/json",
    )  # fmt: skip

    assert 400 == answer.status
    assert [] == engine.audit()


def test_a_token_of_a_tenant_changes_what_is_its_own(engine, acme):
    acme.send("/gates/override?key=api", slots="2", reason=WHY)

    assert Numbers(2) == engine.gate("api", "acme").override
    assert ("gate.override", "api", "acme", "acme-desk", "monitor", WHY) == last_change(engine)
