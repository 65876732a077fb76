"""What instances cost: an end reads as much in a long memo as in a short one, and who waits costs nothing."""

import json

import pytest

from penstock.clock import SECOND
from penstock.job import NewInstance, NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from tests.support.desk import slots, work_of
from tests.support.runs import PASSES, Chain, Runs, steps
from tests.support.stores import on_sqlite

ONE = slots("contact", 1)


@pytest.fixture
def engine(opened):
    engine = opened()
    engine._definitions.conductor = Chain()
    return engine


def claimed(engine):
    (attempt,) = engine.claim(["q"], 1, worker="w").jobs
    return attempt


def statements(work):
    return len([text for text in work.statements if not text.startswith(("BEGIN", "COMMIT", "PRAGMA"))])


@on_sqlite
def test_an_end_in_a_long_memo_costs_what_it_costs_in_a_short_one(engine):
    found = engine.put_sequence("chain", json.dumps([["job", name] for name in "abcd"]))
    costs = []
    for remembered in (10, 10_000):
        engine.create_instances([NewInstance("chain", "{}", f"i{remembered}", found.number, "q")])
        seq = engine.instance(f"i{remembered}").seq
        engine.store.write(
            lambda db, seq=seq, most=remembered: db.many(
                """
                INSERT INTO instance_step (instance, key, kind, state, result, began, ended)
                VALUES (?, ?, 'job', 'done', 'null', 0, 0)
                """,
                [(seq, f"old#{n}") for n in range(most)],
            )
        )
        settled = []
        for _ in range(3):
            attempt = claimed(engine)
            settled.append(
                work_of(engine, lambda a=attempt: engine.settle([Settlement(a.seq, a.fence, Done())]))
            )
        costs.append((statements(settled[-1]), settled[-1].steps))
        engine.settle([Settlement((last := claimed(engine)).seq, last.fence, Done())])
        assert engine.instance(f"i{remembered}").state.value == "done"

    (few, short), (many, long) = costs
    assert few == many
    assert long <= 1.1 * short


@on_sqlite
def test_deferred_instances_change_nothing_for_another_key(engine):
    runs = Runs(engine, wf=steps("a"))
    costs = []
    for number, deferred in enumerate((1, 1_000)):
        runs.create(" ".join(f"{number}-{n}" for n in range(deferred)), ONE)
        engine.store.write(lambda db: None)
        runs.create(f"warm{number}", slots(f"key{number}", 1))
        new = NewInstance("wf", id=f"free{number}", queue=PASSES, limits=(slots(f"other{number}", 1),))
        costs.append(work_of(engine, lambda new=new: engine.create_instances([new])))

    few, many = costs
    assert statements(few) == statements(many)
    assert many.steps <= 1.2 * few.steps


@on_sqlite
def test_jobs_of_no_instance_pay_nothing_for_those_there_are(engine):
    runs = Runs(engine, wf=steps("a"))

    def one_job():
        engine.enqueue([NewJob("t", queue="plain")])
        (attempt,) = engine.claim(["plain"], 1, worker="w").jobs
        engine.settle([Settlement(attempt.seq, attempt.fence, Done())])

    one_job()
    alone = work_of(engine, one_job)
    runs.create(" ".join(f"x{n}" for n in range(100)), ONE)
    runs.conduct()
    among = work_of(engine, one_job)

    assert statements(alone) == statements(among)


@on_sqlite
def test_a_thousand_sleepers_cost_a_claim_nothing(engine):
    found = engine.put_sequence("chain", json.dumps([["sleep", "s", 3_600 * SECOND]]))
    empty = work_of(engine, lambda: engine.claim(["q"], 1, worker="w"))
    engine.create_instances(
        [NewInstance("chain", "{}", sequence=found.number, queue="q") for _ in range(1_000)]
    )
    full = work_of(engine, lambda: engine.claim(["q"], 1, worker="w"))

    assert statements(empty) == statements(full)
    assert full.steps <= 1.2 * empty.steps
