"""What a query in SQL may ask, what it answers, and what is refused."""

import re
import threading
import time
import tracemalloc
from contextlib import suppress
from itertools import product

import msgspec
import pytest

from penstock.clock import SECOND
from penstock.dialects.silo import query_like, query_meter, query_texts, stored
from penstock.dialects.silo.query import QueryResult, run_query
from penstock.dialects.silo.query_like import matcher
from penstock.dialects.silo.query_terms import MAX_DEPTH
from penstock.dialects.silo.query_words import MAX_SQL
from penstock.engine import Engine, surveys
from penstock.errors import InvalidError
from penstock.job import NewJob
from penstock.limits.rules import Limit, Numbers

LONG = 60 * SECOND


@pytest.fixture
def world(engine: Engine) -> Engine:
    """Six jobs: a to f, of priorities 0 to 5, in two groups."""
    engine.enqueue([job(name, number) for number, name in enumerate("abcdef")])
    return engine


def job(name: str, number: int, payload: object = None, **facts) -> NewJob:
    kept = stored.Kept(metadata={"odd": "yes"} if number % 2 else {"n": str(number), "quote": "it's"})
    return NewJob(
        stored.TASK, id=name, tenant="acme", queue="odd" if number % 2 else "even", meta=stored.meta_of(kept),
        args=stored.text_of(msgspec.msgpack.encode(payload), "payload"), priority=stored.stored_priority(number),
        **facts,
    )  # fmt: skip


def run(engine: Engine, sql: str, *binds, **bounds) -> QueryResult:
    return run_query(sql, binds, "acme", engine, **{"span": LONG, **bounds})


def ask(engine: Engine, sql: str, *binds, **bounds) -> list[tuple]:
    return [tuple(msgspec.msgpack.decode(row).values()) for row in run(engine, sql, *binds, **bounds).rows]


def values(engine: Engine, sql: str, *binds) -> list:
    return [value for (value,) in ask(engine, sql, *binds)]


def refused(engine: Engine, sql: str, *binds, field: str = "sql", **bounds) -> str:
    with pytest.raises(InvalidError) as caught:
        run(engine, sql, *binds, **bounds)
    assert field == caught.value.field
    return caught.value.problem


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("priority < 2", "ab"),
        ("priority <= 2 AND NOT priority = 1", "ac"),
        ("priority = 0 OR priority = 5", "af"),
        ("priority = 0 OR priority = 5 AND id = 'f'", "af"),
        ("(priority = 0 OR priority = 5) AND id = 'f'", "f"),
        ("priority <> 3", "abcef"),
        ("priority != 3", "abcef"),
        ("priority IN (1, 3, 99)", "bd"),
        ("priority NOT IN (1, 3)", "acef"),
        ("priority IN (1, priority - 0)", "abcdef"),
        ("'1' IN (1, 2)", "abcdef"),
        ("priority IN ('1', 3)", "bd"),
        ("priority NOT IN (1, NULL)", ""),
        ("priority BETWEEN 2 AND 3", "cd"),
        ("priority NOT BETWEEN 2 AND 3", "abef"),
        ("priority BETWEEN 1 AND 2 AND id = 'b'", "b"),
        ("id LIKE '_' AND id LIKE '%c%'", "c"),
        ("id NOT LIKE 'c'", "abdef"),
        ("id LIKE 'C'", ""),
        ("id ILIKE 'C'", "c"),
        ("'ΑΣ' ILIKE 'ας' AND 'ΑΣΑ' ILIKE 'ΑΣ%'", "abcdef"),
        ("'İ' ILIKE '_'", "abcdef"),
        ("priority % 2 = 0", "ace"),
        ("priority + 1 > 2 * 2 + 1", "f"),
        ("-priority > -2", "ab"),
        ("priority / 2 = 1", "cd"),
        ("CAST(priority AS DOUBLE) / 2 = 1.5", "d"),
        ("priority::double / 2 = 1.5", "d"),
        ("priority = '3'", "d"),
        ("metadata['odd'] = 'yes'", "bdf"),
        ("metadata['odd'] IS NULL", "ace"),
        ("metadata['odd'] IS NOT NULL", "bdf"),
        ("NOT metadata['odd'] = 'no'", "bdf"),
        ("metadata['quote'] = 'it''s'", "ace"),
        ("array_has(map_extract(metadata, 'n'), '2')", "c"),
        ("array_any_value(element_at(metadata, 'none')) IS NULL", "abcdef"),
        ("array_contains(element_at(metadata, 'none'), 'x')", ""),
        ("upper(id) || lower('X') = 'Bx'", "b"),
        ("length(task_group) = 3", "bdf"),
        ("coalesce(metadata['odd'], 'no') = 'no'", "ace"),
        ("coalesce(priority, 0.5) || '' = '1.0'", "b"),
        ("CAST(CASE WHEN priority < 2 THEN priority ELSE 0.5 END AS VARCHAR) = '1.0'", "b"),
        ("CASE WHEN priority < 2 THEN 'low' WHEN priority < 4 THEN 'mid' ELSE 'high' END = 'mid'", "cd"),
        ("CASE task_group WHEN 'odd' THEN true END", "bdf"),
        ("NULL", ""),
        ("priority = NULL", ""),
        ("true", "abcdef"),
        ("jobs.priority = 1", "b"),
        ("id = 'b' AND id = 'c'", ""),
        ("'b' = id", "b"),
        ("status_kind = 'Waiting'", "abcdef"),
        ("status_kind = 'Nonsense'", ""),
        ("status_kind IN ('Running', 'Waiting') AND id > 'd'", "ef"),
    ],
)
def test_a_condition_holds_for_the_right_jobs(world, condition, expected):
    assert "".join(values(world, f"SELECT id FROM jobs WHERE {condition} ORDER BY id")) == expected


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("ORDER BY priority", "abcdef"),
        ("ORDER BY priority DESC", "fedcba"),
        ("ORDER BY task_group, priority DESC", "ecafdb"),
        ("ORDER BY task_group DESC, priority", "bdface"),
        ("ORDER BY 1 DESC LIMIT 2", "fe"),
        ("ORDER BY id LIMIT 2 OFFSET 3", "de"),
        ("ORDER BY id OFFSET 4", "ef"),
        ("ORDER BY id LIMIT ALL OFFSET 4", "ef"),
        ("ORDER BY id LIMIT 0", ""),
        ("ORDER BY metadata['odd'], id", "bdface"),
        ("ORDER BY metadata['odd'] DESC, id", "acebdf"),
        ("ORDER BY metadata['odd'] NULLS FIRST, id", "acebdf"),
        ("ORDER BY metadata['odd'] DESC NULLS LAST, id", "bdface"),
        ("ORDER BY -priority", "fedcba"),
        ("ORDER BY upper(id) DESC", "fedcba"),
    ],
)
def test_rows_come_in_order(world, clauses, expected):
    assert "".join(values(world, f"SELECT id FROM jobs {clauses}")) == expected


