"""Schedules over HTTP."""

import pytest

TEMPLATE = {"type": "report.daily", "args": [{"for": "all"}], "options": {"queue": "reports"}}


def test_both_ways_of_writing_a_schedule_mean_the_same(server):
    spec = server.post("/ojs/v1/cron", {"name": "a", "expression": "0 9 * * *", "job_template": TEMPLATE})
    flat = server.post("/ojs/v1/cron", {"name": "b", "cron": "0 9 * * *", **TEMPLATE})

    assert (201, 201) == (spec.status, flat.status)
    assert spec["cron"] == spec["cron_job"]
    names = {"name", "created_at"}
    one, other = (
        {name: value for name, value in each["cron"].items() if name not in names} for each in (spec, flat)
    )
    assert one == other
    assert "report.daily" == one["type"]
    assert one["enabled"]
    assert one["next_run_at"].endswith("T09:00:00Z")


def test_schedules_are_listed_by_pages_of_either_kind(server):
    for name in ("c", "a", "b"):
        server.post("/ojs/v1/cron", {"name": name, "expression": "@hourly", "job_template": TEMPLATE})

    paged = server.get("/ojs/v1/cron?page=2&per_page=2")
    sliced = server.get("/ojs/v1/cron?limit=2&offset=1")

    assert ["c"] == [cron["name"] for cron in paged["crons"]]
    assert ["b", "c"] == [cron["name"] for cron in sliced["cron_jobs"]]
    assert 3 == paged["pagination"]["total"]
    assert not paged["pagination"]["has_more"]


def test_a_schedule_can_be_looked_at_paused_resumed_and_deleted(server):
    server.post("/ojs/v1/cron", {"name": "a", "expression": "@daily", "job_template": TEMPLATE})

    paused = server.post("/ojs/v1/cron/a/pause")
    seen = server.get("/ojs/v1/cron/a")
    resumed = server.post("/ojs/v1/cron/a/resume")
    deleted = server.delete("/ojs/v1/cron/a")

    assert not paused["cron"]["enabled"]
    assert "next_run_at" not in seen["cron"]
    assert resumed["cron"]["enabled"]
    assert (200, True) == (deleted.status, deleted["deleted"])
    assert "a" == deleted["name"] == deleted["cron"]["name"]
    assert 404 == server.get("/ojs/v1/cron/a").status
    assert 404 == server.delete("/ojs/v1/cron/a").status
    assert [] == server.get("/ojs/v1/cron")["crons"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"expression": "99 25 32 13 8"}, "expression"),
        ({"expression": "* * * *"}, "expression"),
        ({"expression": "* * * * * * *"}, "expression"),
        ({"expression": None}, "expression"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"overlap_policy": "maybe"}, "overlap_policy"),
        ({"name": "No Spaces"}, "name"),
        ({"job_template": None}, "job_template"),
        ({"job_template": {"type": "Bad Type", "args": []}}, "job_template.type"),
        ({"job_template": {"type": "a.b", "args": {}}}, "job_template.args"),
        (
            {"job_template": {"type": "a.b", "args": [], "options": {"expires_at": "2099-01-01T00:00:00Z"}}},
            "job_template.options.expires_at",
        ),
    ],
)
def test_what_can_never_fire_is_refused_and_nothing_is_stored(server, change, field):
    answer = server.post(
        "/ojs/v1/cron", {"name": "a", "expression": "@daily", "job_template": TEMPLATE, **change}
    )

    assert 400 == answer.status
    assert field == answer["error"]["details"]["field"]
    assert [] == server.get("/ojs/v1/cron")["crons"]


def test_a_tenant_sees_only_its_own_schedules(server):
    mine = {"name": "a", "expression": "@daily", "job_template": TEMPLATE}
    server.post("/ojs/v1/cron", mine, X_OJS_Tenant="acme")

    assert 404 == server.get("/ojs/v1/cron/a", X_OJS_Tenant="other").status
    assert 404 == server.delete("/ojs/v1/cron/a", X_OJS_Tenant="other").status
    assert [] == server.get("/ojs/v1/cron", X_OJS_Tenant="other")["crons"]
    assert ["acme"] == [cron["tenant_id"] for cron in server.get("/ojs/v1/cron")["crons"]]
    assert 200 == server.delete("/ojs/v1/cron/a", X_OJS_Tenant="acme").status
