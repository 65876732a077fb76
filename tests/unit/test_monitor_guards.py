"""What the door of the monitor holds against those who try it: guesses, proxies, neighbours, odd paths."""

import asyncio
from contextlib import closing, suppress

import pytest

from penstock.engine import open_engine
from penstock.errors import InvalidError
from penstock.http.access import Access, Role
from penstock.http.addresses import is_loopback, proxy_address
from penstock.http.cross_site import Visitors
from penstock.http.tokens import Keyring
from penstock.monitor import Monitor, live, patience, sessions
from penstock.monitor.live import Live
from tests.support.asgi import ask, serving
from tests.support.looking import BROWSER, HOST, look

TOKEN, VIEWER = "operator-01234567", "viewer-0123456789"


def keys(*tokens):
    made = Keyring()
    for token in tokens:
        made.add(token, Access(token, frozenset(Role)))
    return made


@pytest.fixture
def engine():
    with closing(open_engine(":memory:")) as made:
        yield made


@pytest.fixture
def guarded(engine):
    return Monitor(engine, keyring=keys(TOKEN, VIEWER))


def signed_in(monitor, token=TOKEN, **options):
    """Sign in; return the cookie as a browser sends it back."""
    (cookie,) = look(monitor, "/sign-in", form={"token": token}, **options).cookies
    return cookie.partition(";")[0]


def guess(engine, n):
    """Return a cookie that is sealed with a token that might have been."""
    token = f"guess-{n:012}"
    return signed_in(Monitor(engine, keyring=keys(token)), token)


def test_cookies_sealed_with_wrong_tokens_are_held_up_as_wrong_tokens_are(guarded, engine):
    before = signed_in(guarded)
    statuses = [look(guarded, "/", cookie=guess(engine, n)).status for n in range(patience.WRONG + 1)]

    right = signed_in(Monitor(engine, keyring=keys(TOKEN)))
    assert [303] * patience.WRONG + [429] == statuses
    assert 429 == look(guarded, "/", cookie=right).status
    assert 429 == look(guarded, "/sign-in", form={"token": TOKEN}).status
    assert 303 == look(guarded, "/sign-in", form={"token": TOKEN}, client="192.0.2.7").status
    # A session that was let in before is no guess.
    assert 200 == look(guarded, "/", cookie=before).status


def test_a_program_whose_token_was_let_in_is_not_kept_out_by_the_guesses_of_others(guarded):
    def asked(token):
        return look(guarded, "/", json=True, authorization=f"Bearer {token}").status

    before = asked(TOKEN)
    guesses = {asked(f"guess-{n:012}") for n in range(patience.WRONG)}

    assert (200, {401}) == (before, guesses)
    assert (200, 429) == (asked(TOKEN), asked(VIEWER))


def test_a_browser_that_keeps_a_cookie_whose_token_is_gone_can_sign_in(guarded, engine):
    old = guess(engine, 1)

    led = [look(guarded, "/", cookie=old) for _ in range(3 * patience.WRONG)]
    page = look(guarded, "/sign-in", cookie=old)

    assert {303} == {answer.status for answer in led}
    assert "Max-Age=0" in led[0].cookies[0]
    assert 200 == page.status
    assert 303 == look(guarded, "/sign-in", form={"token": TOKEN}, cookie=old).status


def test_a_session_that_was_signed_out_is_known_no_more(guarded):
    cookie = signed_in(guarded)
    word = sessions.form_word(cookie.partition("=")[2])

    look(guarded, "/sign-out", form={"form": word}, cookie=cookie)

    assert 303 == look(guarded, "/", cookie=cookie).status


def test_what_is_noted_of_cookies_is_bounded():
    noted = sessions.Noted()
    for n in range(sessions.NOTED + 10):
        noted.note(str(n))

    assert sessions.NOTED == len(noted._kept)
    assert ("9" not in noted, "10" in noted) == (True, True)


def test_an_address_that_is_none_takes_no_more_room_than_one():
    slow = patience.Patience()
    for n in range(patience.WRONG):
        slow.note_wrong("x" * 100_000 + str(n), 1)

    assert {64} == {len(client) for client in slow._of}
    assert slow.refused_for("x" * 99_999, 2)


