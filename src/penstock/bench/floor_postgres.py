"""The floor under W2 on PostgreSQL: the same row work in bare psycopg, with no decision made in Python.

Runs on a schema that penstock made and filled, with prepared statements over whole batches, in as few as
do the work.  Every batch is made durable twice, when claimed and when settled; or *once*, with the next
claim in the transaction of the settling, as a worker under load does it.
"""

import time
from typing import Any, Final

import psycopg
from psycopg import sql

from penstock.store.postgres import translation

BATCH: Final = 100

# Without statistics of tables this new, the planner would read them from end to end.
_SETTINGS: Final = (
    "plan_cache_mode = force_generic_plan",
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "enable_bitmapscan = off",
    "jit = off",
)
_READ: Final = """
    SELECT j.seq, j.id, j.task, j.args, j.queue, j.timeout, j.meta, j.tenant, j.enqueued
    FROM ready r JOIN job j ON j.seq = r.seq
    WHERE r.queue = 'default' AND r.part = '' ORDER BY r.priority DESC, r.ord
    LIMIT $1::bigint FOR UPDATE OF r SKIP LOCKED
"""
_TAKE: Final = """
    WITH taken AS (DELETE FROM ready WHERE seq = ANY($1::bigint[]) RETURNING *)
    INSERT INTO running (seq, fence, queue, task, worker, lease, started, begin_by, gates, cost, priority, ord,
        attempt, lost, cancel)
    SELECT seq, $2::bigint, queue, 'bench.noop', 'floor', $3::bigint, $4::bigint, 0, '', cost, priority, ord,
        attempt + 1, lost, 0
    FROM taken
"""
_END: Final = """
    WITH ended AS (DELETE FROM running WHERE seq = ANY($1::bigint[]) RETURNING seq, started, attempt)
    INSERT INTO done (seq, state, finished, started, attempt, result, error, reason)
    SELECT seq, 'done', $2::bigint, started, attempt, 'null', NULL, '' FROM ended
"""


def floor_rate(connect: str, schema: str, count: int, *, once: bool) -> float:
    """Move *count* ready jobs through running to done; return jobs per second."""
    with psycopg.connect(connect, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
        for setting in _SETTINGS:
            connection.execute(f"SET {setting}".encode())
        floor = _Floor(connection)
        began = time.perf_counter()
        moved = floor.move(once=once)
        spent = time.perf_counter() - began
    if moved != count:
        raise RuntimeError(f"the floor moved {moved:,} jobs of {count:,}")
    return count / spent


class _Floor:
    """Moves jobs on one connection."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection
        self._cursor: psycopg.RawCursor[tuple[Any, ...]] = psycopg.RawCursor(connection)
        self._cursor.format = psycopg.pq.Format.BINARY

    def move(self, *, once: bool) -> int:
        """Move all jobs; return how many."""
        moved = 0
        self._connection.execute("BEGIN")
        rows = self._claim(fence=1)
        while rows:
            self._connection.execute("COMMIT")
            # A statement outside a transaction is one, with its commit.
            if once:
                self._connection.execute("BEGIN")
            self._settle(rows)
            if not once:
                self._connection.execute("BEGIN")
            moved += len(rows)
            rows = self._claim(fence=moved)
        self._connection.execute("COMMIT")
        return moved

    def _claim(self, fence: int) -> list[int]:
        now = time.time_ns() // 1_000
        rows = [row[0] for row in self._execute(_READ, BATCH).fetchall()]
        if rows:
            self._execute(_TAKE, translation.array(rows, "bigint"), fence, now + 15_000_000, now)
        return rows

    def _settle(self, rows: list[int]) -> None:
        self._execute(_END, translation.array(rows, "bigint"), time.time_ns() // 1_000)

    def _execute(self, statement: str, *values: object) -> "psycopg.RawCursor[tuple[Any, ...]]":
        return self._cursor.execute(statement.encode(), values, prepare=True)
