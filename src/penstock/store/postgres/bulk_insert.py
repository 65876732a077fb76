"""Add jobs without limits in one statement, with no transaction to begin and no second round trip.

A column that has the same value in all rows, as most have, is passed once.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

from psycopg import sql as quoting

from penstock.store.jobs import JOB_COLUMNS
from penstock.store.postgres import translation
from penstock.store.session import JobRow

_COLUMNS: Final = [name.strip() for name in JOB_COLUMNS.split(",")]
_VARYING: Final = frozenset({"id"})  # never the same twice


def statement(
    schema: str, rows: Sequence[JobRow], notice: tuple[str, str] | None = None
) -> tuple[bytes, list[object]]:
    """Return the statement that adds *rows*, in the order of JOB_COLUMNS but without a number, and its values.

    If one of the queues has a bound, it adds nothing and answers so: a bound takes more than one statement.
    A *notice*, as (channel, payload), is sent along.
    """
    columns = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True))
    del columns["seq"]
    same = frozenset(
        name
        for name, values in columns.items()
        if name not in _VARYING and values.count(values[0]) == len(values)
    )
    values: list[object] = [columns[name][0] for name in columns if name in same]
    for name, column in columns.items():
        if name not in same:
            values.append(translation.array(column, translation.type_of_column("job", name)))
    return _text(schema, same, notifying=notice is not None), [*values, *(notice or ())]


@cache
def _text(schema: str, same: frozenset[str], *, notifying: bool) -> bytes:
    names = [name for name in _COLUMNS if name != "seq"]
    ordered = [name for name in names if name in same] + [name for name in names if name not in same]
    number = {name: place for place, name in enumerate(ordered, 1)}
    type_of = {name: translation.type_of_column("job", name) for name in names}
    arrays = [name for name in names if name not in same]
    given = ", ".join(f"${number[name]}::{type_of[name]}[]" for name in arrays)
    taken = ", ".join(f"${number[n]}::{type_of[n]}" if n in same else f"given.{n}" for n in names)
    home = quoting.Identifier(schema).as_string()
    queues = f"${number['queue']}::text" if "queue" in same else f"ANY(${number['queue']}::text[])"
    sequence = quoting.Literal(f"{home}.number").as_string()
    end = len(ordered)
    return f"""
        WITH bounded AS (
            SELECT 1 FROM {home}.queue_bound WHERE queue = {queues} AND tenant = '' LIMIT 1
        ), added AS (
            INSERT INTO {home}.job (seq, {", ".join(names)})
            SELECT nextval({sequence}), {taken} FROM unnest({given}) AS given({", ".join(arrays)})
            WHERE NOT EXISTS (SELECT 1 FROM bounded)
            RETURNING seq, queue, priority, cost
        ), placed AS (
            INSERT INTO {home}.ready (seq, queue, priority, ord, cost, attempt, lost)
            SELECT seq, queue, priority, seq, cost, 0, 0 FROM added
        )
        SELECT EXISTS (SELECT 1 FROM bounded){f", pg_notify(${end + 1}, ${end + 2})" if notifying else ""}
    """.encode()
