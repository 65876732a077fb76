"""What can be done to instances over HTTP: signals, approvals, pause, retry, events, schedules, and worker tasks."""

import pytest

from tests.support.orch8 import Desk, step
from tests.support.provider import providing
from tests.support.soak import often

QUESTION = {"prompt": "send it?", "choices": [{"label": "Yes", "value": "yes"}, "no"], "timeout": "1h"}


@pytest.fixture
def desk(server):
    return Desk(server)


def act(desk, run, action, **more):
    return desk.post(f"/instances/{run['id']}/{action}", status=200, **more)


def signal(desk, run, kind, payload=None, status=201):
    return desk.post(f"/instances/{run['id']}/signals", {"signal_type": kind, "payload": payload}, status)


def test_a_person_is_asked_and_answers(desk):
    desk.put("s", step("ask", "human_review", params=QUESTION), step("b", "noop"))
    run = desk.start("s", metadata={"for": "ann"})

    (asked,) = desk.get("/approvals")["items"]
    signal(desk, run, {"custom": "human_input:ask"}, {"value": "perhaps"})
    assert 1 == desk.get("/approvals")["total"]
    signal(desk, run, {"custom": "human_input:ask"}, {"value": "yes"})

    assert (run["id"], "ask", "send it?", {"for": "ann"}) == tuple(
        asked[name] for name in ("instance_id", "block_id", "prompt", "metadata")
    )
    assert [{"label": "Yes", "value": "yes"}, {"label": "no", "value": "no"}] == asked["choices"]
    assert ("completed", "yes") == (desk.status(run), desk.look(run)["context"]["data"]["ask"])
    assert {"items": [], "total": 0} == desk.get("/approvals")


def test_a_signal_that_comes_early_is_not_lost(desk):
    desk.put("s", step("a", "work"), step("b", "wait_for_event", params={"event": "paid"}))
    run = desk.start("s")

    signal(desk, run, {"custom": "event:paid"}, {"amount": 5})
    desk.complete(*desk.poll("work"))

    assert "completed" == desk.status(run)
    assert {"amount": 5} == desk.get(f"/instances/{run['id']}/outputs")[-1]["output"]


def test_one_instance_tells_others(desk):
    desk.put("waits", step("a", "wait_for_event", params={"event": "go"}))
    desk.put("tells", step("a", "emit_event", params={"event": "go", "payload": {"n": 1}}))
    desk.put("sends", step("a", "send_signal", params={"instance_id": "{{context.to}}", "name": "event:go"}))
    waiting = [desk.start("waits") for _ in range(3)]

    desk.ended(desk.start("tells"))
    desk.ended(*waiting)
    other = desk.start("waits")
    desk.ended(desk.start("sends", context={"to": other["id"]}))

    desk.ended(other)


def test_a_paused_instance_begins_nothing_until_it_is_resumed(desk, server):
    desk.put("s", step("a", "work"))
    run = desk.start("s")

    assert "paused" == act(desk, run, "pause")["status"]
    assert [] == desk.poll("work")
    signal(desk, run, "resume")

    desk.complete(*server.until(lambda: desk.poll("work")))
    assert "completed" == desk.status(run)
    signal(desk, run, "pause", status=400)


def test_the_state_may_be_patched(desk, server):
    desk.put("s", step("a", "work"))
    run = desk.start("s")
    path = f"/instances/{run['id']}/state?tenant_id=acme"

    for state, status in (("paused", "paused"), ("running", "running"), ("cancelled", "cancelled")):
        answer = server.call("PATCH", path, {"state": state})
        assert (200, status) == (answer.status, answer["status"])
    assert 400 == server.call("PATCH", path, {"state": "running"}).status


def test_a_failed_instance_goes_on_from_the_step_that_failed(desk):
    desk.put("s", step("a", "first"), step("b", "second"))
    run = desk.start("s")
    desk.complete(*desk.poll("first"))
    (task,) = desk.poll("second")
    desk.post(f"/workers/tasks/{task['id']}/fail", {"worker_id": "w", "message": "no"}, 200)
    assert "failed" == desk.status(run)
    assert [run["id"]] == [each["id"] for each in desk.get("/instances/dlq")]

    act(desk, run, "retry")

    assert [] == desk.poll("first")
    desk.complete(*desk.poll("second"))
    assert "completed" == desk.status(run)


def test_what_follows_sees_a_context_that_was_replaced(desk, server):
    desk.put("s", step("a", "work"), step("b", "transform", params={"x": "{{context.x}}"}))
    run = desk.start("s", context={"x": 1})

    signal(desk, run, "update_context", {"x": 2})
    desk.complete(*desk.poll("work"))

    assert {"x": 2} == desk.get(f"/instances/{run['id']}/outputs")[-1]["output"]


def test_a_concurrency_key_and_a_rate_resource_of_the_same_name_do_not_meet(desk, server):
    with providing() as provider:
        for name in ("same", "instance:same"):
            desk.limit(name, 0, 60)
        desk.put("s", step("a", "noop"))
        desk.ended(*(desk.start("s", concurrency_key=key) for key in ("same", "instance:same")))
        url = {"url": provider.url}
        desk.put("t", step("a", "work"), {**step("b", "http_request", params=url), "rate_limit_key": "c"})
        desk.start("t", concurrency_key="c")
        assert "deferred" == desk.start("t", concurrency_key="c")["status"]
        desk.complete(*desk.poll("work"))
        server.until(lambda: provider.got)


