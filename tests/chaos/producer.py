"""A producer of the storm: `python -m tests.chaos.producer NAME SEED`, until its standard input closes.

An enqueue that failed is tried again under the same ids, until they are known to be there.
"""

import itertools
import random
import sys
import threading
from collections import deque

from penstock.errors import DuplicateJobError, StoreError, WrongStateError
from penstock.job import InstanceState
from penstock.lifecycle.states import State
from tests.chaos import rules, wounds
from tests.chaos.provider import end_with_parent
from tests.chaos.tasks import TASKS, app, caller, outreach

MIX = [
    "one",
    "two",
    "two",
    "five",
    "five",
    "five",
    "rated",
    "rated",
    "both",
    "spaced",
    "floats",
    "boxed",
    "boxed",
]
BATCHES = (1, 1, 2, 4)
PAUSE = 0.04
# Few enough to be worked off soon after the storm, and enough to keep every gate busy.
BACKLOG = 60
LOOK_EVERY = 5
# Runs of workflows that wait for their contact, and how many may lack an answer: some are answered before they ask.
LINE, UNANSWERED = 4, 8


def main():
    name, seed, *inflicted = sys.argv[1:]
    for wound in inflicted:
        wounds.WOUNDS[wound]()
    end = threading.Event()
    end_with_parent(end)
    chance = random.Random(f"{seed} {name}")
    numbers = itertools.count(1)
    runs = Runs(name, chance)
    for batch in itertools.count():
        if end.wait(chance.random() * PAUSE):
            break
        if batch % LOOK_EVERY == 0:
            await_room(end)
            runs.go_on()
        send({
            f"{name}-{next(numbers)}": (chance.choice(MIX), chance.randrange(rules.ACCOUNTS))
            for _ in range(chance.choice(BATCHES))
        })  # fmt: skip
    runs.answer(0)
    app.close()


class Runs:
    """The runs of workflows that one producer starts and answers."""

    def __init__(self, name, chance):
        self._name = name
        self._chance = chance
        self._started = itertools.count(1)
        self._unanswered = deque()

    def go_on(self):
        """Start a run unless enough wait, and answer those that have waited long enough."""
        try:
            waiting = app.engine.instances(state=InstanceState.DEFERRED, limit=0)[1]
        except StoreError:
            return
        if waiting < LINE:
            run, contact = f"{self._name}-run-{next(self._started)}", self._chance.randrange(rules.CONTACTS)
            tries = insist(lambda: outreach.with_options(id=run).start(run, contact))
            caller.tell("run", run=run, passes=[rules.contact(contact)], tries=tries)
            self._unanswered.append(run)
        # Also while enough wait: they may wait for one that waits for its answer.
        self.answer(self._chance.randint(0, UNANSWERED))

    def answer(self, most):
        """Answer runs, the oldest first, until at most so many are left."""
        while len(self._unanswered) > most:
            run = self._unanswered.popleft()
            insist(lambda run=run: outreach.run(run).signal("answer", run))


def await_room(end):
    """Wait while there is enough to do."""
    while not end.is_set():
        try:
            if app.engine.count().get(State.WAITING, 0) < BACKLOG:
                return
        except StoreError:
            pass
        end.wait(PAUSE)


def send(wanted):
    """Enqueue (task, account) by id, all of them, whatever it takes; tell the provider once they are safe."""
    calls = [TASKS[task].with_options(id=id_).call(account) for id_, (task, account) in wanted.items()]
    tries = insist(lambda: app.enqueue_many(calls))
    for id_, (task, account) in wanted.items():
        caller.tell("enqueued", job=id_, passes=rules.passes(task, account), tries=tries)


def insist(do):
    """Have something done, again while the store does not answer; return how many tries that took."""
    for tries in itertools.count(1):
        try:
            do()
        except StoreError:
            threading.Event().wait(PAUSE)
        except (DuplicateJobError, WrongStateError):  # it was done, and the answer was lost
            if tries == 1:
                raise
            break
        else:
            break
    return tries


if __name__ == "__main__":
    main()
