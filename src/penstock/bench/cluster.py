"""W16: many small worker processes on the same keys, as on several machines."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from penstock.bench.figures import Figure, at_least, middle, promised, spread
from penstock.bench.run_context import RunContext, job
from penstock.bench.worker_processes import Sight
from penstock.bench.workers import NOISE, process_count, ratio, together
from penstock.clock import SECOND
from penstock.job import NewJob
from penstock.limits.rules import Limit, Numbers, Window

AT_ONCE: Final = 10
KEYS: Final = 1_000
PROCESSES: Final = (1, 2, 4, 8)
_MOST: Final = PROCESSES[-1]
_ONE: Final = Numbers(slots=1)
_SHARED: Final = Limit("api", Numbers(rate=Window(5_000, SECOND)))


def run(context: RunContext) -> list[Figure]:
    """Measure keyed jobs of 1 ms by the number of processes, of 20 ms, and with a rate that all keys share."""
    short: dict[int, list[float]] = {processes: [] for processes in PROCESSES}
    long, shared, sights = list[float](), list[float](), list[Sight]()
    for turn in range(context.size(3, 1)):
        for processes in PROCESSES if turn % 2 else reversed(PROCESSES):
            context.say(f"W16 1 ms, {process_count(processes)}: turn {turn + 1}")
            short[processes].append(_rate(context, processes, 1, sights))
        context.say(f"W16 20 ms, {process_count(_MOST)}: turn {turn + 1}")
        long.append(_rate(context, _MOST, 20, sights))
        context.say(f"W16 a shared rate, {process_count(_MOST)}: turn {turn + 1}")
        shared.append(_rate(context, _MOST, 1, sights, _SHARED))
    figures = [_figure(f"1 ms jobs, {process_count(each)}", short[each]) for each in PROCESSES]
    for fewer, more in pairwise(PROCESSES):
        grown = ratio(short[more], short[fewer])
        figures.append(Figure("W16", f"1 ms jobs, {more} / {fewer}", grown, "x", at_least(grown, NOISE)))
    whole = ratio(short[_MOST], short[1])
    used = middle(long) / (_MOST * AT_ONCE * 1_000 / 20)
    company = overlaps(sights)
    return [
        *figures,
        Figure("W16", f"1 ms jobs, {_MOST} / 1", whole, "x", at_least(whole, 3)),
        _figure(f"20 ms jobs, {process_count(_MOST)}", long),
        Figure("W16", "20 ms jobs / what they could do", used, "x", at_least(used, 0.75)),
        _figure(f"1 ms jobs with a shared rate too, {process_count(_MOST)}", shared),
        Figure("W16", "overlaps in one key", company, "", promised(company, 0)),
    ]


def overlaps(sights: Sequence[Sight]) -> int:
    """Count how often a handler began while another of its key was at work, in whichever process."""
    spans = sorted(span for sight in sights for span in sight.spans)
    return sum(one[0] == other[0] and other[1] < one[2] for one, other in pairwise(spans))


def _rate(
    context: RunContext, processes: int, milliseconds: int, sights: list[Sight], *shared: Limit
) -> float:
    count = context.size(1_500, 300) * processes
    jobs = _jobs(count, milliseconds, shared)
    rate, seen = together(context, "held", jobs, count, processes, AT_ONCE)
    sights += seen
    return rate


def _jobs(count: int, milliseconds: int, shared: Sequence[Limit]) -> Iterator[NewJob]:
    for number in range(count):
        key = number % KEYS
        yield job("held", key, milliseconds, limits=(Limit(f"key:{key}", _ONE), *shared))


def _figure(name: str, found: list[float]) -> Figure:
    return Figure("W16", name, middle(found), "jobs/s", note=f"{AT_ONCE} at once each, {spread(found)}")
