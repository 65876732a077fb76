"""Turn the expressions of a query into functions of a row, and find their types."""

import operator
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from penstock.dialects.silo.query_functions import Compiled, Eval, Row, call, of_type
from penstock.dialects.silo.query_like import matcher
from penstock.dialects.silo.query_meter import Meter
from penstock.dialects.silo.query_tree import (
    BOOLEAN,
    FLOAT,
    INT,
    INTS,
    NULL,
    NUMBERS,
    TEXT,
    Among,
    Call,
    Case,
    Cast,
    Constant,
    Either,
    Every,
    IsNull,
    Like,
    Negative,
    Not,
    Operation,
    Part,
    Value,
)
from penstock.dialects.silo.query_values import arithmetic, cast, common, number_of
from penstock.errors import InvalidError

_COMPARED: Final[dict[str, Callable[..., bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_ZERO: Final = Constant(0, INT)


class Scope(Protocol):
    """What the rows have."""

    def find(self, part: Part) -> tuple[str, Eval] | None:
        """Return the type of *part* and what reads it; None if it must be computed; raise if it cannot be."""
        ...


class Compiler:
    """Compiles expressions over the rows of one *scope*."""

    def __init__(self, scope: Scope, meter: Meter) -> None:
        self._scope = scope
        self._meter = meter
        self._makers: dict[type, Callable[..., Compiled]] = {
            Constant: _constant,
            Operation: lambda part: self._operation(
                part.sign, self.compile(part.left), self.compile(part.right)
            ),
            Negative: lambda part: self._operation("-", _constant(_ZERO), self.compile(part.part)),
            Case: self._case,
            Cast: self._cast,
            Call: lambda part: call(part.name, [self.compile(each) for each in part.arguments], self._meter),
            Every: lambda part: _joined([self.condition(each) for each in part.parts], decides=False),
            Either: lambda part: _joined([self.condition(each) for each in part.parts], decides=True),
            Not: self._not,
            IsNull: self._is_null,
            Among: self._among,
            Like: self._like,
        }

    def compile(self, part: Part) -> Compiled:
        """Return what *part* is of a row."""
        found = self._scope.find(part)
        return self._makers[type(part)](part) if found is None else Compiled(*found)

    def condition(self, part: Part) -> Eval:
        """Return whether *part* holds for a row: true, false or unknown."""
        found = self.compile(part)
        if found.type not in {BOOLEAN, NULL}:
            raise InvalidError("sql", f"a condition must be Boolean, not {found.type}")
        return found.of

    def _operation(self, sign: str, left: Compiled, right: Compiled) -> Compiled:
        if sign == "||":
            return call(sign, [left, right], self._meter)
        if sign in _COMPARED:
            left, right = _alike(left, right)
            return Compiled(BOOLEAN, _both(_COMPARED[sign], left, right))
        if not {left.type, right.type} <= {*NUMBERS, NULL}:
            raise InvalidError("sql", f"{sign} takes numbers, not {left.type} and {right.type}; CAST them")
        whole = {left.type, right.type} <= {*INTS, NULL}
        return Compiled(INT if whole else FLOAT, _both(arithmetic(sign, whole=whole), left, right))

    def _not(self, part: Not) -> Compiled:
        inner = self.condition(part.part)
        return Compiled(BOOLEAN, lambda row: None if (v := inner(row)) is None else not v)

    def _is_null(self, part: IsNull) -> Compiled:
        tested = self.compile(part.part).of
        return Compiled(BOOLEAN, lambda row: tested(row) is None)

    def _among(self, part: Among) -> Compiled:
        tested = self.compile(part.part)
        items = [self.compile(item) for item in part.items]
        if tested.constant is not None or any(item.constant is None for item in items):
            equal = [self._operation("=", tested, item).of for item in items]
            return _joined(equal, decides=True)
        values = {_alike(tested, item)[1].of(()) for item in items}
        unknown = None if None in values else False
        of = tested.of

        def run(row: Row) -> Value:
            value = of(row)
            return None if value is None else True if value in values else unknown

        return Compiled(BOOLEAN, run)

    def _like(self, part: Like) -> Compiled:
        tested, pattern = self.compile(part.part), self.compile(part.pattern)
        if not {tested.type, pattern.type} <= {TEXT, NULL}:
            raise InvalidError("sql", f"LIKE takes texts, not {tested.type} and {pattern.type}")
        if pattern.constant is None:
            raise InvalidError("sql", "the pattern of LIKE must be a text or a parameter")
        if pattern.constant.value is None:
            return Compiled(BOOLEAN, lambda _row: None)
        is_like = matcher(
            str(pattern.constant.value), pattern.constant.field, self._meter.spend, fold=part.fold
        )
        of = tested.of
        return Compiled(BOOLEAN, lambda row: is_like(text) if isinstance(text := of(row), str) else None)

    def _case(self, part: Case) -> Compiled:
        whens = [(self.condition(condition), self.compile(value)) for condition, value in part.whens]
        otherwise = self.compile(part.otherwise)
        type_ = common([value.type for _, value in whens] + [otherwise.type], "CASE")
        choices = [(condition, of_type(value, type_)) for condition, value in whens]
        default = of_type(otherwise, type_)

        def run(row: Row) -> Value:
            for condition, value in choices:
                if condition(row):
                    return value(row)
            return default(row)

        return Compiled(type_, run)

    def _cast(self, part: Cast) -> Compiled:
        found = self.compile(part.part)
        of, turn, spend = found.of, cast(found.type, part.type), self._meter.spend

        def run(row: Row) -> Value:
            value = of(row)
            if isinstance(value, str):
                spend(len(value))
            return None if value is None else turn(value)

        return Compiled(part.type, run)


def _constant(part: Constant) -> Compiled:
    value = part.value
    return Compiled(part.type, lambda _row: value, part)


def _joined(conditions: Sequence[Eval], *, decides: bool) -> Compiled:
    """Return AND, where a false one *decides*, or OR, where a true one does."""

    def run(row: Row) -> Value:
        found: bool | None = not decides
        for condition in conditions:
            value = condition(row)
            if value is None:
                found = None
            elif value is decides:
                return decides
        return found

    return Compiled(BOOLEAN, run)


def _both(function: Callable[..., Value], left: Compiled, right: Compiled) -> Eval:
    """Return what *function* makes of two values; null if one of them is."""
    one, other = left.of, right.of
    if right.constant is not None:
        known = right.constant.value
        if known is None:
            return lambda _row: None
        return lambda row: None if (a := one(row)) is None else function(a, known)

    def run(row: Row) -> Value:
        a = one(row)
        b = other(row)
        return None if a is None or b is None else function(a, b)

    return run


def _alike(left: Compiled, right: Compiled) -> tuple[Compiled, Compiled]:
    """Return two values that can be compared; a text that the query brings may stand for a number."""
    kinds = {_kind(left), _kind(right)} - {NULL}
    if len(kinds) <= 1 and kinds <= {INT, TEXT, BOOLEAN}:
        return left, right
    if kinds == {INT, TEXT}:
        return (_as_number(left, right), right) if left.type == TEXT else (left, _as_number(right, left))
    raise InvalidError("sql", f"cannot compare {left.type} with {right.type}; CAST one of them")


def _kind(found: Compiled) -> str:
    return INT if found.type in NUMBERS else found.type


def _as_number(found: Compiled, other: Compiled) -> Compiled:
    if found.constant is None:
        raise InvalidError("sql", f"cannot compare {found.type} with {other.type}; CAST one of them")
    number = number_of(str(found.constant.value))
    if number is None:
        raise InvalidError(
            found.constant.field, f"{str(found.constant.value)[:40]!r} is compared with a number"
        )
    return _constant(Constant(number, INT if isinstance(number, int) else FLOAT, found.constant.field))