def test_addresses_that_a_socket_for_both_kinds_has_are_told_apart():
    slow = patience.Patience()
    for _ in range(patience.WRONG):
        slow.note_wrong("::ffff:192.0.2.1", 1)

    assert slow.refused_for("192.0.2.1", 2)
    assert not slow.refused_for("::ffff:192.0.2.2", 2)


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        ("192.0.2.7", {}),
        ("", {}),
        ("testclient", {}),
        ("127.0.0.1", {"x-forwarded-for": "127.0.0.1"}),
        ("127.0.0.1", {"X-Forwarded-Host": "jobs.example.com"}),
        ("127.0.0.1", {"forwarded": "for=127.0.0.1"}),
        ("127.0.0.1", {"x-real-ip": "127.0.0.1"}),
        ("127.0.0.1", {"via": "1.1 cache"}),
    ],
)
def test_mounted_without_a_hook_it_answers_this_machine_only_and_says_what_to_do(engine, client, headers):
    refused = look(Monitor(engine), "/", client=client, json=True, **headers)

    assert (403, "visitor_not_known") == (refused.status, refused.json["error"]["code"])
    assert "who=" in refused.text
    assert 403 == look(Monitor(engine), "/static/monitor.css", client=client, **headers).status


@pytest.mark.parametrize("client", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_mounted_without_a_hook_it_answers_this_machine(engine, client):
    assert is_loopback(client)
    assert 200 == look(Monitor(engine), "/", client=client).status


def test_a_server_that_checked_who_can_reach_it_lets_in_whom_it_lets_in(engine):
    assert 200 == look(Monitor(engine, visitors=Visitors()), "/", client="192.0.2.7").status


@pytest.mark.parametrize(
    ("root", "written"),
    [
        ("/ops; Domain=evil.example", "/ops%3B%20Domain=evil.example"),
        ("/a,b", "/a%2Cb"),
        ("//evil.example", "/evil.example"),
        ("/\\evil.example", "/%5Cevil.example"),
        ("/é\r\nX: 1", "/%C3%A9%0D%0AX:%201"),
        ('/"><script>', "/%22%3E%3Cscript%3E"),
    ],
)
def test_a_path_it_is_mounted_under_says_nothing_else_in_headers_and_pages(engine, root, written):
    made = Monitor(engine, keyring=keys(TOKEN))
    answer = look(made, "/sign-in", form={"token": TOKEN, "next": "/gates"}, root=root)
    page = look(made, "/sign-in", root=root)

    assert (303, f"{written}/gates") == (answer.status, answer.header("location"))
    assert f"Path={written}" == answer.cookies[0].split("; ")[1]
    assert page.text.count(f"{written.replace(chr(39), '&#39;')}/static/") >= 3


def test_a_dialect_leads_to_pages_below_where_the_server_is_mounted(engine):
    async def led():
        async with serving(engine, site=lambda keyring, visitors: Monitor(engine, keyring=keyring)) as app:
            messages = []

            async def rooted(scope, receive, send):
                await app({**scope, "root_path": "//evil.example"}, receive, send)

            rooted.service = app.service
            await ask(rooted, "/instances", method="GET", send=messages.append, accept=BROWSER)
            return dict(messages[0]["headers"])[b"location"]

    assert b"/evil.example/workflows" == asyncio.run(led())


def test_a_monitor_that_is_mounted_below_another_has_a_cookie_of_its_own(guarded):
    above, below = signed_in(guarded), signed_in(guarded, VIEWER, root="/ops")
    page = look(guarded, "/", root="/ops", cookie=f"{below}; {above}")

    assert above.partition("=")[0] != below.partition("=")[0]
    assert f"signed in as <b>{VIEWER}</b>" in page.text


def test_over_tls_neither_other_names_of_the_host_nor_its_pages_without_tls_set_the_cookie(guarded):
    assert signed_in(guarded, scheme="https").startswith("__Host-penstock-8080=")
    assert signed_in(guarded, scheme="https", root="/ops").startswith("__Secure-penstock-8080-")


def test_the_nearest_of_several_cookies_counts_and_odd_ones_of_other_servers_do_not(guarded):
    cookie = signed_in(guarded)
    name = cookie.partition("=")[0]

    assert 200 == look(guarded, "/", cookie=f'other={{"a": [1, 2]}}; "; {cookie}; {name}=elsewhere').status


def test_a_port_that_is_none_is_no_part_of_a_name(guarded):
    for host in (f"localhost:{'9' * 300}", "localhost:²"):
        answer = look(
            guarded, "/sign-in", form={"token": TOKEN}, host=host.encode().decode("latin-1"),
            origin=f"http://{host.encode().decode('latin-1')}",
        )  # fmt: skip
        assert {"penstock"} == {cookie.partition("=")[0] for cookie in answer.cookies}


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b'{"form": "\xff"}', 400),
        ("application/json", b'{"form": "\xed\xa0\x80"}', 400),
        ("application/x-www-form-urlencoded", b"form=\xff", 400),
        ("application/x-www-form-urlencoded", b"form=%FF", 400),
        ("text/plain", b"form=x", 415),
        ("multipart/form-data; boundary=x", b"--x", 415),
        (None, b"form=x", 415),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(engine, kind, body, status):
    answer = sent(Monitor(engine), "/sign-out", body, kind)

    assert status == answer


