"""Read a query: one SELECT from one table.

What is not in this grammar cannot be asked for: there is no other statement, no join, no query inside a query, and
no function but those of `query_functions`.
"""

import sys
from collections.abc import Sequence
from typing import Final, TypeAlias

from penstock.dialects.silo.query_cursor import JOINS, REFUSED, RESERVED
from penstock.dialects.silo.query_terms import Terms
from penstock.dialects.silo.query_tree import (
    BOOLEAN,
    FLOAT,
    INT,
    NULL,
    TEXT,
    Column,
    Constant,
    Item,
    Order,
    Part,
    Select,
)
from penstock.dialects.silo.query_words import Kind, words_of
from penstock.errors import InvalidError

Bind: TypeAlias = bool | int | float | str | bytes | None

MAX_BIND: Final = 1_000_000  # characters: a query may look at each many thousand times

_TIGHT: Final = frozenset({"(", ".", "[", "]", "::"})  # signs next to which no space is written


def parse(sql: str, binds: Sequence[Bind]) -> Select:
    """Read a query; `$1` in it stands for the first of *binds*."""
    words = words_of(_encodable("sql", sql))
    return _Clauses(words, [_constant(f"parameters[{n}]", bind) for n, bind in enumerate(binds)]).select()


def _constant(field: str, bind: Bind) -> Constant:
    if isinstance(bind, bytes):
        try:
            bind = bind.decode()
        except UnicodeDecodeError as error:
            raise InvalidError(field, f"is not UTF-8, and no column has other bytes ({error})") from None
    if isinstance(bind, str):
        if len(bind) > MAX_BIND:
            raise InvalidError(field, f"has {len(bind)} characters, and may have {MAX_BIND}")
        _encodable(field, bind)
    kinds: dict[type, str] = {bool: BOOLEAN, int: INT, float: FLOAT, str: TEXT, type(None): NULL}
    return Constant(bind, kinds[type(bind)], field)


def _encodable(field: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(field, f"is not UTF-8 ({error})") from None
    return text


class _Clauses(Terms):
    _alias: str | None = None  # by which columns may name the table

    def select(self) -> Select:
        if not self._take("select"):
            self._refuse("only SELECT is allowed: a query reads one table and changes nothing")
        distinct = self._take("distinct")
        if not distinct:
            self._take("all")
        items = self._items()
        table = self._table() if self._take("from") else None
        where = self._term() if self._take("where") else None
        groups = self._groups() if self._take("group", "by") else ()
        having = self._term() if self._take("having") else None
        orders = self._orders() if self._take("order", "by") else ()
        limit, offset = self._bounds()
        self._sign(";")
        self._expect_end()
        self._check_names()
        return Select(items, table, distinct, where, groups, having, orders, limit, offset)

    def _items(self) -> tuple[Item, ...]:
        items = [self._item()]
        while self._sign(","):
            items.append(self._item())
        return tuple(items)

    def _item(self) -> Item:
        if self._sign("*"):
            return Item(None, "*")
        begin = self._next
        part = self._term()
        end = self._next
        if self._take("as"):
            return Item(part, self._name("a name for the column"))
        if self._word.kind is Kind.QUOTED or (
            self._word.kind is Kind.NAME and self._word.text not in RESERVED
        ):
            return Item(part, self._name("a name for the column"))
        return Item(part, part.name if isinstance(part, Column) else self._spelled(begin, end))

    def _spelled(self, begin: int, end: int) -> str:
        """Return the name of a column that was given none: how it is written."""
        text, last = "", "("
        for word in self._words[begin:end]:
            shown = f"'{word.text}'" if word.kind is Kind.TEXT else word.text
            apart = last not in _TIGHT and (
                word.kind is not Kind.SIGN or shown not in {"(", ")", ",", *_TIGHT}
            )
            text, last = f"{text}{' ' if apart else ''}{shown}", shown
        return text

    def _table(self) -> str:
        if self._is_sign("("):
            self._refuse("queries inside a query are not supported")
        table = self._name("a table")
        alias = table
        if self._take("as") or (self._word.kind is Kind.NAME and self._word.text not in RESERVED):
            alias = self._name("another name of the table")
        self._alias = alias
        if self._is_sign(",") or self._word.text in JOINS:
            self._refuse("joins are not supported: a query reads one table")
        if self._is_sign(".") or self._is_sign("("):
            self._refuse("only the tables jobs, tasks, queues, tenant_counts and queue_counts can be read")
        return table

    def _groups(self) -> tuple[Part, ...]:
        groups = [self._term()]
        while self._sign(","):
            groups.append(self._term())
        return tuple(groups)

    def _orders(self) -> tuple[Order, ...]:
        orders = [self._order()]
        while self._sign(","):
            orders.append(self._order())
        return tuple(orders)

    def _order(self) -> Order:
        part = self._term()
        descending = self._take("desc")
        if not descending:
            self._take("asc")
        first = descending
        if self._take("nulls"):
            first = self._take("first")
            if not first and not self._take("last"):
                self._refuse("NULLS must be FIRST or LAST")
        return Order(part, descending, first)

    def _bounds(self) -> tuple[int | None, int]:
        limit, offset = None, 0
        for _ in range(2):
            if self._take("limit"):
                limit = None if self._take("all") else self._count("LIMIT")
            elif self._take("offset"):
                offset = self._count("OFFSET")
        return limit, offset

    def _count(self, what: str) -> int:
        part = self._primary()
        value = part.value if isinstance(part, Constant) else None
        if type(value) is not int or value < 0:
            field = part.field if isinstance(part, Constant) else "sql"
            raise InvalidError(field, f"{what} must be a whole number that is not negative")
        return min(value, sys.maxsize)

    def _expect_end(self) -> None:
        word = self._word
        if word.kind is Kind.END:
            return
        if self._words[self._next - 1].text == ";":
            self._refuse("only one statement is allowed")
        if word.kind is Kind.NAME and word.text in REFUSED | JOINS:
            self._refuse(f"{word.text.upper()} is not supported")
        self._refuse("cannot be read")

    def _check_names(self) -> None:
        if wrong := self._qualifiers - {self._alias}:
            raise InvalidError("sql", f"there is no table {min(wrong)!r} in this query")
        for number in range(len(self._binds)):
            if number + 1 not in self._bound:
                raise InvalidError(f"parameters[{number}]", f"is given, but the SQL has no ${number + 1}")
