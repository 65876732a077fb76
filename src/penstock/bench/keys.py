"""W7: very many keys, against few."""

import time
from typing import Final, NamedTuple

from penstock.bench.drain import KEYS, keyed_jobs, rate
from penstock.bench.figures import Figure, at_least, at_most, middle, spread
from penstock.bench.run_context import BATCH, RunContext, batches, fill, opened
from penstock.bench.worker_processes import served

FEW: Final = 1_000
TOGETHER: Final = 100  # as many as a worker takes: more would meet few keys again and again
BOUND: Final = 1.2


class _Spans(NamedTuple):
    """How many seconds it took to add jobs, and to do as many."""

    adding: float
    doing: float


def run(context: RunContext) -> list[Figure]:
    """Measure what very many keys cost."""
    return _from_the_front(context) if context.stores.postgres else _from_end_to_end(context)


def _from_end_to_end(context: RunContext) -> list[Figure]:
    """Do as many jobs as there are keys, against the same jobs over 100 keys."""
    count = context.size(100_000, 10_000)
    few = rate(context, f"W7 {KEYS} keys", keyed_jobs(count, KEYS))
    many = rate(context, f"W7 {count:,} keys", keyed_jobs(count))
    return [
        Figure("W7", f"{count:,} jobs over {KEYS} keys", few, "jobs/s"),
        Figure("W7", f"{count:,} jobs over {count:,} keys", many, "jobs/s"),
        Figure("W7", "many keys / few keys", many / few, "x", at_least(many / few, 0.5)),
    ]


def _from_the_front(context: RunContext) -> list[Figure]:
    """Add to a million jobs, each of its own key, and do some of them; in turn with jobs over a thousand keys."""
    many, share, turns = context.size(1_000_000, 50_000), context.size(20_000, 5_000), context.size(3, 1)
    # Of the few no more than will be done: if the length of the line matters, it speaks against the many.
    backlogs = {FEW: turns * share, many: many}
    bulk = {keys: _prepare(context, keys, count) for keys, count in backlogs.items()}
    spans: dict[int, list[_Spans]] = {keys: [] for keys in backlogs}
    for turn in range(turns):
        context.say(f"W7 {share:,} jobs of each: turn {turn + 1}")
        for keys in backlogs if turn % 2 else reversed(backlogs):
            spans[keys].append(_spans(context.stores.url(_name(keys)), keys, share))
    for keys in backlogs:
        context.clear(_name(keys))
    figures = [figure for keys in backlogs for figure in _figures(keys, bulk[keys], share, spans[keys])]
    turned = list(zip(spans[many], spans[FEW], strict=True))
    draining = middle([more.doing / less.doing for more, less in turned])
    whole = middle([sum(more) / sum(less) for more, less in turned])
    against = f"{many:,} / {FEW:,} keys"
    return [
        *figures,
        Figure("W7", f"cost of a drained job, {against}", draining, "x", at_most(draining, BOUND)),
        Figure("W7", f"with its enqueue, {against}", whole, "x", at_most(whole, BOUND)),
    ]


def _prepare(context: RunContext, keys: int, count: int) -> float:
    """Enqueue jobs over new keys; return how many a second."""
    context.say(f"W7 enqueue {count:,} jobs over {keys:,} keys")
    url = context.url(_name(keys))
    began = time.perf_counter()
    fill(url, keyed_jobs(count, None if keys == count else keys, handler="counted"))
    return count / (time.perf_counter() - began)


def _spans(url: str, keys: int, count: int) -> _Spans:
    """Enqueue jobs over known keys, then do as many."""
    jobs = list(keyed_jobs(count, keys, handler="counted"))
    with opened(url) as engine:
        began = time.perf_counter()
        for batch in batches(jobs, TOGETHER):
            engine.enqueue(batch)
        adding = time.perf_counter() - began
    return _Spans(adding, served(url, "counted", count).seconds)


def _figures(keys: int, bulk: float, share: int, spans: list[_Spans]) -> list[Figure]:
    adding = [share / span.adding for span in spans]
    doing = [share / span.doing for span in spans]
    return [
        Figure("W7", f"enqueue new keys, {keys:,} of them", bulk, "jobs/s", note=f"{BATCH:,} at a time"),
        Figure("W7", f"enqueue, {keys:,} keys", middle(adding), "jobs/s", note=f"{TOGETHER} at a time"),
        Figure("W7", f"drain, {keys:,} keys", middle(doing), "jobs/s", note=spread(doing)),
    ]


def _name(keys: int) -> str:
    return f"w7-{keys}"
