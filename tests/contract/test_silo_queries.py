"""Every example of Silo's guide on querying, on every store; and that a tenant sees only what is its own."""

import msgspec
import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.dialects.silo import stored
from penstock.dialects.silo.query import run_query
from penstock.errors import InvalidError
from penstock.job import NewJob
from penstock.lifecycle.outcomes import Cancelled, Done, Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.limits.rules import Floating, Limit, Numbers
from tests.support.desk import Desk, rate, slots

TENANT = "customer-123"
USER = slots("user:456", 2)
FLOAT = Limit("api", Numbers(slots=3, floats=True), floating=Floating("", 60 * SECOND))


@pytest.fixture
def world(desk: Desk) -> Desk:
    """Jobs of one tenant in every status, and a job of another that must never be seen."""
    put(desk, "succeeded", priority=10)
    put(desk, "failed", group="reports")
    put(desk, "cancelled")
    put(desk, "retries", retry=RetryPolicy(attempts=3, delay=60 * SECOND))
    for name, outcome in (
        ("succeeded", Done()),
        ("failed", BROKEN),
        ("cancelled", Cancelled()),
        ("retries", AGAIN),
    ):
        desk.claim(1, ("emails", "reports"))
        desk.settle(name, outcome)
        desk.wait(SECOND)
    put(desk, "running-1", USER, FLOAT, metadata={"env": "production", "region": "us-east"})
    put(desk, "running-2", USER, metadata={"env": "staging", "region": "eu-west"})
    assert "running-1 running-2" == desk.claim(5, ("emails",))
    put(desk, "blocked-1", USER, priority=5, metadata={"env": "production", "region": "us-west"})
    put(desk, "blocked-2", USER, priority=90)
    put(desk, "free", group="reports", priority=20)
    put(desk, "paced", rate("r", 0), group="reports")
    put(desk, "later", due=desk.clock.now() + 3600 * SECOND)
    put(desk, "secret", USER, tenant="other", metadata={"env": "production", "region": "us-east"})
    return desk


BROKEN = Failed("Broken", "no", final=True)
AGAIN = Failed("Broken", "no")


def put(
    desk: Desk, name: str, *limits: Limit, tenant: str = TENANT, priority: int = 50, metadata=None, **facts
) -> None:
    job = NewJob(
        stored.TASK, id=name, tenant=tenant, queue=facts.pop("group", "emails"), limits=limits,
        args=stored.text_of(msgspec.msgpack.encode({"of": name}), "payload"), priority=stored.stored_priority(priority),
        meta=stored.meta_of(stored.Kept(metadata=metadata or {}, limits=[shown(limit) for limit in limits])), **facts,
    )  # fmt: skip
    desk.engine.enqueue([job])


def shown(limit: Limit) -> dict[str, dict[str, object]]:
    if limit.floating is not None:
        return {"floating_concurrency": {"key": limit.key, "default_max_concurrency": limit.numbers.slots}}
    if limit.numbers.rate is not None:
        return {"rate_limit": {"name": limit.key, "unique_key": "u", "limit": limit.numbers.rate.limit}}
    return {"concurrency": {"key": limit.key, "max_concurrency": limit.numbers.slots}}


def ask(desk: Desk, sql: str, *binds, tenant: str = TENANT) -> list[dict]:
    result = run_query(sql, binds, tenant, desk.engine, span=60 * SECOND)
    found = [msgspec.msgpack.decode(row) for row in result.rows]
    assert all([name for name, _ in result.columns] == list(row) for row in found)
    return found


def names(rows: list[dict], column: str = "id") -> list[str]:
    return [row[column] for row in rows]


