"""W15: what do instances cost, beside keyed jobs, beside chains of jobs, and from one step to the next?"""

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from penstock.bench import drain, pickup, web
from penstock.bench.figures import Figure, at_least, at_most, middle, percentile
from penstock.bench.run_context import RunContext, job, opened
from penstock.bench.worker_processes import FLOW, Assignment, drained, started, stopped
from penstock.engine import Engine
from penstock.job import InstanceState, NewInstance, NewWorkflow
from penstock.workflows.shapes import chain

STEPS: Final = 5
BATCH: Final = 1_000
PUBLISHED: Final = 860  # instances of one no-op step a second, as the page of Orch8's engine said
_APART: Final = 20 * STEPS  # milliseconds between two instances: as many begins a second as in W6
Filling = Callable[[Engine, int], None]


def run(context: RunContext) -> list[Figure]:
    """Measure instances in turn with what they are compared with."""
    return [*_of_one_step(context), *_of_five_steps(context), *_in_python(context), *_by_http(context),
            *_between_steps(context)]  # fmt: skip


def _of_one_step(context: RunContext) -> list[Figure]:
    count = context.size(5_000, 1_000)
    keyed, ones = [], []
    for _ in range(context.size(3, 1)):
        jobs = drain.keyed_jobs(count, drain.KEYS)
        keyed.append(drain.rate(context, "W15 keyed jobs", jobs, at_once=drain.AT_ONCE))
        ones.append(_rate(context, "keyed instances of one step", count, _keyed))
    share = middle([one / job for one, job in zip(ones, keyed, strict=True)])
    return [
        Figure("W15", f"no-op jobs, {drain.KEYS} keys of one slot", middle(keyed), "jobs/s"),
        Figure("W15", "instances of one step, the same keys", middle(ones), "/s"),
        Figure("W15", "of the rate of keyed jobs", share, "x", at_least(share, 0.3)),
    ]


def _of_five_steps(context: RunContext) -> list[Figure]:
    count = context.size(2_000, 300)
    chains, fives = [], []
    for _ in range(context.size(3, 1)):
        chains.append(STEPS * _rate(context, "chains of five jobs", count, _chains))
        fives.append(STEPS * _rate(context, "instances of five steps", count, _sequence(STEPS)))
    share = middle([five / chain for five, chain in zip(fives, chains, strict=True)])
    return [
        Figure("W15", "chains of five jobs", middle(chains), "steps/s"),
        Figure("W15", "instances of five steps", middle(fives), "steps/s"),
        Figure("W15", "of the rate of chains", share, "x", at_least(share, 0.5)),
    ]


def _in_python(context: RunContext) -> list[Figure]:
    count = context.size(1_000, 200)
    rates = {
        steps: _rate(context, f"workflows in Python of {steps}", count, _python(steps))
        for steps in (1, STEPS)
    }
    return [
        Figure("W15", f"workflows in Python, {steps} step{'s' if steps > 1 else ''}", found, "/s")
        for steps, found in rates.items()
    ]


def _by_http(context: RunContext) -> list[Figure]:
    """Create instances of a step that does nothing by requests for many; they have ended when the answer comes."""
    count = context.size(20_000, 3_000)
    context.say(f"W15 {count:,} instances by /instances/batch")
    url = context.url("w15")
    with opened(url) as engine:
        _put(engine, "noop", 1)
    with web.serving(url) as port:
        seconds = asyncio.run(_batches(port, count))
    with opened(url) as engine:
        _, ended = engine.instances(state=InstanceState.DONE, limit=1)
    if ended != count:
        raise RuntimeError(f"W15: {ended:,} of {count:,} instances have ended")
    context.clear("w15")
    found = count / seconds
    return [Figure("W15", "no-op instances by /instances/batch", found, "/s", at_least(found, 5 * PUBLISHED))]


