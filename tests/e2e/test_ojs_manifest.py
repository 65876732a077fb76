"""The manifest names what is there, all of it and nothing else."""

import pytest

from penstock.dialects import ojs

# By the specification that demands them: which paths there are.  A star stands for whatever follows.
CORE = (
    "/ojs/manifest", "/ojs/v1/health", "/health", "/ready", "/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/ojs/v1/jobs/{id}",
    "/ojs/v1/jobs/{id}/cancel", "/ojs/v1/jobs/{id}/events", "/ojs/v1/workers/fetch", "/ojs/v1/workers/ack",
    "/ojs/v1/workers/nack", "/ojs/v1/workers/heartbeat", "/ojs/v1/cron*", "/ojs/v1/workflows*", "/ojs/v1/events*",
    "/ojs/v1/ws", "/ojs/v1/queues", "/ojs/v1/queues/{name}", "/ojs/v1/queues/{name}/stats",
    "/ojs/v1/queues/{name}/pause", "/ojs/v1/queues/{name}/resume", "/ojs/v1/queues/{name}/events",
)  # fmt: skip
EXTENSIONS = {
    "rate-limiting": (
        "/ojs/v1/rate-limits*", "/ojs/v1/admin/queues/{name}/rate-limit", "/ojs/v1/admin/types/{type}/rate-limit",
    ),
    "backpressure": ("/ojs/v1/queues/{name}/config", "/ojs/v1/admin/queues/{name}/config"),
    "fair-scheduling": ("/ojs/v1/admin/pools*", "/ojs/v1/admin/scheduling/stats"),
    "dead-letter": ("/ojs/v1/dead-letter*", "/ojs/v1/admin/dead-letter*"),
    "progress": ("/ojs/v1/jobs/{id}/progress", "/ojs/v1/workers/progress"),
    "webhooks": ("/ojs/v1/webhooks*",),
    "graceful-shutdown": ("/ojs/v1/workers/beat", "/ojs/v1/workers/{id}/health"),
    "multi-tenancy": ("/ojs/v1/admin/tenants*",),
    "observability": ("/metrics",),
    "admin-api": (
        "/ojs/v1/admin/stats", "/ojs/v1/admin/queues", "/ojs/v1/admin/queues/{name}",
        "/ojs/v1/admin/queues/{name}/pause", "/ojs/v1/admin/queues/{name}/resume",
        "/ojs/v1/admin/queues/{name}/jobs", "/ojs/v1/admin/jobs*", "/ojs/v1/admin/workers*",
        "/ojs/v1/admin/maintenance", "/ojs/v1/admin/system/maintenance",
    ),
}  # fmt: skip


def meant(pattern, path):
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def body(**options):
    return {"type": "some.work", "args": [], "options": {"queue": "manifest", **options}}


def delayed(server):
    return "scheduled" == server.enqueue(body(scheduled_at="+PT1H"))["state"]


def expiring(server):
    job = server.enqueue(body(expires_at="+PT0.001S"))
    return server.until(lambda: "discarded" == server.job(job)["state"])


def prioritized(server):
    server.enqueue(body())
    urgent = server.enqueue(body(priority=9))
    return urgent["id"] == server.fetch("manifest")[0]["id"]


def limited(server):
    for _ in range(2):
        server.enqueue(body(rate_limit={"key": "k", "concurrency": 1}))
    return 1 == len(server.fetch("manifest", count=2))


def unique(server):
    policy = {"keys": ["type"], "on_conflict": "reject"}
    server.enqueue(body(unique=policy))
    return 409 == server.post("/ojs/v1/jobs", body(unique=policy)).status


def paused(server):
    server.post("/ojs/v1/queues/manifest/pause")
    server.enqueue(body())
    while_paused = server.fetch("manifest")
    server.post("/ojs/v1/queues/manifest/resume")
    return [] == while_paused and 1 == len(server.fetch("manifest"))


def waiting(server):
    server.enqueue(body(scheduled_at="+PT0.2S"))
    return 1 == len(server.fetch("manifest", wait_ms=30_000))


def dead_lettered(server):
    job = server.enqueue(body(retry={"max_attempts": 1, "on_exhaustion": "dead_letter"}))
    server.fetch("manifest")
    server.nack(job)
    return [job["id"]] == [one["id"] for one in server.get("/ojs/v1/dead-letter")["jobs"]]


def scheduled(server):
    cron = {"name": "n", "expression": "@daily", "job_template": {"type": "some.work", "args": []}}
    return 201 == server.post("/ojs/v1/cron", cron).status


CAPABILITIES = {
    "batch_enqueue": lambda server: 201 == server.post("/ojs/v1/jobs/batch", {"jobs": [body()]}).status,
    "cron_jobs": scheduled,
    "dead_letter": dead_lettered,
    "delayed_jobs": delayed,
    "job_ttl": expiring,
    "priority_queues": prioritized,
    "rate_limiting": limited,
    "schema_validation": lambda server: 404 != server.get("/ojs/v1/schemas").status,
    "unique_jobs": unique,
    "workflows": lambda server: (
        201 == server.post("/ojs/v1/workflows", {"type": "chain", "steps": [body()]}).status
    ),
    "pause_resume": paused,
    "long_poll": waiting,
}


def test_the_manifest_names_every_extension_of_which_there_are_paths_and_no_other(server):
    manifest = server.get("/ojs/manifest")
    named = [each for tier in ("official", "experimental") for each in manifest["extensions"][tier]]
    paths = {route.path for route in (*ojs.DIALECT.routes, *ojs.DIALECT.sockets)} | {"/metrics"}
    known = [pattern for patterns in EXTENSIONS.values() for pattern in patterns]

    assert sorted(EXTENSIONS) == sorted(each["name"] for each in named)
    assert all(each["uri"].endswith(f":{each['name']}") and each["version"] for each in named)
    assert [] == [path for path in paths if not any(meant(pattern, path) for pattern in (*CORE, *known))]
    assert [] == [p for p in (*CORE, *known) if not any(meant(p, path) for path in paths)]
    assert 200 == server.get("/metrics").status


@pytest.mark.parametrize("name", CAPABILITIES)
def test_a_capability_is_there_exactly_if_the_manifest_says_so(server, name):
    assert server.get("/ojs/manifest")["capabilities"][name] is CAPABILITIES[name](server)


def test_the_manifest_names_no_other_capability(server):
    manifest = server.get("/ojs/manifest")

    assert set(CAPABILITIES) == set(manifest["capabilities"])
    assert manifest["capabilities"]["schema_validation"] is manifest["schema_validation"]
    assert ("runtime", "strong") == (manifest["conformance_tier"], manifest["unique_job_strength"])