def test_only_the_first_rows_are_kept_of_many(world, monkeypatch):
    monkeypatch.setattr("penstock.dialects.silo.query_run._SPARE", 0)
    world.enqueue([job(f"n{number:03}", number % 7) for number in range(300)])

    found = values(world, "SELECT id FROM jobs ORDER BY priority DESC, id LIMIT 3 OFFSET 1")

    assert found == ["n013", "n020", "n027"]


def test_aggregates(world):
    assert [(6, 6, 15, 2.5, 0, 5, "a", 2)] == ask(
        world,
        """
        SELECT COUNT(*), COUNT(id), SUM(priority), AVG(priority), MIN(priority), MAX(priority), MIN(id) AS first,
            COUNT(DISTINCT task_group)
        FROM jobs
        """,
    )


def test_aggregates_of_nothing(world):
    sql = "SELECT COUNT(*) AS n, SUM(priority) AS s, AVG(priority) AS a, MAX(id) AS m FROM jobs WHERE id = 'none'"

    assert [(0, None, None, None)] == ask(world, sql)
    assert [] == ask(world, f"{sql} GROUP BY task_group")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT task_group, COUNT(*) c FROM jobs GROUP BY task_group ORDER BY task_group", [("even", 3), ("odd", 3)]),
        ("SELECT task_group AS g, SUM(priority) FROM jobs GROUP BY g ORDER BY 2", [("even", 6), ("odd", 9)]),
        ("SELECT task_group FROM jobs GROUP BY 1 HAVING SUM(priority) > 6", [("odd",)]),
        ("SELECT task_group, SUM(priority) s FROM jobs GROUP BY 1 HAVING s > 6 AND COUNT(*) = 3", [("odd", 9)]),
        ("SELECT priority / 2 AS half, COUNT(*) n FROM jobs GROUP BY priority / 2 ORDER BY half",
         [(0, 2), (1, 2), (2, 2)]),
        ("SELECT priority / 2 + 10 AS x FROM jobs GROUP BY priority / 2 ORDER BY priority / 2 DESC LIMIT 1", [(12,)]),
        ("SELECT COUNT(*) * 2 AS n FROM jobs", [(12,)]),
        ("SELECT DISTINCT task_group FROM jobs ORDER BY task_group", [("even",), ("odd",)]),
        ("SELECT DISTINCT metadata['odd'] AS o FROM jobs ORDER BY o", [("yes",), (None,)]),
        ("SELECT metadata['odd'] AS o, COUNT(*) n FROM jobs GROUP BY o ORDER BY o", [("yes", 3), (None, 3)]),
        ("SELECT SUM(CASE WHEN priority > 3 THEN 1 ELSE 0 END) AS n FROM jobs", [(2,)]),
        ("SELECT COUNT(metadata['odd']) AS n FROM jobs", [(3,)]),
        ("SELECT MAX(priority) - MIN(priority) AS d FROM jobs WHERE id > $1", [(3,)]),
    ],
)  # fmt: skip
def test_groups(world, sql, expected):
    assert ask(world, sql, *(["b"] if "$1" in sql else [])) == expected


@pytest.mark.parametrize("columns", ["task_group, status_kind", "task_group, status_kind, id"])
def test_counting_by_what_is_alike_and_one_by_one_is_the_same(world, columns):
    """The second asks for a column that is different in each, so that jobs are looked at one by one."""
    world.enqueue([job(name, 4) for name in "ghi"])
    sql = f"SELECT {columns}, COUNT(*) c, SUM(priority) s FROM jobs WHERE priority > 1 GROUP BY {columns}"

    found = {}
    for group, status, *_, count, total in ask(world, sql):
        before = found.get((group, status), (0, 0))
        found[group, status] = before[0] + count, before[1] + total

    assert found == {("even", "Waiting"): (5, 18), ("odd", "Waiting"): (2, 8)}


