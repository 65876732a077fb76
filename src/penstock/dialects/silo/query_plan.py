"""Decide how a query is answered: which columns it needs, what it groups by, what it keeps."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from penstock.dialects.silo.query_aggregates import Total, aggregate
from penstock.dialects.silo.query_compile import Compiler
from penstock.dialects.silo.query_functions import Compiled, Eval
from penstock.dialects.silo.query_meter import Meter, size_of
from penstock.dialects.silo.query_tables import TABLES, Table
from penstock.dialects.silo.query_terms import MAX_PARTS
from penstock.dialects.silo.query_tree import (
    BOOLEAN,
    INT,
    LIST,
    MAP,
    TEXT,
    Aggregate,
    Among,
    Column,
    Constant,
    Every,
    Item,
    Operation,
    Order,
    Part,
    Select,
    walk,
    with_parts,
)
from penstock.errors import InvalidError


class TableScope:
    """The rows of a table; it notes which columns are needed."""

    def __init__(self, table: Table | None, tenant: str, meter: Meter) -> None:
        self._columns = {} if table is None else table.columns(tenant, meter)
        self.needed: set[str] = set()

    def find(self, part: Part) -> tuple[str, Eval] | None:
        if isinstance(part, Aggregate):
            raise InvalidError("sql", f"{part.name} is an aggregate, which cannot be used here")
        if not isinstance(part, Column):
            return None
        if part.name not in self._columns:
            known = ", ".join(self._columns) or "none without FROM"
            raise InvalidError("sql", f"there is no column {part.name!r}; there are {known}")
        self.needed.add(part.name)
        return self._columns[part.name]


class GroupScope:
    """Rows that stand for groups: what they are grouped by, then the aggregates."""

    def __init__(self) -> None:
        self._types: dict[Part, str] = {}
        self._places: dict[Part, int] = {}

    def find(self, part: Part) -> tuple[str, Eval] | None:
        if part in self._types:
            return self._types[part], itemgetter(self._places[part])
        if isinstance(part, Column):
            raise InvalidError("sql", f"column {part.name!r} must be in GROUP BY or inside an aggregate")
        return None

    def add(self, part: Part, type_: str) -> None:
        """Have the next place of each row for *part*."""
        self._places[part] = len(self._places)
        self._types[part] = type_


@dataclass(frozen=True, slots=True)
class Grouping:
    """What rows are grouped by, and the aggregates: what they look at, and what makes a total."""

    keys: tuple[Eval, ...]
    aggregates: tuple[tuple[Eval, Callable[[], Total]], ...]
    having: Eval | None


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query is answered."""

    table: Table | None
    needed: frozenset[str]
    wanted: dict[str, frozenset[str]]
    where: Eval | None
    grouping: Grouping | None
    names: tuple[str, ...]
    types: tuple[str, ...]
    items: tuple[Eval, ...]
    orders: tuple[tuple[Eval, Order], ...]
    limit: int | None
    offset: int
    parts: int  # of the query, each of which may be looked at for each row
    size_of_names: int

    @property
    def counts(self) -> bool:
        """Whether rows that stand for many will do."""
        countable = frozenset() if self.table is None else self.table.countable
        return self.grouping is not None and self.needed <= countable


def plan(select: Select, tenant: str, meter: Meter) -> Plan:
    """Return how *select* is answered for a *tenant*; raise if it cannot be."""
    table = _table(select.table)
    select = _resolved(select, table)
    parts = _count(select)
    scope = TableScope(table, tenant, meter)
    compiler = Compiler(scope, meter)
    where = None if select.where is None else compiler.condition(select.where)
    grouping = None
    if select.groups or select.having is not None or _aggregates(select):
        grouped, groups = _grouping(select, compiler, meter)
        compiler = Compiler(groups, meter)
        having = None if select.having is None else compiler.condition(select.having)
        grouping = replace(grouped, having=having)
    items = [compiler.compile(item.part) for item in select.items if item.part is not None]
    orders = [(_comparable("order", compiler.compile(order.part)).of, order) for order in select.orders]
    return Plan(
        table, frozenset(scope.needed), _wanted(select.where), where, grouping,
        tuple(item.name for item in select.items), tuple(item.type for item in items),
        tuple(item.of for item in items), tuple(orders), select.limit, select.offset, parts,
        sum(size_of(item.name) for item in select.items),
    )  # fmt: skip


def _table(name: str | None) -> Table | None:
    if name is None:
        return None
    if name not in TABLES:
        raise InvalidError("sql", f"there is no table {name!r}; there are {', '.join(TABLES)}")
    return TABLES[name]


