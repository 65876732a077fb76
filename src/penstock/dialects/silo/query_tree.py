"""What a query consists of.  Equal parts are equal, so that a column of an answer finds its group."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final, TypeAlias

BOOLEAN: Final = "Boolean"
INT: Final = "Int64"
FLOAT: Final = "Float64"
TEXT: Final = "Utf8"
NULL: Final = "Null"
LIST: Final = "List(Utf8)"
MAP: Final = "Map(Utf8, Utf8)"
INTS: Final = frozenset({"UInt8", "UInt32", "UInt64", INT})
NUMBERS: Final = INTS | {FLOAT}

Plain: TypeAlias = bool | int | float | str | None
Value: TypeAlias = Plain | list[str] | dict[str, str]


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the query brings: in its text, or as a parameter; *field* says which."""

    value: Plain
    type: str
    field: str = "sql"


@dataclass(frozen=True, slots=True)
class Column:
    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A sign between two values: of comparison, of arithmetic, or `||`."""

    sign: str
    left: "Part"
    right: "Part"


@dataclass(frozen=True, slots=True)
class Negative:
    part: "Part"


@dataclass(frozen=True, slots=True)
class Every:
    """All of these hold: AND."""

    parts: "tuple[Part, ...]"


@dataclass(frozen=True, slots=True)
class Either:
    """One of these holds: OR."""

    parts: "tuple[Part, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    part: "Part"


@dataclass(frozen=True, slots=True)
class IsNull:
    part: "Part"


@dataclass(frozen=True, slots=True)
class Among:
    """IN with a list."""

    part: "Part"
    items: "tuple[Part, ...]"


@dataclass(frozen=True, slots=True)
class Like:
    """LIKE, or with *fold* ILIKE."""

    part: "Part"
    pattern: "Part"
    fold: bool


@dataclass(frozen=True, slots=True)
class Case:
    """CASE: conditions with their values, and the value if none holds."""

    whens: "tuple[tuple[Part, Part], ...]"
    otherwise: "Part"


@dataclass(frozen=True, slots=True)
class Cast:
    part: "Part"
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: "tuple[Part, ...]"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function; without a part it is that of `COUNT(*)`."""

    name: str
    part: "Part | None"
    distinct: bool = False


Part: TypeAlias = (
    Constant
    | Column
    | Operation
    | Negative
    | Every
    | Either
    | Not
    | IsNull
    | Among
    | Like
    | Case
    | Cast
    | Call
    | Aggregate
)


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the answer; all columns of the table if it has no part."""

    part: Part | None
    name: str


@dataclass(frozen=True, slots=True)
class Order:
    part: Part
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Select:
    """A whole query; *table* is None if it names none."""

    items: tuple[Item, ...]
    table: str | None
    distinct: bool = False
    where: Part | None = None
    groups: tuple[Part, ...] = ()
    having: Part | None = None
    orders: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


def parts_in(part: Part) -> Iterator[Part]:
    """Return the parts directly inside of *part*."""
    for each in fields(part):
        yield from _parts(getattr(part, each.name))


def _parts(found: object) -> Iterator[Part]:
    if isinstance(found, tuple):
        for item in found:
            yield from _parts(item)
    elif isinstance(found, Part):
        yield found


def walk(part: Part, *, into_aggregates: bool = True) -> Iterator[tuple[Part, int]]:
    """Return *part* and all that is inside, each with its depth; without recursion, however deep that is."""
    rest = [(part, 1)]
    while rest:
        each, depth = rest.pop()
        yield each, depth
        if into_aggregates or not isinstance(each, Aggregate):
            rest += [(inside, depth + 1) for inside in parts_in(each)]


def with_parts(part: Part, named: Mapping[str, Part]) -> Part:
    """Return *part* with the parts that some of its columns stand for, but for what is inside an aggregate."""
    if isinstance(part, Column):
        return named.get(part.name, part)
    if isinstance(part, Aggregate):
        return part
    inside = {each.name: _with(getattr(part, each.name), named) for each in fields(part)}
    return replace(part, **inside)  # type: ignore[arg-type]


def _with(found: object, named: Mapping[str, Part]) -> object:
    if isinstance(found, tuple):
        return tuple(_with(item, named) for item in found)
    return with_parts(found, named) if isinstance(found, Part) else found
