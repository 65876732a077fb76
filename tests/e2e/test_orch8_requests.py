"""Steps that call another server: what is sent, what comes back, what is tried again, and where nothing is sent."""

import time

import pytest

from tests.support.orch8 import Desk, call, step
from tests.support.provider import providing
from tests.support.server import guarded, served

RETRY = {"max_attempts": 3, "initial_backoff": 10}


@pytest.fixture
def desk(server):
    return Desk(server)


def run(desk, *blocks, status="completed", **more):
    """Run a sequence to its end; return the instance."""
    desk.put("s", *blocks)
    instance = desk.start("s", **more)
    desk.ended(instance, status=status)
    return desk.look(instance)


def test_the_answer_is_the_output_of_the_step(desk):
    answer = (201, {"Content-Type": "application/json"}, b'{"id": 7}')
    with providing(answer) as provider:
        made = run(desk, call("a", provider), step("b", "transform", params={"n": "{{outputs.a.json.id}}"}))

    first, second = desk.get(f"/instances/{made['id']}/outputs")
    assert {"status": 201, "body": '{"id": 7}', "json": {"id": 7}} == first["output"]
    assert {"n": 7} == second["output"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD"])
def test_methods(desk, method):
    with providing() as provider:
        run(desk, call("a", provider, method=method.lower()))

    assert [method] == [got.method for got in provider.got]


def test_errors_of_the_server_are_tried_again_with_one_idempotency_key(desk):
    with providing((500, {}, b""), (503, {}, b"")) as provider:
        run(desk, {**call("a", provider), "retry": RETRY})

    assert 3 == len(provider.got)
    assert 1 == len({got.headers["Idempotency-Key"] for got in provider.got})


def test_tries_by_an_expression_have_one_idempotency_key_too(desk):
    with providing((500, {}, b""), (500, {}, b"")) as provider:
        run(desk, {**call("a", provider), "retry": {**RETRY, "retry_if": "true"}})

    assert 3 == len(provider.got)
    assert 1 == len({got.headers["Idempotency-Key"] for got in provider.got})


def test_a_refusal_is_final(desk):
    with providing((404, {}, b"no such thing")) as provider:
        made = run(desk, {**call("a", provider), "retry": RETRY}, status="failed")

    assert ("404", "the server answered 404: no such thing") == (
        made["error"]["kind"], made["error"]["message"],
    )  # fmt: skip
    assert 1 == len(provider.got)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_shuts_the_key_for_all_and_costs_no_attempt(desk, server, status):
    with providing((status, {"Retry-After": "1"}, b"")) as provider:
        desk.put("s", call("a", provider, key="k"))
        desk.limit("k", 100, 60)
        first = desk.start("s")
        server.until(lambda: desk.get("/rate-limits/k")["shut_until"])
        second = desk.start("s")

        desk.ended(first, second)

    one, *others = provider.times
    assert 2 == len(others)
    assert min(others) - one >= 0.9
    (entry,) = desk.get(f"/instances/{first['id']}/timeline")["items"]
    assert "done" == entry["state"]  # of one attempt, since the step has no other


def test_without_a_key_retry_after_puts_the_step_off(desk):
    with providing((429, {"Retry-After": "1"}, b"")) as provider:
        run(desk, call("a", provider))

    assert provider.times[1] - provider.times[0] >= 0.9


def test_no_answer_in_time_and_no_server_at_all_are_tried_again(desk):
    with providing() as provider:
        url = provider.url
    began = time.monotonic()

    made = run(
        desk,
        step("a", "http_request", params={"url": url}, retry={"max_attempts": 2, "initial_backoff": 300}),
        status="failed",
    )

    assert "NetworkError" == made["error"]["kind"]
    assert time.monotonic() - began > 0.3


def test_an_answer_that_is_too_large_is_not_taken(desk):
    with providing((200, {"Content-Length": "99999999"}, b"x")) as provider:
        made = run(desk, call("a", provider), status="failed")

    assert "more than" in made["error"]["message"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "url"),
        ({"url": "ftp://example.com"}, "url"),
        ({"url": "http://169.254.169.254/latest"}, "url"),
        ({"url": "http://2852039166/latest"}, "url"),
        ({"url": "http://[::ffff:a9fe:a9fe]/latest"}, "url"),
        ({"url": "http://127.0.0.1/", "headers": {"X-Name": "\u65e5"}}, "headers.X-Name"),
        ({"url": "http://127.0.0.1/", "timeout_ms": True}, "timeout_ms"),
        ({"url": "http://127.0.0.1:1/", "method": "BREW"}, "method"),
        ({"url": "http://127.0.0.1:1/", "headers": {"X": "a\r\nY: b"}}, "headers.X"),
        ({"url": "http://127.0.0.1:1/", "headers": {"Host": "elsewhere"}}, "headers.Host"),
        ({"url": "http://127.0.0.1:1/", "timeout_ms": -1}, "timeout_ms"),
    ],
)
def test_what_cannot_be_sent_fails_the_step_and_names_the_field(desk, params, field):
    made = run(desk, step("a", "http_request", params=params), status="failed")

    assert "InvalidRequest" == made["error"]["kind"]
    assert made["error"]["message"].startswith(f"{field}: ")


