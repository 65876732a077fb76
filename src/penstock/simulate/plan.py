"""A plan: which jobs arrive, how long they take, which limits they carry, and how many workers there are."""

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.errors import InvalidError
from penstock.limits.rules import Numbers, OnLimit, Window, check_key
from penstock.limits.template import check_template, parse_template
from penstock.simulate import sources
from penstock.simulate.chance import Arrivals, Duration, Values
from penstock.simulate.fields import Table, line_of

MOST_JOBS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class PlannedLimit:
    """A limit by its name in the plan; its key may hold parts of which each job has its own."""

    name: str
    key: str
    numbers: Numbers
    on_limit: OnLimit = OnLimit.WAIT


@dataclass(frozen=True, slots=True)
class JobKind:
    """Jobs that are alike."""

    name: str
    arrivals: Arrivals
    duration: Duration
    limits: tuple[PlannedLimit, ...] = ()
    keys: Mapping[str, Values] | None = None
    priority: int = 0
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What to play; without an *until* it ends when all jobs have."""

    title: str
    jobs: tuple[JobKind, ...]
    limits: tuple[PlannedLimit, ...]
    concurrency: int
    until: int | None = None
    seed: int = 1

    def expected(self, until: int | None) -> float:
        """Return about how many jobs arrive before then."""
        return sum(kind.arrivals.expected(until) for kind in self.jobs)


def read_plan(text: str, source: str = "plan") -> Plan:
    """Return the plan written in *text*, which is TOML."""
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise InvalidError(source, "its lists are too deep") from None
    except ValueError as error:  # also a number of thousands of digits
        raise InvalidError(source, str(error)) from None
    try:
        return _plan(Table(content, ""))
    except InvalidError as error:
        line = line_of(text, error.field)
        place = source if line is None else f"{source}, line {line}"
        raise InvalidError(f"{place}: {error.field}", error.problem) from None


def end_of(plan: Plan, until: int | None = None, *, most: int = MOST_JOBS) -> int | None:
    """Return when to stop playing *plan*, or None for when all is done; raise if more than *most* jobs would come."""
    until = plan.until if until is None else until
    jobs = plan.expected(until)
    if until is None and jobs == math.inf:
        raise InvalidError("until", "is missing: some of the jobs never stop arriving; say when to stop")
    if jobs > most:
        raise InvalidError("until", f"about {jobs:,.0f} jobs would arrive; at most {most:,} can be played")
    return until


def _plan(table: Table) -> Plan:
    title = str(table.take("title", ""))
    until = table.span("until") if "until" in table else None
    seed = table.whole("seed", 1, least=0)
    workers = table.table("workers", {})
    concurrency = workers.whole("concurrency", 8, most=100_000)
    workers.done()
    limits = [_limit(name, content) for name, content in table.table("limits", {}).items()]
    _check_keys(limits)
    jobs = table.take("jobs")
    if not isinstance(jobs, list) or not jobs:
        raise InvalidError("jobs", "there must be at least one [[jobs]]")
    kinds = [_kind(Table(each, f"jobs[{n}]"), n, limits) for n, each in enumerate(jobs, start=1)]
    table.done()
    _check_names(kinds)
    return Plan(title, tuple(kinds), tuple(limits), concurrency, until, seed)


def _limit(name: str, content: object) -> PlannedLimit:
    table = Table(content, f"limits.{name}")
    key = table.text("key", name)
    slots = table.whole("slots", least=0) if "slots" in table else None
    rate, throttle = (_window(table, each) if each in table else None for each in ("rate", "throttle"))
    if "burst" in table:
        if throttle is None:
            raise table.wrong("burst", "is that of a throttle; give one")
        throttle = replace(throttle, burst=table.whole("burst", 1))
    on_limit = OnLimit(table.choice("on_limit", ("wait", "drop"), "wait"))
    table.done()
    numbers = Numbers(slots, rate, throttle)
    if not numbers.text:
        raise InvalidError(table.path, "give at least one of slots, rate and throttle")
    try:
        check_key(parse_template(key).literals or name)
    except InvalidError as error:
        raise table.wrong("key", error.problem) from None
    return PlannedLimit(name, key, numbers, on_limit)


def _window(table: Table, name: str) -> Window:
    many, period = table.rate(name)
    if many != int(many):
        raise table.wrong(name, f'{many:g} must be a whole number; write "1/2h" for half of one in an hour')
    return Window(int(many), period)


def _kind(table: Table, number: int, limits: Iterable[PlannedLimit]) -> JobKind:
    name = table.text("name", f"job {number}")
    chosen = _chosen(table, {limit.name: limit for limit in limits})
    keys = {
        part: sources.values(f"{table.path}.keys.{part}", given)
        for part, given in table.table("keys", {}).items()
    }
    for limit in chosen:
        try:
            check_template(limit.key, keys)
        except InvalidError as error:
            raise table.wrong("keys", f"limit {limit.name!r}: {error.problem}") from None
    arrivals = sources.arrivals(table.table("arrivals"))
    duration = sources.duration(table)
    priority = table.whole("priority", 0, least=-100, most=100)
    cost = table.whole("cost", 1)
    table.done()
    _check_cost(table, chosen, cost)
    return JobKind(name, arrivals, duration, chosen, keys, priority, cost)


def _chosen(table: Table, limits: Mapping[str, PlannedLimit]) -> tuple[PlannedLimit, ...]:
    names = table.take("limits", [])
    if not isinstance(names, list):
        raise table.wrong("limits", f"{names!r} must be a list of names")
    for name in names:
        if name not in limits:
            known = ", ".join(limits) or "none"
            raise table.wrong("limits", f"there is no limit {name!r}; the plan has: {known}")
    return tuple(limits[name] for name in dict.fromkeys(names))


def _check_keys(limits: Iterable[PlannedLimit]) -> None:
    seen: dict[str, str] = {}
    for limit in limits:
        if (other := seen.setdefault(limit.key, limit.name)) != limit.name:
            problem = f"{limit.key!r} is the key of {other!r} too; put both into one limit"
            raise InvalidError(f"limits.{limit.name}.key", problem)


def _check_names(kinds: Iterable[JobKind]) -> None:
    seen: set[str] = set()
    for number, kind in enumerate(kinds, start=1):
        if kind.name in seen:
            raise InvalidError(f"jobs[{number}].name", f"{kind.name!r} is taken; give each its own")
        seen.add(kind.name)


def _check_cost(table: Table, limits: Iterable[PlannedLimit], cost: int) -> None:
    for limit in limits:
        rate = limit.numbers.rate
        if rate is not None and 0 < rate.limit < cost:
            raise table.wrong("cost", f"{cost} never fits into the rate {rate.limit} of limit {limit.name!r}")
