"""What nests too deeply is refused at the door, and nothing that one client sends strands another's jobs."""

import json

import pytest

from penstock import Client
from penstock.errors import InvalidJobError
from penstock.lifecycle.nesting import DEEPEST

CLAIM = {"queues": ["q"], "count": 1, "worker": "w", "lease": 15_000_000, "grace": 1_000_000}


def nested(levels):
    return json.loads("[" * levels + "]" * levels)


def total(server):
    return sum(server.get("/ojs/v1/admin/stats")["jobs"].values())


@pytest.mark.parametrize("levels", [DEEPEST + 1, 970, 971, 972, 973, 5_000])
def test_a_body_that_nests_too_deeply_is_refused_and_stores_nothing(server, levels):
    deep = b"[" * levels + b"]" * levels
    for text in (b'{"type":"a.b","args":%s}' % deep, b'{"type":"a.b","args":[],"meta":{"x":%s}}' % deep):
        answer = server.post("/ojs/v1/jobs", text)

        assert (400, "invalid_payload") == (answer.status, answer["error"]["code"])
        assert str(DEEPEST) in answer["error"]["message"]
    assert 0 == total(server)


def test_as_many_levels_as_are_allowed_come_back_as_they_were_sent(server):
    args = nested(DEEPEST - 1)  # the body is a level too
    server.enqueue({"type": "a.b", "args": args, "meta": {"deep": nested(DEEPEST - 3)}})

    (job,) = server.fetch("default")

    assert args == job["args"]
    assert 200 == server.post("/ojs/v1/workers/ack", {"job_id": job["id"], "result": nested(60)}).status
    assert nested(60) == server.job(job)["result"]


@pytest.mark.parametrize("field", ["args", "meta"])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"args": ["x"]})[:-1],
        "nonsense",
        '{"args": 7}',
        '{"args": [1e999]}',
        '{"args": %s}' % ("[" * 970 + "]" * 970),
    ],
    ids=["cut", "nonsense", "shape", "number", "deep"],
)
def test_a_job_of_our_own_clients_that_no_worker_could_read_is_refused(server, field, text):
    if field == "meta" and text == '{"args": 7}':
        text = "[]"
    answer = server.post("/penstock/v1/enqueue", {"jobs": [{"task": "a.b", "queue": "q", field: text}]})

    assert 400 == answer.status, answer.body
    assert field == answer["error"]["facts"]["field"]
    assert 0 == total(server)


def test_a_client_in_python_hears_which_argument_nests_too_deeply(server):
    with Client(server.url) as client:
        with pytest.raises(InvalidJobError, match="64"):
            client.enqueue("a.b", nested(DEEPEST))
        client.enqueue("a.b", nested(DEEPEST - 2))


@pytest.mark.parametrize("text", ["nonsense", "[" * 200 + "]" * 200, "1e999"])
def test_what_a_worker_says_of_its_attempt_must_be_json_that_others_can_read(server, text):
    server.enqueue({"type": "a.b", "args": [], "options": {"queue": "q"}})
    (job,) = server.post("/penstock/v1/claim", CLAIM)["jobs"]
    mine = {"seq": job["seq"], "fence": job["fence"]}

    told = server.post("/penstock/v1/progress", {**mine, "value": text})
    done = server.post(
        "/penstock/v1/settle", {"reports": [{**mine, "how": "done", "outcome": {"result": text}}]}
    )
    failed = {"kind": "E", "message": "m", "details": text}
    lost = server.post("/penstock/v1/settle", {"reports": [{**mine, "how": "failed", "outcome": failed}]})

    assert [400] * 3 == [told.status, done.status, lost.status]
    assert "active" == server.job(job)["state"]
