"""Whatever is sent: the right status, the spec's error with the field named, nothing stored, and the server goes on."""

import json
import socket
import time
from contextlib import suppress
from urllib.parse import quote

import pytest

from tests.support.server import MEDIA, served

GOOD = {"type": "mail.send", "args": []}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("server") / "jobs.db", "--test-mode", "--max-body", "1") as one:
        yield one


@pytest.fixture(autouse=True)
def unharmed(server):
    """Begin empty; end with nothing stored, and a server that answers."""
    server.post("/ojs/v1/admin/reset")
    yield
    assert 0 == sum(server.get("/ojs/v1/admin/stats")["jobs"].values())
    assert 0 == server.get("/ojs/v1/rate-limits")["pagination"]["total"]
    assert "ok" == server.get("/ojs/v1/health")["status"]
    assert not [line for line in server.log if "Traceback" in line]


def refused(answer, status, code, field=None):
    assert status == answer.status, answer.body
    error = answer["error"]
    assert code == error["code"], error
    assert all(isinstance(error[name], str) for name in ("type", "message", "hint", "docs_url", "request_id"))
    assert not error["retryable"]
    assert (MEDIA, "1.0") == (answer.headers["content-type"], answer.headers["ojs-version"])
    if field is not None:
        assert field == error["details"]["field"], error
        assert field.rpartition(".")[2].partition("[")[0] in error["message"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"type": "a.b", "args": [}',
        b'{"type": "a.b", "args": [1],}',
        b"\xff\xfe\x00",
        b'{"type": "a.b", "args": ["\xff"]}',
        b'{"type": "a.b", "args": [NaN]}',
        b"[" * 100_000,
        b'{"type": "a.b", "args": [' + b"[" * 5_000 + b"]" * 5_000 + b"]}",
        b'{"type": "a.b"} {"args": []}',
    ],
    ids=lambda text: f"{len(text)}-{text[-8:]!r}",
)
@pytest.mark.parametrize(
    "path", ["/ojs/v1/jobs", "/ojs/v1/workers/fetch", "/ojs/v1/cron", "/ojs/v1/workflows"]
)
def test_what_is_no_json(server, path, text):
    answer = server.post(path, text)

    if not text and path != "/ojs/v1/jobs":
        refused(answer, 400, "invalid_request")
    else:
        refused(answer, 400, "invalid_payload")


@pytest.mark.parametrize("body", [[], "text", 7, None, True, [GOOD]])
def test_what_is_no_object(server, body):
    refused(server.post("/ojs/v1/jobs", json.dumps(body).encode()), 400, "invalid_request", "body")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": None}, "type"),
        ({"type": 7}, "type"),
        ({"type": "Upper"}, "type"),
        ({"type": "a" * 300}, "type"),
        ({"args": None}, "args"),
        ({"args": {}}, "args"),
        ({"args": "x"}, "args"),
        ({"id": "not-a-uuid"}, "id"),
        ({"meta": []}, "meta"),
        ({"meta": {"@ojs": {}}}, "meta.@ojs"),
        ({"options": []}, "options"),
        ({"options": {"queue": "a/b"}}, "options.queue"),
        ({"options": {"queue": "a\0b"}}, "options.queue"),
        ({"options": {"queue": "q" * 101}}, "options.queue"),
        ({"options": {"priority": 101}}, "options.priority"),
        ({"options": {"priority": "high"}}, "options.priority"),
        ({"options": {"timeout_ms": 0}}, "options.timeout_ms"),
        ({"options": {"timeout_ms": 10**30}}, "options.timeout_ms"),
        ({"options": {"delay_until": "tomorrow"}}, "options.delay_until"),
        ({"options": {"delay_until": "9999-99-99T00:00:00Z"}}, "options.delay_until"),
        ({"options": {"delay_until": "+P999999999999Y"}}, "options.delay_until"),
        ({"options": {"expires_at": 5}}, "options.expires_at"),
        ({"options": {"unique": {"keys": ["colour"]}}}, "options.unique.keys"),
        ({"options": {"unique": {"period": "soon"}}}, "options.unique.period"),
    ],
)
def test_a_job_that_can_never_run(server, change, field):
    refused(server.post("/ojs/v1/jobs", {**GOOD, **change}), 400, "invalid_request", field)


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        ({"key": "a/b", "concurrency": 1}, ".key"),
        ({"key": "a\0b", "concurrency": 1}, ".key"),
        ({"key": "", "concurrency": 1}, ".key"),
        ({"key": "k" * 257, "concurrency": 1}, ".key"),
        ({"key": "k", "concurrency": -1}, ".concurrency"),
        ({"key": "k", "concurrency": 1.5}, ".concurrency"),
        ({"key": "k", "concurency": 1}, ""),
        ({"key": "k", "rate": {"limit": 1}}, ".rate.period"),
        ({"key": "k", "rate": {"limit": 1, "period": "1 minute"}}, ".rate.period"),
        ({"key": "k", "throttle": {"limit": 1, "period": "PT0S"}}, ".throttle.period"),
        ({"max_per_second": 1e-310}, ".max_per_second"),
        ({"key": "k", "concurrency": 1, "on_limit": "explode"}, ".on_limit"),
    ],
)
def test_a_limit_that_can_never_be_kept(server, limit, field):
    answer = server.post("/ojs/v1/jobs", {**GOOD, "options": {"rate_limit": limit}})

    refused(answer, 400, "invalid_request", f"options.rate_limit{field}")