def test_columns_have_their_names_and_types(world):
    result = run(
        world,
        """
        SELECT id, priority, "priority" AS "Big", Priority + 1 AS Next, COUNT(*), AVG(priority), true, NULL AS n, 'x' t
        FROM jobs GROUP BY id, priority LIMIT 1
        """,
    )

    assert result.columns == [
        ("id", "Utf8"), ("priority", "UInt8"), ("Big", "UInt8"), ("next", "Int64"), ("count(*)", "Int64"),
        ("avg(priority)", "Float64"), ("true", "Boolean"), ("n", "Null"), ("t", "Utf8"),
    ]  # fmt: skip


def test_all_columns_of_every_table_have_the_types_of_the_reference(world):
    types = {
        table: dict(run(world, f"SELECT * FROM {table}").columns)
        for table in ("jobs", "tasks", "queues", "tenant_counts", "queue_counts")
    }

    assert list(types["jobs"]) == [
        "shard_id", "tenant", "id", "priority", "enqueue_time_ms", "payload", "status_kind", "status_changed_at_ms",
        "task_group", "current_attempt", "next_attempt_starts_after_ms", "metadata", "limits",
    ]  # fmt: skip
    assert list(types["tasks"]) == [
        "shard_id", "tenant", "task_group", "start_time_ms", "priority", "job_id", "attempt", "variant_type",
        "task_id", "held_queues",
    ]  # fmt: skip
    assert list(types["queues"]) == [
        "shard_id", "tenant", "queue_name", "entry_type", "task_id", "job_id", "priority", "timestamp_ms",
    ]  # fmt: skip
    assert list(types["tenant_counts"]) == ["shard_id", "tenant", "status_kind", "cnt"]
    assert list(types["queue_counts"]) == [
        "shard_id", "tenant", "queue_name", "holders", "requesters", "max_concurrency", "limit_type",
    ]  # fmt: skip
    assert ("UInt8", "Int64", "UInt32", "Utf8") == tuple(
        types["jobs"][name] for name in ("priority", "enqueue_time_ms", "current_attempt", "payload")
    )


def test_small_numbers_are_packed_small(world):
    """A client in JavaScript reads a number of 64 bits as a BigInt, which equals no other number."""
    (row,) = run(world, "SELECT COUNT(*) AS count FROM jobs").rows

    assert row == b"\x81\xa5count\x06"


@pytest.mark.parametrize(
    ("sql", "binds", "expected"),
    [
        ("priority = $1", [2], "c"),
        ("priority = $1", [2.0], "c"),
        ("priority = $1", ["2"], "c"),
        ("id = $1", [b"c"], "c"),
        ("id = $1", ["it's; DROP TABLE jobs --"], ""),
        ("(priority > 3) = $1", [True], "ef"),
        ("priority = $1", [None], ""),
        ("$1 IS NULL", [None], "abcdef"),
        ("id = $2 OR id = $1 OR id = $2", ["a", "b"], "ab"),
        ("id IN ($1, $2)", ["a", "b"], "ab"),
        ("id LIKE $1", ["%"], "abcdef"),
        ("priority < $1", [2**64 - 1], "abcdef"),
    ],
)
def test_binds_are_values_and_never_text_of_the_query(world, sql, binds, expected):
    assert "".join(values(world, f"SELECT id FROM jobs WHERE {sql} ORDER BY id", *binds)) == expected


def test_limit_and_offset_may_be_binds(world):
    assert ["c", "d"] == values(world, "SELECT id FROM jobs ORDER BY id LIMIT $1 OFFSET $2", 2, 2)


@pytest.mark.parametrize("clauses", ["", "ORDER BY id"])
def test_limit_and_offset_may_be_as_large_as_a_bind(world, clauses):
    most = 2**64 - 1

    assert 6 == len(values(world, f"SELECT id FROM jobs {clauses} LIMIT $1", most))
    assert [] == values(world, f"SELECT id FROM jobs {clauses} LIMIT $1 OFFSET $1", most)


def test_the_least_number_may_be_a_bind(world):
    assert [-(2**63)] == values(world, "SELECT -$1 AS n", 2**63)
    assert [2**63] == values(world, "SELECT -$1 + 0.0 AS n", -(2**63))