def sent(monitor, path, body, kind):
    """Post a body; return the status."""
    headers = {"host": HOST, "origin": f"http://{HOST}", "accept": "application/json"}
    headers |= {} if kind is None else {"content-type": kind}
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"", "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "server": ("127.0.0.1", 8080),
    }  # fmt: skip
    found = []

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(message):
        found.append(message.get("status"))

    asyncio.run(monitor(scope, receive, send))
    return found[0]


@pytest.mark.parametrize("length", [8_000, 60_000])
def test_a_very_long_address_is_answered(guarded, length):
    long = "x" * length
    answers = [
        look(guarded, f"/{long}"), look(guarded, f"/{long}", json=True), look(guarded, f"/static/{long}"),
        look(guarded, f"/jobs?words={long}", authorization=f"Bearer {TOKEN}"),
        look(guarded, f"/{long}", authorization=f"Bearer {TOKEN}"),
    ]  # fmt: skip

    assert [303, 401, 404] == [answer.status for answer in answers[:3]]
    assert {200, 400} >= {answers[3].status}
    assert 404 == answers[4].status
    assert max(len(answer.header("location") or "") for answer in answers) < 9_000
    assert max(len(answer.body) for answer in answers[2:]) < 100_000


def test_only_the_head_of_a_stream_is_sent_to_head(guarded):
    answer = look(guarded, "/live", method="HEAD", authorization=f"Bearer {TOKEN}")

    assert (200, b"") == (answer.status, answer.body)
    assert answer.header("content-type").startswith("text/event-stream")


def test_a_stream_ends_with_the_session(monkeypatch):
    monkeypatch.setattr(live, "EVERY", 0.01)
    states = iter(range(1_000))

    async def look_at():
        return next(states)

    async def work():
        made, signed_in_ = Live(look_at), [True]
        stream = made.events((None, "anna"), lambda: signed_in_[0])
        heard = [await anext(stream) for _ in range(3)]
        signed_in_[0] = False
        rest = [event async for event in stream]
        return heard, rest, made.has_room((None, "anna")), made._listeners

    heard, rest, has_room, listeners = asyncio.run(asyncio.wait_for(work(), 20))

    assert (3, []) == (len(heard), rest)
    assert has_room
    assert not listeners


def test_one_token_cannot_take_all_streams(monkeypatch):
    monkeypatch.setattr(live, "STREAMS", 2)

    async def look_at():
        return "same"

    async def work():
        made = Live(look_at)
        streams = [made.events(("acme", "desk"), lambda: True) for _ in range(2)]
        for stream in streams:
            await anext(stream)
        full = made.has_room(("acme", "desk")), made.has_room(("acme", "other"))
        with suppress(asyncio.CancelledError):
            await streams[0].aclose()
        return full, made.has_room(("acme", "desk"))

    assert ((False, True), True) == asyncio.run(asyncio.wait_for(work(), 20))


def test_a_proxy_is_named_by_its_address_or_its_network():
    assert ["10.0.0.7", "10.0.0.0/24", "::1"] == [
        proxy_address(each) for each in ("10.0.0.7", "10.0.0.0/24", "0:0:0:0:0:0:0:1")
    ]
    for wrong in ("*", "proxy.example.com", "10.0.0.7/24", ""):
        with pytest.raises(InvalidError, match="--trusted-proxy"):
            proxy_address(wrong)
