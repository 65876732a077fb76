"""Answer a query by its plan: filter, group, order, cut."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from penstock.dialects.silo.query_aggregates import Total
from penstock.dialects.silo.query_meter import Meter, size_of
from penstock.dialects.silo.query_plan import Grouping, Plan
from penstock.dialects.silo.query_tables import Reading, Row
from penstock.dialects.silo.query_tree import Order
from penstock.engine.surveys import Survey
from penstock.errors import InvalidError

_SPARE: Final = 1_000  # rows that are kept beyond those wanted, so that not each one is sorted in


class _Sortable(NamedTuple):
    keys: Row
    row: Row
    size: int


def answer(plan: Plan, survey: Survey, tenant: str, meter: Meter, max_rows: int) -> list[Row]:
    """Return the rows of the answer; raise if they are more than *max_rows*."""
    rows = _filtered(plan, survey, tenant, meter)
    found = (row for row, _ in rows) if plan.grouping is None else _grouped(plan.grouping, rows, meter)
    if plan.orders:
        made = _ordered(plan, found, meter, max_rows)
    else:
        made = (tuple([item(row) for item in plan.items]) for row in found)
    return _cut(made, plan, meter, max_rows)


def _filtered(plan: Plan, survey: Survey, tenant: str, meter: Meter) -> Iterator[tuple[Row, int]]:
    """Return the rows that fit, each with how many it stands for."""
    where = plan.where
    for row, weight in _read(plan, survey, tenant, meter):
        if where is None or where(row) is True:
            yield row, weight


def _read(plan: Plan, survey: Survey, tenant: str, meter: Meter) -> Iterable[tuple[Row, int]]:
    if plan.table is None:
        return [((), 1)]
    reading = Reading(survey, tenant, plan.needed, plan.wanted)
    owned = reading.owned()
    if any(owned[name] not in values for name, values in plan.wanted.items() if name in owned):
        return []  # all rows are of this tenant
    if plan.counts and plan.table.counted is not None:
        return plan.table.counted(reading)
    return _checked(plan.table.rows(reading), meter)


def _checked(batches: Iterator[list[Row]], meter: Meter) -> Iterator[tuple[Row, int]]:
    for batch in batches:
        meter.check()
        for row in batch:
            yield row, 1


def _grouped(grouping: Grouping, rows: Iterable[tuple[Row, int]], meter: Meter) -> Iterator[Row]:
    totals: dict[Row, list[Total]] = {}
    if not grouping.keys:
        totals[()] = [make() for _, make in grouping.aggregates]
    for row, weight in rows:
        key = tuple([part(row) for part in grouping.keys])
        group = totals.get(key)
        if group is None:
            group = totals[key] = [make() for _, make in grouping.aggregates]
            meter.hold(size_of(key) + 200 * (1 + len(group)))
        for (part, _), total in zip(grouping.aggregates, group, strict=True):
            value = part(row)
            if value is not None:
                total.add(value, weight)
    for key, group in totals.items():
        found = (*key, *[total.result for total in group])
        if grouping.having is None or grouping.having(found) is True:
            yield found


def _ordered(plan: Plan, rows: Iterable[Row], meter: Meter, max_rows: int) -> Iterator[Row]:
    top = max_rows + 1 if plan.limit is None else min(plan.offset + plan.limit, max_rows + plan.offset + 1)
    kept: list[_Sortable] = []
    for row in rows:
        keys = tuple([part(row) for part, _ in plan.orders])
        made = tuple([item(row) for item in plan.items])
        kept.append(_Sortable(keys, made, size_of(keys) + size_of(made)))
        meter.hold(kept[-1].size)
        if plan.limit is None and len(kept) > plan.offset + max_rows:
            raise _too_many(max_rows)
        if plan.limit is not None and len(kept) > 2 * top + _SPARE:
            meter.check()
            _sort(kept, plan)
            meter.hold(-sum(each.size for each in kept[top:]))
            del kept[top:]
    _sort(kept, plan)
    return (each.row for each in kept)


def _sort(kept: list[_Sortable], plan: Plan) -> None:
    for place, (_, order) in reversed(list(enumerate(plan.orders))):
        kept.sort(key=_rank(place, order), reverse=order.descending)


def _rank(place: int, order: Order) -> Callable[[_Sortable], tuple[int, Any]]:
    null = (2 if order.nulls_first == order.descending else 0, 0)
    return lambda each: null if (value := each.keys[place]) is None else (1, value)


def _cut(rows: Iterator[Row], plan: Plan, meter: Meter, max_rows: int) -> list[Row]:
    found: list[Row] = []
    for number, row in enumerate(rows):
        if plan.limit is not None and number >= plan.offset + plan.limit:
            break
        if number < plan.offset:
            continue
        if len(found) >= max_rows:
            raise _too_many(max_rows)
        meter.hold(size_of(row))
        found.append(row)
    return found


def _too_many(max_rows: int) -> InvalidError:
    return InvalidError("sql", f"the answer has more than {max_rows} rows; add a LIMIT")