@pytest.mark.parametrize(
    ("sql", "binds", "field", "problem"),
    [
        ("SELECT $1", [], "sql", r"\$1 is not given: there are 0 parameters"),
        ("SELECT $2", ["a"], "sql", r"\$2 is not given"),
        ("SELECT $0", ["a"], "sql", r"\$0 is not given"),
        ("SELECT $999999999", ["a"], "sql", "is not given"),
        ("SELECT $" + "9" * 5000, ["a"], "sql", "is not given"),
        ("SELECT $1", ["a", "b"], "parameters[1]", r"is given, but the SQL has no \$2"),
        ("SELECT 1", [None], "parameters[0]", r"has no \$1"),
        ("SELECT id FROM jobs WHERE id = $1", [b"\xff\xfe"], "parameters[0]", "is not UTF-8"),
        ("SELECT id FROM jobs WHERE id = $1", ["\ud800"], "parameters[0]", "is not UTF-8"),
        (
            "SELECT id FROM jobs WHERE priority = $1",
            ["many"],
            "parameters[0]",
            "'many' is compared with a number",
        ),
        ("SELECT id FROM jobs LIMIT $1", ["3"], "parameters[0]", "LIMIT must be a whole number"),
        ("SELECT id FROM jobs LIMIT $1", [-1], "parameters[0]", "LIMIT must be a whole number"),
        ("SELECT id FROM jobs LIMIT $1", [True], "parameters[0]", "LIMIT must be a whole number"),
        (
            "SELECT id FROM jobs WHERE id LIKE $1",
            ["%" * 2000],
            "parameters[0]",
            "2000 characters as a pattern",
        ),
        ("SELECT $1", ["x" * 1_000_001], "parameters[0]", "has 1000001 characters, and may have 1000000"),
        ("SELECT -$1 AS n", [2**64 - 1], "sql", "does not fit into 64 bits"),
        ("SELECT id FROM jobs WHERE id = ?", ["a"], "sql", r"a parameter is written \$1"),
        ("SELECT id FROM jobs WHERE id = :id", ["a"], "sql", "cannot be read from ':'"),
    ],
)
def test_a_bad_bind_is_named(world, sql, binds, field, problem):
    with pytest.raises(InvalidError, match=problem) as caught:
        run(world, sql, *binds)

    assert field == caught.value.field


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO jobs (id) VALUES ('x')",
        "UPDATE jobs SET priority = 0",
        "DELETE FROM jobs",
        "DROP TABLE jobs",
        "CREATE TABLE t (a INT)",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "COPY jobs TO '/tmp/x.csv'",
        "PRAGMA table_list",
        "ATTACH DATABASE '/etc/passwd' AS x",
        "VACUUM INTO '/tmp/x.db'",
        "EXPLAIN SELECT 1",
        "SHOW TABLES",
        "SET a = 1",
        "BEGIN",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n",
        "VALUES (1)",
        "",
        ";",
        "-- SELECT 1",
        "/* SELECT 1 */",
    ],
)
def test_nothing_but_a_select_is_read(world, sql):
    assert "only SELECT is allowed" in refused(world, sql)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT 1; SELECT 2", "only one statement"),
        ("SELECT 1; DROP TABLE jobs", "only one statement"),
        ("SELECT 1;;", "only one statement"),
        ("SELECT id FROM jobs -- \n; DELETE FROM jobs", "only one statement"),
        ("SELECT id FROM jobs /* ; */ ; /* x */ SELECT 1", "only one statement"),
        ("SELECT id FROM jobs /* never closed", "a comment that is not closed"),
        ("SELECT id FROM jobs /*/ WHERE 1", "a comment that is not closed"),
        ("SELECT id FROM jobs WHERE id = 'open", "a text that is not closed"),
        ('SELECT "open FROM jobs', "a name that is not closed"),
        ("SELECT id FROM jobs\0; DROP TABLE jobs", r"cannot be read from '\\x00'"),
        ("\0SELECT 1", "cannot be read"),
        ("SELECT id FROM jobs WHERE id = 'a' \\ 'b'", "cannot be read"),
        ("SELECT \ud800", "is not UTF-8"),
        ("SELECT * FROM sqlite_master", "there is no table 'sqlite_master'"),
        ("SELECT * FROM sqlite_schema", "there is no table"),
        ("SELECT * FROM job", "there is no table 'job'; there are jobs, tasks, queues, tenant_counts, queue_counts"),
        ('SELECT * FROM "JOBS"', "there is no table 'JOBS'"),
        ("SELECT * FROM pg_catalog.pg_class", "only the tables"),
        ("SELECT * FROM information_schema.tables", "only the tables"),
        ("SELECT * FROM main.jobs", "only the tables"),
        ("SELECT * FROM '/etc/passwd'", "expected a table"),
        ("SELECT * FROM read_csv('/etc/passwd')", "only the tables"),
        ("SELECT * FROM generate_series(1, 100000000)", "only the tables"),
        ("SELECT * FROM jobs, jobs", "joins are not supported"),
        ("SELECT * FROM jobs a, jobs b, jobs c, jobs d", "joins are not supported"),
        ("SELECT * FROM jobs CROSS JOIN jobs", "joins are not supported"),
        ("SELECT * FROM jobs a JOIN tasks b ON a.id = b.job_id", "joins are not supported"),
        ("SELECT * FROM jobs NATURAL JOIN tasks", "joins are not supported"),
        ("SELECT * FROM (SELECT 1)", "queries inside a query"),
        ("SELECT (SELECT 1)", "queries inside a query"),
        ("SELECT id FROM jobs WHERE id IN (SELECT job_id FROM tasks)", "queries inside a query"),
        ("SELECT id FROM jobs WHERE EXISTS (SELECT 1)", "queries inside a query|cannot be read|expected"),
        ("SELECT 1 UNION ALL SELECT 2", "UNION is not supported"),
        ("SELECT id FROM jobs EXCEPT SELECT id FROM jobs", "EXCEPT is not supported"),
        ("SELECT COUNT(*) OVER () FROM jobs", "OVER is not supported"),
        ("SELECT COUNT(*) FILTER (WHERE true) FROM jobs", "FILTER is not supported"),
        ("SELECT id INTO x FROM jobs", "INTO|cannot be read"),
        ("SELECT id FROM jobs FOR UPDATE", "FOR is not supported"),
        ("SELECT load_extension('x.so')", "there is no function load_extension"),
        ("SELECT readfile('/etc/passwd')", "there is no function readfile"),
        ("SELECT pg_read_file('/etc/passwd')", "there is no function pg_read_file"),
        ("SELECT pg_sleep(600)", "there is no function pg_sleep"),
        ("SELECT randomblob(1000000000)", "there is no function randomblob"),
        ("SELECT printf('%1000000000d', 1)", "there is no function printf"),
        ("SELECT repeat('x', 1000000000)", "there is no function repeat"),
        ("SELECT current_user", "there is no column 'current_user'"),
        ("SELECT id, id FROM jobs", "two columns of the answer are named 'id'"),
        ("SELECT none FROM jobs", "there is no column 'none'; there are shard_id"),
        ("SELECT rowid FROM jobs", "there is no column 'rowid'"),
        ("SELECT other.id FROM jobs", "there is no table 'other' in this query"),
        ("SELECT jobs.id FROM jobs j", "there is no table 'jobs' in this query"),
        ("SELECT id", "there is no column 'id'"),
        ("SELECT *", "needs a table"),
        ("SELECT id FROM jobs WHERE", "expected a value; found the end"),
        ("SELECT id FROM jobs WHERE id", "a condition must be Boolean, not Utf8"),
        ("SELECT id FROM jobs WHERE id = 1 AND", "expected a value"),
        ("SELECT id FROM jobs WHERE id > priority", "cannot compare Utf8 with UInt8; CAST one of them"),
        ("SELECT id FROM jobs WHERE metadata = 'x'", "cannot compare Map"),
        ("SELECT id FROM jobs WHERE COUNT(*) > 1", "count is an aggregate"),
        ("SELECT COUNT(COUNT(*)) FROM jobs", "count is an aggregate"),
        ("SELECT id, COUNT(*) FROM jobs", "'id' must be in GROUP BY or inside an aggregate"),
        ("SELECT COUNT(*) FROM jobs GROUP BY metadata", "cannot group by a value of Map"),
        ("SELECT id FROM jobs ORDER BY metadata", "cannot order by a value of Map"),
        ("SELECT DISTINCT metadata FROM jobs", "cannot group by a value of Map"),
        ("SELECT DISTINCT COUNT(*) FROM jobs", "DISTINCT cannot be used together"),
        ("SELECT id FROM jobs ORDER BY 2", "there is no column 2 in the answer"),
        ("SELECT id FROM jobs LIMIT -1", "LIMIT must be|expected a value"),
        ("SELECT id FROM jobs LIMIT id", "LIMIT must be a whole number"),
        ("SELECT SUM(id) FROM jobs", "sum takes numbers, not Utf8"),
        ("SELECT COUNT() FROM jobs", "count takes one argument"),
        ("SELECT element_at(id, 'x') FROM jobs", r"element_at takes \(Map\(Utf8, Utf8\), Utf8\), not \(Utf8, Utf8\)"),
        ("SELECT starts_with(id) FROM jobs", "starts_with takes"),
        ("SELECT CAST(id AS BLOB) FROM jobs", "cannot cast to blob"),
        ("SELECT CAST(metadata AS VARCHAR) FROM jobs", "cannot cast Map"),
        ("SELECT id + 1 FROM jobs", "takes numbers, not Utf8 and Int64"),
        ("SELECT CASE WHEN true THEN 1 ELSE 'x' END", "different types: Int64, Utf8"),
        ("SELECT id FROM jobs WHERE id LIKE id", "pattern of LIKE must be a text"),
        ("SELECT 1 / 0", "division by zero"),
        ("SELECT 5 % 0", "division by zero"),
        ("SELECT 9223372036854775807 + 1", "does not fit into 64 bits"),
        (f"SELECT ({' OR '.join(['true'] * 300)}) AS a FROM jobs HAVING {' OR '.join(['a'] * 300)}", "20000 parts"),
        (f"SELECT ({' OR '.join(['true'] * 300)}) AS a FROM jobs ORDER BY {', '.join(['a'] * 300)}", "20000 parts"),
        (f"SELECT ({' OR '.join(['true'] * 300)}) AS a FROM jobs GROUP BY {', '.join(['1'] * 300)}", "20000 parts"),
        ("SELECT CAST('x' AS BIGINT)", "cannot cast 'x' to Int64"),
        ("SELECT CAST('1e999' AS BIGINT)", "cannot cast"),
        ("SELECT CAST('1_0' AS BIGINT)", "cannot cast"),
        ("SELECT id FROM jobs GROUP id", "expected BY"),
        ("SELECT id jobs FROM", "expected a table"),
        ("SELECT id FROM jobs WHERE (id = 'a'", r"expected '\)'"),
        ("SELECT id FROM jobs LIMIT 1 LIMIT 2 LIMIT 3", "cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_in_words(world, sql, problem):
    with pytest.raises(InvalidError, match=problem) as caught:
        run(world, sql)

    assert caught.value.field == "sql"
    assert world.count(tenant="acme") == {"waiting": 6}


def test_comments_and_a_last_semicolon_are_allowed(world):
    assert ["a"] == values(world, "/* one */ SELECT id -- two\nFROM jobs WHERE id = 'a' -- ; three\n;  ")
    assert ["--", "/*"] == list(ask(world, "SELECT '--' AS a, '/*' AS b")[0])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
        "SELECT " + "NOT " * 5_000 + "true",
        "SELECT " + "-" * 1 + "- " * 5_000 + "1",
        "SELECT " + " + ".join(["1"] * 5_000),
        "SELECT " + " || ".join(["'x'"] * 5_000),
        "SELECT " + "CASE WHEN true THEN " * 3_000 + "1" + " END" * 3_000,
        "SELECT " + "coalesce(" * 5_000 + "1" + ")" * 5_000,
        "SELECT 1" + "::bigint" * 5_000,
        "SELECT 1 WHERE " + "1 = " * 5_000 + "1",
    ],
)
def test_no_query_exhausts_the_stack(world, sql):
    for text in (sql, sql[: len(sql) // 2]):
        with suppress(InvalidError):
            run(world, text)


def test_a_query_may_nest_as_deep_as_it_says(world):
    assert [1] == values(world, "SELECT " + "(" * (MAX_DEPTH - 1) + "1" + ")" * (MAX_DEPTH - 1) + " AS n")
    assert "nests deeper than" in refused(world, "SELECT " + "(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH)


def test_many_conditions_and_items_are_no_trouble(world):
    ids = ", ".join(f"'{number}'" for number in range(5_000))
    many = " OR ".join(f"priority = {number}" for number in range(2_000))

    assert [] == values(world, f"SELECT id FROM jobs WHERE id IN ({ids})")
    assert 6 == len(values(world, f"SELECT id FROM jobs WHERE {many}"))


def test_a_query_that_is_too_long_is_refused(world):
    assert f"may have {MAX_SQL}" in refused(world, f"SELECT '{'x' * MAX_SQL}'")


def test_an_answer_with_too_many_rows_is_refused(world):
    assert "more than 5 rows; add a LIMIT" in refused(world, "SELECT id FROM jobs", max_rows=5)
    assert "more than 5 rows" in refused(world, "SELECT id FROM jobs ORDER BY id", max_rows=5)
    assert "more than 5 rows" in refused(world, "SELECT id FROM jobs ORDER BY id LIMIT 9", max_rows=5)
    assert 6 == len(ask(world, "SELECT id FROM jobs", max_rows=6))
    assert 5 == len(ask(world, "SELECT id FROM jobs LIMIT 5", max_rows=5))
    assert 1 == len(ask(world, "SELECT id FROM jobs ORDER BY id LIMIT 9 OFFSET 5", max_rows=5))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id || $1 AS x FROM jobs",
        "SELECT id || $1 AS x FROM jobs ORDER BY x",
        "SELECT id || $1 AS x, COUNT(*) FROM jobs GROUP BY x",
        "SELECT COUNT(DISTINCT id || $1) FROM jobs",
        "SELECT DISTINCT id || $1 AS x FROM jobs",
        "SELECT id FROM jobs ORDER BY id || $1",
        "SELECT id FROM jobs ORDER BY task_group, id || $1",
        "SELECT COUNT(*) AS n FROM jobs GROUP BY id HAVING MAX(id || $1) > ''",
        "SELECT length(MIN(id || $1)) + length(MIN($1 || id)) + length(MAX(id || $1)) AS n FROM jobs",
    ],
)
def test_what_a_query_keeps_is_bounded(world, monkeypatch, sql):
    monkeypatch.setattr(query_meter, "MAX_HELD", 1 << 20)

    assert "keep more than 1 MiB at once; to narrow it, " in refused(world, sql, "x" * 200_000)
    assert ask(world, sql, "x" * 100)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT {} FROM jobs",
        "SELECT id FROM jobs ORDER BY {}",
        "SELECT id FROM jobs ORDER BY id, {}",
        "SELECT COUNT(*) FROM jobs GROUP BY {}",
    ],
)
def test_a_row_is_given_up_before_it_holds_too_much(world, monkeypatch, sql):
    """A hundred columns of a million characters."""
    monkeypatch.setattr(query_meter, "MAX_HELD", 1 << 20)
    columns = ", ".join(f"$1 || {number}" for number in range(100))
    tracemalloc.start()
    try:
        assert "keep more than 1 MiB at once" in refused(world, sql.format(columns), "x" * 1_000_000)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert most < 20 << 20


