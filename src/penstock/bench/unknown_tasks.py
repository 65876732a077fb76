"""W14: claims in a queue with very many jobs of tasks that the worker does not know."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from penstock.bench.drain import free_jobs, keyed_jobs
from penstock.bench.figures import Figure, at_most, middle
from penstock.bench.run_context import BATCH, RunContext, batches, fill, job, opened
from penstock.engine import Engine
from penstock.job import Claimed, NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Limit, Numbers

KNOWN: Final = 1_000
AT_ONCE: Final = 100
KEYS: Final = 1_000
BOUND: Final = 1.2
_KINDS: Final[dict[str, Callable[[int], Iterator[NewJob]]]] = {
    "without limits": lambda count: iter(free_jobs(count)),
    "with keys": lambda count: iter(keyed_jobs(count, KEYS)),
}


def run(context: RunContext) -> list[Figure]:
    """Measure what claims of known jobs cost beside jobs of an unknown task, and beside none."""
    return [figure for kind in _KINDS for figure in _of_kind(context, kind)]


def _of_kind(context: RunContext, kind: str) -> list[Figure]:
    most = context.size(100_000, 5_000)
    prepared = {depth: _prepare(context, kind, depth) for depth in (0, most)}
    costs: dict[int, list[float]] = {depth: [] for depth in prepared}
    # On PostgreSQL most of the work is another process's.
    clock = time.perf_counter if context.stores.postgres else time.process_time
    for turn in range(context.size(7, 3)):
        context.say(f"W14 claims {kind}: turn {turn + 1}")
        # There and back again, so that no depth is always measured first.
        for depth in prepared if turn % 2 else reversed(prepared):
            costs[depth].append(_cost(prepared[depth][0], kind, clock))
    for depth in prepared:
        context.clear(_name(kind, depth))
    ratio = middle([many / none for many, none in zip(costs[most], costs[0], strict=True)])
    how = "" if context.stores.postgres else ", processor"
    note = f"a claim of {AT_ONCE}{how}, median of {len(costs[0])}"
    return [
        Figure("W14", f"{most:,} unknown jobs {kind} set apart, once", prepared[most][1], "s"),
        *(
            Figure("W14", f"claim {kind}, {depth:,} unknown", middle(found), "ms", note=note)
            for depth, found in costs.items()
        ),
        Figure("W14", f"claim {kind}, {most:,} unknown / none", ratio, "x", at_most(ratio, BOUND)),
    ]


def _prepare(context: RunContext, kind: str, depth: int) -> tuple[str, float]:
    """Return the address of a store with *depth* jobs that no worker knows, and how long a claim met them."""
    context.say(f"W14 enqueue {depth:,} unknown jobs {kind}")
    url = context.url(_name(kind, depth))
    with opened(url) as engine:
        limits = [(Limit(f"unknown-{n}", Numbers(slots=1)),) for n in range(KEYS)]
        strangers = (
            job("stranger", limits=limits[n % KEYS] if kind == "with keys" else ()) for n in range(depth)
        )
        for batch in batches(strangers, BATCH):
            engine.enqueue(batch)
        began = time.perf_counter()
        _claim(engine)
        met = time.perf_counter() - began
    context.stores.tidy(_name(kind, depth))
    return url, met


def _cost(url: str, kind: str, clock: Callable[[], float]) -> float:
    """Return the milliseconds, by *clock*, that a claim takes, while known jobs come and are done."""
    fill(url, _KINDS[kind](KNOWN))
    with opened(url) as engine:
        spent, claims = 0.0, 0
        for _ in range(KNOWN // AT_ONCE):
            began = clock()
            jobs = _claim(engine)
            spent, claims = spent + clock() - began, claims + 1
            engine.settle([Settlement(each.seq, each.fence, Done()) for each in jobs])
        return spent / claims * 1_000


def _claim(engine: Engine) -> list[Claimed]:
    """Claim what is known, again while there is more."""
    while True:
        claim = engine.claim(["default"], AT_ONCE, worker="bench", tasks=["bench.noop"])
        if claim.jobs or not claim.more:
            return claim.jobs


def _name(kind: str, depth: int) -> str:
    return f"w14-{kind.replace(' ', '-')}-{depth}"
