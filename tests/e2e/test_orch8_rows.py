"""Nineteen places where an engine may do otherwise than its page says: what happens here, on every store, over HTTP.

Row 18, pools of resources, is in `test_orch8_pools`.
"""

import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.orch8 import Desk, call, step
from tests.support.provider import most_in_window, providing
from tests.support.timing import at_once

JITTER = 0.5  # seconds that the way to the provider may take longer for one request than for another


@pytest.fixture
def desk(server):
    return Desk(server)


@pytest.fixture
def provider():
    with providing() as one:
        yield one


def batch(desk, name, count, **more):
    one = {"sequence_name": name, "tenant_id": desk.tenant, **more}
    return desk.post("/instances/batch", {"instances": [one] * count})["ids"]


def test_row_1_rate_limits_are_set_listed_and_deleted_over_http(desk):
    for key in ("a/b c@d", "/leading//slashes/", "x" * 200, "100% {{sure}}?#ü"):
        assert key == desk.limit(key, 1, 1)["resource_key"]
    quoted = ["a/b%20c@d", "/leading//slashes/", "x" * 200, "100%25%20%7B%7Bsure%7D%7D%3F%23%C3%BC"]

    assert 4 == len(desk.get("/rate-limits"))
    for path in quoted:
        desk.get(f"/rate-limits/{path}")
        desk.delete(f"/rate-limits/{path}")
    assert [] == desk.get("/rate-limits")
    desk.delete("/rate-limits/unknown", status=404)


def test_row_2_no_window_wherever_it_begins_holds_more_than_the_limit(desk, server, provider):
    """A window that opens with the first start would let nineteen start around its end."""
    desk.put("s", call("a", provider, key="k"))
    desk.limit("k", 10, 2)

    batch(desk, "s", 1)
    server.until(lambda: len(provider.got) == 1)
    time.sleep(1.4)
    batch(desk, "s", 29)

    server.until(lambda: len(provider.got) == 30)
    assert most_in_window(provider.times, 2 - JITTER) <= 10
    assert provider.times[-1] - provider.times[0] < 20  # it is also used: not one start for each window


def test_row_3_when_the_oldest_start_expires_one_slot_opens_and_not_all(desk, server, provider):
    desk.put("s", call("a", provider, key="k"))
    window = 6  # so long that the first start is still in it when the last jobs come
    desk.limit("k", 3, window)
    began = datetime.now(UTC)
    for n in range(3):
        desk.start("s")
        server.until(lambda n=n: len(provider.got) == n + 1)
        time.sleep(0.4)
    batch(desk, "s", 3)

    foretold = datetime.fromisoformat(desk.get("/rate-limits/k")["next_slot_at"])
    server.until(lambda: len(provider.got) == 6)

    first, later = provider.times[:3], provider.times[3:]
    assert all(at > before + window - JITTER for before, at in zip(first, later, strict=True))
    reached = datetime.now(UTC) - timedelta(seconds=time.monotonic() - first[0])
    assert began < foretold - timedelta(seconds=window) < reached + timedelta(seconds=0.1)


def test_row_4_the_key_of_a_rate_limit_is_a_template(desk, server, provider):
    desk.put("s", call("a", provider, key="notify:{{context.user}}"))
    desk.limit("notify:ann", 1, 3600)

    for user in ("ann", "ann", "bob", "bob"):
        desk.start("s", context={"user": user})

    server.until(lambda: len(provider.got) == 3)
    assert 1 == desk.get("/rate-limits/notify:ann")["waiting"]


@pytest.mark.parametrize("kind", ["parallel", "router", "loop", "try_catch", "for_each"])
def test_row_5_limits_and_delays_hold_inside_other_blocks(desk, server, provider, kind):
    inner = [{**call("a", provider, key="k"), "delay": "100ms"}]
    block = {
        "parallel": {"branches": [inner]},
        "router": {"routes": [{"condition": "true", "blocks": inner}]},
        "loop": {"body": inner, "max_iterations": 1},
        "try_catch": {"try_block": inner, "catch_block": []},
        "for_each": {"collection": [1], "body": inner},
    }[kind]
    desk.put("s", {"id": "outer", "type": kind, **block})
    desk.limit("k", 1, 3600)
    began = time.monotonic()

    batch(desk, "s", 2)

    server.until(lambda: provider.got and desk.get("/rate-limits/k")["waiting"] == 1)
    assert 1 == len(provider.got)
    assert provider.times[0] - began > 0.1


