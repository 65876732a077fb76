"""Which requests are let in, and what is read of them: the server's application without a server."""

import asyncio
import logging
import re

import pytest

from penstock.errors import InvalidError
from penstock.http.access import Access, Role
from penstock.http.outbound_http import check_url
from penstock.http.tokens import Keyring
from penstock.job import NewJob
from tests.support.asgi import ask, serving

FOREIGN = [
    {"host": "evil.example:8080"},
    {"host": "evil.example:8080", "origin": "http://evil.example:8080"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
]
TOKEN = "a-token-of-some-length"
JOB = {"type": "a.b", "args": [1]}


def asked(engine, *requests, **options):
    """Send requests, each (path, body, more); return their answers."""

    async def play():
        async with serving(engine, **options) as site:
            return [await ask(site, path, body, **more) for path, body, more in requests]

    return asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.parametrize("headers", FOREIGN)
def test_without_a_token_nothing_at_all_answers_a_page_of_another_site(engine, headers):
    """Every route there is, streams of events among them."""

    async def play():
        async with serving(engine, test_mode=True) as site:
            router = site._router
            routes = [route for methods in router._plain.values() for route in methods.values()]
            routes += [
                r for patterns in router._patterns.values() for p in patterns for r in p.methods.values()
            ]
            return [
                (route.path, await ask(site, re.sub("[{}]", "", route.path), {}, route.method, **headers))
                for route in routes
            ]

    answers = asyncio.run(asyncio.wait_for(play(), 60))
    assert len(answers) > 100
    assert {403} == {status for _, (status, _) in answers}, answers
    codes = {body.get("code") or body["error"]["code"] for _, (_, body) in answers}
    assert codes == {"host_not_allowed" if "host" in headers else "origin_not_allowed"}
    assert [] == engine.jobs()


def opened(site, **headers):
    """Open a WebSocket; return what the server says first."""
    sent = {"host": "localhost:8080", **headers}
    scope = {
        "type": "websocket",
        "path": "/ojs/v1/ws",
        "raw_path": b"/ojs/v1/ws",
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()],
        "server": ("127.0.0.1", 8080),
    }
    incoming = iter([{"type": "websocket.connect"}, {"type": "websocket.disconnect"}])
    said = []

    async def receive():
        return next(incoming)

    async def send(message):
        said.append(message)

    async def play():
        await site(scope, receive, send)
        return said[0]

    return play()


@pytest.mark.parametrize("headers", FOREIGN)
def test_without_a_token_no_page_of_another_site_opens_a_socket(engine, headers):
    async def play():
        async with serving(engine) as site:
            return await opened(site, **headers), await opened(site, origin="http://localhost:8080")

    foreign, own = asyncio.run(asyncio.wait_for(play(), 60))
    assert ("websocket.close", 4403) == (foreign["type"], foreign["code"])
    assert "websocket.accept" == own["type"]


def test_where_a_token_is_needed_it_alone_decides(engine):
    """No browser sends it by itself, so a client that sends it was given it."""
    keyring = Keyring()
    keyring.add(TOKEN, Access("ours", frozenset(Role)))
    bearer = {"authorization": f"Bearer {TOKEN}"}

    answers = asked(
        engine,
        *(("/ojs/v1/jobs", JOB, {**headers, **bearer}) for headers in FOREIGN),
        *(("/ojs/v1/jobs", JOB, headers) for headers in FOREIGN),
        keyring=keyring,
    )

    assert [201] * 6 + [401] * 6 == [status for status, _ in answers]


def test_a_name_that_was_allowed_is_answered_to(engine):
    answers = asked(
        engine,
        ("/ojs/v1/jobs", JOB, {"host": "jobs.example", "origin": "https://jobs.example"}),
        ("/ojs/v1/jobs", JOB, {"host": "jobs.example", "origin": "https://other.example"}),
        names=["jobs.example"],
    )

    assert [201, 403] == [status for status, _ in answers]


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
)
@pytest.mark.parametrize("path", ["/ojs/v1/jobs", "/penstock/v1/enqueue"])
def test_a_body_that_is_not_said_to_be_json_is_refused(engine, path, kind):
    headers = {"content_type": kind} if kind else {"content-type": None}

    ((status, answer),) = asked(engine, (path, JOB, headers))

    assert (400, "unsupported_media_type") == (status, answer["error"]["code"])
    assert "Content-Type: application/json" in answer["error"]["message"]
    assert [] == engine.jobs()


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "application/JSON; charset=utf-8",
        "application/openjobspec+json",
        "application/vnd.x+json",
    ],
)
def test_every_media_type_of_json_is_read(engine, kind):
    ((status, _),) = asked(engine, ("/ojs/v1/jobs", JOB, {"content_type": kind}))

    assert 201 == status


