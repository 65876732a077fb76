"""A process that does at random what is counted for minutes, until it is killed: `python -m tests.support.counted`.

It is given a store, a number for chance, and perhaps the name of a wound.
"""

import random
import sys
from contextlib import nullcontext, suppress

from penstock.engine import open_engine
from penstock.errors import WrongStateError
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack
from penstock.lifecycle.retry import RetryPolicy
from penstock.limits.rules import Limit, Numbers, OnLimit
from tests.simulation.wounds import wounded

KEYS = ("k0", "k1", "k2", "a", "b", "later", "dropped")
LEASE = 300_000
UPKEEP, CANCELS = 0.2, 0.2
WOUNDS = {
    "what was deleted is added in a transaction of its own": (
        "engine.minutes:MinuteVerbs.add_tallies",
        ("        _add(board.db, found)\n", ""),
        (
            "        return len(tallies)\n",
            (
                "        self.later = [*getattr(self, 'later', ()), found]\n"
                "        while len(self.later) > 1:\n"
                "            self._write(lambda board: _add(board.db, self.later[0]), Locks.NONE)\n"
                "            self.later.pop(0)\n"
                "        return len(tallies)\n"
            ),
        ),
    ),
    "what was added stays": (
        "engine.minutes:MinuteVerbs.add_tallies",
        ("rows.take(board.db, [number for number, _, _ in tallies]) != tallies", "False"),
    ),
}


def jobs(chance):
    """Return a few jobs, of different limits."""
    key = f"k{chance.randrange(3)}"
    limits = chance.choice(
        [
            (),
            (),
            (Limit(key, Numbers(slots=1)),),
            (Limit(key, Numbers(slots=1)),),
            (Limit("a", Numbers(slots=2)), Limit("b", Numbers(slots=1))),
            (Limit("dropped", Numbers(slots=1), OnLimit.DROP),),
            (Limit("later", Numbers(slots=1), OnLimit.RESCHEDULE),),
        ]
    )
    retry = RetryPolicy(attempts=2, delay=0)
    queue = chance.choice(["q", "r"])
    return [
        NewJob(chance.choice(["t", "u"]), queue=queue, limits=limits, retry=retry)
        for _ in range(chance.randrange(1, 6))
    ]


def outcome(chance):
    """Return how an attempt ends."""
    kinds = [
        Done("1"),
        Done("1"),
        Done("1"),
        Failed("Error", "x"),
        Again(None, "again"),
        HandedBack(),
        Cancelled("given up"),
    ]
    return chance.choice(kinds)


def drain(engine, chance, worker, relay=(("t", 10), ("u", 10))):
    """Settle and claim once; return how many attempts began."""
    _, claim = engine.exchange(
        [], ["q", "r"], chance.randrange(1, 30), worker=worker, lease=LEASE, relay=relay
    )
    engine.settle([Settlement(job.seq, job.fence, outcome(chance)) for job in claim.jobs])
    return len(claim.jobs)


def main(url, number, wound=""):
    """Go on until killed."""
    chance = random.Random(number)
    with wounded(wound, WOUNDS) if wound else nullcontext():
        engine = open_engine(url)
        known = []
        while True:
            known = [each.id for each in engine.enqueue(jobs(chance))][-1:] or known
            drain(engine, chance, f"w{number}")
            if chance.random() < UPKEEP:
                engine.upkeep()
            if known and chance.random() < CANCELS:
                with suppress(WrongStateError):
                    engine.cancel(known.pop())


if __name__ == "__main__":
    main(*sys.argv[1:])
