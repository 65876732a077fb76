"""Workflows over HTTP."""

import pytest

ONCE = {"retry": {"max_attempts": 1}}


def job(name, **options):
    return {"type": f"work.{name}", "args": [], "options": {"queue": "flow", **options}}


def do(server, *, result=None, fail=False, queue="flow"):
    """Fetch one job and end it; return it."""
    (one,) = server.fetch(queue)
    if fail:
        server.nack(one, {"retryable": False})
    else:
        assert 200 == server.post("/ojs/v1/workers/ack", {"job_id": one["id"], "result": result}).status
    return one


def test_a_chain_goes_step_by_step_and_hands_on_results(server):
    started = server.post("/ojs/v1/workflows", {"type": "chain", "name": "c", "steps": [job("a"), job("b")]})

    assert 201 == started.status
    assert started["workflow"] == {name: value for name, value in started.body.items() if name != "workflow"}
    assert ("chain", "running", 2, 0) == tuple(
        started[n] for n in ("type", "state", "steps_total", "steps_completed")
    )
    first = do(server, result={"n": 42})
    assert "parent_results" not in first
    second = do(server)
    assert [{"n": 42}] == second["parent_results"]
    ended = server.get(f"/ojs/v1/workflows/{started['id']}")["workflow"]
    assert ("completed", 2) == (ended["state"], ended["steps_completed"])
    assert ["completed", "completed"] == [step["state"] for step in ended["steps"]]


def test_a_chain_stops_where_a_step_fails(server):
    started = server.post(
        "/ojs/v1/workflows", {"type": "chain", "steps": [job("a"), job("b", **ONCE), job("c")]}
    )
    do(server)
    do(server, fail=True)

    assert [] == server.fetch("flow")
    ended = server.get(f"/ojs/v1/workflows/{started['id']}")["workflow"]
    assert ("failed", 1, 3) == (ended["state"], ended["steps_completed"], ended["steps_total"])


def test_the_others_of_a_group_go_on(server):
    started = server.post("/ojs/v1/workflows", {"type": "group", "jobs": [job("a", **ONCE), job("b")]})
    do(server, fail=True)
    assert "running" == server.get(f"/ojs/v1/workflows/{started['id']}")["state"]
    do(server)

    ended = server.get(f"/ojs/v1/workflows/{started['id']}")
    assert ("failed", 2, 1) == (ended["state"], ended["jobs_total"], ended["jobs_completed"])


@pytest.mark.parametrize(("fail", "told"), [(False, "success"), (True, "failure")])
def test_a_batch_tells_how_it_ended(server, fail, told):
    callbacks = {
        f"on_{name}": {"type": f"told.{name}", "args": [], "options": {"queue": "told"}}
        for name in ("success", "failure", "complete")
    }
    body = {"type": "batch", "jobs": [job("a"), job("b", **ONCE)], "callbacks": callbacks}
    started = server.post("/ojs/v1/workflows", body)
    do(server)
    assert [] == server.fetch("told")
    do(server, fail=fail)

    assert {f"told.{told}", "told.complete"} == {one["type"] for one in server.fetch("told", count=9)}
    assert 2 == server.get(f"/ojs/v1/workflows/{started['id']}")["jobs_total"]


def test_steps_that_name_what_they_depend_on(server):
    steps = [
        {"id": "a", **job("a"), "depends_on": []},
        {"id": "b", **job("b"), "depends_on": ["a"]},
        {"id": "c", **job("c"), "depends_on": ["a"]},
        {"id": "d", **job("d"), "depends_on": ["b", "c"]},
        {"id": "done", **job("done", callback_type="on_complete"), "depends_on": []},
    ]
    started = server.post("/ojs/v1/workflows", {"name": "diamond", "steps": steps})
    assert (201, 4) == (started.status, started["workflow"]["steps_total"])

    for wanted in ("a", "b", "c", "d", "done"):
        assert f"work.{wanted}" == do(server, result=wanted)["type"]

    ended = server.get(f"/ojs/v1/workflows/{started['id']}")["workflow"]
    assert ("completed", 4) == (ended["state"], ended["steps_completed"])
    assert ["a", "b", "c", "d", "done"] == [step["id"] for step in ended["steps"]]
    assert [] == server.fetch("flow")