def test_the_names_of_columns_are_kept_with_each_row(world, monkeypatch):
    monkeypatch.setattr(query_meter, "MAX_HELD", 1 << 20)

    assert "keep more than 1 MiB" in refused(world, f'SELECT 1 AS "{"x" * 99_000}" FROM jobs')
    assert 6 == len(ask(world, f'SELECT 1 AS "{"x" * 50_000}" FROM jobs'))


def test_a_text_that_is_not_ascii_takes_more(world, monkeypatch):
    monkeypatch.setattr(query_meter, "MAX_HELD", 1 << 20)

    assert ask(world, "SELECT $1 AS x", "x" * 400_000)
    assert "keep more than 1 MiB" in refused(world, "SELECT $1 AS x", "é" * 400_000)


def test_rows_that_do_not_stay_are_given_back(world, monkeypatch):
    monkeypatch.setattr(query_meter, "MAX_HELD", 1 << 20)
    world.enqueue([job(f"n{number:03}", number % 7) for number in range(60)])
    long = "x" * 100_000

    assert [66] == values(world, "SELECT COUNT(*) AS n FROM jobs GROUP BY $1 || 'x'", long)
    assert ["n059"] == values(world, "SELECT MAX(id) AS n FROM jobs HAVING MAX(id || $1) > 'n'", long)
    assert ["a"] == values(world, "SELECT id FROM jobs WHERE $1 || id LIKE '%xa'", long)


