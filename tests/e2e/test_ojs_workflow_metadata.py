"""What every answer about a workflow says of its times and its jobs, and every answer about a job of its workflow."""

from tests.e2e.test_ojs_workflows import ONCE, do, job


def start(server, kind="chain", *jobs):
    name = "steps" if kind == "chain" else "jobs"
    answer = server.post("/ojs/v1/workflows", {"type": kind, name: list(jobs)})
    assert 201 == answer.status
    return answer["workflow"]


def looked(server, workflow):
    """Return a workflow's metadata as a look shows it, at both places; the listing shows the same."""
    answer = server.get(f"/ojs/v1/workflows/{workflow['id']}")
    (listed,) = server.get("/ojs/v1/workflows")["workflows"]
    assert answer["metadata"] == answer["workflow"]["metadata"] == listed["metadata"]
    return answer["metadata"]


def counts(metadata):
    return tuple(metadata[name] for name in ("job_count", "completed_count", "failed_count"))


def test_a_new_workflow_tells_when_it_was_made_and_how_many_jobs_it_has(server):
    workflow = start(server, "chain", job("a"), job("b"), job("c"))

    made = {"created_at": workflow["created_at"], "job_count": 3, "completed_count": 0, "failed_count": 0}
    assert made == workflow["metadata"] == looked(server, workflow)


def test_a_workflow_began_when_its_first_job_was_first_handed_out(server):
    workflow = start(server, "group", job("a", retry={"max_attempts": 2, "initial_interval": "PT0.01S"}))
    (first,) = server.fetch("flow")
    assert first["started_at"] == looked(server, workflow)["started_at"]

    server.nack(first)
    (again,) = server.until(lambda: server.fetch("flow"))

    assert again["started_at"] > first["started_at"]
    assert first["started_at"] == looked(server, workflow)["started_at"]
    server.ack(again)
    assert first["started_at"] == looked(server, workflow)["started_at"]


def test_a_workflow_that_ended_tells_when_and_how_its_jobs_did(server):
    workflow = start(server, "group", job("a", **ONCE), job("b"), job("c"))
    do(server, fail=True)
    assert (3, 0, 1) == counts(looked(server, workflow))
    assert "completed_at" not in looked(server, workflow)
    do(server)
    last = do(server)

    ended = looked(server, workflow)
    assert (3, 2, 1) == counts(ended)
    assert server.job(last)["completed_at"] == ended["completed_at"]
    assert "cancelled_at" not in ended


def test_steps_that_never_ran_did_not_fail(server):
    workflow = start(server, "chain", job("a"), job("b", **ONCE), job("c"))
    do(server)
    do(server, fail=True)

    assert (3, 1, 1) == counts(looked(server, workflow))


def test_a_cancelled_workflow_tells_when_in_the_answer_and_afterwards(server):
    workflow = start(server, "chain", job("a"), job("b"))
    do(server)

    cancelled = server.delete(f"/ojs/v1/workflows/{workflow['id']}")["metadata"]

    assert (2, 1, 0) == counts(cancelled)
    assert cancelled["completed_at"] == cancelled["cancelled_at"]
    assert cancelled == looked(server, workflow)


def test_callbacks_are_none_of_the_jobs_that_are_counted(server):
    told = {"type": "told.all", "args": [], "options": {"queue": "told", **ONCE}}
    body = {"type": "batch", "jobs": [job("a")], "callbacks": {"on_complete": told}}
    workflow = server.post("/ojs/v1/workflows", body)["workflow"]
    do(server)
    do(server, fail=True, queue="told")

    assert (1, 1, 0) == counts(looked(server, workflow))


def test_a_job_names_its_workflow_wherever_it_is_shown(server):
    limited = job("b", rate_limit={"key": "k", "concurrency": 1})
    workflow = start(server, "chain", job("a"), limited)
    for _ in range(2):
        (fetched,) = server.fetch("flow")
        ended = server.ack(fetched)
        listed = {each["id"]: each for each in server.get("/ojs/v1/admin/jobs")["items"]}
        shown = (fetched, ended["job"], server.job(fetched), listed[fetched["id"]])

        assert [workflow["id"]] * 4 == [each.get("workflow_id") for each in shown]


def test_a_job_of_no_workflow_names_none_though_a_client_says_so(server):
    mine = server.enqueue({**job("a"), "workflow_id": "mine"})
    (fetched,) = server.fetch("flow")

    assert not any("workflow_id" in each for each in (mine, fetched, server.job(mine)))
