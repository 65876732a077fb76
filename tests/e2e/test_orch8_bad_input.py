"""Bad requests: 4xx, an error that names the field, and nothing stored."""

import pytest

from tests.support.orch8 import Desk, step
from tests.support.stores import server_on_sqlite

SEQUENCE = {"name": "other", "tenant_id": "acme", "blocks": [step("a", "noop")]}
START = {"sequence_name": "s", "tenant_id": "acme"}
LIMIT = {"tenant_id": "acme", "resource_key": "k", "max_count": 1, "window_seconds": 60}
CRON = {"tenant_id": "acme", "sequence_name": "s", "cron_expr": "* * * * *"}
POLL = {"handler_name": "h", "worker_id": "w"}


def deep(count):
    block = step("last", "noop")
    for n in range(count):
        block = {"id": f"b{n}", "type": "cancellation_scope", "blocks": [block]}
    return block


BAD = [
    ("/sequences", {**SEQUENCE, "name": 5}, 400, "name"),
    ("/sequences", {**SEQUENCE, "blocks": []}, 400, "blocks"),
    ("/sequences", {"tenant_id": "acme", "blocks": [step("a", "noop")]}, 400, "name"),
    ("/sequences", {**SEQUENCE, "blocks": [{"id": "a", "type": "step"}]}, 400, "blocks[0].handler"),
    ("/sequences", {**SEQUENCE, "blocks": [step("a", "noop"), step("a", "noop")]}, 400, "blocks[1].id"),
    ("/sequences", {**SEQUENCE, "blocks": [step("a", "noop", retry={"max_attempts": 0})]}, 400,
     "blocks[0].retry.max_attempts"),
    ("/sequences", {**SEQUENCE, "version": "one"}, 400, "version"),
    ("/sequences", {**SEQUENCE, "tenant_id": ""}, 400, "tenant_id"),
    ("/sequences", {**SEQUENCE, "id": 7}, 400, "id"),
    ("/sequences", {**SEQUENCE, "blocks": [step(f"s{n}", "noop") for n in range(5_001)]}, 400, "blocks"),
    ("/sequences", {**SEQUENCE, "blocks": [deep(40)]}, 400, "body"),
    ("/sequences", {**SEQUENCE, "input_schema": "x" * 2_100_000}, 413, "sequence"),
    ("/sequences", {**SEQUENCE, "blocks": [step("a", "noop", params={"x": "{{data.x | '" + "\\'" * 40_000})]}, 400,
     "blocks[0].params.x"),
    ("/instances", {"tenant_id": "acme"}, 400, "sequence_name"),
    ("/instances", {**START, "sequence_id": "x"}, 400, "sequence_name"),
    ("/instances", {**START, "sequence_name": "unknown"}, 404, None),
    ("/instances", {**START, "version": 9}, 404, None),
    ("/instances", {**START, "sequence_name": ""}, 400, "sequence_name"),
    ("/instances", {**START, "sequence_name": "a\0b"}, 400, "sequence_name"),
    ("/instances", {"sequence_id": "a\0b", "tenant_id": "acme"}, 400, "sequence_id"),
    ("/instances", {**START, "namespace": "a\0b"}, 400, "namespace"),
    ("/instances", {**START, "metadata": {"x": "y" * 262_200}}, 413, "metadata"),
    ("/instances", {**START, "idempotency_key": "i", "idempotency_window": ""}, 400, "idempotency_window"),
    ("/instances", {**START, "namespace": "elsewhere"}, 404, None),
    ("/instances", {"sequence_id": "unknown", "tenant_id": "acme"}, 404, None),
    ("/instances", {**START, "tenant_id": "other"}, 404, None),
    ("/instances", {**START, "tenant_id": 5}, 400, "tenant_id"),
    ("/instances", {**START, "context": []}, 400, "context"),
    ("/instances", {**START, "context": {"x": "y" * 262_200}}, 413, "context"),
    ("/instances", {**START, "concurrency_key": ""}, 400, "concurrency_key"),
    ("/instances", {**START, "concurrency_key": "a\nb"}, 400, "concurrency_key"),
    ("/instances", {**START, "concurrency_key": "x" * 2_000}, 400, "concurrency_key"),
    ("/instances", {**START, "concurrency_key": "c", "max_concurrency": 0}, 400, "max_concurrency"),
    ("/instances", {**START, "concurrency_key": "c", "max_concurrency": 1.5}, 400, "max_concurrency"),
    ("/instances", {**START, "max_concurrency": 2}, 400, "max_concurrency"),
    ("/instances", {**START, "idempotency_key": ""}, 400, "idempotency_key"),
    ("/instances", {**START, "idempotency_key": "i", "idempotency_window": "soon"}, 400, "idempotency_window"),
    ("/instances", {**START, "idempotency_window": "1h"}, 400, "idempotency_window"),
    ("/instances", {**START, "priority": "urgent"}, 400, "priority"),
    ("/instances", {**START, "priority": 1_000}, 400, "priority"),
    ("/instances", {**START, "timezone": "Mars/Phobos"}, 400, "timezone"),
    ("/instances", {**START, "next_fire_at": "tomorrow"}, 400, "next_fire_at"),
    ("/instances", {**START, "concurency_key": "typo"}, 400, "body"),
    ("/instances/batch", {"instances": [START, {**START, "idempotency_key": ""}]}, 400,
     "instances[1].idempotency_key"),
    ("/instances/batch", {"instances": [START] * 10_001}, 400, "instances"),
    ("/instances/batch", {"instances": [START, {**START, "sequence_name": "unknown"}]}, 404, None),
    ("/instances/unknown/cancel", None, 404, None),
    ("/instances/unknown/signals", {"signal_type": "pause"}, 404, None),
    ("/instances/unknown/signals", {"signal_type": "dance"}, 400, "signal_type"),
    ("/rate-limits", {**LIMIT, "resource_key": ""}, 400, "resource_key"),
    ("/rate-limits", {**LIMIT, "resource_key": None}, 400, "resource_key"),
    ("/rate-limits", {**LIMIT, "max_count": -1}, 400, "max_count"),
    ("/rate-limits", {**LIMIT, "max_count": True}, 400, "max_count"),
    ("/rate-limits", {**LIMIT, "window_seconds": 0}, 400, "window_seconds"),
    ("/rate-limits", {**LIMIT, "window_seconds": 0.5}, 400, "window_seconds"),
    ("/rate-limits", {**LIMIT, "tenant_id": ""}, 400, "tenant_id"),
    ("/cron", {**CRON, "cron_expr": "whenever"}, 400, "cron_expr"),
    ("/cron", {**CRON, "version": 10**30}, 400, "version"),
    ("/cron", {**CRON, "overlap_policy": "buffer_one"}, 400, "overlap_policy"),
    ("/cron", {**CRON, "sequence_name": "unknown"}, 404, None),
    ("/workers/tasks/poll", {**POLL, "limit": 0}, 400, "limit"),
    ("/workers/tasks/poll", {"worker_id": "w"}, 400, "handler_name"),
    ("/workers/tasks/poll/queue", POLL, 400, "queue_name"),
    ("/workers/tasks/unknown/complete", {"worker_id": "w"}, 404, None),
]  # fmt: skip


