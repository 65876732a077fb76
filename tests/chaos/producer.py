"""A producer of the storm: `python -m tests.chaos.producer NAME SEED`, until its standard input closes.

An enqueue that failed is tried again under the same ids, until they are known to be there.
"""

import itertools
import random
import sys
import threading

from penstock.errors import DuplicateJobError, StoreError
from penstock.lifecycle.states import State
from tests.chaos import rules, wounds
from tests.chaos.provider import end_with_parent
from tests.chaos.tasks import TASKS, app, caller

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


def main():
    name, seed, *inflicted = sys.argv[1:]
    for wound in inflicted:
        wounds.WOUNDS[wound]()
    end = threading.Event()
    end_with_parent(end)
    chance = random.Random(f"{seed} {name}")
    numbers = itertools.count(1)
    for batch in itertools.count():
        if end.wait(chance.random() * PAUSE):
            break
        if batch % LOOK_EVERY == 0:
            await_room(end)
        send({
            f"{name}-{next(numbers)}": (chance.choice(MIX), chance.randrange(rules.ACCOUNTS))
            for _ in range(chance.choice(BATCHES))
        })  # fmt: skip
    app.close()


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
    tries = 0
    while True:
        tries += 1
        try:
            calls = [
                TASKS[task].with_options(id=id_).call(account) for id_, (task, account) in wanted.items()
            ]
            app.enqueue_many(calls)
        except StoreError:
            threading.Event().wait(PAUSE)
        except DuplicateJobError:
            if tries == 1:
                raise
            break
        else:
            break
    for id_, (task, account) in wanted.items():
        caller.tell("enqueued", job=id_, passes=rules.passes(task, account), tries=tries)


if __name__ == "__main__":
    main()
