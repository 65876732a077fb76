"""What users write on a task: `Concurrency`, `Rate` and so on, and the limits they come to for one call.

Pure.  `resolve` runs for every job, so what can be checked or read once is done when a spec is made.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, Literal, Self, TypeVar

import msgspec

from penstock.errors import InvalidLimitError
from penstock.limits.costs import Cost, check_cost_of, cost_for
from penstock.limits.durations import Duration, parse_duration
from penstock.limits.rules import (
    UNLIMITED,
    Floating,
    Limit,
    Numbers,
    OnLimit,
    Window,
    check_key,
    numbers_from_text,
)
from penstock.limits.template import check_template, parse_template

Key = str | Callable[..., str]
Fit = Callable[[Callable[..., Any]], Callable[..., Any]]
OnLimitName = OnLimit | Literal["wait", "reschedule", "drop"]

_C = TypeVar("_C")
_by_key: Final = attrgetter("key")
# A frozen dataclass is filled in this way.
_put: Final = object.__setattr__
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What all specs share: *key* names the gate, *on_limit* says what to do when it is shut.

    *key* is a format string over the task's arguments, or a callable that takes the same arguments as the task;
    once a spec is fitted to a task, one that takes them as a mapping.  So is *cost*, if it is no number: what a start
    weighs at this gate.  Without one it weighs what the job costs.
    """

    key: Key
    on_limit: OnLimitName = "wait"
    cost: Cost | None = field(default=None, init=False, repr=False)
    action: OnLimit = field(init=False, repr=False, compare=False)
    numbers: Numbers = field(init=False, repr=False, compare=False)
    refresh: Floating | None = field(default=None, init=False, repr=False)
    constant: Limit | None = field(default=None, init=False, repr=False, compare=False)

    def _complete(self, numbers: Numbers, refresh: Floating | None = None) -> None:
        """Check what all specs share and keep what every job will need."""
        action = _action(self.on_limit)
        _put(self, "action", action)
        _put(self, "numbers", numbers)
        _put(self, "refresh", refresh)
        check_cost_of(self.cost)
        if isinstance(self.key, str):
            template = parse_template(self.key)
            if template.literals or not template.fields:
                check_key(template.literals)
            if not template.fields and (self.cost is None or isinstance(self.cost, int)):
                limit = Limit(template.literals, numbers, action, refresh, cost=self.cost)
                _put(self, "constant", limit)
        elif not callable(self.key):
            raise InvalidLimitError("key", f"{self.key!r} must be text, or a callable that returns text")


@dataclass(frozen=True, slots=True)
class Concurrency(Spec):
    """At most *slots* jobs of a key at once."""

    slots: int

    def __post_init__(self) -> None:
        self._complete(_slots(self.slots))

    @classmethod
    def floating(
        cls,
        default: int,
        *,
        key: Key,
        handler: str,
        every: Duration = "60s",
        metadata: Mapping[str, object] | None = None,
        least: int = 0,
        most: int | None = None,
        on_limit: OnLimitName = "wait",
    ) -> Self:
        """Return a limit of *default* slots at first, which *handler* recomputes every so often.

        A value below *least* becomes *least*, one above *most* becomes *most*.
        """
        _check_handler(handler)
        period = parse_duration(every, "every", error=InvalidLimitError)
        spec = cls(default, key=key, on_limit=on_limit)
        floating = Floating(handler, period, _metadata(metadata or {}), least, most)
        spec._complete(Limit("any", spec.numbers, floating=floating).numbers, floating)
        return spec


@dataclass(frozen=True, slots=True)
class Rate(Spec):
    """At most *limit* starts of a key in any window as long as *per*; of starts that have a *cost*, so much of it."""

    limit: int
    per: Duration = field(kw_only=True)
    cost: Cost | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._complete(Numbers(rate=_window(self.limit, self.per)))


@dataclass(frozen=True, slots=True)
class Throttle(Spec):
    """Starts of a key evenly spaced: at least *per* / *limit* apart, and *cost* times as far after one of that cost.

    With a *burst* it is a bucket of so many starts, which fills at that pace: they may come at once, then one by one.
    """

    limit: int
    per: Duration = field(kw_only=True)
    burst: int = field(default=1, kw_only=True)
    cost: Cost | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._complete(Numbers(throttle=_window(self.limit, self.per, self.burst)))