def test_results_come_in_the_order_of_the_dependencies(server):
    steps = [
        {"id": "a", **job("a")},
        {"id": "b", **job("b")},
        {"id": "c", **job("c"), "depends_on": ["b", "a"]},
    ]
    server.post("/ojs/v1/workflows", {"steps": steps})
    do(server, result="first")
    do(server, result="second")

    assert ["second", "first"] == do(server)["parent_results"]


def test_no_step_of_a_cancelled_workflow_starts(server):
    started = server.post("/ojs/v1/workflows", {"type": "chain", "steps": [job("a"), job("b")]})

    cancelled = server.delete(f"/ojs/v1/workflows/{started['id']}")

    assert (200, "cancelled") == (cancelled.status, cancelled["workflow"]["state"])
    assert [] == server.fetch("flow")
    assert 409 == server.delete(f"/ojs/v1/workflows/{started['id']}").status


def test_names_in_camel_case_are_understood_in_a_retry_policy(server):
    policy = {"retry": {"maxAttempts": 7, "initialInterval": "PT1S"}}
    server.post("/ojs/v1/workflows", {"type": "chain", "steps": [job("a", **policy)]})

    assert 7 == server.fetch("flow")[0]["max_attempts"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "steps"),
        ({"type": "group"}, "jobs"),
        ({"type": "ring", "steps": [job("a")]}, "type"),
        ({"type": "chain", "steps": []}, "steps"),
        ({"type": "chain", "steps": [job("a"), {"type": "x"}]}, "steps[1].args"),
        ({"type": "chain", "steps": ["a"]}, "steps[0]"),
        ({"type": "batch", "jobs": [job("a")], "callbacks": {"on_fire": job("b")}}, "callbacks"),
        (
            {"type": "batch", "jobs": [job("a")], "callbacks": {"on_success": {"args": []}}},
            "callbacks.on_success.type",
        ),
        ({"type": "group", "jobs": [job("a")], "callbacks": {}}, "callbacks"),
        ({"steps": [{"id": "a", **job("a"), "depends_on": ["b"]}]}, "depends_on"),
        ({"steps": [{"id": "a", **job("a"), "depends_on": ["a"]}]}, "depends_on"),
        ({"steps": [{"id": "a", **job("a", callback_type="on_fire")}]}, "steps[0].options.callback_type"),
        ({"steps": [{"id": 7, **job("a")}]}, "steps[0].id"),
        ({"type": "chain", "steps": [{"type": "group"}]}, "steps[0].jobs"),
        ({"type": "chain", "steps": [{"type": "group", "jobs": []}]}, "steps[0].jobs"),
        ({"type": "chain", "steps": [{"type": ["group"]}]}, "steps[0].type"),
        ({"type": "chain", "steps": [{"type": "group", "jobs": [{"type": "x"}]}]}, "steps[0].jobs[0].args"),
        (
            {"type": "group", "jobs": [{"type": "chain", "steps": [job("a")], "callbacks": {}}]},
            "jobs[0].callbacks",
        ),
        (
            {
                "type": "group",
                "jobs": [{"type": "batch", "jobs": [job("a")], "callbacks": {"on_success": 7}}],
            },
            "jobs[0].callbacks.on_success",
        ),
        ({"steps": [{"steps": [job("a")], "jobs": [job("a")]}]}, "steps[0].jobs"),
        ({"steps": [{"id": "a", "steps": [{"steps": 7}]}]}, "steps[0].steps[0].steps"),
        (
            {"steps": [job("a"), {"steps": [job("b")], "options": {"callback_type": "on_success"}}]},
            "steps[1].type",
        ),
        ({"steps": [{"id": "a", "steps": [{**job("b"), "depends_on": ["c"]}]}]}, "depends_on"),
        ({"steps": [{"id": "a", **job("a"), "depends_on": ["b"]}, {"id": "a", "steps": [job("b")]}]}, "id"),
        ({"steps": [{"id": "a", **job("a", unique={"keys": ["type"]})}]}, "steps[0].options.unique"),
    ],
)
def test_what_can_never_run_is_refused_and_nothing_is_stored(server, body, field):
    answer = server.post("/ojs/v1/workflows", body)

    assert 400 == answer.status, answer.body
    assert field == answer["error"]["details"]["field"]
    assert 0 == server.get("/ojs/v1/workflows")["pagination"]["total"]
    assert [] == server.fetch("flow")


