"""The timeline: the attempts of a span of time, at a cost that grows with the span and not with the store."""

from contextlib import closing

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.errors import InvalidError
from penstock.job import TimedAttempt
from penstock.lifecycle.outcomes import Cancelled, Failed, HandedBack
from penstock.lifecycle.retry import RetryPolicy
from tests.support.clock import BEGINNING, FakeClock
from tests.support.desk import Desk, slots, work_of

FAILED = Failed("TimeoutError", "no answer", "Traceback …")
TWICE = RetryPolicy(attempts=2, delay=3 * SECOND, jitter=False)
LATER = BEGINNING + 3_600 * SECOND


def shown(desk, **wanted):
    """Return the attempts until now."""
    wanted = {"since": 0, "until": desk.clock.now(), **wanted}
    return desk.engine.timeline(**wanted).attempts


def brief(desk, **wanted):
    """Return the name and the outcome of each, the first one first."""
    return [f"{attempt.id} {attempt.outcome}" for attempt in reversed(shown(desk, **wanted))]


def seconds(attempt: TimedAttempt):
    """Return when it could run, was claimed, began and ended, in seconds since the test began."""
    moments = (attempt.since, attempt.claimed, attempt.began, attempt.ended)
    return tuple(None if moment is None else (moment - BEGINNING) // SECOND for moment in moments)


def run(desk, names, *limits, span=SECOND, **facts):
    """Run jobs one after another, each for a *span*."""
    for name in names.split():
        desk.enqueue(name, *limits, **facts)
        desk.claim(1)
        desk.wait(span)
        desk.settle(name)


def through(desk, **wanted):
    """Return all attempts, page by page, and how many pages that took."""
    found, cursor, pages = [], None, 0
    while True:
        page = desk.engine.timeline(since=0, until=desk.clock.now(), cursor=cursor, **wanted)
        found, cursor, pages = [*found, *page.attempts], page.cursor, pages + 1
        if cursor is None:
            return found, pages


def test_an_attempt_says_when_it_could_run_was_claimed_and_ended(desk):
    desk.enqueue("a b", slots("k", 1))
    desk.wait(SECOND)
    desk.claim()
    desk.wait(SECOND)
    desk.settle("a")
    desk.claim()
    desk.wait(SECOND)

    second, first = shown(desk)

    assert (0, 1, None, 2) == seconds(first)
    assert (0, 2, None, None) == seconds(second)
    assert ("a", "done", "b", "running") == (first.id, first.outcome, second.id, second.outcome)


def test_an_attempt_says_what_it_held_and_for_what_it_waited(desk):
    desk.enqueue("a b", slots("k", 1), slots("other", 2))
    desk.claim()
    desk.settle("a")
    desk.claim()

    (second, first) = shown(desk)

    assert (("k", "other"), "", ("k", "other"), "k") == (first.keys, first.behind, second.keys, second.behind)
    assert ("q", "task", "worker") == (second.queue, second.task, second.worker)


def test_an_attempt_that_is_tried_again_waits_from_when_its_delay_is_over(desk):
    desk.enqueue("a", retry=TWICE)
    desk.claim()
    desk.wait(SECOND)
    desk.settle("a", FAILED)
    desk.wait(4 * SECOND)
    desk.engine.upkeep()
    desk.claim()
    desk.settle("a", FAILED)

    second, first = shown(desk)

    assert [(1, "failed", True), (2, "failed", False)] == [
        (each.number, each.outcome, each.returns) for each in (first, second)
    ]
    assert (4, 5, None, 5) == seconds(second)


def test_every_end_is_there_once(desk):
    desk.enqueue("done failed cancelled back")
    desk.claim()
    desk.settle("done")
    desk.settle("failed", FAILED)
    desk.settle("cancelled", Cancelled())
    desk.settle("back", HandedBack(begun=True))

    assert ["back handed_back", "cancelled cancelled", "done done", "failed failed"] == sorted(brief(desk))


def test_a_job_that_its_limit_dropped_is_shown_at_its_key(desk):
    desk.enqueue("a", slots("k", 1, "drop"))
    desk.claim()
    desk.enqueue("b", slots("k", 1, "drop"))
    desk.claim()

    dropped = shown(desk)[-1]

    assert ("b", "dropped", ("k",), None) == (dropped.id, dropped.outcome, dropped.keys, dropped.claimed)


def test_a_job_that_was_cancelled_before_it_began_made_no_attempt(desk):
    desk.enqueue("a")
    desk.engine.cancel("a")

    assert () == shown(desk)


def test_an_instance_is_one_attempt_from_its_admission_to_its_end(runs, engine, clock):
    runs.create("one two gone", slots("k", 1))
    engine.cancel_instance("gone")
    clock.advance(SECOND)
    for name in ("a", "b"):
        runs.conduct()
        runs.claim()
        clock.advance(SECOND)
        runs.settle(name)
    runs.conduct()
    clock.advance(SECOND)

    found = engine.timeline(0, clock.now(), by="key", name="k").attempts
    two, one = sorted(found, key=lambda attempt: -(attempt.claimed or 0))
    detail = engine.gate_detail("k")
    engine.cancel_instance("two")
    later = engine.timeline(0, clock.now(), by="key", name="k").attempts

    assert [("one", "wf", "", "done"), ("two", "wf", "", "running")] == [
        (each.id, each.task, each.queue, each.outcome) for each in (one, two)
    ]
    assert ((0, 0, 3), (0, 3, None)) == tuple(
        tuple(
            None if at is None else (at - BEGINNING) // SECOND
            for at in (each.since, each.claimed, each.ended)
        )
        for each in (one, two)
    )
    assert ("k", ("k",)) == (two.behind, two.keys)
    assert [("two", "", "wf")] == [(each.id, each.task, each.workflow) for each in detail.through]
    assert {"one": "done", "two": "cancelled"} == {each.id: each.outcome for each in later}


def test_only_attempts_that_ended_in_the_span_are_shown_and_those_that_run(desk):
    run(desk, "a b c")
    desk.enqueue("d")
    desk.claim()

    assert ["b done"] == brief(desk, since=BEGINNING + 2 * SECOND, until=BEGINNING + 2 * SECOND)
    assert ["c done", "d running"] == brief(desk, since=BEGINNING + 3 * SECOND, until=LATER)


def test_a_timeline_of_some_names_shows_only_these(desk):
    run(desk, "a", slots("account:acme", 1), queue="q", task="sync")
    run(desk, "b", slots("account:globex", 1), queue="q", task="mail")

    assert ["a done"] == brief(desk, name="account:a")
    assert ["b done"] == brief(desk, by="task", name="ma")
    assert ["a done", "b done"] == brief(desk, by="queue", name="q")
    assert [] == brief(desk, by="worker", name="other")


def test_a_tenant_sees_its_own_attempts_only(desk):
    run(desk, "a", tenant="acme")
    run(desk, "b", tenant="globex")
    run(desk, "c")

    assert ["a done"] == brief(desk, tenant="acme")
    assert ["a done", "b done", "c done"] == brief(desk)


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_pages_have_every_attempt_once(desk, most):
    run(desk, "a b", span=0, retry=TWICE)
    desk.enqueue("c d e", slots("k", 3))
    desk.claim()
    desk.settle("c d", FAILED)
    desk.wait(SECOND)
    desk.enqueue("f g")
    desk.claim()

    found, _ = through(desk, most=most)

    assert list("abcdefg") == sorted(attempt.id for attempt in found)


def test_a_page_says_how_far_it_got(desk):
    run(desk, "a b c")

    page = desk.engine.timeline(since=0, until=LATER, most=2)

    assert (["c", "b"], BEGINNING + 2 * SECOND) == ([each.id for each in page.attempts], page.reached)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"by": "colour"}, "by"),
        ({"since": 2, "until": 1}, "since"),
        ({"since": -1}, "since"),
        ({"until": 2**63}, "since"),
        ({"most": 0}, "most"),
        ({"most": 20_001}, "most"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "r9999999999999999999"}, "cursor"),
        ({"cursor": "e1.2"}, "cursor"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(engine, wanted, field):
    with pytest.raises(InvalidError) as raised:
        engine.timeline(**{"since": 0, "until": 1, **wanted})

    assert field == raised.value.field


def counted(desk, monkeypatch, **wanted):
    """Return how many statements a page takes, and how many rows they find."""
    asked = []
    read = desk.engine.store.read

    def counting(work):
        def watched(db):
            find = db.all

            class Watching:
                def __getattr__(self, name):
                    return getattr(db, name)

                def all(self, sql, *values):
                    asked.append(find(sql, *values))
                    return asked[-1]

            return work(Watching())

        return read(watched)

    with monkeypatch.context() as patched:
        patched.setattr(desk.engine.store, "read", counting)
        desk.engine.timeline(**wanted)
    return len(asked), sum(map(len, asked))


def fill(desk, times):
    """Let fifty attempts a second end, half of them done."""
    for _ in range(times):
        desk.enqueue(" ".join(f"{desk.clock.now()}-{n}" for n in range(50)), slots("k", 100))
        names = desk.claim(100).split()
        desk.settle(" ".join(names[::2]))
        desk.settle(" ".join(names[1::2]), FAILED)
        desk.wait(SECOND)


def last_seconds(desk):
    return {"since": desk.clock.now() - 2 * SECOND, "until": desk.clock.now()}


def test_a_page_finds_as_much_in_a_large_store_as_in_a_small_one(desk, monkeypatch):
    fill(desk, 2)
    small = counted(desk, monkeypatch, **last_seconds(desk))
    fill(desk, 20)

    assert small == counted(desk, monkeypatch, **last_seconds(desk))
    assert 5 == small[0]
    assert 3 * 10 + 1 >= counted(desk, monkeypatch, since=0, until=LATER, most=10)[1]


def test_the_database_works_no_more_for_a_page_of_a_large_store():
    clock = FakeClock()
    with closing(open_engine(":memory:", clock=clock)) as engine:
        desk = Desk(engine, clock)
        fill(desk, 2)
        small = work_of(engine, lambda: engine.timeline(**last_seconds(desk))).steps
        fill(desk, 60)
        large = work_of(engine, lambda: engine.timeline(**last_seconds(desk))).steps

    assert 0 < large < 1.1 * small
