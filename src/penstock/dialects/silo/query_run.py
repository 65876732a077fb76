"""Answer a query by its plan: filter, group, order, cut."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeVar

from penstock.dialects.silo.query_aggregates import Total
from penstock.dialects.silo.query_functions import Row
from penstock.dialects.silo.query_meter import Meter
from penstock.dialects.silo.query_plan import Grouping, Plan
from penstock.dialects.silo.query_tables import Reading, owned
from penstock.dialects.silo.query_tree import Order, Value
from penstock.engine.surveys import Survey
from penstock.errors import InvalidError

Values = tuple[Value, ...]
T = TypeVar("T")

_EACH: Final = 300  # bytes that a row takes which is to be sorted, beside its values
_PER_TOTAL: Final = 200  # bytes that a total of a group takes, and the group itself
_SPARE: Final = 1_000  # rows that are kept beyond those wanted, so that not each one is sorted in


class _Sortable(NamedTuple):
    keys: tuple[tuple[int, Any], ...]
    row: Values
    size: int


def answer(plan: Plan, survey: Survey, tenant: str, meter: Meter, max_rows: int) -> list[Values]:
    """Return the rows of the answer; raise if they are more than *max_rows*."""
    rows = _filtered(plan, survey, tenant, meter)
    found = (row for row, _ in rows) if plan.grouping is None else _grouped(plan, plan.grouping, rows, meter)
    if plan.orders:
        made = _ordered(plan, found, meter, max_rows)
    else:
        made = (_made(plan, row, meter)[0] for row in islice(found, plan.offset, None))
    return _cut(made, plan, max_rows)


def _made(plan: Plan, row: Row, meter: Meter) -> tuple[Values, int]:
    """Return a row of the answer, and the bytes that it takes: each row is sent with the names of its columns."""
    meter.hold(plan.size_of_names)
    made, size = meter.keep(item(row) for item in plan.items)
    return made, size + plan.size_of_names


def _filtered(plan: Plan, survey: Survey, tenant: str, meter: Meter) -> Iterator[tuple[Row, int]]:
    """Return the rows that fit, each with how many it stands for."""
    where = plan.where
    for row, weight in _read(plan, survey, tenant, meter):
        meter.spend(plan.parts)
        if where is None or where(row) is True:
            yield row, weight


def _read(plan: Plan, survey: Survey, tenant: str, meter: Meter) -> Iterable[tuple[Row, int]]:
    if plan.table is None:
        return [((), 1)]
    reading = Reading(survey, tenant, plan.needed, plan.wanted)
    if any(value not in plan.wanted.get(name, {value}) for name, value in owned(tenant).items()):
        return []  # all rows are of this tenant
    if plan.counts and plan.table.counted is not None:
        return _checked(plan.table.counted(reading), meter)
    return ((row, 1) for row in _checked(plan.table.rows(reading), meter))


def _checked(batches: Iterator[list[T]], meter: Meter) -> Iterator[T]:
    for batch in batches:
        meter.check()
        yield from batch


def _grouped(
    plan: Plan, grouping: Grouping, rows: Iterable[tuple[Row, int]], meter: Meter
) -> Iterator[Values]:
    totals: dict[Values, list[Total]] = {}
    if not grouping.keys:
        totals[()] = [make() for _, make in grouping.aggregates]
    for row, weight in rows:
        key, size = meter.keep(part(row) for part in grouping.keys)
        group = totals.get(key)
        if group is None:
            group = totals[key] = [make() for _, make in grouping.aggregates]
            meter.hold(_PER_TOTAL * (1 + len(group)))
        else:
            meter.hold(-size)
        for (part, _), total in zip(grouping.aggregates, group, strict=True):
            value = part(row)
            if value is not None:
                total.add(value, weight)
    for key, group in totals.items():
        meter.spend(plan.parts)
        found = (*key, *[total.result for total in group])
        if grouping.having is None or grouping.having(found) is True:
            yield found


def _ordered(plan: Plan, rows: Iterable[Row], meter: Meter, max_rows: int) -> Iterator[Values]:
    """Return the first rows by their order; no more are kept than that takes."""
    top = max_rows + plan.offset + 1 if plan.limit is None else min(plan.limit, max_rows + 1) + plan.offset
    ordered_by, order = plan.orders[0]
    kept: list[_Sortable] = []
    worst: tuple[int, Any] | None = None  # by the first of the orders, once enough rows are kept
    for row in rows:
        first = ordered_by(row)
        rank = _rank(first, order)
        if worst is not None and (rank < worst if order.descending else rank > worst):
            continue
        kept.append(_sortable(plan, row, first, meter))
        if len(kept) > 2 * top + _SPARE:
            meter.check()
            _sort(kept, plan)
            meter.hold(-sum(each.size for each in kept[top:]))
            del kept[top:]
            worst = kept[-1].keys[0] if kept else None
    _sort(kept, plan)
    return (each.row for each in kept[plan.offset :])


def _sortable(plan: Plan, row: Row, first: Value, meter: Meter) -> _Sortable:
    """Return a row of the answer with what it is sorted by; *first* is the first of that."""
    meter.hold(_EACH)
    values, size = meter.keep(chain([first], (part(row) for part, _ in plan.orders[1:])))
    ranks = tuple([_rank(value, order) for value, (_, order) in zip(values, plan.orders, strict=True)])
    made, made_size = _made(plan, row, meter)
    return _Sortable(ranks, made, _EACH + size + made_size)


def _sort(kept: list[_Sortable], plan: Plan) -> None:
    for place, (_, order) in reversed(list(enumerate(plan.orders))):
        kept.sort(key=lambda each: each.keys[place], reverse=order.descending)


def _rank(value: Value, order: Order) -> tuple[int, Any]:
    """Return what a row is sorted by, if this *value* is what counts."""
    if value is None:
        return 2 if order.nulls_first == order.descending else 0, 0
    return 1, value


def _cut(rows: Iterator[Values], plan: Plan, max_rows: int) -> list[Values]:
    found: list[Values] = []
    for row in islice(rows, plan.limit):
        if len(found) >= max_rows:
            raise _too_many(max_rows)
        found.append(row)
    return found


def _too_many(max_rows: int) -> InvalidError:
    return InvalidError("sql", f"the answer has more than {max_rows} rows; add a LIMIT")
