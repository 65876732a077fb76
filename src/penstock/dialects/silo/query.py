"""Answer queries in SQL: one SELECT over what a tenant has.

The SQL is read and answered here, over a survey of the engine, and never reaches a database.  So nothing can be named
but what `query_tables` lists, nothing can be changed, and time and memory are counted (`query_meter`) where they are
used.  `query_words`, `query_terms` and `query_parse` read a query, `query_plan` and `query_compile` decide how it is
answered, `query_run` answers it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from penstock.clock import SECOND
from penstock.dialects.silo.query_meter import Meter
from penstock.dialects.silo.query_parse import Bind, parse
from penstock.dialects.silo.query_plan import plan
from penstock.dialects.silo.query_run import answer
from penstock.engine import Engine
from penstock.errors import TooLongError

SPAN: Final = 5 * SECOND
MAX_ROWS: Final = 50_000

_encode: Final = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer: the (name, type) of each column, and each row as a map in msgpack."""

    columns: list[tuple[str, str]]
    rows: list[bytes]


def run_query(
    sql: str,
    binds: Sequence[Bind],
    tenant: str,
    engine: Engine,
    *,
    span: int = SPAN,
    max_rows: int = MAX_ROWS,
) -> QueryResult:
    """Answer a query over the rows of *tenant*; `$1` in it stands for the first of *binds*.

    `InvalidError` names what cannot be answered: `sql`, or `parameters[0]`.  So does it if the answer would take
    longer than *span* microseconds, have more than *max_rows* rows, or hold too much memory.
    """
    meter = Meter(span)
    planned = plan(parse(sql, binds), tenant, meter)
    try:
        rows = engine.survey(
            tenant, lambda survey: answer(planned, survey, tenant, meter, max_rows), span=meter.left
        )
    except TooLongError as error:
        raise meter.too_long() from error
    encoded = [_encode(dict(zip(planned.names, row, strict=True))) for row in rows]
    return QueryResult(list(zip(planned.names, planned.types, strict=True)), encoded)
