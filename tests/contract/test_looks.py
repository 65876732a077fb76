"""What people see who look at a store is the same on every store, and what is told of its changes."""

from itertools import pairwise

from penstock.clock import SECOND
from penstock.engine import Engine
from penstock.job import JobQuery, NewJob, Place, Schedule, WorkerReport
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers, Window
from tests.support.desk import Desk, rate, slots
from tests.support.timing import until


def test_a_change_by_another_process_is_told(opened):
    mine, theirs = opened(), opened()
    before = mine.changes()

    theirs.enqueue([NewJob(task="t")])

    until(lambda: mine.changes() != before)


def test_nothing_is_told_while_nothing_changes(engine: Engine):
    engine.enqueue([NewJob(task="t")])

    def is_quiet():
        before = engine.changes()
        engine.jobs()
        return before == engine.changes()

    # PostgreSQL counts the transactions of the whole server, and others may use it.
    until(is_quiet)


def test_a_tenant_is_not_shown_the_gates_that_all_tenants_share(desk: Desk, engine: Engine):
    all_share = Limit("api", Numbers(slots=1), shared=True)
    desk.enqueue("a b", all_share, tenant="acme")
    desk.enqueue("c d", slots("own", 1), tenant="acme")
    desk.claim(4)

    assert {("", "api"), ("acme", "own")} == {
        (gate.tenant, gate.key) for gate in engine.gates_under_pressure()
    }
    assert ["own"] == [gate.key for gate in engine.gates_under_pressure(tenant="acme")]


def test_the_gate_that_keeps_most_of_those_that_wait_longest_comes_first(desk: Desk, engine: Engine):
    desk.enqueue("a1 a2 a3 a4", slots("few", 1))
    desk.enqueue("b1 b2", slots("fewer", 1))
    desk.claim()

    found = engine.gates_under_pressure()

    assert [("few", 3), ("fewer", 1)] == [(gate.key, gate.held.number) for gate in found if gate.held]


def test_a_line_is_told_in_the_order_in_which_it_starts(desk: Desk, engine: Engine, clock):
    desk.enqueue("first", rate("r", 1, 60 * SECOND))
    desk.claim()
    desk.enqueue("b c", rate("r", 1, 60 * SECOND))
    desk.enqueue("urgent", rate("r", 1, 60 * SECOND), priority=5)

    line = engine.gate_detail("r").line

    assert ["urgent", "b", "c"] == [job.id for job in line]
    assert [True] * 3 == [job.exact for job in line]
    starts = [job.starts or 0 for job in line]
    assert [60 * SECOND] * 2 == [later - earlier for earlier, later in pairwise(starts)]
    assert 60 * SECOND <= starts[0] - clock.now() < 61 * SECOND


def test_those_who_need_a_gate_but_are_kept_by_another_are_told(desk: Desk, engine: Engine):
    desk.enqueue("a1 a2 a3", slots("one", 1), slots("shared", 9))
    desk.claim()

    detail = engine.gate_detail("shared")

    assert [("key", "one", 2)] == [(other.kind, other.name, other.jobs) for other in detail.elsewhere]
    assert ["a1"] == [attempt.id for attempt in detail.through]
    assert (0, 2) == (detail.gate.held and detail.gate.held.number, detail.gate.waiting.number)


def test_gates_go_on_after_the_last_that_was_seen(desk: Desk, engine: Engine):
    for tenant in ("", "acme"):
        for n in range(3):
            desk.enqueue(f"{tenant}{n}", slots(f"key:{n}", 1), tenant=tenant)

    first = engine.gate_page(most=4)
    rest = engine.gate_page(most=4, after=first.after)

    assert Place("acme", "key:0") == first.after
    assert [("acme", "key:1"), ("acme", "key:2")] == [(gate.tenant, gate.key) for gate in rest.gates]
    assert None is rest.after
    assert 1 == len(engine.gate_page(prefix="key:1", tenant="acme").gates)
    assert 2 == len(engine.gate_page(prefix="key:1").gates)


def test_jobs_of_every_state_are_found(desk: Desk, engine: Engine, clock):
    desk.enqueue("runs waits", slots("k", 1))
    desk.enqueue("later", due=clock.now() + 60 * SECOND)
    desk.enqueue("due", due=clock.now() + SECOND)
    desk.enqueue("free", queue="other")
    desk.enqueue("put_off", slots("k", 1, "reschedule"))
    desk.claim(1)
    clock.advance(2 * SECOND)

    def found(state: State) -> set[str]:
        return {job.id for job in engine.job_page(JobQuery(state=state)).jobs}

    assert {"runs"} == found(State.RUNNING)
    assert {"waits", "due", "free"} <= found(State.WAITING)
    assert {"later"} <= found(State.SCHEDULED)
    assert set() == found(State.WAITING) & found(State.SCHEDULED)
    assert {"runs", "waits", "later", "due", "free", "put_off"} == {
        job.id for job in engine.job_page(JobQuery()).jobs
    }


def test_queues_are_counted_with_what_was_decided_about_them(desk: Desk, engine: Engine):
    desk.enqueue("a b c", slots("k", 1), tenant="acme")
    desk.enqueue("d", queue="other")
    desk.claim()
    engine.pause("other")
    engine.configure("queue", "other", Numbers(rate=Window(5, SECOND)))

    looks = {(look.tenant, look.queue): look for look in engine.queue_looks()}

    assert (1, 2) == (looks["acme", "q"].running.number, looks["acme", "q"].waiting.number)
    assert 1 == looks["", "other"].waiting.number
    assert looks["", "other"].paused is not None
    assert Numbers(rate=Window(5, SECOND)) == looks["", "other"].numbers
    assert {("acme", "q")} == {(look.tenant, look.queue) for look in engine.queue_looks(tenant="acme")}


def test_things_of_each_kind_are_counted_for_all_and_for_one_tenant(desk: Desk, engine: Engine, runs):
    runs.create("goes-on ended")
    engine.cancel_instance("ended")
    desk.enqueue("a b", slots("k", 1), queue="one", tenant="acme")
    desk.enqueue("c d e", slots("k", 1), queue="two")
    desk.enqueue("f", queue="two")
    engine.cancel("f")
    desk.claim(1, queues=("two",))
    engine.set_schedule(Schedule("nightly", "0 0 * * *", NewJob("t", tenant="acme"), tenant="acme"))
    engine.hear([WorkerReport("told", tenant="acme")])

    counted = [engine.all_counted(tenant) for tenant in (None, "acme", "other")]

    numbers = [
        (each.gates.number, each.workers.number, each.schedules.number, each.workflows.number)
        for each in counted
    ]
    assert [(2, 2, 1, 1), (1, 1, 1, 0), (0, 0, 0, 0)] == numbers
    assert [2, 0] == [each.jobs.number for each in counted[1:]]
    assert 1 == counted[1].queues.number
