"""W16: many small worker processes on the same keys, as on several machines."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from penstock.bench.figures import Figure, at_least, middle, promised, spread
from penstock.bench.run_context import RunContext, job
from penstock.bench.workers import NOISE, process_count, ratio, together
from penstock.clock import SECOND
from penstock.job import NewJob
from penstock.limits.rules import Limit, Numbers, Window

AT_ONCE: Final = 10
KEYS: Final = 1_000
PROCESSES: Final = (1, 2, 4, 8)
SHARE: Final = 1_500  # jobs for each process
QUICK_SHARE: Final = 300
NANOSECONDS: Final = 1_000_000_000
_ONE: Final = Numbers(slots=1)
_SHARED: Final = Limit("api", Numbers(rate=Window(5_000, SECOND)))

Span = tuple[int, int, int]  # the key of a handler, its begin and its end in nanoseconds


class Case(NamedTuple):
    """Jobs of so many *milliseconds* for so many *processes*; the keys may have a *shared* rate too."""

    milliseconds: int
    processes: int
    shared: bool = False

    @property
    def name(self) -> str:
        """What its figure is called."""
        shared = " with a shared rate too" if self.shared else ""
        return f"{self.milliseconds} ms jobs{shared}, {process_count(self.processes)}"

    @property
    def most(self) -> float:
        """How many jobs a second so many handlers could do."""
        return self.processes * AT_ONCE * 1_000 / self.milliseconds


SHORT: Final = tuple(Case(1, processes) for processes in PROCESSES)
MANY: Final = SHORT[-1]
LONG: Final = Case(20, MANY.processes)
SHARED: Final = Case(1, MANY.processes, shared=True)
CASES: Final = (*SHORT, LONG, SHARED)


class Turn(NamedTuple):
    """Jobs per second by case, measured one after the other, and how often a limit was seen broken."""

    rates: dict[Case, float]
    overlaps: int


def run(context: RunContext) -> list[Figure]:
    """Measure keyed jobs of 1 ms by the number of processes, of 20 ms, and with a rate that all keys share."""
    turns = []
    for number in range(context.size(3, 1)):
        context.say(f"W16 turn {number + 1}")
        turns.append(turn(context, CASES if number % 2 else CASES[::-1]))
    return figures(turns)


def turn(context: RunContext, cases: Iterable[Case]) -> Turn:
    """Measure each of *cases* once."""
    rates, company = {}, 0
    for case in cases:
        context.say(f"W16 {case.name}")
        count = context.size(SHARE, QUICK_SHARE) * case.processes
        _, sights = together(context, "held", _jobs(count, case), count, case.processes, AT_ONCE)
        spans = [span for sight in sights for span in sight.spans]
        rates[case] = rate(spans)
        company += overlaps(spans)
    return Turn(rates, company)


def figures(turns: Sequence[Turn]) -> list[Figure]:
    """Return what *turns* found, with the targets."""
    rates = {case: [each.rates[case] for each in turns] for case in CASES}
    found = [_figure(case.name, rates[case]) for case in SHORT]
    for fewer, more in pairwise(SHORT):
        grown = ratio(rates[more], rates[fewer])
        name = f"1 ms jobs, {more.processes} / {fewer.processes}"
        found.append(Figure("W16", name, grown, "x", at_least(grown, NOISE)))
    whole = ratio(rates[MANY], rates[SHORT[0]])
    used = middle(rates[LONG]) / LONG.most
    company = sum(each.overlaps for each in turns)
    return [
        *found,
        Figure("W16", f"1 ms jobs, {MANY.processes} / 1", whole, "x", at_least(whole, 3)),
        _figure(LONG.name, rates[LONG]),
        Figure("W16", "20 ms jobs / what they could do", used, "x", at_least(used, 0.75)),
        _figure(SHARED.name, rates[SHARED]),
        Figure("W16", "overlaps in one key", company, "", promised(company, 0)),
    ]


def rate(spans: Sequence[Span]) -> float:
    """Return how many *spans* there were a second, from the first begin until the last end."""
    began, ended = min(span[1] for span in spans), max(span[2] for span in spans)
    return len(spans) * NANOSECONDS / (ended - began)


def overlaps(spans: Iterable[Span]) -> int:
    """Count the *spans*, each a key with begin and end, that began while another of their key had not ended."""
    found = 0
    for _, same in groupby(sorted(spans), key=itemgetter(0)):
        latest = 0
        for _, began, ended in same:
            found += began < latest
            latest = max(latest, ended)
    return found


def _jobs(count: int, case: Case) -> Iterator[NewJob]:
    shared = (_SHARED,) if case.shared else ()
    for number in range(count):
        key = number % KEYS
        yield job("held", key, case.milliseconds, limits=(Limit(f"key:{key}", _ONE), *shared))


def _figure(name: str, found: list[float]) -> Figure:
    return Figure("W16", name, middle(found), "jobs/s", note=f"{AT_ONCE} at once each, {spread(found)}")