def test_ten_thousand_keys_in_one_request(server):
    limits = [{"key": f"k{n}", "concurrency": 1} for n in range(10_000)]

    answer = server.post("/ojs/v1/jobs", {**GOOD, "options": {"rate_limit": limits}})

    refused(answer, 400, "invalid_request")
    assert answer["error"]["details"]["field"].startswith("options.rate_limit")


def test_one_bad_job_among_many_spoils_them_all(server):
    jobs = [GOOD] * 50 + [{"type": "a.b", "args": 7}]

    refused(server.post("/ojs/v1/jobs/batch", {"jobs": jobs}), 400, "invalid_request", "jobs[50].args")
    refused(server.post("/ojs/v1/jobs/batch", {"jobs": [GOOD] * 1_001}), 400, "invalid_request", "jobs")
    refused(server.post("/ojs/v1/jobs/batch", {"jobs": []}), 400, "invalid_request", "jobs")


def test_a_body_that_is_too_long(server):
    refused(server.post("/ojs/v1/jobs", {**GOOD, "args": ["x" * 2_000_000]}), 413, "payload_too_large")


def test_a_body_that_turns_out_too_long_on_the_way(server):
    with raw(server) as wire:
        wire.sendall(b"POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with suppress(OSError):  # it need not listen to the end
            for _ in range(40):
                wire.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        assert b" 413 " in received(wire)[:20]


def test_the_wrong_kind_of_content(server):
    refused(server.post("/ojs/v1/jobs", b"<job/>", Content_Type="text/xml"), 400, "unsupported_media_type")


@pytest.mark.parametrize(
    "key", ["a/b", "a%2Fb", "%00", "a%00b", "%FF", "..", "%2e%2e%2f", "a b", "ü", "k" * 300, "%", "%zz"]
)
def test_keys_in_paths(server, key):
    path = "/ojs/v1/rate-limits/" + quote(key, safe="%/")

    assert server.get(path).status in (400, 404)
    assert server.put(path, {"concurrency": 1}).status in (400, 404, 405)


@pytest.mark.parametrize("name", ["a%00b", "No%20Queue", "a/b", "%C3%BC", "q" * 300])
def test_names_in_paths(server, name):
    assert server.post(f"/ojs/v1/queues/{name}/pause").status in (400, 404)
    for path in (f"cron/{name}", f"jobs/{name}", f"workflows/{name}", f"admin/tenants/{name}/stats"):
        assert server.get(f"/ojs/v1/{path}").status in (400, 404), path


@pytest.mark.parametrize(
    "query", ["page=0", "page=-1", "page=x", "page=1e3", "per_page=100000", "page=" + "9" * 400]
)
def test_pages_that_cannot_be(server, query):
    refused(server.get(f"/ojs/v1/rate-limits?{query}"), 400, "invalid_request", query.partition("=")[0])


@pytest.mark.parametrize("tenant", ["a b", "a/b", "-", "x" * 300])
def test_tenants_that_cannot_be(server, tenant):
    refused(server.post("/ojs/v1/jobs", GOOD, X_OJS_Tenant=tenant), 400, "invalid_request", "X-OJS-Tenant")


def test_a_job_that_says_it_is_anothers(server):
    answer = server.post("/ojs/v1/jobs", {**GOOD, "meta": {"tenant_id": "other"}}, X_OJS_Tenant="acme")

    refused(answer, 400, "invalid_request", "meta.tenant_id")


def test_numbers_that_no_store_can_hold(server):
    for number in (2**63 - 1, 2**63, 2**64, 2**200):
        body = {"seq": number, "fence": number, "value": "1"}
        for headers in ({}, {"X_OJS_Tenant": "acme"}):
            assert server.post("/penstock/v1/progress", body, **headers).status < 500


def test_the_longest_names_are_not_too_long_together(server):
    queue = "q" * 100
    server.enqueue({**GOOD, "options": {"queue": queue}}, X_OJS_Tenant="t" * 100)

    assert 1 == len(server.fetch(queue, X_OJS_Tenant="t" * 100))
    server.post("/ojs/v1/admin/reset")


def test_a_method_that_nobody_knows(server):
    for method, path in (("ASSERT", "/"), ("ASSERT", "/ojs/v1/jobs"), ("PROPFIND", "/ojs/v1/health")):
        with raw(server) as wire:
            wire.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            status = int(received(wire).split(b" ", 2)[1])
            assert status in (400, 404, 405, 501), (method, path)


def test_a_method_that_is_not_offered(server):
    answer = server.call("DELETE", "/ojs/v1/jobs")

    refused(answer, 405, "method_not_allowed")
    assert "POST" == answer.headers["allow"]


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"POST /ojs/v1/jobs HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /ojs/v1/jobs HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-A: " + b"y" * 200_000 + b"\r\n\r\n",
        b"POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=lambda line: f"{len(line)}-{line[:12]!r}",
)
def test_what_is_no_http(server, line):
    with raw(server) as wire:
        with suppress(OSError):
            wire.sendall(line)
        first = received(wire)[:20]
        assert not first or b" 4" in first, first