def test_a_tenant_sees_only_its_own_workflows(server):
    body = {"type": "chain", "steps": [job("a"), job("b")]}
    started = server.post("/ojs/v1/workflows", body, X_OJS_Tenant="acme")
    path = f"/ojs/v1/workflows/{started['id']}"

    assert 404 == server.get(path, X_OJS_Tenant="other").status
    assert 404 == server.delete(path, X_OJS_Tenant="other").status
    assert [] == server.get("/ojs/v1/workflows", X_OJS_Tenant="other")["workflows"]
    assert [] == server.fetch("flow", X_OJS_Tenant="other")
    (one,) = server.fetch("flow", X_OJS_Tenant="acme")
    assert "acme" == one["meta"]["tenant_id"]


def test_a_workflow_may_stand_in_the_place_of_a_job(server):
    inner = {"type": "group", "id": "mine", "name": "both", "jobs": [job("b"), job("c")]}
    started = server.post("/ojs/v1/workflows", {"type": "chain", "steps": [job("a"), inner, job("d")]})
    assert (201, "chain", 4) == (started.status, started["type"], started["metadata"]["job_count"])
    do(server, result=1)

    assert [[1], [1]] == [do(server, result=result)["parent_results"] for result in ("b", "c")]
    assert [["b", "c"]] == do(server)["parent_results"]
    ended = server.get(f"/ojs/v1/workflows/{started['id']}")["workflow"]
    assert ("completed", 4, 4) == tuple(ended[n] for n in ("state", "steps_total", "steps_completed"))
    assert ["step-0", "step-1/job-0", "step-1/job-1", "step-2"] == [step["id"] for step in ended["steps"]]
    assert 4 == ended["metadata"]["completed_count"]


def test_a_step_that_is_a_group_of_one_job_is_taken(server):
    plain = {"type": "a.b", "args": []}

    answer = server.post(
        "/ojs/v1/workflows", {"type": "chain", "steps": [plain, {"type": "group", "jobs": [plain]}]}
    )

    assert (201, 2) == (answer.status, answer["steps_total"])


def test_a_batch_inside_tells_how_it_ended_before_the_chain_goes_on(server):
    callbacks = {"on_success": job("yes"), "on_failure": job("no")}
    inner = {
        "type": "batch",
        "jobs": [{"type": "chain", "steps": [job("a"), job("b")]}],
        "callbacks": callbacks,
    }
    started = server.post(
        "/ojs/v1/workflows", {"steps": [{"id": "in", **inner}, {**job("c"), "depends_on": ["in"]}]}
    )

    assert ["work.a", "work.b", "work.yes", "work.c"] == [do(server)["type"] for _ in range(4)]
    assert [] == server.fetch("flow")
    ended = server.get(f"/ojs/v1/workflows/{started['id']}")
    assert ("completed", 3) == (ended["state"], ended["metadata"]["job_count"])


def test_a_job_whose_type_is_called_like_a_workflow_is_a_job(server):
    body = {"type": "chain", "steps": [{"type": "group", "args": [], "options": {"queue": "flow"}}]}

    assert 201 == server.post("/ojs/v1/workflows", body).status
    assert "group" == do(server)["type"]


def nested(depth):
    """Return so many workflows, one in another."""
    inner = job("in")
    for level in range(depth):
        inner = {"type": "chain", "steps": [inner]} if level % 2 else {"type": "group", "jobs": [inner]}
    return inner


def test_workflows_are_nested_up_to_eight_levels(server):
    assert 201 == server.post("/ojs/v1/workflows", nested(8)).status
    assert "work.in" == do(server)["type"]

    answer = server.post("/ojs/v1/workflows", nested(9))

    assert 400 == answer.status
    place = ".".join(["jobs[0]", "steps[0]"] * 4)
    assert place == answer["error"]["details"]["field"]
    assert "at most 8 workflows" in answer["error"]["message"]
    assert 1 == server.get("/ojs/v1/workflows")["pagination"]["total"]