def test_groups_that_are_not_in_the_answer_are_kept_too(world, monkeypatch):
    monkeypatch.setattr(query_meter, "MAX_HELD", 1 << 20)
    sql = "SELECT COUNT(*) AS n FROM jobs GROUP BY id || $1 HAVING COUNT(*) > 9"

    assert "keep more than 1 MiB" in refused(world, sql, "x" * 200_000)
    assert [] == ask(world, sql, "x")


def test_a_text_cannot_grow_without_bounds(world):
    doubled = " || ".join(["$1"] * 40)

    assert "makes a text of more than" in refused(world, f"SELECT {doubled} AS x", "x" * 1_000_000)


def test_a_query_over_many_long_payloads_keeps_few_of_them(engine):
    """Sixty payloads of a megabyte: what is read is a few of them at a time."""
    engine.enqueue([job(f"j{number}", number, "x" * 1_000_000) for number in range(60)])
    tracemalloc.start()
    try:
        (row,) = ask(
            engine, "SELECT COUNT(payload) AS n, MAX(length(payload)) AS m FROM jobs WHERE payload LIKE '%x%'"
        )
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert row == (60, 1_000_002)
    assert most < 40 << 20


def test_the_time_is_over_between_two_pages(world, monkeypatch):
    monkeypatch.setattr(surveys, "FIRST_PAGE", 1)
    monkeypatch.setattr(surveys, "PAGE", 1)
    now = iter(range(0, 10**9, SECOND))
    monkeypatch.setattr(query_meter, "monotonic", lambda: next(now))

    assert "took longer than 5 s; to narrow it, name ids" in refused(
        world, "SELECT MAX(id) FROM jobs", span=5 * SECOND
    )
    assert "took longer than 5 s" in refused(world, "SELECT id FROM jobs ORDER BY id", span=5 * SECOND)


