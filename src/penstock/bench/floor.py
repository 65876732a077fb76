"""The floor under W2: the same row work in bare sqlite3, with no decision made in Python.

Runs on a store that penstock made and filled, so tables, indexes and rows are the same; the
connection has the same settings.  Every batch is made durable twice, when claimed and when settled; or
*once*, with the next claim in the transaction of the settling, as a worker under load does it.
"""

import json
import sqlite3
import time
from contextlib import closing
from typing import Any, Final

BATCH: Final = 100

_READY: Final = (
    "SELECT seq, priority, ord FROM ready WHERE queue = 'default' AND part = ''"
    " ORDER BY priority DESC, ord LIMIT ?"
)
_PAYLOAD: Final = (
    "SELECT seq, id, task, args, queue, timeout, meta, tenant, enqueued FROM job"
    " WHERE seq IN (SELECT value FROM json_each(?))"
)
_TAKE: Final = "DELETE FROM ready WHERE seq = ?"
_RUN: Final = (
    "INSERT INTO running (seq, fence, queue, task, worker, lease, started, begin_by, gates, cost, priority, ord,"
    " attempt, lost, cancel) VALUES (?, ?, 'default', 'bench.noop', 'floor', ?, ?, 0, '', 1, ?, ?, 1, 0, 0)"
)
_END: Final = "DELETE FROM running WHERE seq = ?"
_KEEP: Final = (
    "INSERT INTO done (seq, state, finished, started, attempt, result, error, reason)"
    " VALUES (?, 'done', ?, ?, 1, 'null', NULL, '')"
)


def floor_rate(path: str, count: int, *, once: bool) -> float:
    """Move *count* ready jobs through running to done; return jobs per second."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for setting in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "cache_size = -16000",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {setting}")
        began = time.perf_counter()
        moved = _move(connection, once=once)
        spent = time.perf_counter() - began
    if moved != count:
        raise RuntimeError(f"the floor moved {moved:,} jobs of {count:,}")
    return count / spent


def _move(connection: sqlite3.Connection, *, once: bool) -> int:
    moved = 0
    connection.execute("BEGIN IMMEDIATE")
    rows = _claim(connection)
    while rows:
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        _settle(connection, rows)
        moved += len(rows)
        if not once:
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
        rows = _claim(connection)
    connection.execute("COMMIT")
    return moved


def _claim(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    now = time.time_ns() // 1_000
    rows = connection.execute(_READY, (BATCH,)).fetchall()
    if rows:
        connection.execute(_PAYLOAD, (json.dumps([row[0] for row in rows]),)).fetchall()
        connection.executemany(_TAKE, [(row[0],) for row in rows])
        connection.executemany(
            _RUN, [(row[0], row[0], now + 15_000_000, now, row[1], row[2]) for row in rows]
        )
    return rows


def _settle(connection: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    now = time.time_ns() // 1_000
    connection.executemany(_END, [(row[0],) for row in rows])
    connection.executemany(_KEEP, [(row[0], now, now) for row in rows])