@dataclass(frozen=True, slots=True)
class Configured(Spec):
    """A key whose numbers are set from outside alone, with `penstock gates configure` or over HTTP.

    As long as nothing is set for it, it lets everything through.
    """

    cost: Cost | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._complete(UNLIMITED)


@dataclass(frozen=True, slots=True)
class _Joined(Spec):
    """Two specs that share a key."""

    first: Spec
    second: Spec

    def __post_init__(self) -> None:
        limit = _combine(_stand_in(self.first), _stand_in(self.second), repr(self.key))
        _put(self, "cost", _one_cost(self.first.cost, self.second.cost, repr(self.key)))
        self._complete(limit.numbers, limit.floating)


def check_specs(
    specs: Spec | Iterable[Spec], parameter_names: Collection[str], fit: Fit | None = None
) -> tuple[Spec, ...]:
    """Return *specs* as `resolve` likes them best, or raise for what can be seen before any job exists.

    *fit* makes of a callable key or cost one that takes the task's arguments as a mapping, or raises `TypeError`.
    """
    found: dict[Key, Spec] = {}
    if not isinstance(specs, Spec | Iterable):
        raise InvalidLimitError(
            "limits", f"{specs!r} must be a list of Concurrency, Rate, Throttle or Configured"
        )
    for spec in [specs] if isinstance(specs, Spec) else specs:
        if not isinstance(spec, Spec):
            raise InvalidLimitError(
                "limits", f"{spec!r} must be a Concurrency, a Rate, a Throttle or a Configured"
            )
        if isinstance(spec.key, str):
            check_template(spec.key, parameter_names)
        check_cost_of(spec.cost, parameter_names)
        earlier = found.get(spec.key)
        found[spec.key] = spec if earlier is None else _join(earlier, spec)
    return tuple(found.values()) if fit is None else tuple(_fitted(spec, fit) for spec in found.values())


def resolve(specs: Sequence[Spec], arguments: Mapping[str, object]) -> tuple[Limit, ...]:
    """Return the limits that *specs* come to for one call, one per key, in the order of their keys."""
    found: dict[str, Limit] = {}
    for spec in specs:
        limit = spec.constant or _limit(spec, arguments)
        key = limit.key
        found[key] = _combine(found[key], limit, repr(key)) if key in found else limit
    if len(found) == 1:
        return tuple(found.values())
    return tuple(sorted(found.values(), key=_by_key))


def limits_to_json(limits: Sequence[Limit]) -> str:
    """Return *limits* as compact, canonical JSON: equal limits in any order, equal text.

    Without their costs: jobs of different costs share a lane.
    """
    return _encode([_plain(limit) for limit in in_order(limits)]).decode()