def test_the_time_is_over_within_one_row(world, monkeypatch):
    """A query may look at one long text many times."""
    many = " OR ".join(["$1 LIKE '%y%'"] * 100)
    now = iter(range(0, 10**9, SECOND))
    monkeypatch.setattr(query_meter, "monotonic", lambda: next(now))

    assert "took longer than 50 s" in refused(world, f"SELECT {many} AS x", "x" * 100_000, span=50 * SECOND)


@pytest.mark.parametrize(
    "each",
    [
        "$1 LIKE '%y%'",
        "$1 LIKE '%_y%'",
        "lower($1) = 'y'",
        "$1 || '' = 'y'",
        "CAST($1 AS VARCHAR) || '' = 'y'",
        "payload = $1",
        "metadata['n'] = 'y'",
        "limits = $1",
    ],
)
def test_the_time_is_over_within_one_row_of_texts_that_are_not_so_long(engine, monkeypatch, each):
    """Each of them is looked at many times."""
    kept = stored.Kept(metadata={"n": "x" * 10_000})
    payload = stored.text_of(msgspec.msgpack.encode("x" * 10_000), "payload")
    engine.enqueue(
        [NewJob(stored.TASK, id="a", tenant="acme", queue="q", args=payload, meta=stored.meta_of(kept))]
    )
    many = " OR ".join([each] * 500)
    now = iter(range(0, 10**9, SECOND))
    monkeypatch.setattr(query_meter, "monotonic", lambda: next(now))

    assert "took longer than 50 s" in refused(
        engine, f"SELECT {many} AS x, $1 AS y FROM jobs", "x" * 10_000, span=50 * SECOND
    )


def test_the_time_is_over_between_rows_of_one_page(world, monkeypatch):
    """A page has thousands of rows, and a query thousands of parts."""
    world.enqueue([job(f"n{number}", 1) for number in range(90)])
    many = " OR ".join(["priority = 8"] * 3_000)
    now = iter(range(0, 10**9, SECOND))
    monkeypatch.setattr(query_meter, "monotonic", lambda: next(now))

    for sql in (
        f"SELECT id FROM jobs WHERE {many}",
        f"SELECT id FROM jobs GROUP BY id, priority HAVING {many}",
    ):
        assert "took longer than 10 s" in refused(world, sql, span=10 * SECOND)


def test_no_text_takes_long_to_be_found_no_number(world):
    """If every way to read the digits were tried, this would take minutes."""
    began = time.monotonic()

    for text in (
        "1" * 100_000 + "x",
        "1." + "1" * 100_000 + "x",
        " " * 100_000 + "x",
        "1" + " " * 100_000 + "x",
    ):
        assert "cannot cast" in refused(world, "SELECT CAST($1 AS DOUBLE) AS x", text)
        assert "is compared with a number" in refused(
            world, "SELECT 1 = $1 AS x", text, field="parameters[0]"
        )

    assert time.monotonic() - began < 60


def test_a_store_that_gives_up_is_told_in_the_same_words(world, monkeypatch):
    def endless(db, *_):
        return db.all(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        )

    monkeypatch.setattr(surveys.survey_rows, "census", endless)

    assert "took longer than 0.05 s; to narrow" in refused(
        world, "SELECT COUNT(*) FROM jobs", span=SECOND // 20
    )


def test_a_query_that_wants_few_rows_looks_at_few(world, monkeypatch):
    world.enqueue([job(f"n{number}", 1) for number in range(500)])
    looked = []
    page = surveys.survey_rows.page
    monkeypatch.setattr(surveys.survey_rows, "page", lambda *args: looked.append(args[-1]) or page(*args))

    assert 10 == len(ask(world, "SELECT id FROM jobs LIMIT 10"))
    assert looked == [surveys.FIRST_PAGE]
    assert 1 == len(ask(world, "SELECT id FROM jobs WHERE tenant = 'acme' AND id = 'n7'"))
    assert 0 == len(ask(world, "SELECT id FROM jobs WHERE tenant = 'other'"))
    assert looked == [surveys.FIRST_PAGE]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("%a%a%", "a", False),
        ("%a%a%", "aa", True),
        ("a%a", "a", False),
        ("a%_a", "aa", False),
        ("%_b%b", "ab", False),
        ("%_b%b", "abb", True),
        ("", "", True),
        ("%", "", True),
        ("_", "", False),
        ("_", "\n", True),
        ("100\\%", "100%", True),
        ("100\\%", "1000", False),
        ("a\\_c", "abc", False),
        ("a.c", "abc", False),
        ("a\\", "a\\", True),
    ],
)
def test_a_pattern_is_as_long_as_it_is(pattern, text, expected):
    assert matcher(pattern, "sql", lambda _: None, fold=False)(text) is expected


