"""What the charts of the monitor are drawn from: how a store did while lines grew, told alike by every store."""

from penstock.clock import SECOND
from penstock.engine.minutes import DAY
from penstock.job import Count, FailedLately, NewJob, Place, Settlement
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.limits.rules import Numbers, Window
from penstock.monitor import Monitor
from penstock.monitor.page import View
from penstock.monitor.pages import gate, overview, queues
from penstock.monitor.pages.gates import if_cleared
from penstock.monitor.requests import Query
from tests.support.looking import look
from tests.support.past import MINUTE, live


def test_pages_tell_how_it_was(engine, clock, monkeypatch):
    clock.advance(MINUTE - clock.now() % MINUTE)
    live(engine, clock, minutes=16)  # all look at the same: it takes a while to make
    view = View(engine, None, clock.now())

    an_overview_tells_what_jobs_waited_for(view)
    tasks_are_told_with_their_last_hour(view)
    a_gate_is_told_with_the_limits_that_were_in_force(view)
    the_same_is_drawn(engine)
    what_is_read_at_once_is_what_is_read_alone(engine)
    a_tenant_sees_its_own(View(engine, "acme", clock.now()))
    with monkeypatch.context() as patched:
        a_day_is_read_once_for_all_who_look_within_half_a_minute(view, patched)
    what_upkeep_has_not_added_yet_counts_once(engine)
    the_kind_of_an_error_is_told_whatever_it_is(engine, clock)
    an_override_that_has_ended_is_told(engine, clock)


def an_overview_tells_what_jobs_waited_for(view):
    found = overview.show(view, Query({}))

    parts = {part.key or part.title: part.share for part in found.parts}
    assert ["other gates", "a free worker"] == list(parts)[-2:]
    assert 99 <= sum(parts.values()) <= 101
    assert min(parts["api:stripe"], parts["smtp"]) > 10 > parts["other gates"]
    holds = found.verdict.gate.gate.key
    assert holds == found.gates[0].gate.key
    assert abs(parts[holds] - found.verdict.share) <= 5  # that of a quarter of an hour, not of all
    rows = {row.gate.key: row for row in found.gates}
    assert {"api:stripe", "smtp"} <= rows.keys()
    assert all(row.starts > 0 and row.trend[-2] > row.trend[-12] for row in rows.values())
    overridden = if_cleared(rows["api:stripe"].gate, view.now)
    assert Numbers(rate=Window(12, MINUTE)) == overridden.numbers
    assert view.now < overridden.clears < rows["api:stripe"].clears
    assert if_cleared(rows["smtp"].gate, view.now) is None
    free = next(queue for queue in found.queues if queue.queue == "free")
    assert free.starts > 0 == free.trend[0]
    failed = {point.task: (point.error, point.text) for point in found.points if point.error is not None}
    assert ("TimeoutError", "failed for good in the last hour: 5 jobs") == failed["import_rows"]


def tasks_are_told_with_their_last_hour(view):
    found = {row.task: row for row in queues.show(view, Query({})).tasks}

    assert {"sync_account", "send_mail", "render_page", "tidy", "import_rows"} == found.keys()
    assert found["sync_account"].stands.waiting > 0 == found["import_rows"].stands.waiting
    assert (5, 5) == (found["import_rows"].failed, sum(found["import_rows"].trend))
    assert 0 < found["sync_account"].waited_p50 <= found["sync_account"].waited_p95
    assert found["tidy"].starts > 0


def a_gate_is_told_with_the_limits_that_were_in_force(view):
    of_gate = gate.show(view, Query({"key": "api:stripe"}))
    fast, slow = of_gate.limits
    assert (Window(12, MINUTE), Window(6, MINUTE)) == (fast.numbers.rate, slow.numbers.rate)
    assert ("override", "on-call") == (slow.what, slow.who)
    for moment in of_gate.past.moments:
        assert moment.started <= (12 if moment.at < slow.at else 6)
    whole = of_gate.hour.whole
    assert 0 <= whole.waited_p50 < whole.waited_p95 < 16 * MINUTE
    assert "on-call" == of_gate.changes[0].who