async def _batches(port: int, count: int) -> float:
    call = await web.Call.open(port)
    body = json.dumps({"instances": [{"sequence_name": "bench", "tenant_id": "bench"}] * BATCH}).encode()
    began = time.perf_counter()
    for _ in range(count // BATCH):
        await call.post("/instances/batch", body)
    seconds = time.perf_counter() - began
    call.close()
    return seconds


def _between_steps(context: RunContext) -> list[Figure]:
    """From the end of a step until the next begins, beside W6: a handler that notes the moment takes none."""
    count = context.size(100, 20)
    case = pickup.CASES[0]._replace(jobs=context.size(150, 30))
    before, _ = pickup.pickups(context, case)
    context.say(f"W15 {count} instances of five steps, {_APART} ms apart")
    url = context.url("w15")
    with opened(url) as engine, started(Assignment(url, "stamped")) as workers:
        number, rest = _put(engine, "bench.stamped", STEPS), threading.Event()
        rest.wait(pickup.SETTLED)
        for each in range(count):
            rest.wait(_APART / 1_000)
            engine.create_instances(
                [NewInstance("bench", json.dumps({"n": each}), sequence=number, tenant="bench")]
            )
        _await_ended(engine, count)
        (sight,) = stopped(workers)
    context.clear("w15")
    after, whole = percentile(_gaps(sight.starts), 50), percentile(before, 50)
    note = f"with {whole:.2f} ms in W6, {case.name}"
    return [
        Figure("W15", "p50 from a step to the next", after, "ms", note=note),
        Figure("W15", "of the p50 of W6", after / whole, "x", at_most(after / whole, 2)),
    ]


def _gaps(starts: Sequence[tuple[int, int]]) -> list[float]:
    """Return the milliseconds between the begins of the steps of each instance."""
    moments: dict[int, list[int]] = {}
    for number, at in starts:
        moments.setdefault(number, []).append(at)
    return [(b - a) / pickup.MILLISECOND for each in moments.values() for a, b in pairwise(sorted(each))]


def _await_ended(engine: Engine, count: int) -> None:
    rest = threading.Event()
    for _ in range(1_000):
        if engine.instances(state=InstanceState.DONE, limit=1)[1] >= count:
            return
        rest.wait(0.02)
    raise TimeoutError(f"{count} instances have not ended in 20 s")


def _rate(context: RunContext, name: str, count: int, fill: Filling) -> float:
    """Return how many of *count* a second one worker process brings to their end."""
    context.say(f"W15 {name}: {count:,}")
    url = context.url("w15")
    with opened(url) as engine:
        for first in range(0, count, BATCH):
            fill(engine, min(BATCH, count - first))
    seconds = drained(url, "noop", drain.AT_ONCE).seconds
    with opened(url) as engine:
        left = engine.count()
    if {state for state, number in left.items() if number} - {"done"}:
        raise RuntimeError(f"W15 {name}: not all is done: {left}")
    context.clear("w15")
    return count / seconds


def _put(engine: Engine, handler: str, steps: int) -> int:
    """Store a sequence of steps, once; return its number."""
    known = engine.sequences()
    if known:
        return known[0].number
    more = {"params": {"number": "{{context.n}}"}} if handler.endswith("stamped") else {}
    blocks = [{"id": f"s{n}", "type": "step", "handler": handler, **more} for n in range(steps)]
    return engine.put_sequence(
        "bench", json.dumps({"name": "bench", "blocks": blocks}), tenant="bench"
    ).number


def _keyed(engine: Engine, count: int) -> None:
    number, chance = _put(engine, "bench.noop", 1), random.Random(7)
    new = [
        NewInstance("bench", sequence=number, limits=drain.one_slot(chance.randrange(drain.KEYS)))
        for _ in range(count)
    ]
    engine.create_instances(new)


def _sequence(steps: int) -> Filling:
    def fill(engine: Engine, count: int) -> None:
        number = _put(engine, "bench.noop", steps)
        engine.create_instances([NewInstance("bench", sequence=number)] * count)

    return fill


def _python(steps: int) -> Filling:
    def fill(engine: Engine, count: int) -> None:
        args = f'{{"args":[{steps}],"kwargs":{{}}}}'
        engine.create_instances([NewInstance(FLOW, args, queue="default")] * count)

    return fill


def _chains(engine: Engine, count: int) -> None:
    for _ in range(count):
        engine.start_workflow(NewWorkflow(chain([job("noop")] * STEPS), kind="chain"))
