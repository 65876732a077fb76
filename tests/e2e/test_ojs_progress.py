"""How far a job is, over HTTP."""

import pytest


@pytest.fixture
def job(server):
    server.enqueue({"type": "film.cut", "args": []})
    return server.fetch("default")[0]


def test_progress_is_kept_and_shown(server, job):
    path = f"/ojs/v1/jobs/{job['id']}/progress"
    before = server.get(path)
    put = server.put(path, {"progress": 0.25, "message": "scene 3", "data": {"scene": 3}})
    seen = server.get(path)

    assert (200, None) == (before.status, before["progress"])
    assert (200, 0.25, "scene 3") == (put.status, put["progress"], put["message"])
    assert (0.25, "scene 3", {"scene": 3}, "active") == tuple(
        seen[name] for name in ("progress", "message", "data", "state")
    )


@pytest.mark.parametrize(("sent", "kept"), [(1.5, 1.0), (-3, 0.0), (1, 1.0), (10**30, 1.0)])
def test_what_lies_outside_is_taken_for_the_nearest(server, job, sent, kept):
    assert kept == server.put(f"/ojs/v1/jobs/{job['id']}/progress", {"progress": sent})["progress"]


def test_progress_never_goes_back(server, job):
    path = f"/ojs/v1/jobs/{job['id']}/progress"
    server.put(path, {"progress": 0.5})

    assert 0.5 == server.put(path, {"progress": 0.2, "message": "later"})["progress"]


def test_clients_report_in_percent(server, job):
    answer = server.post("/ojs/v1/workers/progress", {"job_id": job["id"], "percentage": 40})

    assert (200, 0.4, 40) == (answer.status, answer["progress"], answer["percentage"])


def test_a_done_job_is_all_the_way(server, job):
    server.put(f"/ojs/v1/jobs/{job['id']}/progress", {"progress": 0.5})
    server.ack(job)

    assert 1.0 == server.get(f"/ojs/v1/jobs/{job['id']}/progress")["progress"]


def test_a_report_that_comes_too_late_hurts_nobody(server, job):
    server.ack(job)

    late = server.put(f"/ojs/v1/jobs/{job['id']}/progress", {"progress": 0.5})

    assert (200, False, 0.5) == (late.status, late["recorded"], late["progress"])
    assert None is server.get(f"/ojs/v1/jobs/{job['id']}/progress")["progress"]


def test_another_attempt_begins_without_progress(server):
    server.enqueue({"type": "a.b", "args": [], "options": {"retry": {"initial_interval": "PT0S"}}})
    (job,) = server.fetch("default")
    path = f"/ojs/v1/jobs/{job['id']}/progress"
    server.put(path, {"progress": 0.7})
    server.nack(job)
    server.until(lambda: server.fetch("default"))

    assert None is server.get(path)["progress"]
    assert 0.1 == server.put(path, {"progress": 0.1})["progress"]


def test_a_report_keeps_the_job_with_its_worker(server):
    server.enqueue({"type": "a.b", "args": [], "options": {"visibility_timeout_ms": 600}})
    (job,) = server.fetch("default")
    for _ in range(6):
        server.put(f"/ojs/v1/jobs/{job['id']}/progress", {"progress": 0.1})
        assert [] == server.fetch("default", wait_ms=250)

    assert "active" == server.job(job)["state"]


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "progress"), ({"progress": "half"}, "progress"), ({"progress": 0.1, "data": []}, "data")],
)
def test_what_is_no_progress_is_refused(server, job, body, field):
    answer = server.put(f"/ojs/v1/jobs/{job['id']}/progress", body)

    assert (400, field) == (answer.status, answer["error"]["details"]["field"])


def test_nobody_reports_about_anothers_job(server, job):
    path = f"/ojs/v1/jobs/{job['id']}/progress"

    assert 404 == server.put(path, {"progress": 0.1}, X_OJS_Tenant="other").status
    assert 404 == server.get(path, X_OJS_Tenant="other").status
    unknown = "/ojs/v1/jobs/0197a0d2-5f7c-7c3e-9d3a-2b1f0c4d5e6f/progress"
    assert 404 == server.put(unknown, {"progress": 1}).status
