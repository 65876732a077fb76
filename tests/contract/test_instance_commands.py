"""Commands that no store can write down, or that lead nowhere, end their instance and hurt nothing else."""

import json

import pytest

from penstock.job import (
    Await,
    Child,
    Entry,
    EntryState,
    Finish,
    NewInstance,
    Note,
    Restart,
    Save,
    Settlement,
    Start,
    Timer,
)
from penstock.lifecycle.outcomes import Conducted, Done
from penstock.lifecycle.states import State
from tests.support.desk import slots
from tests.support.runs import PASSES, Runs, job
from tests.support.sequences import sequence, step

ONE = slots("contact", 1)
HUGE = 2**63
LONG = "".join(chr(0x4E00 + n * 7_919 % 20_000) for n in range(6_000))  # no index could compress it
ENDS_IT = {
    "an empty key": Start("", job("a")),
    "a key with a control character": Start("\x1f", job("a")),
    "a key with a NUL": Timer("t\0", after=1),
    "a long key": Timer(LONG, after=1),
    "a note that cannot be stored": Note("n", "\0"),
    "a result that cannot be stored": Finish(State.DONE, "\ud800"),
    "an end that is none": Finish(State.RUNNING),
    "arguments that cannot be stored": Restart("\0"),
    "nothing": Note("n", "1"),
    "a frame alone": Save(Entry("f", EntryState.LIVE)),
}
FAILS_ITS_STEP = {
    "a span without end": Timer("s", after=HUGE - 1),
    "a moment without end": Timer("s", at=HUGE),
    "a moment before all time": Timer("s", at=-HUGE - 1),
    "a wait without end": Await("s", "go", after=HUGE - 1),
    "a name with a NUL": Await("s", "g\0"),
    "a long name": Await("s", LONG),
    "meta that is no JSON": Start("s", job("a", meta="{")),
    "a due time without end": Start("s", job("a", due=HUGE)),
    "an expiry without end": Start("s", job("a", expires=HUGE)),
    "a timeout without end": Start("s", job("a", timeout=HUGE)),
    "a child that is due at the end of time": Child("s", NewInstance("wf", "{}", due=HUGE)),
}


@pytest.fixture
def runs(opened):
    runs = Runs(opened())
    yield runs
    assert runs.engine.doctor() == []


def settle_beside_another(runs, *commands):
    """Settle the pass over instance x, and a job of no instance, in one transaction."""
    runs.create("x y", ONE, meta='{"m":1}')
    runs.engine.enqueue([job("other")])
    runs.claim()
    (attempt,) = runs.engine.claim([PASSES], 1, worker="w").jobs
    other = runs.attempts["other"]
    ends = [
        Settlement(attempt.seq, attempt.fence, Conducted(commands, 0)),
        Settlement(other.seq, other.fence, Done()),
    ]
    assert runs.engine.settle(ends) == [True, True]


@pytest.mark.parametrize("what", ENDS_IT)
def test_an_instance_fails_that_asks_for_what_cannot_be(runs, what):
    settle_beside_another(runs, ENDS_IT[what])

    assert runs.states("x y") == "failed running"
    assert runs.engine.instance("x").error["kind"] in ("InvalidError", "InvalidJobError", "NothingToWaitFor")


@pytest.mark.parametrize("what", FAILS_ITS_STEP)
def test_a_step_fails_that_could_never_be_begun(runs, what):
    settle_beside_another(runs, FAILS_ITS_STEP[what])

    assert runs.states("x y") == "running deferred"
    (entry,) = runs.engine.instance("x").steps
    assert entry.state == "failed"
    assert entry.error["kind"] in ("InvalidError", "InvalidJobError")
    assert runs.engine.claim([PASSES], 1, worker="w").jobs


def test_two_children_of_one_id_are_one_and_a_failed_step(runs):
    twin = NewInstance("wf", "{}", "twin", queue=PASSES)
    settle_beside_another(runs, Child("a", twin), Child("b", twin))

    assert runs.memo("x") == {"a": "live", "b": "failed"}


def test_loops_so_deep_that_their_keys_grow_too_long_fail_their_instance(runs):
    block = step("inner", "inner")
    for depth in range(12):
        block = {"type": "loop", "id": f"{LONG[:200]}{depth}", "condition": "true", "max_iterations": 1,
                 "body": [block]}  # fmt: skip
    number = runs.engine.put_sequence("deep", json.dumps(sequence(step("first", "first"), block))).number
    runs.engine.create_instances([NewInstance("deep", "{}", "x", number, queue="q", limits=(ONE,))])
    assert runs.claim() == "first"
    assert runs.settle("first") == [True]

    assert runs.state("x") == "failed"
    assert runs.engine.gate("contact").running == 0
