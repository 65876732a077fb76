"""Row 18: pools of resources that warm up are taken from when steps start, on every store, over HTTP."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.support.orch8 import Desk, call, step
from tests.support.provider import providing

FROM = "{{pool.resource_key}}"


@pytest.fixture
def desk(server):
    return Desk(server)


@pytest.fixture
def provider():
    with providing() as one:
        yield one


def pool(desk, *resources, name="boxes", **more):
    """Make a pool of resources, each a key or a body; return its answers."""
    made = desk.post("/pools", {"tenant_id": desk.tenant, "name": name, **more})
    bodies = [each if isinstance(each, dict) else {"resource_key": each} for each in resources]
    return made, [desk.post(f"/pools/{name}/resources?tenant_id={desk.tenant}", body) for body in bodies]


def batch(desk, name, count, **more):
    one = {"sequence_name": name, "tenant_id": desk.tenant, **more}
    return desk.post("/instances/batch", {"instances": [one] * count})["ids"]


def senders(provider):
    return Counter(got.plain["from"] for got in provider.got)


def mail(provider, **more):
    return {**call("send", provider, body={"from": FROM, "to": "{{context.to}}"}), "pool": "boxes", **more}


def put(desk, path, body, status=200):
    answer = desk.server.put(f"{path}?tenant_id={desk.tenant}", body)
    assert status == answer.status, answer.body
    return answer.body


def test_a_step_takes_a_resource_when_it_starts_and_is_told_which(desk, server, provider):
    pool(desk, "a@acme.com", "b@acme.com", "c@acme.com")
    desk.put("s", mail(provider))

    batch(desk, "s", 9, context={"to": FROM})

    server.until(lambda: len(provider.got) == 9)
    assert dict.fromkeys(["a@acme.com", "b@acme.com", "c@acme.com"], 3) == senders(provider)
    assert {FROM} == {got.plain["to"] for got in provider.got}  # what a caller wrote is no template


def test_no_resource_is_taken_more_often_on_a_day_than_its_cap_and_the_rest_waits(desk, server, provider):
    pool(desk, {"resource_key": "a", "daily_cap": 2}, {"resource_key": "b", "daily_cap": 3})
    desk.put("s", mail(provider))

    ids = batch(desk, "s", 9)

    server.until(lambda: len(provider.got) >= 5)
    server.until(lambda: ["exhausted"] * 2 == [one["state"] for one in desk.get("/pools/boxes/resources")])
    assert {"a": 2, "b": 3} == senders(provider)
    server.until(lambda: {"completed": 5, "running": 4} == Counter(desk.status({"id": each}) for each in ids))
    first, _ = desk.get("/pools/boxes/resources")
    assert (2, 2) == (first["daily_usage"], first["effective_daily_cap"])
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    assert first["next_slot_at"] in (f"{tomorrow}T00:00:00Z", f"{tomorrow + timedelta(days=1)}T00:00:00Z")

    put(desk, "/pools/boxes/resources/a", {"daily_cap": 6})

    server.until(lambda: len(provider.got) == 9)
    assert {"a": 6, "b": 3} == senders(provider)


def test_a_resource_that_warms_up_has_the_cap_of_its_day_and_nought_is_nought(desk, server, provider):
    today = datetime.now(UTC).date()
    warm = {"daily_cap": 10, "warmup_days": 10, "warmup_start_cap": 0}
    _, (cold, half) = pool(
        desk,
        {"resource_key": "cold", **warm, "warmup_start": str(today + timedelta(days=1))},
        {"resource_key": "half", **warm, "warmup_start": str(today - timedelta(days=5))},
    )
    assert cold["effective_daily_cap"] == 0
    assert half["effective_daily_cap"] in (5, 6)  # if midnight is just over
    desk.put("s", mail(provider))

    batch(desk, "s", 9)

    server.until(lambda: len(provider.got) >= half["effective_daily_cap"])
    server.until(lambda: {"exhausted"} == {one["state"] for one in desk.get("/pools/boxes/resources")})
    assert {"half"} == set(senders(provider))
    assert len(provider.got) in (5, 6)


def test_weights_and_disabled_resources(desk, server, provider):
    pool(
        desk,
        {"resource_key": "heavy", "weight": 3},
        {"resource_key": "light"},
        {"resource_key": "off", "enabled": False},
        strategy="weighted",
    )
    desk.put("s", mail(provider))

    batch(desk, "s", 12)

    server.until(lambda: len(provider.got) == 12)
    assert {"heavy": 9, "light": 3} == senders(provider)


def test_the_rate_of_a_resource_is_that_of_its_key(desk, server, provider):
    pool(desk, "a", "b")
    desk.limit("a", 1, 3_600)
    desk.put("s", mail(provider))

    batch(desk, "s", 6)

    server.until(lambda: len(provider.got) == 6)
    assert {"a": 1, "b": 5} == senders(provider)


def test_too_many_requests_shut_the_resource_that_was_taken_and_no_other(desk, server):
    with providing((429, {"Retry-After": "3600"}, b"")) as provider:
        pool(desk, "a", "b")
        desk.put("s", mail(provider))

        desk.ended(desk.start("s"))
        ids = batch(desk, "s", 4)
        desk.ended(*({"id": each} for each in ids))

        assert [1, 5] == sorted(senders(provider).values())


def test_workers_are_told_the_resource_and_handlers_inside_the_engine_take_one(desk, server):
    pool(desk, {"resource_key": "a", "daily_cap": 1}, {"resource_key": "b", "daily_cap": 1})
    desk.put("inside", step("t", "transform", pool="boxes", params={"by": FROM}))
    desk.put("outside", step("w", "work", pool="boxes", params={"by": [f"<{FROM}>"]}))

    first = desk.start("inside")
    desk.ended(first)
    second = desk.start("outside")
    (task,) = desk.poll("work", wait_ms=5_000)

    (output,) = desk.get(f"/instances/{first['id']}/outputs")
    used = {output["output"]["by"], task["params"]["by"][0].strip("<>")}
    assert {"a", "b"} == used
    desk.complete(task)
    desk.ended(second)


def test_a_rate_limit_holds_for_handlers_inside_the_engine(desk, server):
    desk.limit("k", 2, 3_600)
    desk.put("s", step("n", "noop", rate_limit_key="k"))

    ids = batch(desk, "s", 5)

    server.until(lambda: [desk.status({"id": each}) for each in ids].count("completed") == 2)
    (limit,) = desk.get("/rate-limits")
    assert (2, 3) == (limit["current_count"], limit["waiting"])
    desk.delete("/rate-limits/k")
    desk.ended(*({"id": each} for each in ids))


def test_pools_are_listed_changed_and_deleted_and_steps_wait_for_one(desk, server, provider):
    made, (resource,) = pool(
        desk, {"resource_key": "a/b c@d", "name": "A box"}, name="boxes", strategy="random"
    )
    assert ("boxes", "acme", "random") == (made["id"], made["tenant_id"], made["strategy"])
    assert ("boxes", "A box", 1, True, 0) == tuple(
        resource[field] for field in ("pool_id", "name", "weight", "enabled", "daily_cap")
    )
    assert 1 == desk.get("/pools/boxes")["current_size"]
    day = str(date(2026, 6, 1))
    changes = {
        "weight": 2,
        "daily_cap": 9,
        "warmup_start": day,
        "warmup_days": 3,
        "timezone": "Europe/Berlin",
    }
    changed = put(desk, "/pools/boxes/resources/a/b%20c@d", changes)
    assert changes == {field: changed[field] for field in changes}
    assert resource["created_at"] == changed["created_at"]
    assert (
        0
        == put(desk, "/pools/boxes/resources/a/b%20c@d", {"daily_cap": 0, "warmup_start": None})["daily_cap"]
    )
    assert [] == Desk(server, "other").get("/pools")
    Desk(server, "other").get("/pools/boxes", status=404)
    Desk(server, "other").get("/pools/boxes/resources", status=404)

    desk.delete("/pools/boxes/resources/a/b%20c@d")
    desk.delete("/pools/boxes/resources/a/b%20c@d", status=404)
    desk.delete("/pools/boxes")
    desk.get("/pools/boxes", status=404)
    desk.put("s", mail(provider))
    waiting = desk.start("s")
    assert "running" == desk.status(waiting)
    pool(desk, "z")

    desk.ended(waiting)
    assert {"z": 1} == senders(provider)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"weight": 0}, "weight"),
        ({"weight": "x"}, "weight"),
        ({"resource_key": ""}, "resource_key"),
        ({"name": "x" * 256}, "name"),
        ({"daily_cap": -1}, "daily_cap"),
        ({"timezone": "Mars"}, "timezone"),
        ({"daily_cap": 5, "warmup_start": "soon"}, "warmup_start"),
        (
            {"daily_cap": 5, "warmup_start": "2026-06-01", "warmup_days": 9, "warmup_start_cap": 6},
            "warmup_start_cap",
        ),
        ({"warmup_start": "2026-06-01", "warmup_days": 9}, "daily_cap"),
    ],
)
def test_what_is_no_resource_is_refused_and_not_stored(desk, server, body, field):
    pool(desk)
    answer = server.post("/pools/boxes/resources?tenant_id=acme", {"resource_key": "a", **body})

    assert (400, field) == (answer.status, answer.body["field"])
    assert [] == desk.get("/pools/boxes/resources")


def test_what_is_no_pool_is_refused(desk, server):
    for body, field in [({"name": ""}, "name"), ({"name": "p", "strategy": "best"}, "strategy")]:
        answer = server.post("/pools", {"tenant_id": "acme", **body})
        assert (400, field) == (answer.status, answer.body["field"])
    desk.post("/pools/none/resources?tenant_id=acme", {"resource_key": "a"}, status=404)
    put(desk, "/pools/none/resources/a", {"weight": 2}, status=404)


def test_a_warm_up_without_its_days_is_refused_and_not_forgotten(desk, server):
    desk.post("/pools", {"tenant_id": "acme", "name": "boxes"})
    body = {"resource_key": "a", "daily_cap": 10, "warmup_start": "2026-06-01"}

    answer = server.post("/pools/boxes/resources?tenant_id=acme", body)

    assert (400, "warmup_days") == (answer.status, answer["field"])
    assert [] == desk.get("/pools/boxes/resources")
