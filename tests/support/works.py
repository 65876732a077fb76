"""A short way to say what happens to workflows: jobs go by the names of their tasks."""

import json

from penstock.job import NewJob, NewWorkflow, Settlement
from penstock.lifecycle.outcomes import Done
from tests.support.desk import LEASE


def job(task, **facts):
    facts.setdefault("queue", "q")
    return NewJob(task, **facts)


def jobs(names, **facts):
    return [job(name, **facts) for name in names.split()]


class Works:
    """An engine, the workflow that was started last, and the attempts under way."""

    def __init__(self, engine):
        self.engine = engine
        self.attempts = {}
        self.id = None

    def start(self, steps, **facts):
        """Start a workflow; return its view."""
        view = self.engine.start_workflow(NewWorkflow(steps, **facts))
        self.id = view.id
        return view

    def claim(self, count=100, queue="q"):
        """Claim what may start; return the names."""
        names, more = [], True
        while more and len(names) < count:
            claim = self.engine.claim([queue], count - len(names), worker="w", lease=LEASE)
            more = claim.more
            self.attempts |= {claimed.task: claimed for claimed in claim.jobs}
            names += [claimed.task for claimed in claim.jobs]
        return " ".join(names)

    def settlements(self, names, outcome=None):
        return [
            Settlement(self.attempts[n].seq, self.attempts[n].fence, outcome or Done(json.dumps(f"{n}!")))
            for n in names.split()
        ]

    def settle(self, names, outcome=None):
        """Settle the latest attempt of each in one transaction; all are done unless told otherwise."""
        return self.engine.settle(self.settlements(names, outcome))

    def run(self, names, outcome=None):
        """Claim, and settle these."""
        assert set(names.split()) <= set(self.claim().split()) | set(self.attempts)
        assert all(self.settle(names, outcome))

    @property
    def view(self):
        return self.engine.workflow(self.id)

    @property
    def state(self):
        return self.view.state.value

    @property
    def steps(self):
        """The states of the steps by task."""
        return {step.task: step.state.value for step in self.view.steps}

    def job(self, task):
        """The job of a step."""
        (id_,) = [step.job_id for step in self.view.steps if step.task == task]
        return self.engine.job(id_)

    def parents(self, task):
        """What a claimed job was told about those it waited for."""
        return json.loads(self.attempts[task].meta).get("parent_results")
