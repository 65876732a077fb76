"""Queries drawn by lot: each is answered as SQLite answers it, or refused; none fails otherwise."""

import re
import sqlite3
from contextlib import closing, suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import SECOND
from penstock.dialects.silo import stored
from penstock.dialects.silo.query import run_query
from penstock.dialects.silo.query_like import matcher
from penstock.engine import open_engine
from penstock.errors import InvalidError
from penstock.job import NewJob

TENANT = "acme"
ROWS = [(f"{'xy'[number % 2]}{number}", number * 7 % 11, "AbC"[number % 3] * 2, "on" if number % 4 else None)
        for number in range(12)]  # fmt: skip


@pytest.fixture(scope="module")
def engine():
    with closing(open_engine(":memory:")) as engine:
        engine.enqueue(
            [
                NewJob(stored.TASK, id=id_, tenant=TENANT, queue=group, priority=stored.stored_priority(priority),
                       meta=stored.meta_of(stored.Kept(metadata={"flag": flag} if flag else {})))
                for id_, priority, group, flag in ROWS
            ]
        )  # fmt: skip
        yield engine


@pytest.fixture(scope="module")
def judge():
    """The same rows in a table of SQLite, where a column stands for `metadata['flag']`."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA case_sensitive_like = ON")
        connection.execute("CREATE TABLE jobs (id TEXT, priority INT, task_group TEXT, flag TEXT)")
        connection.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?)", ROWS)
        yield connection


NUMBER = st.one_of(st.integers(-20, 20).map(str), st.just("priority"), st.just("NULL"))
TEXT = st.sampled_from(["id", "task_group", "'x1'", "'AA'", "'%'", "NULL", "FLAG", "'on'"])
PATTERN = st.text("xyA1_%", max_size=4).map(lambda text: f"'{text}'")
NUMBERS = st.recursive(
    NUMBER,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda one: f"(- {one})"),
        inner.map(lambda one: f"coalesce({one}, 3)"),
        st.tuples(inner, inner).map(lambda t: f"CASE WHEN {t[0]} > 2 THEN {t[1]} ELSE 1 END"),
    ),
    max_leaves=5,
)
TEST = st.one_of(
    st.tuples(NUMBERS, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), NUMBERS).map(" ".join),
    st.tuples(TEXT, st.sampled_from(["=", "<>", "<", ">="]), TEXT).map(" ".join),
    st.tuples(NUMBERS, NUMBER, NUMBER).map(lambda t: f"{t[0]} BETWEEN {t[1]} AND {t[2]}"),
    st.tuples(NUMBERS, st.lists(NUMBER, min_size=1, max_size=3)).map(
        lambda t: f"{t[0]} IN ({', '.join(t[1])})"
    ),
    st.tuples(TEXT, PATTERN).map(lambda t: f"{t[0]} LIKE {t[1]}"),
    TEXT.map(lambda one: f"{one} IS NULL"),
)
CONDITION = st.recursive(
    TEST,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(" ".join),
        inner.map(lambda one: f"NOT ({one})"),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=6,
)


def ask(engine, sql: str) -> list[tuple]:
    result = run_query(sql.replace("FLAG", "metadata['flag']"), (), TENANT, engine, span=60 * SECOND)
    return [tuple(msgspec.msgpack.decode(row).values()) for row in result.rows]


@given(CONDITION, st.sampled_from(["", "DESC"]), st.integers(0, 5))
def test_a_query_is_answered_as_sqlite_does(engine, judge, condition, order, limit):
    sql = f"SELECT id FROM jobs WHERE {condition} ORDER BY priority {order}, id LIMIT 9 OFFSET {limit}"

    assert judge.execute(sql.replace("FLAG", "flag")).fetchall() == ask(engine, sql)


@given(CONDITION, st.sampled_from(["task_group", "priority % 3", "FLAG"]))
def test_groups_are_those_of_sqlite(engine, judge, condition, group):
    sql = f"""
        SELECT {group} AS g, COUNT(*) AS n, SUM(priority) AS s, AVG(priority) AS a, MIN(id) AS least,
            COUNT(DISTINCT task_group) AS d
        FROM jobs WHERE {condition} GROUP BY {group} HAVING COUNT(*) > 1 ORDER BY n, s, least
    """

    assert judge.execute(sql.replace("FLAG", "flag")).fetchall() == ask(engine, sql)


@given(st.text("ab\n%_\\", max_size=8), st.text("ab\n%_\\", max_size=12))
def test_a_pattern_means_the_same_as_a_regular_expression(pattern, text):
    signs = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    meaning = "".join(signs.get(part) or re.escape(part[-1]) for part in parts)

    assert bool(re.fullmatch(meaning, text, re.DOTALL)) == matcher(
        pattern, "sql", lambda _: None, fold=False
    )(text)


CLAUSES = (
    "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT OFFSET DISTINCT AS AND OR NOT IN BETWEEN LIKE IS NULL CASE"
)
REST = (
    "WHEN THEN ELSE END CAST DOUBLE jobs tasks queues id priority metadata count sum element_at coalesce true"
)
SIGNS = "( ) , . * = < || :: [ ] + - / % ; 'x' 1 2.5 $1 -- /* */"
WORDS = st.sampled_from(f'{CLAUSES} {REST} {SIGNS} "a"'.split())


@given(
    st.lists(WORDS, max_size=25),
    st.one_of(st.text(max_size=40), st.binary(max_size=20), st.floats(), st.integers()),
)
def test_nonsense_is_refused_in_words(engine, words, bind):
    for sql in (" ".join(words), f"SELECT {' '.join(words)}", f"SELECT id FROM jobs WHERE {' '.join(words)}"):
        with suppress(InvalidError):
            run_query(sql, (bind,) if "$1" in sql else (), TENANT, engine, span=60 * SECOND)


@given(st.text(max_size=60))
def test_any_text_is_refused_or_answered(engine, sql):
    for text in (sql, f"SELECT '{sql}'", f"SELECT id FROM jobs WHERE id = {sql}"):
        with suppress(InvalidError):
            run_query(text, (), TENANT, engine, span=60 * SECOND)