def test_a_pattern_is_looked_for_a_stretch_at_a_time(monkeypatch):
    monkeypatch.setattr(query_like, "_AT_ONCE", 4)
    texts = ["".join(signs) for length in range(7) for signs in product("ab", repeat=length)]
    signs = {"%": ".*", "_": "."}

    for pattern in ("".join(each) for length in range(5) for each in product("ab_%", repeat=length)):
        meaning = re.compile("".join(signs.get(sign, sign) for sign in pattern))
        is_like = matcher(pattern, "sql", lambda _: None, fold=False)
        for text in texts:
            assert bool(meaning.fullmatch(text)) == is_like(text), (pattern, text)


def test_a_pattern_is_charged_for_what_it_compares():
    """A million characters, each of which may be the first of eight hundred that are compared."""
    spent = []

    assert not matcher(f"%{'_a' * 400}b%", "sql", spent.append, fold=False)("a" * 1_000_000)

    assert sum(spent) > 700 * 1_000_000
    assert max(spent) <= 2_000_000


@pytest.mark.parametrize(
    "pattern", ["%a%a%a%a%a%a%a%a%a%a%b", "a" * 100 + "%b", "%" + "_" * 90 + "b", "%%%%%%%%b"]
)
def test_no_pattern_takes_longer_than_the_text_is_long(pattern):
    """A pattern that were tried in every way would take years."""
    ended = threading.Event()
    began = time.monotonic()

    threading.Thread(
        target=lambda: (matcher(pattern, "sql", lambda _: None, fold=False)("a" * 20_000), ended.set()),
        daemon=True,
    ).start()

    assert ended.wait(60), f"{pattern} is still tried after {time.monotonic() - began} s"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (msgspec.msgpack.encode({"a": [1, None, "é"]}), '{"a":[1,null,"é"]}'),
        (msgspec.msgpack.encode(2**63), "9223372036854775808"),
        (msgspec.msgpack.encode({1: b"\xff"}), '{"1":"/w=="}'),
        (msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"x")), "null"),
        (b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "null"),  # not a number
        (b"\x91" * 100_000 + b"\x01", None),  # nests too deep
        (b"\xa2\xff\xfe", None),  # a text that is not UTF-8
        (b"\x82\x01", None),  # cut off
        (b"", None),
        (b"\x81\x91\x01\x02", None),  # a list as a key
    ],
)  # fmt: skip
def test_any_payload_is_shown_or_null(engine, payload, expected):
    new = NewJob(stored.TASK, id="a", tenant="acme", queue="q", args=stored.text_of(payload, "payload"))
    engine.enqueue([new])

    assert [expected] == values(engine, "SELECT payload FROM jobs")


def test_jobs_of_other_clients_are_shown_too(engine):
    limits = (Limit("k", Numbers(slots=1)),)
    engine.enqueue(
        [NewJob("task", id="a", tenant="acme", args='{"x": [1]}', meta='{"silo": 5}', limits=limits)]
    )

    assert [("a", '{"x":[1]}', {}, "[]")] == ask(engine, "SELECT id, payload, metadata, limits FROM jobs")


@pytest.mark.parametrize(
    "meta",
    [
        '{"silo": {"limits": [{"concurrency": 5}]}}',
        '{"silo": {"limits": [5]}}',
        '{"silo": {"metadata": {"a": 5}}}',
        r'{"silo": {"metadata": {"a": "\ud800"}}}',
        r'{"other": "\ud800"}',
    ],
)
def test_what_another_client_wrote_in_our_place_is_not_shown(engine, meta):
    engine.enqueue([NewJob("task", id="a", tenant="acme", meta=meta)])

    assert [({}, "[]")] == ask(engine, "SELECT metadata, limits FROM jobs")


def test_numbers_of_other_clients_may_be_longer_than_64_bits(engine):
    args = f"[{10**30}, {2**64 - 1}, {-(2**63)}, 1{'0' * 400}]"
    engine.enqueue([NewJob("task", id="a", tenant="acme", args=args)])

    assert [f"[1e30,{2**64 - 1},{-(2**63)},null]"] == values(engine, "SELECT payload FROM jobs")


@pytest.mark.parametrize("args", ['{"msgpack":"a"}', '{"msgpack":"é"}', '{"msgpack":"no bytes!"}'])
def test_what_only_looks_like_a_payload_of_ours_is_shown_as_it_is(engine, args):
    engine.enqueue([NewJob("task", id="a", tenant="acme", args=args)])

    assert [args] == values(engine, "SELECT payload FROM jobs")


def test_a_key_that_tenants_share_is_no_queue_of_one_of_them(engine):
    limits = (Limit("own", Numbers(slots=1)), Limit("shared", Numbers(slots=1), shared=True))
    engine.enqueue([NewJob("task", id="a", tenant="acme", limits=limits)])

    for table in ("queues", "queue_counts"):
        assert ["own"] == values(engine, f"SELECT queue_name FROM {table}")


def test_limits_are_shown_in_the_order_of_the_client():
    kept = stored.Kept(
        limits=[
            {"rate_limit": {"name": "api", "unique_key": "u", "limit": 5}},
            {"floating_concurrency": {"key": "f", "default_max_concurrency": 3}},
            {"concurrency": {"key": "c", "max_concurrency": 2}},
        ]
    )

    assert msgspec.json.decode(query_texts.limits_of(stored.meta_of(kept))) == [
        {"limit_type": "rate_limit", "key": "api_u", "value": 5},
        {"limit_type": "floating_concurrency", "key": "f", "value": 3},
        {"limit_type": "concurrency", "key": "c", "value": 2},
    ]
