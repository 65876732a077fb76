"""The functions that a query may call: those of the guide, and a few that go with them."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.dialects.silo.query_meter import MAX_TEXT, Meter
from penstock.dialects.silo.query_tree import BOOLEAN, FLOAT, INT, LIST, MAP, NULL, TEXT, Constant, Value
from penstock.dialects.silo.query_values import cast, common
from penstock.errors import InvalidError

Row: TypeAlias = Any  # a row of a table, or a group: what its scope knows to read
Eval: TypeAlias = Callable[[Row], Value]


class Compiled(NamedTuple):
    """An expression: its type, what it is of a row, and which constant it is, if it is one."""

    type: str
    of: Eval
    constant: Constant | None = None


Maker: TypeAlias = Callable[[Sequence[Compiled], Meter], Compiled]


def of_type(found: Compiled, type_: str) -> Eval:
    """Return what *found* is of a row, as a value of a type that it has together with others."""
    if type_ != FLOAT or found.type in {FLOAT, NULL}:
        return found.of
    of, turn = found.of, cast(found.type, FLOAT)
    return lambda row: None if (value := of(row)) is None else turn(value)


def call(name: str, arguments: Sequence[Compiled], meter: Meter) -> Compiled:
    """Return a call of a function."""
    if name not in _FUNCTIONS:
        known = ", ".join(sorted(name for name in _FUNCTIONS if name.isidentifier()))
        raise InvalidError(
            "sql", f"there is no function {name}; there are {known}, and count, sum, avg, min, max"
        )
    types, make = _FUNCTIONS[name]
    if types is not None:
        given = [argument.type for argument in arguments]
        if len(given) != len(types) or any(
            one not in {two, NULL} for one, two in zip(given, types, strict=True)
        ):
            problem = f"{name} takes ({', '.join(types)}), not ({', '.join(given)})"
            raise InvalidError("sql", problem)
    return make(arguments, meter)


def _strict(type_: str, function: Callable[..., Value]) -> Maker:
    """Return a maker of calls that are null if one of the arguments is."""

    def make(arguments: Sequence[Compiled], _meter: Meter) -> Compiled:
        parts = [argument.of for argument in arguments]

        def run(row: Row) -> Value:
            values = [part(row) for part in parts]
            return None if None in values else function(*values)

        return Compiled(type_, run)

    return make


def _of_text(function: Callable[[str], str]) -> Maker:
    """Return a maker of calls that go through a text."""

    def make(arguments: Sequence[Compiled], meter: Meter) -> Compiled:
        part = arguments[0].of

        def run(row: Row) -> Value:
            text = part(row)
            if not isinstance(text, str):
                return None
            meter.spend(len(text))
            return function(text)

        return Compiled(TEXT, run)

    return make


def _coalesce(arguments: Sequence[Compiled], _meter: Meter) -> Compiled:
    type_ = common([argument.type for argument in arguments], "coalesce")
    parts = [of_type(argument, type_) for argument in arguments]
    return Compiled(type_, lambda row: next((v for part in parts if (v := part(row)) is not None), None))


def _concatenated(arguments: Sequence[Compiled], meter: Meter) -> Compiled:
    one, other = (argument.of for argument in arguments)
    texts = [cast(argument.type, TEXT) for argument in arguments]

    def run(row: Row) -> Value:
        first, second = one(row), other(row)
        if first is None or second is None:
            return None
        first, second = str(texts[0](first)), str(texts[1](second))
        length = len(first) + len(second)
        if length > MAX_TEXT:
            raise InvalidError("sql", f"|| makes a text of more than {MAX_TEXT} characters")
        meter.spend(length)
        return first + second

    return Compiled(TEXT, run)


_ELEMENT_AT: Final = ((MAP, TEXT), _strict(LIST, lambda found, key: [found[key]] if key in found else []))
_CONTAINS: Final = ((LIST, TEXT), _strict(BOOLEAN, lambda items, item: item in items))
_LENGTH: Final = ((TEXT,), _strict(INT, len))
# The types of the arguments, None if they may be any, and what makes a call.
_FUNCTIONS: Final[dict[str, tuple[tuple[str, ...] | None, Maker]]] = {
    "element_at": _ELEMENT_AT,
    "map_extract": _ELEMENT_AT,
    "[]": ((MAP, TEXT), _strict(TEXT, lambda found, key: found.get(key))),
    "array_contains": _CONTAINS,
    "array_has": _CONTAINS,
    "array_any_value": ((LIST,), _strict(TEXT, lambda items: items[0] if items else None)),
    "starts_with": ((TEXT, TEXT), _strict(BOOLEAN, str.startswith)),
    "lower": ((TEXT,), _of_text(str.lower)),
    "upper": ((TEXT,), _of_text(str.upper)),
    "length": _LENGTH,
    "char_length": _LENGTH,
    "coalesce": (None, _coalesce),
    "||": (None, _concatenated),
}