def the_same_is_drawn(engine):
    html = "".join(look(Monitor(engine), path).text for path in ("/?last=day", "/gate?key=api:stripe"))
    for word in (
        "is the bottleneck",
        "override 6 per 1m, on-call",
        "What jobs waited for in the last",
        "TimeoutError",
    ):
        assert word in html
    assert 'href="/gate?key=api%3Astripe&amp;last=week"' in html


def what_is_read_at_once_is_what_is_read_alone(engine):
    gates, places = ["api:stripe", "smtp", "none"], [Place("", "free"), Place("", "none")]
    hour = engine.hour_past(gates=[Place("", key) for key in gates], queues=places)

    assert (engine.past(), engine.waited_for()) == (hour.past, hour.waited)
    assert [engine.gate_past(key) for key in gates] == hour.gates
    assert [engine.queue_past(place.key) for place in places] == hour.queues
    assert engine.queues_past(places) == hour.queues
    assert hour.gates == engine.gates_past([Place("", key) for key in gates])
    assert [] == engine.gates_past([]) == engine.hour_past().gates


def a_day_is_read_once_for_all_who_look_within_half_a_minute(view, monkeypatch):
    read, at, engine = [], view.now, view.engine
    for name in ("waited_for", "gate_past"):
        verb = getattr(engine, name)

        def reading(*args, verb=verb, name=name, **options):
            read.append((name, options.get("last")))
            return verb(*args, **options)

        monkeypatch.setattr(engine, name, reading)
    day = Query({"last": "day", "key": "smtp"})
    for seconds in (0, 10, 29, 30):
        later = View(engine, None, at + seconds * SECOND, remembered=view.remembered)
        assert 96 == len(overview.show(later, day).waited.worker)
        assert 96 == len(gate.show(later, day).past.moments)

    assert 2 == read.count(("waited_for", DAY)) == read.count(("gate_past", DAY))


def what_upkeep_has_not_added_yet_counts_once(engine):
    before = {look.task: look.stands.waiting for look in engine.task_looks()}
    engine.enqueue([NewJob(task="tidy", queue="free")])

    assert before["tidy"] + 1 == {look.task: look.stands.waiting for look in engine.task_looks()}["tidy"]


def a_tenant_sees_its_own(acme):
    found = overview.show(acme, Query({}))

    assert [0, 0] == [part.share for part in found.parts]
    assert (0, 0, []) == (found.starts, found.past.whole.started, found.points)
    shown = queues.show(acme, Query({}))
    assert [] == shown.queues == shown.tasks


def the_kind_of_an_error_is_told_whatever_it_is(engine, clock):
    once = RetryPolicy(attempts=1)
    engine.enqueue([NewJob(task="odd", queue="odd", tenant="acme", retry=once) for _ in range(3)])
    kinds = ('We"ird\\Err\u00f6r', 'We"ird\\Err\u00f6r', "E" * 1_000)
    for kind, job in zip(kinds, engine.claim(["odd"], 3, worker="w").jobs, strict=True):
        engine.settle([Settlement(job.seq, job.fence, Failed(kind, '"kind": "x"', ""))])

    found = engine.failed_lately(clock.now() - MINUTE, "acme")

    assert [
        FailedLately("acme", "odd", kinds[0], Count(2)),
        FailedLately("acme", "odd", "", Count(1)),
    ] == found
    assert found[0] in engine.failed_lately(clock.now() - MINUTE)
    assert [] == engine.failed_lately(clock.now(), "acme")


def an_override_that_has_ended_is_told(engine, clock):
    engine.override("smtp", Numbers(rate=Window(1, MINUTE)), until=clock.now() + MINUTE)
    clock.advance(5 * MINUTE)
    limits = gate.show(View(engine, None, clock.now()), Query({"key": "smtp"})).limits

    assert ["", "override", "override ended"] == [limit.what for limit in limits]
    assert [None, Window(1, MINUTE), None] == [limit.numbers.rate for limit in limits]
