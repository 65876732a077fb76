"""What instances cost: an end reads as much in a long memo as in a short one, and who waits costs nothing."""

import json

import pytest

from penstock.clock import SECOND
from penstock.job import Claim, NewInstance, NewJob, Settlement, Start
from penstock.lifecycle.outcomes import Done
from tests.support.desk import rate, slots, work_of
from tests.support.runs import Chain, Runs, body, job, steps
from tests.support.soak import often
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
def test_deferred_instances_change_nothing_for_another_key_or_tenant_or_for_the_end_of_a_step(engine):
    found = engine.put_sequence("chain", json.dumps([["job", name] for name in "ab"]))

    def new(id_, limit, tenant=""):
        return NewInstance("chain", "{}", id_, found.number, "q", tenant, limits=(limit,))

    engine.create_instances([new("holder", ONE)])
    engine.settle([Settlement((first := claimed(engine)).seq, first.fence, Done())])
    costs = []
    for number, deferred in enumerate((1, often(20_000, 100_000))):
        for first in range(0, deferred, 5_000):
            names = range(first, min(first + 5_000, deferred))
            engine.create_instances([new(f"{number}-{n}", ONE) for n in names])
        engine.create_instances([new(f"warm{number}", slots(f"key{number}", 1), "other")])
        start = work_of(
            engine,
            lambda n=number: engine.create_instances([new(f"free{n}", slots(f"other{n}", 1), "other")]),
        )
        *_, attempt = [each for each in engine.claim(["q"], 10, worker="w").jobs if each.task == "a"]
        assert attempt.tenant == "other"
        end = work_of(engine, lambda a=attempt: engine.settle([Settlement(a.seq, a.fence, Done())]))
        costs.append((start, end))

    for few, many in zip(*costs, strict=True):
        assert statements(few) == statements(many)
        assert many.steps <= 1.2 * few.steps


@on_sqlite
def test_steps_behind_a_rate_cost_claims_in_proportion_to_their_number(engine, clock):
    """None is claimed before it may start: a herd that woke at once would cost the square of its number."""
    per_window = 30
    costs, found = [], []
    for number, count in enumerate((often(300, 2_500), often(1_200, 10_000))):
        queue, limit = f"r{number}", rate(f"key{number}", per_window, 60 * SECOND)
        runs = Runs(engine, wf=body(Start("a", job("a", queue=queue, limits=(limit,)))))
        for first in range(0, count, 300):
            runs.create(" ".join(f"{number}-{n}" for n in range(first, min(first + 300, count))))
            runs.conduct()
        done = claims = steps = 0
        while done < count:
            work = work_of(engine, lambda queue=queue: found.append(engine.claim([queue], 100, worker="w")))
            steps, claims = steps + work.steps, claims + 1
            claim: Claim = found.pop()
            done += len(claim.jobs)
            engine.settle([Settlement(each.seq, each.fence, Done()) for each in claim.jobs])
            if not claim.jobs and claim.next_at is not None:
                clock.advance(max(claim.next_at - clock.now(), 0))
        costs.append((claims / count, steps / count))

        assert claims <= 3 * count / per_window + 3
    (few_claims, few_steps), (many_claims, many_steps) = costs
    assert many_claims <= 1.2 * few_claims
    assert many_steps <= 1.2 * few_steps


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
