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
    "what was taken is added in a transaction of its own": (
        "engine.minutes:MinuteVerbs.add_tallies",
        (
            "return _add(board.db, rows.take(board.db, _number(rows.sizes(board.db, TAKEN))))",
            "return rows.take(board.db, _number(rows.sizes(board.db, TAKEN)))",
        ),
        (
            "return self._write(work, Locks.NONE, keep=False)",
            (
                "taken = self._write(work, Locks.NONE)\n"
                "    self.minutes_later = [*getattr(self, 'minutes_later', ()), *taken]\n"
                "    self.minutes_turn = not getattr(self, 'minutes_turn', False)\n"
                "    if self.minutes_turn:\n"
                "        return len(taken)\n"
                "    later, self.minutes_later = self.minutes_later, []\n"
                "    return self._write(lambda board: _add(board.db, later), Locks.NONE)"
            ),
        ),
    ),
    "what was read is added and stays": (
        "store.minutes:take",
        ("DELETE FROM tally WHERE", "SELECT number, at, facts FROM tally WHERE"),
        ("RETURNING number, at, facts", ""),
        (" FOR UPDATE SKIP LOCKED", ""),
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