def test_a_task_is_reported_by_the_worker_that_holds_it(desk, server):
    desk.put("s", step("a", "work", params={"n": 1}, queue_name="fast"))
    run = desk.start("s", context={"x": 1})
    body = {"handler_name": "work", "worker_id": "one", "queue_name": "fast"}

    assert [] == desk.poll("work")
    (task,) = desk.post("/workers/tasks/poll/queue", body, 200)
    path = f"/workers/tasks/{task['id']}"

    assert (run["id"], "a", {"n": 1}, {"x": 1}, "fast", 1) == (
        task["instance_id"], task["block_id"], task["params"], task["context"]["data"], task["queue_name"],
        task["attempt"],
    )  # fmt: skip
    assert [task["id"]] == [each["id"] for each in desk.get("/workers/tasks?state=claimed")]
    beat = desk.post(f"{path}/heartbeat", {"worker_id": "one", "checkpoint_seq": 4}, 200)
    assert {"checkpoint_seq": 4, "cancel_requested": False} == beat
    desk.post(f"{path}/complete", {"worker_id": "two"}, 409)
    desk.post(f"{path}/complete", {"worker_id": "one", "claim_epoch": task["claim_epoch"] + 1}, 409)
    desk.post(f"{path}/complete", {"worker_id": "one", "claim_epoch": task["claim_epoch"], "output": 5}, 200)
    desk.post(f"{path}/complete", {"worker_id": "one"}, 409)
    assert "completed" == desk.status(run)


def test_schedules_are_added_listed_and_deleted(desk):
    desk.put("s", step("a", "work"))

    made = desk.post(
        "/cron",
        {
            "tenant_id": "acme", "sequence_name": "s", "cron_expr": "0 9 * * 1", "timezone": "Europe/Berlin",
            "overlap_policy": "skip", "context": {"x": 1},
        },
    )  # fmt: skip

    assert made == desk.get(f"/cron/{made['id']}")
    assert [made] == desk.get("/cron")
    assert ("s", "skip", {"x": 1}) == (made["sequence_name"], made["overlap_policy"], made["context"])
    desk.delete(f"/cron/{made['id']}")
    assert [] == desk.get("/cron")
    desk.get(f"/cron/{made['id']}", status=404)


def test_schedules_of_jobs_take_no_place_in_a_page_of_schedules(desk, server):
    desk.put("s", step("a", "work"))
    for n in range(3):
        job = {"name": f"0-{n}", "expression": "0 9 * * 1", "type": "a.b"}
        assert 201 == server.post("/ojs/v1/cron", job, X_OJS_Tenant="acme").status
    made = desk.post("/cron", {"tenant_id": "acme", "sequence_name": "s", "cron_expr": "0 9 * * 1"})

    assert [made] == desk.get("/cron?limit=1")


def test_approvals_of_a_namespace(desk):
    ask = step("ask", "human_review", params={"prompt": "send?"})
    desk.put("s", ask)
    desk.put("s", ask, namespace="other")
    desk.start("s")
    run = desk.start("s", namespace="other")

    found = desk.get("/approvals?namespace=other")

    assert ([run["id"]], 1) == ([each["instance_id"] for each in found["items"]], found["total"])
    assert 2 == desk.get("/approvals")["total"]


def test_a_poll_that_names_another_tenant_than_its_header_is_forbidden(desk, server):
    body = {"handler_name": "work", "worker_id": "w", "tenant_id": "acme"}

    assert 403 == server.post("/workers/tasks/poll", body, X_Tenant_Id="other").status
    assert 200 == server.post("/workers/tasks/poll", body, X_Tenant_Id="acme").status


def test_an_id_of_any_text_is_found_at_its_location(desk, server):
    body = {"id": "a b/\u65e5", "name": "s", "tenant_id": "acme", "blocks": [step("a", "noop")]}

    where = server.post("/sequences", body).headers["location"]

    assert "a b/\u65e5" == desk.get(where)["id"]


def test_sequences_have_versions_that_are_deprecated_and_deleted(desk):
    first, second = (desk.put("s", step("a", "work"), version=n) for n in (1, 2))

    desk.post(f"/sequences/{second['id']}/deprecate", status=204)
    run = desk.start("s")
    desk.delete(f"/sequences/{first['id']}", status=409)
    desk.delete(f"/sequences/{second['id']}")

    assert 1 == run["version"] == desk.get("/sequences/by-name?name=s")["version"]
    assert [first["id"]] == [each["id"] for each in desk.get("/sequences/versions?name=s")]
    desk.get(f"/sequences/{second['id']}", status=404)


def test_the_same_is_offered_below_the_path_of_its_version(desk):
    desk.post("/api/v1/sequences", {"name": "s", "tenant_id": "acme", "blocks": [step("a", "noop")]})
    run = desk.post("/api/v1/instances", {"sequence_name": "s", "tenant_id": "acme"})

    assert "completed" == desk.get(f"/api/v1/instances/{run['id']}")["status"]
    assert b"orch8_queue_depth" in desk.server.get("/api/v1/metrics").body


def test_thousands_of_instances_are_one_request(desk):
    count = often(1_000, 10_000)
    desk.put("s", step("a", "noop"))
    one = {"sequence_name": "s", "tenant_id": "acme", "context": {}}

    answer = desk.post("/api/v1/instances/batch", {"instances": [one] * count})

    assert count == answer["created"] == len(set(answer["ids"]))
    assert count == desk.get("/instances?state=completed&limit=1")["total"]