@server_on_sqlite  # refused before any store is asked
@pytest.mark.parametrize(
    ("path", "body", "status", "field"), BAD, ids=[f"{n}-{case[0]}-{case[3]}" for n, case in enumerate(BAD)]
)
def test_a_bad_request_is_refused_and_stores_nothing(server, path, body, status, field):
    desk = Desk(server)
    desk.put("s", step("a", "noop"))

    answer = server.post(path, body)

    assert status == answer.status, answer.body
    assert isinstance(answer["error"], str)
    assert field == answer.body.get("field")
    if field:
        assert field in answer["error"]
    assert 1 == len(desk.get("/sequences")["items"])
    assert 0 == desk.get("/instances")["total"]
    assert ([], []) == (desk.get("/rate-limits"), desk.get("/cron"))


def test_a_version_that_is_taken_is_a_conflict(server):
    desk = Desk(server)
    desk.put("s", step("a", "noop"))

    desk.put("t", step("a", "noop"))
    answer = server.post(
        "/sequences", {"name": "s", "version": 1, "tenant_id": "acme", "blocks": [step("a", "noop")]}
    )

    assert (409, "conflict") == (answer.status, answer["code"])


def test_params_that_become_too_large_fail_the_step_before_any_start(server):
    desk = Desk(server)
    desk.put("s", {**step("a", "work", params={"x": ["{{context.x}}"] * 9}), "rate_limit_key": "k"})
    desk.limit("k", 1, 60)

    run = desk.start("s", context={"x": "y" * 200_000})

    assert ("failed", 0) == (run["status"], desk.get("/rate-limits/k")["current_count"])
    assert "at most" in run["error"]["message"]


def test_bodies_that_are_no_json_are_refused(server):
    for content in (b"", b"{", b"[]", b"\xff", b'"x"'):
        assert 400 == server.post("/instances", content).status
