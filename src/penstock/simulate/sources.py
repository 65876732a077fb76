"""Read from a plan when jobs arrive, how long they take, and what their keys are made of."""

import re
from collections.abc import Mapping
from typing import Final

from penstock.errors import InvalidError
from penstock.simulate.chance import (
    DAY,
    Arrivals,
    Burst,
    Duration,
    Exponential,
    Fixed,
    Hours,
    Lognormal,
    Steady,
    Uniform,
    Values,
)
from penstock.simulate.fields import Table

MOST_VALUES: Final = 100_000
_CLOCK: Final = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)")
_MINUTE: Final = 60_000_000


def values(field: str, given: object) -> Values:
    """Return what one part of a key can be."""
    match given:
        case int() if not isinstance(given, bool) and 1 <= given <= MOST_VALUES:
            return Values(tuple(str(number) for number in range(1, given + 1)))
        case [*names] if names and all(isinstance(name, str) and name for name in names):
            return Values(tuple(str(name) for name in names))
        case {**weights} if weights and all(_is_weight(weight) for weight in weights.values()):
            return Values(tuple(map(str, weights)), tuple(float(str(weight)) for weight in weights.values()))
    raise InvalidError(
        field,
        f"{given!r} must be a number (so many values, in turn), a list of values (in turn), "
        "or a table of values and their weights (by chance)",
    )


def _is_weight(weight: object) -> bool:
    return isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight < 2**53


def arrivals(table: Table) -> Arrivals:
    """Return when jobs come."""
    hours = _hours(table) if "between" in table else Hours()
    found: Arrivals
    if "rate" in table:
        many, period = table.rate("rate")
        if not many:
            raise table.wrong("rate", "must be more than 0")
        by_chance = table.choice("pattern", ("poisson", "even"), "poisson") == "poisson"
        most = table.whole("count") if "count" in table else None
        found = Steady(period / many, by_chance, hours, most)
    elif "count" in table:
        every = table.span("every") if "every" in table else None
        times = table.whole("times") if "times" in table else None
        if times is not None and every is None:
            raise table.wrong("times", "needs every: how far apart?")
        if hours != Hours():
            raise table.wrong("between", "needs a rate; a burst comes at its own time")
        found = Burst(table.whole("count"), table.span("at", 0, zero=True), every, times)
    else:
        raise InvalidError(table.path, 'give a rate ("20/1h"), or a count of jobs that come at once')
    table.done()
    return found


def _hours(table: Table) -> Hours:
    given = table.take("between")
    if isinstance(given, list) and len(given) == len(("begin", "end")):
        begin, end = (_minutes(each) for each in given)
        if begin is not None and end is not None and begin < end:
            return Hours(begin * _MINUTE, end * _MINUTE)
    raise table.wrong("between", f'{given!r} must be two times of a day, as in ["09:00", "17:00"]')


def _minutes(given: object) -> int | None:
    match = _CLOCK.fullmatch(given) if isinstance(given, str) else None
    minutes = None if match is None else int(match[1]) * 60 + int(match[2])
    return minutes if minutes is None or minutes * _MINUTE <= DAY else None


def duration(table: Table) -> Duration:
    """Return how long the handlers of a kind of jobs take."""
    given = table.take("duration")
    if not isinstance(given, Mapping):
        return Fixed(Table({"duration": given}, table.path).span("duration", zero=True))
    spread = Table(given, table.field("duration"))
    found: Duration
    if "exponential" in spread:
        found = Exponential(spread.span("exponential"))
    elif "uniform" in spread:
        found = _uniform(spread)
    elif "lognormal" in spread:
        found = _lognormal(spread.table("lognormal"))
    else:
        raise table.wrong("duration", 'must be a time ("2s"), or one of: exponential, uniform, lognormal')
    spread.done()
    return found


def _uniform(table: Table) -> Uniform:
    given = table.take("uniform")
    if not isinstance(given, list) or len(given) != len(("least", "most")):
        raise table.wrong("uniform", f'{given!r} must be two times, as in ["1s", "3s"]')
    both = Table({"uniform": given[0], "to": given[1]}, table.path)
    least, most = both.span("uniform", zero=True), both.span("to")
    if least > most:
        raise table.wrong("uniform", f"{given[0]!r} is longer than {given[1]!r}")
    return Uniform(least, most)


def _lognormal(table: Table) -> Lognormal:
    median, p95 = table.span("median"), table.span("p95")
    table.done()
    if p95 <= median:
        raise table.wrong("p95", "must be longer than the median")
    return Lognormal(median, p95)