def test_a_request_that_is_only_half_sent(server):
    with raw(server) as wire:
        wire.sendall(
            b"POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n"
            b'{"type": "mail.send", "args": []'
        )
    with raw(server) as wire:
        wire.sendall(b"POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Le")
    assert 200 == server.get("/ojs/v1/health").status


def test_clients_that_vanish_while_they_wait_lose_no_job(server):
    wires = [raw(server) for _ in range(20)]
    body = json.dumps({"queues": ["default"], "wait_ms": 20_000}).encode()
    for wire in wires:
        wire.sendall(
            b"POST /ojs/v1/workers/fetch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
    time.sleep(0.3)
    for wire in wires:
        wire.close()
    time.sleep(0.3)
    job = server.enqueue(GOOD)

    (fetched,) = server.until(lambda: server.fetch("default"), 10)
    assert job["id"] == fetched["id"]
    server.post("/ojs/v1/admin/reset")


def test_the_year_9999_is_as_good_as_any(server):
    job = server.enqueue({**GOOD, "options": {"delay_until": "9999-12-31T23:59:59Z"}})

    assert ("scheduled", "9999-12-31T23:59:59Z") == (job["state"], job["scheduled_at"])
    assert "9999-12-31T23:59:59Z" == server.job(job)["scheduled_at"]
    server.post("/ojs/v1/admin/reset")


def test_the_hint_of_a_404_fits_what_is_missing(server):
    """The root was answered with a hint about jobs that ended."""
    nowhere, job = server.get("/ojs/v1/x"), server.get("/ojs/v1/jobs/019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")

    refused(nowhere, 404, "not_found")
    assert nowhere["error"]["hint"] == "Check the path, the id or the name; /docs lists the paths."
    refused(job, 404, "not_found")
    assert "forgotten" in job["error"]["hint"]


def test_every_path_answers_errors_as_its_dialect_writes_them(server):
    native, nowhere = server.post("/penstock/v1/nothing"), server.get("/nothing")

    assert (404, "application/json") == (native.status, native.headers["content-type"])
    told = {"code": "not_found", "message": "there is nothing at '/penstock/v1/nothing'"}
    assert told.items() <= native["error"].items()
    assert (404, "application/json") == (nowhere.status, nowhere.headers["content-type"])
    assert {"error": {"code": "not_found", "message": "no page '/nothing'"}} == nowhere.body
    assert {"ojs-version"}.isdisjoint({*native.headers, *nowhere.headers})


def raw(server):
    """Open a connection of our own."""
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=10)


def received(wire):
    """Return what comes until the other side closes, or nothing more does."""
    wire.settimeout(3)
    got = b""
    with suppress(OSError):
        while part := wire.recv(65_536):
            got += part
            if b"\r\n\r\n" in got:
                break
    return got
