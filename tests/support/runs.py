"""A short way to say what happens to instances: bodies that look at a memo and answer with commands."""

import json

from penstock.job import (
    Await,
    Child,
    EntryState,
    Finish,
    NewInstance,
    NewJob,
    Save,
    Settlement,
    Start,
    Timer,
)
from penstock.job.instances import Entry
from penstock.lifecycle.outcomes import Conducted, Done
from penstock.lifecycle.states import State
from tests.support.desk import LEASE

PASSES = "passes"  # the queue of passes; steps stand in "q"


def job(task, **facts):
    facts.setdefault("queue", "q")
    return NewJob(task, **facts)


def body(*wanted):
    """Return a workflow that asks for commands one after the other; a list of them at once."""

    def conduct(memo):
        known = {entry.key: entry for entry in memo.entries}
        for step in wanted:
            group = step if isinstance(step, list) else [step]
            missing = [command for command in group if command.key not in known]
            if missing:
                return missing
            entries = [known[command.key] for command in group]
            if any(entry.state is EntryState.LIVE for entry in entries):
                return []
            for entry in entries:
                if entry.state is not EntryState.DONE:
                    return [Finish(State.FAILED, error=entry.error)]
        return [
            Finish(State.DONE, json.dumps({key: json.loads(e.result or "null") for key, e in known.items()}))
        ]

    return conduct


def steps(names, **facts):
    """Return a workflow of jobs, one after the other; names joined by + begin together."""
    return body(*([Start(n, job(n, **facts)) for n in group.split("+")] for group in names.split()))


class Runs:
    """An engine, workflows by name, and the attempts under way."""

    def __init__(self, engine, **bodies):
        self.engine = engine
        self.bodies = bodies
        self.attempts = {}
        self.passes = 0

    def create(self, ids, *limits, workflow="wf", **facts):
        """Create instances; return their states."""
        new = [
            NewInstance(workflow, id=id_, limits=limits, **{"queue": PASSES} | facts) for id_ in ids.split()
        ]
        created = self.engine.create_instances(new)
        return " ".join(each.state for each in created)

    def conduct(self):
        """Play passes until there is none."""
        while claimed := self.engine.claim([PASSES], 10, worker="w", lease=LEASE).jobs:
            for attempt in claimed:
                self.passes += 1
                memo = self.engine.memo(json.loads(attempt.meta)["penstock.pass"], attempt.tenant)
                commands = tuple(self.bodies[attempt.task](memo))
                outcome = Conducted(commands, memo.version)
                assert self.engine.settle([Settlement(attempt.seq, attempt.fence, outcome)]) == [True]

    def claim(self, count=100):
        """Claim what may start; return the names."""
        names, more = [], True
        while more and len(names) < count:
            claim = self.engine.claim(["q"], count - len(names), worker="w", lease=LEASE)
            more = claim.more
            self.attempts |= {claimed.task: claimed for claimed in claim.jobs}
            names += [claimed.task for claimed in claim.jobs]
        return " ".join(names)

    def settle(self, names, outcome=None):
        """Settle the latest attempt of each; all are done unless told otherwise."""
        found = [self.attempts[name] for name in names.split()]
        return self.engine.settle(
            [Settlement(a.seq, a.fence, outcome or Done(json.dumps(f"{a.task}!"))) for a in found]
        )

    def run(self, names, outcome=None):
        """Play passes, claim these steps, settle them, and play passes again."""
        self.conduct()
        assert set(names.split()) <= set(self.claim().split())
        assert all(self.settle(names, outcome))
        self.conduct()

    def state(self, id_):
        return self.engine.instance(id_).state.value

    def states(self, ids):
        return " ".join(map(self.state, ids.split()))

    def result(self, id_):
        return json.loads(self.engine.instance(id_).result)

    def memo(self, id_):
        """The states of the steps by key."""
        return {step.key: step.state.value for step in self.engine.instance(id_).steps}


class Chain:
    """A conductor of blocks, for tests: a sequence is a list of [kind, key, more], done one after the other."""

    def parse(self, definition):
        return [tuple(step) for step in definition]

    def begin(self, sequence, memory):
        return self._go_on(sequence, memory, 0)

    def conduct(self, sequence, memory, ended):
        if ended.state is not EntryState.DONE:
            return [Finish(State.FAILED, error=ended.error)]
        place = json.loads(memory.entry("frame").frame)
        return self._go_on(sequence, memory, place + 1)

    def cancel(self, sequence, memory):
        return [Finish(State.CANCELLED)]

    def forgotten(self, sequence, states):
        return [key for key, state in states.items() if state is not EntryState.DONE]

    def resume(self, sequence, memory):
        done = [memory.entry(key) is not None for _, key, *_ in sequence]
        return self._go_on(sequence, memory, done.index(False))

    def _go_on(self, sequence, memory, place):
        for number, (kind, key, *more) in enumerate(sequence[place:], place):
            frame = Save(Entry("frame", EntryState.LIVE, frame=json.dumps(number)))
            match kind:
                case "job":
                    return [Start(key, job(key, queue="", args=json.dumps(dict(memory.context)))), frame]
                case "sleep":
                    return [Timer(key, after=more[0]), frame]
                case "signal":
                    return [Await(key, more[0]), frame]
                case "child":
                    return [Child(key, NewInstance(more[0])), frame]
                case "broken":
                    raise ValueError(key)
        return [Save(Entry("frame", EntryState.DONE)), Finish(State.DONE, '"end"')]
