"""Connections that outlive their stores: a server process that has read what tables there are is a quick one."""

import os
from collections import defaultdict

import psycopg
from psycopg.pq import TransactionStatus

from penstock.store.postgres.session import ConnectionState
from penstock.store.postgres.store import PostgresStore

# All of DISCARD ALL but the plans of prepared statements, most of which the next test uses too.
_ANEW = "CLOSE ALL; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP"
_states: dict[psycopg.Connection, ConnectionState] = {}
_idle: dict[tuple[int, str], list[psycopg.Connection]] = defaultdict(list)
_connect, _close = PostgresStore._connect, PostgresStore.close


def keep_connections(patch) -> None:
    """Have stores take up the connections of those that were closed, made as good as new."""
    patch.setattr(PostgresStore, "_connect", _take_up)
    patch.setattr(PostgresStore, "close", _leave)


def _take_up(store: PostgresStore) -> psycopg.Connection:
    idle = _idle[os.getpid(), store.address.connect]
    while idle and store._prepare is not None:
        connection = idle.pop()
        if not connection.closed:
            store._states[connection] = _states.pop(connection)
            return connection
    return _connect(store)


def _leave(store: PostgresStore) -> None:
    while store._process == os.getpid() and store._idle:
        connection = store._idle.pop()
        if connection.closed or connection.info.transaction_status is not TransactionStatus.IDLE:
            connection.close()
            continue
        connection.execute(_ANEW, prepare=False)
        state = _states[connection] = store._states.pop(connection)
        state.fences.clear()
        _idle[os.getpid(), store.address.connect].append(connection)
    _close(store)
