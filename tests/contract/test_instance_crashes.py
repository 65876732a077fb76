"""Whatever commit a process dies after, its instances come to the same end, and no slot is lost or doubled."""

import json
from collections import Counter
from contextlib import closing

import pytest

from penstock.clock import SECOND
from penstock.job import (
    Await,
    Child,
    NewInstance,
    Note,
    Settlement,
    Start,
    Timer,
)
from penstock.lifecycle.outcomes import Conducted, Done, Failed
from penstock.lifecycle.retry import Backoff, RetryPolicy
from tests.support.desk import LEASE, rate, slots
from tests.support.runs import PASSES, Chain, body, job, steps
from tests.support.soak import often

ONE = slots("contact", 1)
TWICE = RetryPolicy(attempts=2, backoff=Backoff.FIXED, delay=SECOND, jitter=False)
CHAIN = json.dumps([["job", "j"], ["sleep", "s", 2 * SECOND], ["signal", "w", "go"], ["job", "k"]])
BODIES = {
    "wf": body(
        Start("limited", job("limited", limits=(rate("r", 1, 2 * SECOND),))),
        Timer("sleep", after=3 * SECOND),
        [Await("signal", "go", after=600 * SECOND), Note("note", '"noted"')],
        Child("kid", NewInstance("other", queue=PASSES, limits=(slots("kids", 1),))),
        [Start("left", job("left")), Start("right", job("right", retry=TWICE))],
    ),
    "other": steps("c d"),
}


class Killed(BaseException):
    """The process died."""


class Process:
    """One process: it works, signals and looks after the store until it dies after so many commits."""

    def __init__(self, engine, commits):
        self.engine = engine
        engine._definitions.conductor = Chain()
        self.commits = 0
        write = engine.store.write

        def counted(*args, **facts):
            answer = write(*args, **facts)
            self.commits += 1
            if self.commits == commits:
                raise Killed
            return answer

        engine.store.write = counted

    def work(self, begun):
        """Do once all that a worker, a client and an operator would do now."""
        engine = self.engine
        for attempt in engine.claim([PASSES, "q"], 2, worker="w", lease=LEASE).jobs:
            if attempt.queue == PASSES and attempt.task in BODIES:
                memo = engine.memo(json.loads(attempt.meta)["penstock.pass"])
                outcome = Conducted(tuple(BODIES[attempt.task](memo)), memo.version)
            else:
                begun[attempt.id] += 1
                failing = attempt.task == "right" and attempt.attempt == 1
                outcome = Failed("ValueError", "no") if failing else Done(json.dumps(attempt.task))
            assert all(engine.settle([Settlement(attempt.seq, attempt.fence, outcome)]))
        for view in engine.instances()[0]:
            waits = [
                step for step in engine.instance(view.id).steps if (step.kind, step.state) == ("wait", "live")
            ]
            for _ in waits:
                engine.signal(view.id, "go", '"went"')

    def create(self):
        created = {view.id for view in self.engine.instances()[0]}
        if not created >= {"x", "y"}:
            named = {"x": "wf", "y": "other"}
            new = [NewInstance(named[id_], id=id_, queue=PASSES, limits=(ONE,)) for id_ in named]
            self.engine.create_instances(new)
        if "z" not in created:
            found = self.engine.sequences() or [self.engine.put_sequence("chain", CHAIN)]
            new = NewInstance("chain", "{}", "z", found[0].number, queue="q", limits=(ONE,))
            self.engine.create_instances([new])


def play(opened, clock, kill_after):
    """Play to the end, with one death on the way; return how each instance ended, and the commits it took."""
    begun, commits = Counter(), 0
    process = Process(opened(), kill_after)
    for _ in range(200):
        try:
            process.create()
            process.work(begun)
        except Killed:
            process.engine.close()
            process = Process(opened(), None)
            assert process.engine.doctor() == []
        views = {view.id: view for view in process.engine.instances()[0]}
        held = [view for view in views.values() if ONE in view.limits and view.state in ("running", "paused")]
        assert len(held) <= 1
        assert sum(gate.running for gate in process.engine.gates(prefix="contact")[0]) == len(held)
        commits = max(commits, process.commits)
        if set(views) >= {"x", "y", "z"} and all(view.ended for view in views.values()):
            break
        clock.advance(SECOND)
    assert process.engine.doctor() == []
    process.engine.close()
    return {id_: (views[id_].state.value, views[id_].result) for id_ in "xyz"}, commits, begun


@pytest.mark.timeout(400)
def test_it_ends_the_same_whatever_commit_the_process_dies_after(opened, clock):
    expected, commits, begun = play(opened, clock, None)
    assert {state for state, _ in expected.values()} == {"done"}
    result = {"limited": "limited", "sleep": None, "signal": "went", "note": "noted", "kid": {"c": "c", "d": "d"},
              "left": "left", "right": "right"}  # fmt: skip
    assert json.loads(expected["x"][1]) == result
    assert commits > 40

    with closing(opened()) as engine:
        # All of them take half a minute on PostgreSQL, which is left to `make soak`.
        step = often(8 if engine.far else 2, 1)
    for kill_after in range(1, commits + 1, step):
        with closing(opened()) as engine:
            engine.reset()
        outcome, _, begun = play(opened, clock, kill_after)

        assert outcome == expected, kill_after
        # A step whose worker died after it was claimed or before it was settled begins once more; no other does.
        assert sum(begun.values()) - len(begun) <= 2 + 2, (kill_after, begun)
