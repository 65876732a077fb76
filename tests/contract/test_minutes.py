"""How it was, told from minutes: before and after upkeep, and once they were put together."""

from contextlib import closing

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.engine.minutes import DAY, HOUR, QUARTER
from penstock.job import NewJob, Standing
from penstock.lifecycle.outcomes import Failed
from tests.support.desk import Desk, slots

MINUTE = 60 * SECOND


@pytest.fixture
def desk(engine, clock):
    clock.advance(MINUTE - clock.now() % MINUTE)
    yield Desk(engine, clock)
    assert engine.doctor() == []


def work(desk):
    """Have one job of X wait for another for 20 s, and a free one fail."""
    desk.enqueue("a b", slots("X", 1))
    desk.enqueue("f", task="free")
    desk.wait(4 * SECOND)
    assert "a f" == desk.claim()
    desk.wait(20 * SECOND)
    desk.settle("f", Failed("Error", "x"))
    desk.settle("a")
    assert "b" == desk.claim()
    desk.wait(10 * SECOND)
    desk.settle("b")
    desk.wait(6 * SECOND)


def told(engine, last=HOUR):
    return [
        engine.past(last=last), engine.gate_past("X", last=last), engine.queue_past("q", last=last),
        engine.task_past("free", last=last), engine.waited_for(last=last), engine.stands(),
    ]  # fmt: skip


def test_what_happened_is_told_before_upkeep_has_added_it_and_after(desk, engine):
    work(desk)
    before = told(engine)
    engine.upkeep()

    past, gate, queue, free, waited, stands = after = told(engine)
    assert before[:4] == after[:4]
    assert before[5] == stands
    whole = past.whole
    assert (3, 3, 3, 1, 0) == (whole.arrived, whole.started, whole.ended, whole.failed, whole.dropped)
    assert (2, 2, 2, 0) == (gate.whole.arrived, gate.whole.started, gate.whole.ended, gate.whole.failed)
    assert (3, 1) == (queue.whole.started, free.whole.failed)
    assert 60 == len(past.moments)
    now = gate.moments[-1]
    assert (0, 1) == (now.waiting, now.most)
    assert (20 / 40, 30 / 40) == (now.kept, now.used)
    assert 0 == now.waited_p50
    assert abs(now.waited_p95 - 20 * SECOND) < 20 * SECOND / 8
    assert [("X", 0.5)] == [(each.key, each.kept[-1]) for each in waited.gates]
    assert round(4 * 3 / 40, 2) == waited.worker[-1]
    assert Standing() == stands


def test_minutes_that_were_put_together_tell_the_same(desk, engine):
    work(desk)
    before = told(engine)
    desk.wait(2 * QUARTER)
    engine.upkeep()
    after = told(engine)

    assert [past.whole.started for past in before[:4]] == [past.whole.started for past in after[:4]]
    ((minute,),) = engine.store.read(lambda db: db.all("SELECT count(*) FROM minute"))
    assert 0 == minute
    quarters = told(engine, DAY)
    assert 96 == len(quarters[0].moments)
    assert [past.whole.started for past in before[:4]] == [past.whole.started for past in quarters[:4]]
    assert 0.02 == max(moment.kept for moment in quarters[1].moments)
    assert [("X", 0.02)] == [(each.key, max(each.kept)) for each in quarters[4].gates]


def test_the_thousand_busiest_are_kept_for_a_week_and_the_others_together(desk, engine):
    engine.set_setting("minutes:busiest", "4")
    desk.enqueue("a b c", slots("X", 3))
    desk.enqueue("d", slots("Y", 1))
    desk.claim()
    desk.settle("a b c d")
    desk.wait(2 * QUARTER)
    engine.upkeep()

    assert 3 == engine.gate_past("X", last=DAY).whole.started
    assert 0 == engine.gate_past("Y", last=DAY).whole.started
    assert 1 == engine.gate_past("Y").whole.started
    desk.wait(9 * DAY)
    engine.upkeep()
    desk.enqueue("e")
    engine.upkeep()
    desk.wait(QUARTER + 2 * MINUTE)
    engine.upkeep()
    (rows,) = engine.store.read(
        lambda db: db.all("SELECT count(*) FROM past WHERE series <> 0 AND span = 60")
    )
    assert rows[0] < 8


def test_an_attempt_tells_how_long_each_gate_kept_its_job(desk, engine):
    desk.enqueue("a", slots("X", 1))
    desk.enqueue("b", slots("Y", 1))
    desk.enqueue("both", slots("X", 1), slots("Y", 1))
    assert "a b" == desk.claim()
    desk.wait(3 * SECOND)
    desk.settle("a")
    assert "" == desk.claim()
    desk.wait(2 * SECOND)
    desk.settle("b")
    desk.wait(1 * SECOND)
    assert "both" == desk.claim()
    desk.settle("both")
    (attempt,) = engine.history("both")

    assert 6 * SECOND == attempt.started - attempt.arrived
    waits = dict(attempt.waits)
    assert {"X", "Y"} >= waits.keys()
    assert 5 * SECOND == sum(waits.values())


def test_a_gate_that_was_swept_before_its_tallies_were_added_counts(desk, engine, monkeypatch):
    desk.enqueue("a", slots("X", 1))
    desk.claim()
    desk.settle("a")
    with monkeypatch.context() as patched:
        patched.setattr(type(engine), "keep_minutes", lambda _: 0)
        engine.upkeep()
        engine.upkeep()
    assert [] == engine.store.read(lambda db: db.all("SELECT id FROM gate"))
    engine.upkeep()

    assert 1 == engine.gate_past("X").whole.ended


def test_what_came_before_minutes_were_kept_is_counted_once_they_are(desk, engine):
    desk.enqueue("a b", slots("X", 1))
    desk.enqueue("f")
    desk.claim(1)
    engine.store.write(lambda db: (db.run("DELETE FROM tally"), db.run("UPDATE lane SET jobs = 0")))
    desk.enqueue("g")
    engine.upkeep()

    assert Standing(3, 1, 0, 1) == engine.stands() or Standing(3, 0, 0, 1) == engine.stands()


def test_the_doctor_notices_what_was_not_counted(url, engine, clock):
    desk = Desk(engine, clock)
    work(desk)
    engine.upkeep()
    desk.wait(2 * MINUTE)
    work(desk_again(desk))
    with closing(open_engine(url, clock=clock)) as other:
        other.store.write(lambda db: db.run("DELETE FROM tally"))

    found = " ".join(engine.doctor())
    assert "minutes count" in found
    assert "attempts that ended in the last hour" in found
    engine.recount()
    assert not [each for each in engine.doctor() if "attempts" not in each]


def desk_again(desk):
    """Return a desk whose jobs have other names."""

    class Renamed(Desk):
        def enqueue(self, names, *limits, **facts):
            super().enqueue(" ".join(f"{name}2" for name in names.split()), *limits, **facts)

        def claim(self, *args, **facts):
            return " ".join(name.removesuffix("2") for name in super().claim(*args, **facts).split())

        def settle(self, names, *args, **facts):
            return super().settle(" ".join(f"{name}2" for name in names.split()), *args, **facts)

    return Renamed(desk.engine, desk.clock)


def test_of_many_tallies_no_reader_adds_more_than_a_few(engine):
    for _ in range(210):
        engine.enqueue([NewJob("t", queue="q")])

    assert [210] == [look.waiting.number for look in engine.queue_looks()]
    assert 0 == engine.stands().waiting
    engine.upkeep()
    assert [210] == [look.waiting.number for look in engine.queue_looks()]
    assert 210 == engine.stands().waiting