def test_a_server_that_others_can_reach_calls_nothing_on_its_own_machine(tmp_path):
    with (
        providing() as provider,
        served(tmp_path / "jobs.db", "--host", "0.0.0.0", "--token", "0123456789abcdef") as server,
    ):
        desk = Desk(server, Authorization="Bearer 0123456789abcdef")
        made = run(desk, call("a", provider), status="failed")

    assert "an address to which nothing is sent" in made["error"]["message"]
    assert [] == provider.got


def test_a_token_of_a_tenant_sees_nothing_of_another(tmp_path):
    tokens = ("a" * 20 + " tenant=acme", "b" * 20 + " tenant=other", "c" * 20)
    with guarded(tmp_path, *tokens) as server:
        acme = Desk(server, Authorization=f"Bearer {'a' * 20}")
        stored = acme.put("s", step("a", "work"))
        made = acme.start("s", concurrency_key="c")
        acme.limit("k", 1, 60)
        theirs = {"Authorization": f"Bearer {'b' * 20}"}

        for path in (f"/instances/{made['id']}", f"/sequences/{stored['id']}", "/rate-limits/k"):
            assert 404 == server.get(path, **theirs).status, path
        for action in ("cancel", "pause", "retry"):
            assert 404 == server.post(f"/instances/{made['id']}/{action}", **theirs).status
        assert 404 == server.delete("/rate-limits/k", **theirs).status
        start = {"sequence_name": "s"}
        assert 404 == server.post("/instances", start, **theirs).status
        assert 403 == server.post("/instances", {**start, "tenant_id": "acme"}, **theirs).status
        assert 403 == server.get("/rate-limits?tenant_id=acme", **theirs).status
        assert (0, []) == (
            server.get("/instances", **theirs)["total"],
            server.get("/rate-limits", **theirs).body,
        )
        poll = {"handler_name": "work", "worker_id": "w"}
        assert [] == server.post("/workers/tasks/poll", poll, **theirs).body
        by_header = server.get("/instances", Authorization=f"Bearer {'c' * 20}", X_Tenant_Id="acme")
        assert 1 == by_header["total"]
        assert 401 == server.get("/instances").status


def test_a_step_that_fails_as_its_server_says_leaves_no_traceback_in_the_log(tmp_path):
    with served(tmp_path / "jobs.db") as server, providing((404, {}, b"nothing here")) as provider:
        run(Desk(server), call("a", provider), status="failed")
        server.until(lambda: any("nothing here" in line for line in server.log))

    assert not any("Traceback" in line for line in server.log)


def test_an_event_that_cannot_be_named_fails_its_step_at_once(desk):
    emit = step("a", "emit_event", params={"event": "a\nb"})

    made = run(
        desk,
        {**emit, "retry": {"max_attempts": 5, "initial_backoff": "1h", "max_backoff": "1h"}},
        status="failed",
    )

    assert "InvalidError" == made["error"]["kind"]