def _resolved(select: Select, table: Table | None) -> Select:
    """Return the same query with all columns for `*`, and expressions for the names and numbers of columns."""
    items: list[Item] = []
    for item in select.items:
        if item.part is None:
            if table is None:
                raise InvalidError("sql", "* needs a table; add FROM")
            items += [Item(Column(name), name) for name in table.names]
        else:
            items.append(item)
    for name, count in Counter(item.name for item in items).items():
        if count > 1:
            raise InvalidError(
                "sql", f"two columns of the answer are named {name!r}; name one of them with AS"
            )
    columns = () if table is None else table.names
    own = {item.name: item.part for item in items if item.part is not None}
    named = {name: part for name, part in own.items() if name not in columns}
    groups = tuple(_meant(part, items, named) for part in select.groups)
    orders = tuple(replace(order, part=_meant(order.part, items, own)) for order in select.orders)
    if select.distinct:
        if groups or select.having is not None or any(map(_has_aggregate, own.values())):
            raise InvalidError("sql", "DISTINCT cannot be used together with aggregates or GROUP BY")
        groups = tuple(own.values())
    having = None if select.having is None else with_parts(select.having, named)
    return replace(select, items=tuple(items), groups=groups, orders=orders, having=having)


def _meant(part: Part, items: Sequence[Item], named: dict[str, Part]) -> Part:
    """Return the expression of the answer's column that a name or a number stands for."""
    if isinstance(part, Column):
        return named.get(part.name, part)
    if isinstance(part, Constant) and part.type == INT:
        if not 1 <= int(part.value or 0) <= len(items):
            raise InvalidError(part.field, f"there is no column {part.value} in the answer")
        return items[int(part.value or 0) - 1].part or part
    return part


def _count(select: Select) -> int:
    """Return how many parts a query has whose names stand for expressions; raise if they are too many."""
    count = 0
    for part in _parts(select):
        for _ in walk(part):
            count += 1
            if count > MAX_PARTS:
                raise InvalidError("sql", f"has more than {MAX_PARTS} parts")
    return count


def _parts(select: Select) -> Iterator[Part]:
    yield from (item.part for item in select.items if item.part is not None)
    yield from (part for part in (select.where, select.having) if part is not None)
    yield from select.groups
    yield from (order.part for order in select.orders)


def _has_aggregate(part: Part) -> bool:
    return any(isinstance(each, Aggregate) for each, _ in walk(part))


def _aggregates(select: Select) -> list[Aggregate]:
    parts = [item.part for item in select.items if item.part is not None]
    parts += [order.part for order in select.orders]
    parts += [] if select.having is None else [select.having]
    found = [
        each for part in parts for each, _ in walk(part, into_aggregates=False) if isinstance(each, Aggregate)
    ]
    return list(dict.fromkeys(found))


def _grouping(select: Select, compiler: Compiler, meter: Meter) -> tuple[Grouping, GroupScope]:
    scope = GroupScope()
    keys = []
    for part in dict.fromkeys(select.groups):
        key = _comparable("group", compiler.compile(part))
        keys.append(key.of)
        scope.add(part, key.type)
    totals = []
    for found in _aggregates(select):
        looked = compiler.compile(Constant(True, BOOLEAN) if found.part is None else found.part)  # noqa: FBT003
        type_, make = aggregate(found.name, looked, meter, distinct=found.distinct)
        totals.append((looked.of, make))
        scope.add(found, type_)
    return Grouping(tuple(keys), tuple(totals), None), scope


def _comparable(verb: str, found: Compiled) -> Compiled:
    if found.type in {LIST, MAP}:
        raise InvalidError("sql", f"cannot {verb} by a value of {found.type}")
    return found


def _wanted(where: Part | None) -> dict[str, frozenset[str]]:
    """Return which texts columns must have, so that other rows need not be read."""
    wanted: dict[str, frozenset[str]] = {}
    for part in where.parts if isinstance(where, Every) else [where]:
        found = _equal(part)
        if found is not None:
            column, values = found
            wanted[column] = wanted.get(column, values) & values
    return wanted


def _equal(part: Part | None) -> tuple[str, frozenset[str]] | None:
    items: tuple[Part, ...] = ()
    tested: Part | None = None
    if isinstance(part, Operation) and part.sign == "=":
        tested, other = (part.right, part.left) if isinstance(part.right, Column) else (part.left, part.right)
        items = (other,)
    elif isinstance(part, Among):
        tested, items = part.part, part.items
    if not isinstance(tested, Column) or not all(isinstance(i, Constant) and i.type == TEXT for i in items):
        return None
    return tested.name, frozenset(str(i.value) for i in items if isinstance(i, Constant))
