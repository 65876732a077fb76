"""When jobs arrive, and how long they take.  Times are microseconds since the beginning."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final, Protocol

DAY: Final = 86_400_000_000
P95: Final = 1.6448536269514722  # standard deviations above the median


class Arrivals(Protocol):
    """A source of jobs."""

    def times(self, chance: Random) -> Iterator[int]:
        """Return when jobs arrive, in order; perhaps without end."""
        ...

    def expected(self, until: int | None) -> float:
        """Return about how many arrive; without an *until*, for ever."""
        ...


class Duration(Protocol):
    """How long handlers take."""

    def draw(self, chance: Random) -> int:
        """Return how long the next one takes."""
        ...

    @property
    def mean(self) -> float:
        """How long they take on average."""
        ...


@dataclass(frozen=True, slots=True)
class Hours:
    """The part of each day in which something happens."""

    begin: int = 0
    end: int = DAY

    @property
    def share(self) -> float:
        return (self.end - self.begin) / DAY

    def moment(self, spent: float) -> int:
        """Return the moment at which so much of this part of the days is over."""
        days, rest = divmod(int(spent), self.end - self.begin)
        return days * DAY + self.begin + rest


@dataclass(frozen=True, slots=True)
class Steady:
    """Jobs that come *gap* apart on average: by chance (a Poisson process), or evenly."""

    gap: float
    by_chance: bool = True
    hours: Hours = Hours()
    count: int | None = None

    def times(self, chance: Random) -> Iterator[int]:
        spent = 0.0
        for number in count():
            if number == self.count:
                return
            if self.by_chance:
                spent += chance.expovariate(1) * self.gap
            elif number:
                spent = number * self.gap
            yield self.hours.moment(spent)

    def expected(self, until: int | None) -> float:
        most = math.inf if self.count is None else self.count
        return most if until is None else min(most, until * self.hours.share / self.gap)


@dataclass(frozen=True, slots=True)
class Burst:
    """So many jobs at once, *at* a moment, and again *every* so often, *times* in all."""

    count: int
    at: int = 0
    every: int | None = None
    repeats: int | None = None

    def times(self, chance: Random) -> Iterator[int]:  # noqa: ARG002 - nothing is left to chance
        for number in count() if self._bursts is None else range(self._bursts):
            yield from [self.at + number * (self.every or 0)] * self.count

    def expected(self, until: int | None) -> float:
        most = math.inf if self._bursts is None else self._bursts * self.count
        if until is None:
            return most
        bursts = 1 if self.every is None else (until - self.at) // self.every + 1
        return max(0, min(most, bursts * self.count))

    @property
    def _bursts(self) -> int | None:
        return 1 if self.every is None else self.repeats


@dataclass(frozen=True, slots=True)
class Fixed:
    span: int

    def draw(self, chance: Random) -> int:  # noqa: ARG002 - nothing is left to chance
        return self.span

    @property
    def mean(self) -> float:
        return self.span


@dataclass(frozen=True, slots=True)
class Exponential:
    mean: float

    def draw(self, chance: Random) -> int:
        return round(chance.expovariate(1) * self.mean)


@dataclass(frozen=True, slots=True)
class Uniform:
    least: int
    most: int

    def draw(self, chance: Random) -> int:
        return round(chance.uniform(self.least, self.most))

    @property
    def mean(self) -> float:
        return (self.least + self.most) / 2


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Mostly short, now and then very long: half take less than *median*, 95 % less than *p95*."""

    median: int
    p95: int

    def draw(self, chance: Random) -> int:
        return round(chance.lognormvariate(math.log(self.median), self._sigma))

    @property
    def mean(self) -> float:
        return self.median * math.exp(self._sigma**2 / 2)

    @property
    def _sigma(self) -> float:
        return math.log(self.p95 / self.median) / P95


@dataclass(frozen=True, slots=True)
class Values:
    """What a part of a key can be: one after the other in turn, or drawn by *weights*."""

    names: tuple[str, ...]
    weights: tuple[float, ...] = ()

    def draw(self, chance: Random) -> Iterator[str]:
        """Return one value after the other, without end."""
        for number in count():
            if self.weights:
                yield chance.choices(self.names, self.weights)[0]
            else:
                yield self.names[number % len(self.names)]
