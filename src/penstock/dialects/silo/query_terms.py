"""Read the expressions of a query."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from penstock.dialects.silo.query_cursor import RESERVED, Cursor
from penstock.dialects.silo.query_tree import (
    BOOLEAN,
    FLOAT,
    INT,
    NULL,
    TEXT,
    Aggregate,
    Among,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Either,
    Every,
    IsNull,
    Like,
    Negative,
    Not,
    Operation,
    Part,
    Plain,
    walk,
)
from penstock.dialects.silo.query_words import Kind, Word
from penstock.errors import InvalidError

MAX_DEPTH: Final = 60  # of parts inside of parts, so that no query exhausts Python's stack
MAX_PARTS: Final = 20_000
AGGREGATES: Final = frozenset({"count", "sum", "avg", "min", "max"})
_LARGEST: Final = 2**63 - 1
_DIGITS: Final = 10  # of a bind, with its sign
_TYPES: Final = {
    **dict.fromkeys(("double", "float", "float64", "real"), FLOAT),
    **dict.fromkeys(("bigint", "int", "integer", "int64", "smallint", "tinyint"), INT),
    **dict.fromkeys(("varchar", "text", "string", "utf8", "char"), TEXT),
    **dict.fromkeys(("boolean", "bool"), BOOLEAN),
}
_COMPARED: Final = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_VALUES: Final[dict[str, Plain]] = {"null": None, "true": True, "false": False}


class Terms(Cursor):
    """Reads expressions; `$1` in them stands for the first of *binds*."""

    def __init__(self, words: list[Word], binds: Sequence[Constant]) -> None:
        super().__init__(words)
        self._binds = binds
        self._depth = 0
        self._bound: set[int] = set()  # the numbers of the binds that the query has
        self._qualifiers: set[str] = set()  # before the names of columns

    def _term(self) -> Part:
        """Read a whole expression, which is neither too deep nor too large."""
        part = self._expression()
        for count, (_, depth) in enumerate(walk(part)):
            if depth > MAX_DEPTH:
                raise InvalidError("sql", f"nests deeper than {MAX_DEPTH} levels")
            if count > MAX_PARTS:
                raise InvalidError("sql", f"has an expression of more than {MAX_PARTS} parts")
        return part

    def _expressions(self) -> tuple[Part, ...]:
        parts = [self._expression()]
        while self._sign(","):
            parts.append(self._expression())
        return tuple(parts)

    def _expression(self) -> Part:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidError("sql", f"nests deeper than {MAX_DEPTH} levels")
        parts = [self._conjunction()]
        while self._take("or"):
            parts.append(self._conjunction())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _conjunction(self) -> Part:
        parts = [self._negation()]
        while self._take("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _negation(self) -> Part:
        negations = 0
        while self._take("not"):
            negations += 1
        part = self._comparison()
        return Not(part) if negations % 2 else part

    def _comparison(self) -> Part:
        part = self._sum()
        while True:
            if self._word.kind is Kind.SIGN and self._word.text in _COMPARED:
                sign = self._step().text
                part = Operation("<>" if sign == "!=" else sign, part, self._sum())
            elif self._take("is"):
                negated = self._take("not")
                if not self._take("null"):
                    self._refuse("IS must be followed by NULL or NOT NULL")
                part = Not(IsNull(part)) if negated else IsNull(part)
            else:
                negated = self._take("not")
                found = self._test(part)
                if found is None:
                    return part if not negated else self._refuse("expected IN, BETWEEN or LIKE after NOT")
                part = Not(found) if negated else found

    def _test(self, part: Part) -> Part | None:
        """Read what may follow NOT: IN, BETWEEN, LIKE."""
        if self._take("in"):
            self._expect("(")
            self._no_query()
            items = self._expressions()
            self._expect(")")
            return Among(part, items)
        if self._take("between"):
            least = self._sum()
            if not self._take("and"):
                self._refuse("BETWEEN needs AND")
            return Every((Operation(">=", part, least), Operation("<=", part, self._sum())))
        for word in ("like", "ilike"):
            if self._take(word):
                return Like(part, self._sum(), word == "ilike")
        return None

    def _sum(self) -> Part:
        part = self._product()
        while self._word.kind is Kind.SIGN and self._word.text in {"+", "-", "||"}:
            part = Operation(self._step().text, part, self._product())
        return part

    def _product(self) -> Part:
        part = self._signed()
        while self._word.kind is Kind.SIGN and self._word.text in {"*", "/", "%"}:
            part = Operation(self._step().text, part, self._signed())
        return part

    def _signed(self) -> Part:
        negative = False
        while self._is_sign("-") or self._is_sign("+"):
            negative ^= self._step().text == "-"
        part = self._suffixed()
        if not negative:
            return part
        if isinstance(part, Constant) and part.type in {INT, FLOAT}:
            value = part.value
            if isinstance(value, int | float) and value <= _LARGEST:
                return replace(part, value=-value)
        return Negative(part)

    def _suffixed(self) -> Part:
        part = self._primary()
        while True:
            if self._sign("::"):
                part = Cast(part, self._type())
            elif self._sign("["):
                part = Call("[]", (part, self._expression()))
                self._expect("]")
            else:
                return part

    def _primary(self) -> Part:
        word = self._step()
        match word.kind:
            case Kind.TEXT:
                return Constant(word.text, TEXT)
            case Kind.NUMBER:
                return _number(word.text)
            case Kind.BIND:
                return self._bind(word)
            case Kind.NAME | Kind.QUOTED:
                return self._named(word)
            case Kind.SIGN | Kind.END:
                if word.text != "(":
                    self._refuse("expected a value", word)
                self._no_query()
                part = self._expression()
                self._expect(")")
                return part

    def _no_query(self) -> None:
        if self._word.kind is Kind.NAME and self._word.text in {"select", "with"}:
            self._refuse("queries inside a query are not supported")

    def _named(self, word: Word) -> Part:
        if word.kind is Kind.QUOTED:
            return self._column(word.text)
        if word.text in _VALUES:
            value = _VALUES[word.text]
            return Constant(value, NULL if value is None else BOOLEAN)
        if word.text == "case":
            return self._case()
        if word.text == "cast":
            return self._cast()
        if word.text in RESERVED:
            self._refuse("expected a value", word)
        return self._call(word.text) if self._sign("(") else self._column(word.text)

    def _cast(self) -> Part:
        self._expect("(")
        part = self._expression()
        if not self._take("as"):
            self._refuse("CAST needs AS and a type")
        type_ = self._type()
        self._expect(")")
        return Cast(part, type_)

    def _column(self, name: str) -> Part:
        if not self._sign("."):
            return Column(name)
        if self._is_sign("*"):
            return self._refuse("write * for all columns")
        self._qualifiers.add(name)
        return Column(self._name("a column"))

    def _call(self, name: str) -> Part:
        distinct = name in AGGREGATES and self._take("distinct")
        if name == "count" and self._sign("*"):
            self._expect(")")
            return self._no_window(Aggregate("count", None))
        arguments = () if self._is_sign(")") else self._expressions()
        self._expect(")")
        if name not in AGGREGATES:
            return self._no_window(Call(name, arguments))
        if len(arguments) != 1:
            raise InvalidError("sql", f"{name} takes one argument")
        return self._no_window(Aggregate(name, arguments[0], distinct))

    def _no_window(self, part: Part) -> Part:
        if self._word.kind is Kind.NAME and self._word.text in {"over", "filter"} and self._ahead("("):
            self._refuse(f"{self._word.text.upper()} is not supported")
        return part

    def _case(self) -> Part:
        compared = None if self._word.text == "when" else self._expression()
        whens = []
        while self._take("when"):
            condition = self._expression()
            if compared is not None:
                condition = Operation("=", compared, condition)
            if not self._take("then"):
                self._refuse("WHEN needs THEN")
            whens.append((condition, self._expression()))
        otherwise = self._expression() if self._take("else") else Constant(None, NULL)
        if not whens or not self._take("end"):
            self._refuse("CASE needs WHEN and END")
        return Case(tuple(whens), otherwise)

    def _type(self) -> str:
        name = self._name("a type")
        if name == "double":
            self._take("precision")
        if name not in _TYPES:
            raise InvalidError("sql", f"cannot cast to {name}: DOUBLE, BIGINT, VARCHAR and BOOLEAN are types")
        return _TYPES[name]

    def _bind(self, word: Word) -> Constant:
        number = int(word.text[1:_DIGITS])
        if len(word.text) > _DIGITS or not 1 <= number <= len(self._binds):
            given = f"there are {len(self._binds)} parameters, and the first is $1"
            raise InvalidError("sql", f"{word.text[:_DIGITS]} is not given: {given}")
        self._bound.add(number)
        return self._binds[number - 1]


def _number(text: str) -> Constant:
    if text.isdigit() and len(text) <= len(str(_LARGEST)) and int(text) <= _LARGEST:
        return Constant(int(text), INT)
    return Constant(float(text), FLOAT)
