"""The functions of expressions.  Pure: the time and what stands for chance are handed in."""

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

from penstock.sequences.values import ExpressionError, bounded, is_number, is_same, to_json, to_text

_ANY: Final = 16  # arguments at most
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_FORMAT: Final = 100
_EXACT: Final = 2**53

Arguments = Sequence[object]
Number = int | float


class Surroundings(Protocol):
    """What a function may know besides its arguments."""

    @property
    def now(self) -> int:
        """The time, in microseconds."""
        ...

    def draw(self) -> bytes:
        """Return what stands for chance: another digest at each call, the same ones when evaluated again."""
        ...


class Function(NamedTuple):
    """A function, and the least and the most arguments that it takes."""

    apply: Callable[[Surroundings, Arguments], object]
    least: int
    most: int


def number(value: object) -> Number:
    """Return *value*, or raise unless it is a number."""
    if not is_number(value):
        raise ExpressionError(f"{_shown(value)} is no number")
    return bounded(value, ExpressionError)  # type: ignore[return-value]


def ordered(one: object, other: object) -> bool:
    """Tell whether *one* comes before *other*; null comes before nothing, and nothing before it."""
    if one is None or other is None:
        return False
    if isinstance(one, str) and isinstance(other, str):
        return one < other
    return number(one) < number(other)


def has(whole: object, part: object) -> bool:
    """Tell whether *part* is an item of a list, a key of an object or a piece of a text; null has nothing."""
    match whole:
        case None:
            return False
        case list():
            return any(is_same(part, item) for item in whole)
        case dict():
            return part in whole if isinstance(part, str) else False
        case str():
            return to_text(part) in whole
        case _:
            raise ExpressionError(f"{_shown(whole)} has no parts")


def length(value: object) -> int:
    """Return how many items, keys or characters *value* has; null has none."""
    if value is None:
        return 0
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"{_shown(value)} has no length")
    return len(value)


def _items(arguments: Arguments) -> list[object]:
    """Return the list that is the only argument, or else the arguments."""
    if len(arguments) == 1:
        return _list(arguments[0])
    return list(arguments)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ExpressionError(f"{_shown(value)} is no list")
    return value


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ExpressionError(f"{_shown(value)} is no object")
    return value


def _whole(value: object) -> int:
    whole = number(value)
    if whole != int(whole):
        raise ExpressionError(f"{whole} is no whole number")
    return int(whole)


def _total(arguments: Arguments) -> Number:
    return sum(map(number, _items(arguments)))


def _average(_: Surroundings, arguments: Arguments) -> object:
    items = _items(arguments)
    return _total([items]) / len(items) if items else None


def _least(_: Surroundings, arguments: Arguments) -> object:
    return min(map(number, _items(arguments)), default=None)


def _most(_: Surroundings, arguments: Arguments) -> object:
    return max(map(number, _items(arguments)), default=None)


def _slice(_: Surroundings, arguments: Arguments) -> object:
    value, *bounds = arguments
    if not isinstance(value, str | list):
        raise ExpressionError(f"{_shown(value)} is neither a list nor a text")
    return value[slice(*(_whole(bound) for bound in bounds), *([None] * (2 - len(bounds))))]


def _sort(_: Surroundings, arguments: Arguments) -> object:
    items = _list(arguments[0])
    if all(isinstance(item, str) for item in items):
        return sorted(map(str, items))
    return sorted(map(number, items))


def _unique(_: Surroundings, arguments: Arguments) -> object:
    # By text: `1` and `"1"` differ, and a list of many items takes no longer than its length.
    first: dict[str, object] = {}
    for item in _list(arguments[0]):
        first.setdefault(to_json(item), item)
    return list(first.values())


def _count(_: Surroundings, arguments: Arguments) -> object:
    if len(arguments) == 1:
        return length(arguments[0])
    return sum(is_same(item, arguments[1]) for item in _list(arguments[0]))


def _change(_: Surroundings, arguments: Arguments) -> object:
    before, after = map(number, arguments)
    if before == 0:
        raise ExpressionError("there is no change in per cent from 0")
    return (after - before) / abs(before) * 100


def _clamp(_: Surroundings, arguments: Arguments) -> object:
    value, least, most = map(number, arguments)
    return max(least, min(value, most))


def _format_date(_: Surroundings, arguments: Arguments) -> object:
    layout = to_text(arguments[1])
    if len(layout) > _LONGEST_FORMAT:
        raise ExpressionError("the format of a date is too long")
    try:
        return _moment(arguments[0]).strftime(layout)
    except ValueError:
        raise ExpressionError(f"{layout!r} is no format of a date") from None


def _moment(value: object) -> datetime:
    """Return the moment that *value* means: milliseconds since the epoch, or ISO 8601."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return _EPOCH + timedelta(milliseconds=number(value))
    except (ValueError, OverflowError):
        raise ExpressionError(f"{_shown(value)} is no moment") from None


def _uuid(surroundings: Surroundings, _: Arguments) -> object:
    digits = surroundings.draw().hex()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def _random(surroundings: Surroundings, _: Arguments) -> object:
    return (int.from_bytes(surroundings.draw()[:8]) >> 11) / _EXACT


def _shown(value: object) -> str:
    text = to_json(value)
    return text if len(text) <= 40 else f"{text[:40]}…"  # noqa: PLR2004 - what fits a message


def digest(*parts: str) -> bytes:
    """Return what stands for chance, from names that are the same whenever it is asked for."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).digest()


FUNCTIONS: Final[dict[str, Function]] = {
    "abs": Function(lambda _, arguments: abs(number(arguments[0])), 1, 1),
    "len": Function(lambda _, arguments: length(arguments[0]), 1, 1),
    "json": Function(lambda _, arguments: to_json(arguments[0]), 1, 1),
    "now": Function(lambda surroundings, _: surroundings.now // 1000, 0, 0),
    "uuid": Function(_uuid, 0, 0),
    "random": Function(_random, 0, 0),
    "format_date": Function(_format_date, 2, 2),
    "day_of_week": Function(lambda _, arguments: _moment(arguments[0]).weekday(), 1, 1),
    "keys": Function(lambda _, arguments: list(_object(arguments[0])), 1, 1),
    "values": Function(lambda _, arguments: list(_object(arguments[0]).values()), 1, 1),
    "contains": Function(lambda _, arguments: has(arguments[0], arguments[1]), 2, 2),
    "starts_with": Function(lambda _, pair: to_text(pair[0]).startswith(to_text(pair[1])), 2, 2),
    "ends_with": Function(lambda _, pair: to_text(pair[0]).endswith(to_text(pair[1])), 2, 2),
    "sum": Function(lambda _, arguments: _total(arguments), 1, _ANY),
    "avg": Function(_average, 1, _ANY),
    "min": Function(_least, 1, _ANY),
    "max": Function(_most, 1, _ANY),
    "first": Function(lambda _, arguments: next(iter(_list(arguments[0])), None), 1, 1),
    "last": Function(lambda _, arguments: next(reversed(_list(arguments[0])), None), 1, 1),
    "slice": Function(_slice, 2, 3),
    "sort": Function(_sort, 1, 1),
    "unique": Function(_unique, 1, 1),
    "count": Function(_count, 1, 2),
    "change_pct": Function(_change, 2, 2),
    "clamp": Function(_clamp, 3, 3),
}
