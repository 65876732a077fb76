"""Queries over gRPC: what the tests of Silo's own client ask, and that other calls go on meanwhile."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.dialects.silo import silo_pb2 as pb
from tests.e2e.test_silo_calls import ELSEWHERE
from tests.support.silo import concurrency, refused, unpack


def ask(client, sql, *binds, tenant="acme"):
    found = client.Query(sql=sql, tenant=tenant, parameters=[pb.QueryParameter(**bind) for bind in binds])
    assert found.row_count == len(found.rows)
    return [unpack(row) for row in found.rows]


@pytest.fixture
def jobs(silo):
    """Three jobs, the first of which runs."""
    return [
        silo.enqueue({"n": n}, concurrency("k", 1), id=f"j{n}", priority=n, tenant="acme") for n in range(3)
    ]


def test_the_queries_of_the_clients_own_tests(silo, jobs):
    (task,) = silo.lease().tasks

    assert jobs == sorted(row["id"] for row in ask(silo, "SELECT * FROM jobs"))
    assert [{"id": "j1", "priority": 1}] == ask(
        silo, "SELECT id, priority FROM jobs WHERE priority < 2 AND status_kind = 'Waiting'"
    )
    by_id = "SELECT id FROM jobs WHERE tenant = $1 AND id = $2"
    assert [{"id": "j2"}] == ask(silo, by_id, {"string_value": "acme"}, {"string_value": "j2"})
    assert [{"count": 3}] == ask(silo, "SELECT COUNT(*) as count FROM jobs")
    assert [{"job_id": "j0", "task_id": task.id}] == ask(
        silo, "SELECT job_id, task_id FROM queues WHERE entry_type = 'holder'"
    )


def test_columns_are_told_with_their_types(silo):
    found = silo.Query(
        sql="SELECT id, priority, COUNT(*) AS n FROM jobs GROUP BY id, priority", tenant="acme"
    )

    assert [("id", "Utf8"), ("priority", "UInt8"), ("n", "Int64")] == [
        (c.name, c.data_type) for c in found.columns
    ]
    assert 0 == found.row_count


def test_every_kind_of_parameter_arrives(silo):
    sql = "SELECT $1 AS a, $2 AS b, $3 AS c, $4 AS d, $5 AS e, $6 AS f, $7 AS g"
    binds = (
        {"bool_value": True}, {"int64_value": -(2**63)}, {"uint64_value": 2**64 - 1}, {"float64_value": 0.5},
        {"string_value": "é"}, {"bytes_value": b"x"}, {"null_value": pb.QueryNull()},
    )  # fmt: skip

    (row,) = ask(silo, sql, *binds)

    assert list(row.values()) == [True, -(2**63), 2**64 - 1, 0.5, "é", "x", None]


def test_what_is_refused_is_said_in_the_words_of_silo(silo, jobs):
    refused("INVALID_ARGUMENT", lambda: ask(silo, "DROP TABLE jobs"), "SQL error: only SELECT is allowed")
    refused("INVALID_ARGUMENT", lambda: ask(silo, "SELECT * FROM job"), "SQL error: there is no table 'job'")
    refused(
        "INVALID_ARGUMENT",
        lambda: ask(silo, "SELECT $1", {}),
        "SQL parameter error: parameters[0]: has no value",
    )
    wrong = {"bytes_value": b"\xff"}
    refused(
        "INVALID_ARGUMENT",
        lambda: ask(silo, "SELECT $1", wrong),
        "SQL parameter error: parameters[0]: is not UTF-8",
    )
    refused("INVALID_ARGUMENT", lambda: ask(silo, ""), "SQL error")
    refused("NOT_FOUND", lambda: silo.Query(sql="SELECT 1", shard=ELSEWHERE), "shard not found")
    assert 3 == len(ask(silo, "SELECT id FROM jobs"))


def test_a_tenant_sees_its_own_rows(silo, jobs):
    silo.enqueue(1, id="own")

    assert [{"id": "own", "tenant": "-"}] == ask(silo, "SELECT id, tenant FROM jobs", tenant=None)
    assert [{"id": "own", "tenant": "-"}] == ask(silo, "SELECT id, tenant FROM jobs", tenant="-")
    assert [] == ask(silo, "SELECT id FROM jobs WHERE tenant = 'acme'", tenant="-")


def test_many_queries_at_once_are_all_answered_and_others_go_on(silo, jobs):
    with ThreadPoolExecutor(8) as threads:
        asked = [
            threads.submit(ask, silo, "SELECT COUNT(*) AS n FROM jobs WHERE priority >= 0") for _ in range(40)
        ]
        more = [silo.enqueue(n, tenant="other") for n in range(10)]

    assert [[{"n": 3}]] * 40 == [each.result() for each in asked]
    assert 10 == len(set(more))