def in_order(limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """Return *limits* in the order of their keys, or raise unless one job can have them all."""
    if len(limits) > 1:
        limits = sorted(limits, key=_by_key)
        for first, second in pairwise(limits):
            if first.key == second.key:
                problem = f"key {first.key!r} is given twice; put its numbers into one limit"
                raise InvalidLimitError("limits", problem)
        if sum(limit.group for limit in limits) > 1:
            raise InvalidLimitError("limits", "a job takes a resource of one group, not of several")
    return tuple(limits)


@lru_cache(maxsize=16_384)
def limits_from_json(text: str) -> tuple[Limit, ...]:
    """Read back what `limits_to_json` wrote."""
    return tuple(_from_plain(*row) for row in _decode(text))


def _fitted(spec: Spec, fit: Fit) -> Spec:
    fitted = spec
    for name, value in (("key", spec.key), ("cost", spec.cost)):
        if not callable(value):
            continue
        fitted = copy(fitted)
        try:
            _put(fitted, name, fit(value))
        except TypeError as error:
            raise InvalidLimitError(name, f"of {spec}: {error}") from None
    return fitted


def _limit(spec: Spec, arguments: Mapping[str, object]) -> Limit:
    source = spec.key
    key = parse_template(source).fill(arguments) if isinstance(source, str) else source(arguments)
    cost = cost_for(spec.cost, arguments)
    try:
        return Limit(key, spec.numbers, spec.action, spec.refresh, cost=cost)
    except InvalidLimitError as error:
        raise InvalidLimitError(
            "key", f"{source!r} gave a key that cannot be used: {error.problem}"
        ) from None


def _join(first: Spec, second: Spec) -> Spec:
    return _Joined(first, second, key=first.key, on_limit=first.on_limit)


def _stand_in(spec: Spec) -> Limit:
    """Return the limit of *spec* under a key that does not matter."""
    return Limit("any", spec.numbers, spec.action, spec.refresh)


def _combine(first: Limit, second: Limit, name: str) -> Limit:
    """Return both limits as one, or raise an error that names their key."""
    if first.on_limit is not second.on_limit:
        problem = f"limits on {name} say {first.on_limit} and {second.on_limit}; they must agree"
        raise InvalidLimitError("on_limit", problem)
    one, other = first.numbers, second.numbers
    pairs = ((one.slots, other.slots), (one.rate, other.rate), (one.throttle, other.throttle))
    for kind, pair in zip(("concurrency", "rate", "throttle"), pairs, strict=True):
        if None not in pair:
            raise InvalidLimitError("key", f"{name} has two {kind} limits; give each a key of its own")
    numbers = Numbers(
        slots=other.slots if one.slots is None else one.slots,
        rate=one.rate or other.rate,
        throttle=one.throttle or other.throttle,
    )
    cost = _one_cost(first.cost, second.cost, name)
    return Limit(first.key, numbers, first.on_limit, first.floating or second.floating, cost=cost)


def _one_cost(first: _C | None, second: _C | None, name: str) -> _C | None:
    """Return the cost of two limits on one key, or raise an error that names it."""
    if None not in (first, second) and first != second:
        problem = f"limits on {name} say {first!r} and {second!r}; a start has one cost at a gate"
        raise InvalidLimitError("cost", problem)
    return second if first is None else first


def _plain(limit: Limit) -> list[object]:
    plain: list[object] = [limit.key, limit.numbers.text]
    if limit.group:
        return [*plain, limit.on_limit, None, limit.shared, True]
    if limit.floating is not None or limit.shared:
        floating = limit.floating and _plain_floating(limit.floating)
        return [*plain, limit.on_limit, floating, *([True] if limit.shared else [])]
    if limit.on_limit is not OnLimit.WAIT:
        plain.append(limit.on_limit)
    return plain


def _plain_floating(floating: Floating) -> list[object]:
    plain: list[object] = [floating.handler, floating.every, floating.metadata]
    return plain if (floating.least, floating.most) == (0, None) else [*plain, floating.least, floating.most]


def _from_plain(
    key: str,
    numbers: str,
    on_limit: str = "wait",
    floating: Sequence[Any] | None = None,
    shared: bool = False,  # noqa: FBT001, FBT002 - comes by position
    group: bool = False,  # noqa: FBT001, FBT002 - the same
) -> Limit:
    refresh = Floating(*floating) if floating else None
    return Limit(key, _numbers(numbers), OnLimit(on_limit), refresh, shared, group=group)


_numbers: Final = lru_cache(maxsize=1024)(numbers_from_text)


def _slots(slots: int) -> Numbers:
    # To `Numbers`, None means that no number was given.
    if slots is None:
        raise InvalidLimitError("slots", "None must be a whole number, at least 0")
    return Numbers(slots=slots)


def _window(limit: int, per: Duration, burst: int = 1) -> Window:
    return Window(limit, parse_duration(per, "per", error=InvalidLimitError), burst)


def _action(on_limit: str) -> OnLimit:
    try:
        return OnLimit(on_limit)
    except ValueError:
        raise InvalidLimitError("on_limit", f"{on_limit!r} must be one of: {', '.join(OnLimit)}") from None


def _check_handler(handler: object) -> None:
    if not isinstance(handler, str) or not handler:
        raise InvalidLimitError("handler", f"{handler!r} must be the name of a handler")


def _metadata(metadata: Mapping[str, object]) -> str:
    try:
        return msgspec.json.encode(dict(metadata), order="sorted").decode()
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidLimitError(
            "metadata", f"{metadata!r} must be a mapping that fits JSON: {error}"
        ) from None