def test_row_6_a_worker_that_was_away_gets_no_burst_and_a_retry_is_counted(desk, server):
    desk.put(
        "s", {**step("a", "work", retry={"max_attempts": 3, "initial_backoff": 1}), "rate_limit_key": "k"}
    )
    desk.limit("k", 2, 3)
    batch(desk, "s", 6)
    time.sleep(3.1)

    tasks = desk.poll("work", limit=10)
    assert 2 == len(tasks)
    desk.post(
        f"/workers/tasks/{tasks[0]['id']}/fail", {"worker_id": "w", "message": "no", "retryable": True}, 200
    )

    assert [] == desk.poll("work", limit=10)
    assert 2 == desk.get("/rate-limits/k")["current_count"]
    assert 2 == len(server.until(lambda: desk.poll("work", limit=10)))


def test_row_7_to_raise_or_delete_a_limit_releases_at_once(desk, server, provider):
    desk.put("s", call("a", provider, key="k"))
    desk.limit("k", 1, 86_400)
    batch(desk, "s", 6)
    server.until(lambda: len(provider.got) == 1)

    desk.limit("k", 3, 86_400)
    server.until(lambda: len(provider.got) == 3)
    assert 3 == desk.get("/rate-limits/k")["waiting"]
    desk.delete("/rate-limits/k")
    began = time.monotonic()
    server.until(lambda: len(provider.got) == 6)

    assert time.monotonic() - began < 20


def test_row_8_max_concurrency_is_one_if_it_is_left_out(desk):
    desk.put("s", step("a", "work"))

    found = [desk.start("s", concurrency_key="c")["status"] for _ in range(5)]

    assert ["running"] + ["deferred"] * 4 == found


def test_row_9_a_key_of_one_tenant_is_not_that_of_another(server, provider):
    for tenant in ("acme", "other"):
        desk = Desk(server, tenant)
        desk.put("s", call("a", provider, key="k"), step("b", "work"))
        desk.limit("k", 1, 3600)
        assert "running" == desk.start("s", concurrency_key="c")["status"]

    server.until(lambda: len(provider.got) == 2)


@pytest.mark.parametrize("wait", ["worker", "person", "sleep", "pause", "rate"])
def test_row_10_an_instance_that_waits_keeps_its_slot(desk, server, wait):
    desk.limit("shut", 0, 60)
    block = {
        "worker": step("a", "work"),
        "person": step("a", "human_review", params={"prompt": "well?"}),
        "sleep": step("a", "sleep", params={"duration": "1h"}),
        "pause": step("a", "work"),
        "rate": {**step("a", "work"), "rate_limit_key": "shut"},
    }[wait]
    desk.put("s", block)
    first, second = (desk.start("s", concurrency_key="c") for _ in range(2))
    if wait == "pause":
        assert "paused" == desk.post(f"/instances/{first['id']}/pause", status=200)["status"]

    assert "deferred" == desk.status(second)
    desk.post(f"/instances/{first['id']}/cancel", status=200)
    assert ("cancelled", "running") == (desk.status(first), desk.status(second))


def test_row_11_a_deferred_instance_says_so_and_why(desk):
    desk.put("s", step("a", "work"))
    desk.start("s", concurrency_key="c")

    second = desk.start("s", concurrency_key="c")

    assert ("deferred", "scheduled", "concurrency_limit_reached") == (
        second["status"], second["state"], second["deferred_reason"],
    )  # fmt: skip
    assert [second["id"]] == [each["id"] for each in desk.get("/instances?state=deferred")["items"]]


