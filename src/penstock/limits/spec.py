"""What users write on a task: `Concurrency`, `Rate` and `Throttle`, and the limits they come to for one call.

Pure.  `resolve` runs for every job, so what can be checked or read once is done when a spec is made.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, Literal, Self

import msgspec

from penstock.errors import InvalidLimitError
from penstock.limits.durations import Duration, parse_duration
from penstock.limits.rules import Floating, Limit, Numbers, OnLimit, Window, check_key, numbers_from_text
from penstock.limits.template import check_template, parse_template

Key = str | Callable[..., str]
Fit = Callable[[Callable[..., str]], Callable[..., str]]
OnLimitName = OnLimit | Literal["wait", "reschedule", "drop"]

_by_key: Final = attrgetter("key")
# A frozen dataclass is filled in this way.
_put: Final = object.__setattr__
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What all specs share: *key* names the gate, *on_limit* says what to do when it is shut.

    *key* is a format string over the task's arguments, or a callable that takes the same arguments as the task;
    once a spec is fitted to a task, one that takes them as a mapping.
    """

    key: Key
    on_limit: OnLimitName = "wait"
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
        if isinstance(self.key, str):
            template = parse_template(self.key)
            if template.literals or not template.fields:
                check_key(template.literals)
            if not template.fields:
                _put(self, "constant", Limit(template.literals, numbers, action, refresh))
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
        on_limit: OnLimitName = "wait",
    ) -> Self:
        """Return a limit of *default* slots at first, which *handler* recomputes every so often."""
        _check_handler(handler)
        period = parse_duration(every, "every", error=InvalidLimitError)
        spec = cls(default, key=key, on_limit=on_limit)
        spec._complete(spec.numbers, Floating(handler, period, _metadata(metadata or {})))
        return spec


@dataclass(frozen=True, slots=True)
class Rate(Spec):
    """At most *limit* starts of a key in any window as long as *per*."""

    limit: int
    per: Duration = field(kw_only=True)

    def __post_init__(self) -> None:
        self._complete(Numbers(rate=_window(self.limit, self.per)))


@dataclass(frozen=True, slots=True)
class Throttle(Spec):
    """Starts of a key evenly spaced: at least *per* / *limit* apart."""

    limit: int
    per: Duration = field(kw_only=True)

    def __post_init__(self) -> None:
        self._complete(Numbers(throttle=_window(self.limit, self.per)))


@dataclass(frozen=True, slots=True)
class _Joined(Spec):
    """Two specs that share a key."""

    first: Spec
    second: Spec

    def __post_init__(self) -> None:
        limit = _combine(_stand_in(self.first), _stand_in(self.second), repr(self.key))
        self._complete(limit.numbers, limit.floating)


def check_specs(
    specs: Spec | Iterable[Spec], parameter_names: Collection[str], fit: Fit | None = None
) -> tuple[Spec, ...]:
    """Return *specs* as `resolve` likes them best, or raise for what can be seen before any job exists.

    *fit* makes of a callable key one that takes the task's arguments as a mapping, or raises `TypeError`.
    """
    found: dict[Key, Spec] = {}
    if not isinstance(specs, Spec | Iterable):
        raise InvalidLimitError("limits", f"{specs!r} must be a list of Concurrency, Rate or Throttle")
    for spec in [specs] if isinstance(specs, Spec) else specs:
        if not isinstance(spec, Spec):
            raise InvalidLimitError("limits", f"{spec!r} must be a Concurrency, a Rate or a Throttle")
        if isinstance(spec.key, str):
            check_template(spec.key, parameter_names)
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
    """Return *limits* as compact, canonical JSON: equal limits in any order, equal text."""
    if len(limits) > 1:
        limits = sorted(limits, key=_by_key)
        for first, second in pairwise(limits):
            if first.key == second.key:
                problem = f"key {first.key!r} is given twice; put its numbers into one limit"
                raise InvalidLimitError("limits", problem)
    return _encode([_plain(limit) for limit in limits]).decode()


@lru_cache(maxsize=16_384)
def limits_from_json(text: str) -> tuple[Limit, ...]:
    """Read back what `limits_to_json` wrote."""
    return tuple(_from_plain(*row) for row in _decode(text))


def _fitted(spec: Spec, fit: Fit) -> Spec:
    if isinstance(spec.key, str):
        return spec
    fitted = copy(spec)
    try:
        _put(fitted, "key", fit(spec.key))
    except TypeError as error:
        raise InvalidLimitError("key", f"of {spec}: {error}") from None
    return fitted


def _limit(spec: Spec, arguments: Mapping[str, object]) -> Limit:
    source = spec.key
    key = parse_template(source).fill(arguments) if isinstance(source, str) else source(arguments)
    try:
        return Limit(key, spec.numbers, spec.action, spec.refresh)
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
    return Limit(first.key, numbers, first.on_limit, first.floating or second.floating)


def _plain(limit: Limit) -> list[object]:
    plain: list[object] = [limit.key, limit.numbers.text]
    if limit.floating is not None or limit.shared:
        floating = limit.floating and [limit.floating.handler, limit.floating.every, limit.floating.metadata]
        return [*plain, limit.on_limit, floating, *([True] if limit.shared else [])]
    if limit.on_limit is not OnLimit.WAIT:
        plain.append(limit.on_limit)
    return plain


def _from_plain(
    key: str,
    numbers: str,
    on_limit: str = "wait",
    floating: Sequence[Any] | None = None,
    shared: bool = False,  # noqa: FBT001, FBT002 - comes by position
) -> Limit:
    refresh = Floating(*floating) if floating else None
    return Limit(key, _numbers(numbers), OnLimit(on_limit), refresh, shared)


_numbers: Final = lru_cache(maxsize=1024)(numbers_from_text)


def _slots(slots: int) -> Numbers:
    # To `Numbers`, None means that no number was given.
    if slots is None:
        raise InvalidLimitError("slots", "None must be a whole number, at least 0")
    return Numbers(slots=slots)


def _window(limit: int, per: Duration) -> Window:
    return Window(limit, parse_duration(per, "per", error=InvalidLimitError))


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
