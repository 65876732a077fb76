"""Aggregate functions.  A row may stand for many that are alike: *weight* of them."""

from collections.abc import Callable
from typing import Final, Protocol

from penstock.dialects.silo.query_functions import Compiled
from penstock.dialects.silo.query_meter import Meter, size_of
from penstock.dialects.silo.query_tree import BOOLEAN, FLOAT, INT, INTS, NULL, NUMBERS, TEXT, Value
from penstock.dialects.silo.query_values import Number, bounded
from penstock.errors import InvalidError


class Total(Protocol):
    """What an aggregate knows of one group."""

    def add(self, value: Value, weight: int) -> None:
        """Take a value in that is not null."""
        ...

    @property
    def result(self) -> Value: ...


class _Count:
    def __init__(self) -> None:
        self.result = 0

    def add(self, _value: Value, weight: int) -> None:
        self.result += weight


class _Sum:
    def __init__(self) -> None:
        self._sum: Number | None = None

    def add(self, value: Value, weight: int) -> None:
        assert isinstance(value, int | float)  # noqa: S101 - its type was checked
        self._sum = value * weight + (self._sum or 0)

    @property
    def result(self) -> Value:
        return bounded(self._sum) if isinstance(self._sum, int) else self._sum


class _Average:
    def __init__(self) -> None:
        self._sum: Number = 0
        self._count = 0

    def add(self, value: Value, weight: int) -> None:
        assert isinstance(value, int | float)  # noqa: S101 - its type was checked
        self._sum += value * weight
        self._count += weight

    @property
    def result(self) -> Value:
        return self._sum / self._count if self._count else None


class _Best:
    """The least or the greatest value: *better* tells which of two it is."""

    def __init__(self, better: Callable[..., Value], meter: Meter) -> None:
        self._better = better
        self._meter = meter
        self.result: Value = None

    def add(self, value: Value, _weight: int) -> None:
        best = value if self.result is None else self._better(self.result, value)
        if best is not self.result:
            self._meter.hold(size_of(best) - size_of(self.result))
            self.result = best


class _Different:
    """Passes each different value on, once."""

    def __init__(self, total: Total, meter: Meter) -> None:
        self._total = total
        self._meter = meter
        self._seen: set[Value] = set()

    def add(self, value: Value, _weight: int) -> None:
        if value not in self._seen:
            self._meter.hold(size_of(value))
            self._seen.add(value)
            self._total.add(value, 1)

    @property
    def result(self) -> Value:
        return self._total.result


_MAKERS: Final[dict[str, Callable[[Meter], Total]]] = {
    "count": lambda _meter: _Count(),
    "sum": lambda _meter: _Sum(),
    "avg": lambda _meter: _Average(),
    "min": lambda meter: _Best(min, meter),
    "max": lambda meter: _Best(max, meter),
}


def aggregate(name: str, found: Compiled, meter: Meter, *, distinct: bool) -> tuple[str, Callable[[], Total]]:
    """Return the type of an aggregate of *found*, and what makes its total for a group."""
    if name in {"sum", "avg"} and found.type not in {*NUMBERS, NULL}:
        raise InvalidError("sql", f"{name} takes numbers, not {found.type}; CAST them")
    if (name in {"min", "max"} or distinct) and found.type not in {*NUMBERS, TEXT, BOOLEAN, NULL}:
        raise InvalidError("sql", f"{name} cannot compare values of {found.type}")
    type_ = {"count": INT, "avg": FLOAT}.get(name, found.type)
    if name == "sum" and found.type in INTS:
        type_ = INT
    make = _MAKERS[name]
    return type_, lambda: _Different(make(meter), meter) if distinct else make(meter)