def test_row_12_an_idempotency_key_lasts_as_long_as_its_window(desk, server):
    desk.put("s", step("a", "noop"))
    first = desk.start("s", idempotency_key="i", idempotency_window="4s")
    desk.ended(first)

    assert first["id"] == desk.start("s", idempotency_key="i")["id"]
    again = server.until(
        lambda: next(
            (each for each in [desk.start("s", idempotency_key="i")] if "deduplicated" not in each), None
        )
    )
    assert first["id"] != again["id"]
    assert again["id"] == desk.start("s", idempotency_key="i", idempotency_window="1ms")["id"]


def test_row_13_a_duplicate_is_a_201_with_the_whole_instance_also_within_a_batch(desk):
    desk.put("s", step("a", "work"))
    first = desk.start("s", idempotency_key="i", context={"n": 1})

    again = desk.start("s", idempotency_key="i", context={"n": 2})
    one = {"sequence_name": "s", "tenant_id": "acme"}
    many = [{**one, "idempotency_key": key} for key in ("i", "j", "j")] + [one, one]
    answer = desk.post("/instances/batch", {"instances": many})

    assert {**desk.look(first), "deduplicated": True} == again
    assert (5, 3, 2) == (answer["count"], answer["created"], answer["deduplicated"])
    assert first["id"] == answer["ids"][0]
    assert answer["ids"][1] == answer["ids"][2]
    assert 4 == desk.get("/instances")["total"]


def test_row_13_sixteen_requests_at_once_make_one_instance(desk, server):
    desk.put("s", step("a", "work"))

    found = at_once(16, lambda _: desk.start("s", idempotency_key="i"))

    assert 1 == len({each["id"] for each in found})
    assert 1 == sum("deduplicated" not in each for each in found)


def test_row_14_a_sequence_is_named_by_name_and_version_or_by_its_id(desk):
    stored = desk.put("s", step("a", "work"), id="0f3c2c4e-1111-4222-8333-444455556666", namespace="default")
    desk.put("s", step("b", "work"), version=2)

    by_name = desk.start("s", version=1)
    by_id = desk.post("/instances", {"sequence_id": stored["id"], "tenant_id": "acme"})

    assert stored["id"] == by_name["sequence_id"] == by_id["sequence_id"]
    assert 2 == desk.start("s")["version"]


def test_row_15_and_16_a_flat_context_is_kept_and_templates_find_it(desk, provider):
    desk.put(
        "s", call("a", provider, body={"to": "{{context.recipient}}", "same": "{{context.data.recipient}}"})
    )

    run = desk.start("s", context={"recipient": "ann"})

    desk.ended(run)
    assert {"to": "ann", "same": "ann"} == provider.got[0].plain
    assert {"recipient": "ann"} == desk.look(run)["context"]["data"]


def test_row_16_an_error_in_a_template_fails_the_step_and_spends_no_start(desk, server, provider):
    desk.put("s", call("a", provider, key="k", body={"x": "{{nonsense.x}}"}))
    desk.limit("k", 1, 3600)

    run = desk.start("s")

    assert "failed" == run["status"]
    assert "TemplateError" == run["error"]["kind"]
    assert (0, []) == (desk.get("/rate-limits/k")["current_count"], provider.got)
    assert [run["id"]] == [each["id"] for each in desk.get("/instances/dlq")]


def test_row_17_an_object_is_sent_as_json_and_a_text_as_it_is(desk, provider):
    desk.put(
        "s",
        call("a", provider, body={"n": 1}, headers={"X-Mine": "yes"}),
        call("b", provider, body="plain"),
        call("c", provider),
    )

    desk.ended(desk.start("s"))

    one, two, three = provider.got
    assert ({"n": 1}, "yes") == (one.plain, one.headers["X-Mine"])
    assert (b"plain", b"") == (two.body, three.body)


def test_row_19_many_blocked_instances_of_one_key_stall_no_other_tenant(desk, server, provider):
    desk.put("s", step("a", "work"))
    batch(desk, "s", 500, concurrency_key="c")
    other = Desk(server, "other")
    other.put("s", call("a", provider))

    run = other.start("s", concurrency_key="c")

    other.ended(run)
    assert 499 == desk.get("/instances?state=deferred&limit=1")["total"]
