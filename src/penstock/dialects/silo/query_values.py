"""Values of one type as values of another, and arithmetic within 64 bits."""

import math
import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeAlias

from penstock.dialects.silo.query_tree import BOOLEAN, FLOAT, INT, INTS, LIST, MAP, NULL, NUMBERS, TEXT, Value
from penstock.errors import InvalidError

Number: TypeAlias = int | float

_WHOLE: Final = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")
_FRACTION: Final = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*")
_LEAST, _MOST = -(2**63), 2**63 - 1
_WORDS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def number_of(text: str) -> Number | None:
    """Return the number that a text is; None if it is none."""
    if _WHOLE.fullmatch(text) and _LEAST <= int(text) <= _MOST:
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else None


def cast(before: str, after: str) -> Callable[[Value], Value]:
    """Return what turns a value of type *before*, which is not null, into one of type *after*."""
    if before in {LIST, MAP}:
        raise InvalidError("sql", f"cannot cast {before} to {after}")
    if before in {after, NULL} or (after == INT and before in INTS):
        return lambda value: value
    casts: dict[str, Callable[[Value], Value]] = {FLOAT: _float, INT: _int, TEXT: text_of, BOOLEAN: _boolean}
    return casts[after]


def text_of(value: Value) -> str:
    """Return a plain value as text."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _float(value: Value) -> float:
    found = number_of(value) if isinstance(value, str) else value
    return float(found) if isinstance(found, int | float) else _refuse(value, FLOAT)


def _int(value: Value) -> int:
    found = number_of(value) if isinstance(value, str) else value
    if isinstance(value, str) and not isinstance(found, int):
        _refuse(value, INT)
    if not isinstance(found, int | float) or not math.isfinite(found):
        return _refuse(value, INT)
    return bounded(int(found))


def _boolean(value: Value) -> bool:
    if isinstance(value, str):
        found = _WORDS.get(value.strip().lower())
        return _refuse(value, BOOLEAN) if found is None else found
    return bool(value)


def _refuse(value: Value, type_: str) -> NoReturn:
    raise InvalidError("sql", f"cannot cast {str(value)[:40]!r} to {type_}")


def bounded(number: int) -> int:
    """Return a whole number; raise if it needs more than 64 bits."""
    if not _LEAST <= number <= _MOST:
        raise InvalidError("sql", "a number does not fit into 64 bits; CAST it to DOUBLE before")
    return number


def arithmetic(sign: str, *, whole: bool) -> Callable[[Number, Number], Number]:
    """Return what a sign does to two numbers; of whole numbers the answer is whole."""
    signs = {"+": _add, "-": _subtract, "*": _multiply, "/": _divide, "%": _remainder}
    function = signs[sign]
    if not whole:
        return lambda one, other: function(float(one), float(other))
    return lambda one, other: bounded(int(function(one, other)))


def _add(one: Number, other: Number) -> Number:
    return one + other


def _subtract(one: Number, other: Number) -> Number:
    return one - other


def _multiply(one: Number, other: Number) -> Number:
    return one * other


def _divide(one: Number, other: Number) -> Number:
    if not other:
        raise InvalidError("sql", "division by zero")
    if isinstance(one, int) and isinstance(other, int):
        found = abs(one) // abs(other)
        return found if (one < 0) == (other < 0) else -found
    return one / other


def _remainder(one: Number, other: Number) -> Number:
    if not other:
        raise InvalidError("sql", "division by zero")
    if isinstance(one, int) and isinstance(other, int):
        return abs(one) % abs(other) * (-1 if one < 0 else 1)
    return math.fmod(one, other) if math.isfinite(one) else math.nan


def common(types: list[str], what: str) -> str:
    """Return the type that values of these types have together, as the values of CASE do."""
    kinds = {type_ for type_ in types if type_ != NULL}
    if len(kinds) <= 1:
        return kinds.pop() if kinds else NULL
    if kinds <= NUMBERS:
        return FLOAT if FLOAT in kinds else INT
    raise InvalidError("sql", f"{what} has values of different types: {', '.join(sorted(kinds))}; CAST them")
