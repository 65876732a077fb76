"""Two transactions that change the same instance, step by step."""

import json

import pytest

from penstock.job import Await, NewInstance, Settlement
from penstock.lifecycle.outcomes import Conducted, Done
from tests.support.desk import slots
from tests.support.runs import Runs, body, job
from tests.support.sequences import sequence, step

ONE = slots("contact", 1)
PARALLEL = {"type": "parallel", "id": "p", "branches": [[step("a", "a")], [step("b", "b")]]}


@pytest.fixture
def runs(race):
    runs = Runs(race.desk.engine, wf=body(Await("s", "go")))
    yield runs
    assert runs.engine.doctor() == []


def create(runs, ids, *blocks):
    number = runs.engine.put_sequence("test", json.dumps(sequence(*blocks))).number
    runs.engine.create_instances(
        [NewInstance("test", "{}", id_, number, queue="q", limits=(ONE,)) for id_ in ids.split()]
    )


def settle(runs, name):
    found = runs.attempts[name]
    return lambda desk: desk.engine.settle([Settlement(found.seq, found.fence, Done())])


def test_the_second_end_sees_the_first(race, runs):
    create(runs, "x", PARALLEL, step("c", "c"))
    assert runs.claim() == "a b"
    one, two = race.meet(settle(runs, "a"), settle(runs, "b"), at="the gates")

    one.commit()
    assert two.answer() == [True]
    assert runs.claim() == "c"


def test_one_that_came_to_nothing_is_not_heard(race, runs):
    create(runs, "x", PARALLEL, step("c", "c"))
    runs.claim()
    one, two = race.meet(settle(runs, "a"), settle(runs, "b"), at="the gates")

    one.roll_back()
    assert two.answer() == [True]
    assert runs.claim() == ""
    runs.settle("a")
    assert runs.claim() == "c"


def test_an_end_and_a_cancel_come_one_after_the_other(race, runs):
    create(runs, "x y", step("a", "a"))
    runs.claim()
    one, two = race.meet(
        settle(runs, "a"), lambda desk: desk.engine.cancel_instance("y").state.value, at="the gates"
    )

    one.commit()
    assert two.answer() == "cancelled"
    assert runs.states("x y") == "done cancelled"


def test_a_slot_that_is_freed_while_another_is_created_goes_to_the_first_in_line(race, runs):
    create(runs, "x y", step("a", "a"))
    runs.claim()
    number = runs.engine.sequence("test").number
    new = NewInstance("test", "{}", "z", number, queue="q", limits=(ONE,))
    one, two = race.meet(
        settle(runs, "a"), lambda desk: desk.engine.create_instances([new])[0].state, at="the gates"
    )

    one.commit()
    assert two.answer() == "deferred"
    assert runs.states("x y z") == "done running deferred"


def test_a_signal_waits_for_what_is_said_of_its_instance(race, runs):
    runs.create("x")
    (attempt,) = runs.engine.claim(["passes"], 1, worker="w").jobs
    commands = runs.bodies["wf"](runs.engine.memo("x"))

    def conduct(desk):
        return desk.engine.settle([Settlement(attempt.seq, attempt.fence, Conducted(tuple(commands)))])

    one, two = race.meet(conduct, lambda desk: desk.engine.signal("x", "go", "1"), at="the gates")
    one.commit()
    two.answer()
    runs.conduct()

    assert runs.result("x") == {"s": 1}


def test_jobs_of_no_instance_wait_for_nobody(race, runs):
    runs.engine.enqueue([job("free")])
    create(runs, "x", step("a", "a"))
    assert runs.claim() == "free a"
    one = race.hold(settle(runs, "a"))

    assert race.start(settle(runs, "free")).answer() == [True]
    one.commit()
    assert runs.state("x") == "done"
