"""Schemas of a PostgreSQL database, made for a run and dropped after it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from penstock.bench.floor_postgres import floor_rate
from penstock.store.postgres import address
from penstock.store.postgres.errors import translated


class Schemas:
    """Stores in the database at *url*, as schemas that carry the number of this process."""

    postgres = True
    driver = "psycopg"

    def __init__(self, url: str) -> None:
        self._address = address(url)
        self._url = url
        self._made: set[str] = set()

    @cached_property
    def facts(self) -> Mapping[str, str]:
        with self._connection() as connection:
            version = connection.execute("SHOW server_version").fetchone()
            settings = connection.execute(
                "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit')"
            ).fetchall()
        return {"postgresql": version[0] if version else "", **dict(settings)}

    @property
    def phrase(self) -> str:
        facts = self.facts
        return (
            f"PostgreSQL {facts['postgresql']} (fsync {facts['fsync']}, "
            f"synchronous_commit {facts['synchronous_commit']})"
        )

    def url(self, name: str) -> str:
        schema = self._schema(name)
        self._made.add(schema)
        parts = urlsplit(self._url)
        others = [
            (key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if key != "schema"
        ]
        return urlunsplit(parts._replace(query=urlencode([*others, ("schema", schema)], quote_via=quote)))

    def clear(self, name: str) -> None:
        self._drop({self._schema(name)})

    def tidy(self, name: str) -> None:
        schema = sql.Identifier(self._schema(name))
        with self._connection() as connection:
            for table in ("ready", "lane_job", "lane"):
                connection.execute(sql.SQL("VACUUM {}.{}").format(schema, sql.Identifier(table)))

    def close(self) -> None:
        self._drop(set(self._made))

    def floor_rate(self, url: str, count: int, *, once: bool) -> float:
        where = address(url)
        return floor_rate(where.connect, where.schema, count, once=once)

    def _schema(self, name: str) -> str:
        return f"bench_{os.getpid()}_{name.replace('-', '_')}"

    def _drop(self, schemas: set[str]) -> None:
        with self._connection() as connection:
            for schema in schemas:
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
                self._made.discard(schema)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            with psycopg.connect(self._address.connect, autocommit=True) as connection:
                yield connection
        except psycopg.Error as error:
            raise translated(error, self._address.shown) from error