def test_an_empty_form_from_a_browser_changes_nothing_not_even_from_a_page_of_its_own(engine):
    engine.enqueue([NewJob("task", queue="mail")])
    path, form = "/ojs/v1/queues/mail/pause", {"content-type": "application/x-www-form-urlencoded"}
    own = {"origin": "http://localhost:8080", "sec_fetch_site": "same-origin"}

    answers = asked(
        engine,
        (path, None, {**form, **own}),
        (path, None, {"content-type": None, **own}),
        (path, None, {**form, "origin": "https://evil.example"}),
        ("/ojs/v1/queues/mail/resume", None, {"content-type": None}),  # a program's, as ever
        (path, None, own),
    )

    assert [400, 400, 403, 200, 200] == [status for status, _ in answers]


@pytest.mark.parametrize("test_mode", [False, True])
@pytest.mark.parametrize("wanted", ["quiet", "terminate"])
def test_what_a_job_asks_of_its_worker_is_heeded_in_test_mode_only(engine, test_mode, wanted):
    fetch = {"queues": ["default"], "worker_id": "w"}
    job = {**JOB, "meta": {"test_directive": wanted}}

    async def play():
        async with serving(engine, test_mode=test_mode) as site:
            await ask(site, "/ojs/v1/jobs", job)
            _, fetched = await ask(site, "/ojs/v1/workers/fetch", fetch)
            beat = {"worker_id": "w", "active_jobs": [each["id"] for each in fetched["jobs"]]}
            return await ask(site, "/ojs/v1/workers/heartbeat", beat)

    _, answer = asyncio.run(play())
    assert (wanted if test_mode else "running") == answer["directive"] == answer["state"]
    assert 1 == len(answer["jobs_extended"])


def test_without_test_mode_nothing_can_be_emptied(engine):
    ((status, _),) = asked(engine, ("/ojs/v1/admin/reset", None, {}))

    assert 404 == status


@pytest.mark.parametrize(
    ("fact", "field"),
    [
        ({"worker_id": "w" * 257}, "worker_id"),
        ({"hostname": "h" * 257}, "hostname"),
        ({"queues": ["q"] * 1_001}, "queues"),
        ({"queues": ["q" * 257]}, "queues[0]"),
        ({"queues": ["q" * 256] * 1_000}, "queues"),
        ({"labels": ["l"] * 101}, "labels"),
        ({"pid": 10**30}, "pid"),
        ({"concurrency": -1}, "concurrency"),
        ({"state": "s" * 65}, "state"),
        ({"active_jobs": 10**30}, "active_jobs"),
        ({"active_jobs": ["x"] * 10_001}, "active_jobs"),
    ],
    ids=range(11),
)
def test_a_worker_that_says_too_much_of_itself_hears_which_field_it_is(engine, fact, field):
    ((status, answer),) = asked(engine, ("/ojs/v1/workers/heartbeat", {"worker_id": "w", **fact}, {}))

    assert (400, field) == (status, answer["error"]["details"]["field"])


def test_a_path_is_one_line_of_the_log_whatever_it_says(engine, caplog):
    caplog.set_level(logging.INFO, "penstock.server")

    asked(engine, ("/x%0a2026-01-01 ERROR forged%1b[31m", None, {"method": "GET"}))

    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("GET /x%0a2026-01-01 ERROR forged%1b[31m 404 ")
    assert line.isprintable()


@pytest.mark.parametrize("address", ["192.0.0.192", "168.63.129.16", "100.100.100.200", "169.254.169.254"])
def test_nothing_is_sent_to_where_clouds_keep_the_secrets_of_their_machines(address):
    with pytest.raises(InvalidError, match=address):
        check_url(f"http://{address}/", loopback=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost"])
def test_the_own_machine_is_called_where_that_is_allowed_in_either_way_to_write_it(host):
    check_url(f"http://{host}/", loopback=True)
    with pytest.raises(InvalidError, match="nothing is sent"):
        check_url(f"http://{host}/", loopback=False)