LISTED = [
    "paced",
    "free",
    "blocked-2",
    "blocked-1",
    "running-2",
    "running-1",
    "retries",
    "cancelled",
    "failed",
    "succeeded",
]
# The name of each example of the guide, the query as it is printed there, and the ids of the answer in order.
JOBS = {
    "all jobs for a tenant": (
        """
        -- All jobs for a tenant
        SELECT id, status_kind, priority, task_group
        FROM jobs
        WHERE tenant = 'customer-123'
        ORDER BY enqueue_time_ms DESC
        LIMIT 50
        """,
        {"later", *LISTED},
    ),
    "jobs in a specific task group": (
        """
        SELECT id, status_kind, enqueue_time_ms
        FROM jobs
        WHERE tenant = 'customer-123' AND task_group = 'emails'
        ORDER BY enqueue_time_ms DESC
        """,
        {"later", *LISTED} - {"failed", "free", "paced"},
    ),
    "all currently running jobs": (
        """
        SELECT id, task_group, priority
        FROM jobs
        WHERE tenant = 'customer-123' AND status_kind = 'Running'
        """,
        {"running-1", "running-2"},
    ),
    "failed jobs": (
        """
        SELECT id, task_group, status_changed_at_ms
        FROM jobs
        WHERE tenant = 'customer-123' AND status_kind = 'Failed'
        ORDER BY status_changed_at_ms DESC
        """,
        ["failed"],
    ),
    "jobs waiting to be picked up": (
        """
        SELECT id, priority, task_group
        FROM jobs
        WHERE tenant = 'customer-123' AND status_kind = 'Waiting'
        ORDER BY priority ASC
        """,
        ["blocked-1", "free", "paced", "blocked-2"],
    ),
    "future-scheduled jobs": (
        """
        SELECT id, task_group
        FROM jobs
        WHERE tenant = 'customer-123' AND status_kind = 'Scheduled'
        """,
        {"later", "retries"},
    ),
    "new future-scheduled jobs": (
        """
        SELECT id, task_group, next_attempt_starts_after_ms
        FROM jobs
        WHERE tenant = 'customer-123' AND status_kind = 'Scheduled' AND current_attempt = 1
        """,
        ["later"],
    ),
    "jobs waiting to retry after a failure": (
        """
        SELECT id, task_group, current_attempt, next_attempt_starts_after_ms
        FROM jobs
        WHERE tenant = 'customer-123' AND status_kind = 'Scheduled' AND current_attempt > 1
        """,
        ["retries"],
    ),
    "metadata exact match": (
        """
        SELECT id, status_kind
        FROM jobs
        WHERE tenant = 'customer-123'
          AND array_contains(element_at(metadata, 'env'), 'production')
        """,
        {"running-1", "blocked-1"},
    ),
    "metadata prefix match": (
        """
        SELECT id, status_kind
        FROM jobs
        WHERE tenant = 'customer-123'
          AND starts_with(array_any_value(element_at(metadata, 'region')), 'us-')
        """,
        {"running-1", "blocked-1"},
    ),
    "metadata with LIKE": (
        """
        SELECT id, status_kind
        FROM jobs
        WHERE tenant = 'customer-123'
          AND array_any_value(element_at(metadata, 'region')) LIKE 'us-%'
        """,
        {"running-1", "blocked-1"},
    ),
    "metadata combined with status": (
        """
        SELECT id, status_kind, priority
        FROM jobs
        WHERE tenant = 'customer-123'
          AND array_contains(element_at(metadata, 'env'), 'production')
          AND status_kind = 'Running'
        """,
        ["running-1"],
    ),
    "exact id with a status that it has not": (
        "SELECT * FROM jobs WHERE tenant = 'customer-123' AND id = 'free' AND status_kind = 'Running'",
        [],
    ),
    "rows of the client": (
        "SELECT id, status_kind, priority FROM jobs WHERE tenant = 'customer-123' LIMIT 10",
        10,
    ),
    "without a tenant in WHERE": (
        "SELECT id FROM jobs WHERE status_kind = 'Running'",
        {"running-1", "running-2"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("example", JOBS)
def test_an_example_of_the_guide_that_lists_jobs(world, example):
    sql, expected = JOBS[example]

    found = names(ask(world, sql))

    assert "secret" not in found
    if isinstance(expected, set):
        assert sorted(found) == sorted(expected)
    else:
        assert (len(found) if isinstance(expected, int) else found) == expected


# The same for examples that count: the rows of the answer, in any order unless the query has one.
COUNTS = {
    "count jobs by status": (
        "SELECT status_kind, COUNT(*) as count FROM jobs WHERE tenant = 'customer-123' GROUP BY status_kind",
        [("Cancelled", 1), ("Failed", 1), ("Running", 2), ("Scheduled", 2), ("Succeeded", 1), ("Waiting", 4)],
    ),
    "count by task group and status": (
        """
        SELECT task_group, status_kind, COUNT(*) as count
        FROM jobs
        WHERE tenant = 'customer-123'
        GROUP BY task_group, status_kind
        ORDER BY task_group, status_kind
        """,
        [
            ("emails", "Cancelled", 1), ("emails", "Running", 2), ("emails", "Scheduled", 2),
            ("emails", "Succeeded", 1), ("emails", "Waiting", 2), ("reports", "Failed", 1), ("reports", "Waiting", 2),
        ],
    ),
    "average priority by task group": (
        """
        SELECT task_group, AVG(CAST(priority AS DOUBLE)) as avg_priority
        FROM jobs
        WHERE tenant = 'customer-123'
        GROUP BY task_group
        """,
        [("emails", (10 + 5 * 50 + 5 + 90) / 8), ("reports", 40.0)],
    ),
    "fast counts of a tenant": (
        "SELECT status_kind, cnt FROM tenant_counts WHERE tenant = 'customer-123' ORDER BY status_kind",
        [("Cancelled", 1), ("Failed", 1), ("Running", 2), ("Scheduled", 2), ("Succeeded", 1), ("Waiting", 4)],
    ),
    "holders and requesters per queue": (
        """
        SELECT queue_name, entry_type, COUNT(*) as count
        FROM queues
        WHERE tenant = 'customer-123'
        GROUP BY queue_name, entry_type
        """,
        [("api", "holder", 1), ("user:456", "holder", 2), ("user:456", "requester", 2)],
    ),
    "queues with waiting requesters": (
        """
        SELECT queue_name, COUNT(*) as waiting
        FROM queues
        WHERE tenant = 'customer-123' AND entry_type = 'requester'
        GROUP BY queue_name
        ORDER BY waiting DESC
        """,
        [("user:456", 2)],
    ),
    "pending tasks per task group": (
        "SELECT task_group, COUNT(*) as count FROM tasks GROUP BY task_group ORDER BY count DESC",
        [("emails", 4), ("reports", 2)],
    ),
    "stuck internal tasks": (
        """
        SELECT task_group, variant_type, COUNT(*) as count
        FROM tasks
        GROUP BY task_group, variant_type
        ORDER BY count DESC, task_group, variant_type
        """,
        [
            ("emails", "RequestTicket", 2), ("emails", "RunAttempt", 2), ("reports", "CheckRateLimit", 1),
            ("reports", "RunAttempt", 1),
        ],
    ),
    "counts of queues": (
        "SELECT queue_name, holders, requesters, max_concurrency, limit_type FROM queue_counts",
        [("api", 1, 0, 3, "floating_concurrency"), ("user:456", 2, 2, 2, "concurrency")],
    ),
    "count of all": ("SELECT COUNT(*) as count FROM jobs", [(11,)]),
}  # fmt: skip


@pytest.mark.parametrize("example", COUNTS)
def test_an_example_of_the_guide_that_counts(world, example):
    sql, expected = COUNTS[example]

    found = [tuple(row.values()) for row in ask(world, sql)]

    assert (found if "ORDER BY" in sql else sorted(found)) == expected


def test_a_row_for_each_job_as_the_guide_counts_them_by_id(world):
    found = ask(world, "SELECT id, status_kind, COUNT(*) as count FROM jobs GROUP BY id, status_kind")

    assert sorted(names(found)) == sorted(["later", *LISTED])
    assert {1} == {row["count"] for row in found}


def test_all_holders_and_requesters_of_a_queue(world):
    sql = """
        SELECT queue_name, entry_type, task_id, job_id, timestamp_ms
        FROM queues
        WHERE tenant = 'customer-123' AND queue_name = 'user:456'
    """

    found = ask(world, sql)

    assert sorted((row["entry_type"], row["job_id"]) for row in found) == [
        ("holder", "running-1"), ("holder", "running-2"), ("requester", "blocked-1"), ("requester", "blocked-2"),
    ]  # fmt: skip
    (held,) = [row for row in found if row["job_id"] == "running-1"]
    attempt = world.attempts["running-1"]
    assert stored.task_id(attempt.seq, attempt.fence) == held["task_id"]
    assert attempt.started // MILLISECOND == held["timestamp_ms"]


def test_tasks_of_a_group_within_a_time_window(world):
    now = world.clock.now() // MILLISECOND
    sql = f"""
        SELECT job_id, start_time_ms, priority, variant_type
        FROM tasks
        WHERE task_group = 'emails'
          AND start_time_ms >= {now}
          AND start_time_ms <= {now + 120_000}
        ORDER BY start_time_ms
    """

    assert {"blocked-1", "blocked-2", "retries"} == set(names(ask(world, sql), "job_id"))


def test_full_details_of_a_job_by_id(world):
    (row,) = ask(world, "SELECT *\nFROM jobs\nWHERE tenant = 'customer-123' AND id = 'blocked-1'")

    now = world.clock.now() // MILLISECOND
    assert row == {
        "shard_id": stored.SHARD, "tenant": "customer-123", "id": "blocked-1", "priority": 5, "enqueue_time_ms": now,
        "payload": '{"of":"blocked-1"}', "status_kind": "Waiting", "status_changed_at_ms": now,
        "task_group": "emails", "current_attempt": 1, "next_attempt_starts_after_ms": now,
        "metadata": {"env": "production", "region": "us-west"},
        "limits": '[{"limit_type":"concurrency","key":"user:456","value":2}]',
    }  # fmt: skip


def test_binds_as_the_guide_passes_them(world):
    sql = "SELECT id, priority FROM jobs WHERE tenant = $1 AND priority >= $2 ORDER BY priority ASC LIMIT 25"

    found = ask(world, sql, "customer-123", 20)

    assert [20, *[50] * 7, 90] == names(found, "priority")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM jobs WHERE tenant = 'other'",
        "SELECT id FROM jobs WHERE tenant = 'other' OR id = 'secret'",
        "SELECT id FROM jobs WHERE id = 'secret'",
        "SELECT id FROM jobs WHERE id IN ('secret', 'none')",
        "SELECT job_id FROM tasks WHERE job_id = 'secret'",
        "SELECT job_id FROM queues WHERE job_id = 'secret'",
        "SELECT cnt FROM tenant_counts WHERE tenant <> 'customer-123'",
        "SELECT holders FROM queue_counts WHERE tenant LIKE 'oth%'",
        "SELECT id FROM jobs WHERE payload LIKE '%secret%'",
    ],
)
def test_nothing_of_another_tenant_is_seen(world, sql):
    assert [] == ask(world, sql)


def test_a_client_without_a_tenant_sees_the_jobs_of_none(world):
    put(world, "own", tenant="")

    assert [{"id": "own", "tenant": "-"}] == ask(world, "SELECT id, tenant FROM jobs", tenant="")


def test_ids_and_keys_that_no_store_could_have_are_found_nowhere(world):
    for sql in (
        "SELECT id FROM jobs WHERE id = $1",
        "SELECT holders FROM queue_counts WHERE queue_name = $1",
    ):
        assert [] == ask(world, sql, "a\0b")


def test_a_query_that_takes_too_long_says_how_to_narrow_it(world):
    with pytest.raises(
        InvalidError, match=r"took longer than 1e-06 s; to narrow it, name ids or a status_kind"
    ):
        run_query("SELECT COUNT(*) FROM jobs", (), TENANT, world.engine, span=1)
