"""Play what `penstock demo` plays, without workers: jobs come, run for 400 ms each, and time moves by itself."""

from penstock.clock import MILLISECOND, SECOND
from penstock.demo.scenarios import ACCOUNTS, OPS
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Limit, Numbers, OnLimit, Window

HOLD = 400 * MILLISECOND
THREADS = 8
APART = 2 * SECOND  # between scenarios


def one(letter, on_limit="wait"):
    """Let an account have one call at a time."""
    return lambda account: (Limit(f"{letter} {account}", Numbers(slots=1), OnLimit(on_limit)),)


SCENARIOS = {
    "A": ("call_unsafe", lambda _: ()),
    "B": ("call_keyed", one("B")),
    "C": ("call_or_drop", one("C", "drop")),
    "F": ("call_rated", lambda _: (Limit("F", Numbers(rate=Window(5, SECOND))),)),
    "G": ("call_spaced", lambda _: (Limit("G", Numbers(throttle=Window(5, SECOND))),)),
}


def play(engine, clock, letters="ABCFG"):
    """Play scenarios one after the other."""
    for letter in letters:
        task, limits = SCENARIOS[letter]
        jobs = [NewJob(task=task, limits=limits(account)) for account in ACCOUNTS for _ in OPS[:4]]
        run(engine, clock, jobs)
        clock.advance(APART)


def run(engine, clock, jobs, hold=HOLD, threads=THREADS):
    """Enqueue *jobs*, a few milliseconds apart, and run them until all have ended."""
    coming, ends = list(reversed(jobs)), []
    while coming or ends or engine.totals().waiting.number:
        if coming:
            engine.enqueue([coming.pop()])
        while ends and ends[0][0] <= clock.now():
            _, job = ends.pop(0)
            engine.settle([Settlement(job.seq, job.fence, Done(), 0)])
        if len(ends) < threads:
            claim = engine.claim(["default"], threads - len(ends), worker="eu-1/4410", lease=600 * SECOND)
            ends += [(clock.now() + hold, job) for job in claim.jobs]
        clock.advance((5 if coming else 20) * MILLISECOND)
