"""Who may look at the monitor, and what keeps pages of other sites out."""

import re
from contextlib import closing

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.http.access import Access, Role
from penstock.http.tokens import Keyring
from penstock.monitor import Monitor, patience, sessions
from tests.support.looking import HOST, look

TOKEN = "0123456789abcdef"
VIEWER = "viewer-0123456789"
PRODUCER = "producer-01234567"
WRONG = "wrong-0123456789abc"


@pytest.fixture
def engine():
    with closing(open_engine(":memory:")) as made:
        yield made


@pytest.fixture
def open_monitor(engine):
    return Monitor(engine)


@pytest.fixture
def keyring():
    made = Keyring()
    made.add(TOKEN, Access("on-call", frozenset(Role)))
    made.add(VIEWER, Access("screen", frozenset({Role.VIEWER})))
    made.add(PRODUCER, Access("shop", frozenset({Role.PRODUCER})))
    return made


@pytest.fixture
def guarded(engine, keyring):
    return Monitor(engine, keyring=keyring)


def signed_in(monitor, token=TOKEN, **options):
    """Sign in; return the cookie as a browser sends it back."""
    (cookie,) = look(monitor, "/sign-in", form={"token": token}, **options).cookies
    return cookie.partition(";")[0]


def test_every_answer_forbids_all_that_is_not_its_own(open_monitor):
    for path in ("/", "/nothing", "/static/monitor.css", "/static/nothing.js"):
        policy = look(open_monitor, path).header("content-security-policy")

        assert policy == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )


def test_every_answer_keeps_its_type_and_its_address_to_itself(open_monitor):
    answer = look(open_monitor, "/")

    assert "nosniff" == answer.header("x-content-type-options")
    assert "same-origin" == answer.header("referrer-policy")
    assert "DENY" == answer.header("x-frame-options")
    assert "no-store" == answer.header("cache-control")


def test_a_site_that_is_allowed_may_show_it_in_a_frame(engine):
    answer = look(Monitor(engine, framed_by=["https://ops.example.com"]), "/")

    assert answer.header("content-security-policy").endswith("frame-ancestors https://ops.example.com")
    assert None is answer.header("x-frame-options")


def test_a_page_has_nothing_inline(open_monitor):
    page = look(open_monitor, "/").text

    assert [] == re.findall(r"<style|style=|<script(?![^>]*src=)|\son\w+=|javascript:", page)


def test_without_tokens_only_names_of_this_machine_are_answered(open_monitor):
    statuses = [
        look(open_monitor, "/", host=host).status for host in ("localhost", "127.0.0.1:8080", "[::1]:80")
    ]
    strange = look(open_monitor, "/", host="evil.example")

    assert [200, 200, 200] == statuses
    assert 403 == strange.status
    assert "not known as a name of this server" in strange.text


def test_without_tokens_a_page_of_another_site_is_not_answered(open_monitor):
    answer = look(open_monitor, "/", origin="https://evil.example", json=True)

    assert (403, "origin_not_allowed") == (answer.status, answer.json["error"]["code"])


def test_a_browser_without_a_token_is_led_to_signing_in_and_back(guarded):
    led = look(guarded, "/?a=1&b=2").header("location")
    page = look(guarded, led)

    assert "/sign-in?next=%2F%3Fa%3D1%26b%3D2" == led
    assert 'name="next" value="/?a=1&amp;b=2"' in page.text


def test_a_program_without_a_token_is_told_so(guarded):
    answer = look(guarded, "/", json=True)

    assert (401, "Bearer") == (answer.status, answer.header("www-authenticate"))


def test_a_program_sends_its_token_with_every_request(guarded):
    statuses = [
        look(guarded, "/", json=True, authorization=f"Bearer {token}").status
        for token in (TOKEN, VIEWER, WRONG)
    ]

    assert [200, 200, 401] == statuses


def test_signing_in_sets_a_cookie_for_twelve_hours_that_scripts_and_other_sites_do_not_get(guarded):
    answer = look(guarded, "/sign-in", form={"token": TOKEN, "next": "/?x=1"})
    (cookie,) = answer.cookies

    assert (303, "/?x=1") == (answer.status, answer.header("location"))
    assert ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict"] == cookie.split("; ")[1:]
    assert TOKEN not in cookie


def test_over_tls_the_cookie_is_secure_and_under_a_path_it_is_for_that_path(guarded):
    answer = look(guarded, "/sign-in", form={"token": TOKEN}, scheme="https", root="/ops/jobs")

    assert answer.cookies[0].endswith("; Path=/ops/jobs; Max-Age=43200; HttpOnly; SameSite=Strict; Secure")
    assert "/ops/jobs/" == answer.header("location")


def test_the_cookie_lets_in_and_says_who_is_signed_in(guarded):
    page = look(guarded, "/", cookie=signed_in(guarded, VIEWER))

    assert 200 == page.status
    assert "signed in as <b>screen</b>" in page.text


def test_another_server_with_the_same_token_knows_the_session(guarded, engine, keyring):
    assert 200 == look(Monitor(engine, keyring=keyring), "/", cookie=signed_in(guarded)).status


def test_a_session_is_void_once_its_token_is_gone(guarded, engine):
    rest = Keyring()
    rest.add(VIEWER, Access("screen", frozenset({Role.VIEWER})))

    assert 303 == look(Monitor(engine, keyring=rest), "/", cookie=signed_in(guarded)).status


def test_a_session_ends_after_twelve_hours(keyring):
    now = 1_000 * SECOND
    cookie = sessions.begun(keyring, TOKEN, now)

    assert sessions.access(keyring, cookie, now + sessions.LASTS - SECOND) is not None
    assert None is sessions.access(keyring, cookie, now + sessions.LASTS)


@pytest.mark.parametrize("cookie", ["", ".", "..", "9", "99999999999.aa.bb", "9" * 5_000, "²³.a.b", "é.é.é"])
def test_a_cookie_that_is_made_up_lets_nobody_in(guarded, cookie):
    assert 303 == look(guarded, "/", cookie=f"penstock-8080={cookie}").status


def test_a_cookie_whose_end_was_put_off_lets_nobody_in(guarded):
    name, _, value = signed_in(guarded).partition("=")
    end, nonce, seal = value.split(".")

    assert 303 == look(guarded, "/", cookie=f"{name}={int(end) + 3600}.{nonce}.{seal}").status


def test_a_wrong_token_is_told_so_and_begins_no_session(guarded):
    answer = look(guarded, "/sign-in", form={"token": WRONG})

    assert (403, []) == (answer.status, answer.cookies)
    assert "This token is not known." in answer.text
    assert WRONG not in answer.text


def test_an_address_that_sends_wrong_tokens_must_wait(guarded):
    for _ in range(patience.WRONG):
        look(guarded, "/sign-in", form={"token": WRONG})
    refused = look(guarded, "/sign-in", form={"token": TOKEN})
    other = look(guarded, "/sign-in", form={"token": TOKEN}, client="192.0.2.7")

    assert (429, 303) == (refused.status, other.status)
    assert 0 < int(refused.header("retry-after")) <= 60


def test_wrong_tokens_in_headers_count_too(guarded):
    for _ in range(patience.WRONG):
        look(guarded, "/", json=True, authorization=f"Bearer {WRONG}")

    assert 429 == look(guarded, "/sign-in", form={"token": TOKEN}).status


def test_many_addresses_together_are_slowed_down_and_few_are_remembered():
    slow = patience.Patience()
    for n in range(patience.ADDRESSES + 50):
        slow.note_wrong(f"10.0.{n // 256}.{n % 256}", SECOND)

    assert patience.PAUSE == slow.pause(2 * SECOND)
    assert 0 == slow.pause(62 * SECOND)
    assert patience.ADDRESSES == len(slow._of)


def test_the_addresses_of_one_ipv6_network_count_as_one():
    slow = patience.Patience()
    for n in range(patience.WRONG):
        slow.note_wrong(f"2001:db8::{n}", SECOND)

    assert slow.refused_for("2001:db8::ffff", 2 * SECOND)
    assert not slow.refused_for("2001:db8:1::", 2 * SECOND)


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "evil", "/a\nb", ""]
)
def test_signing_in_leads_nowhere_else(guarded, wanted):
    assert "/" == look(guarded, "/sign-in", form={"token": TOKEN, "next": wanted}).header("location")


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", f"http://{HOST}.evil.example"])
def test_only_a_page_of_ours_signs_in(guarded, origin):
    assert 403 == look(guarded, "/sign-in", form={"token": TOKEN}, origin=origin).status


def test_a_token_without_the_role_may_not_look(guarded):
    answer = look(guarded, "/", cookie=signed_in(guarded, PRODUCER))

    assert 403 == answer.status
    assert "role viewer" in answer.text


def test_signing_out_needs_the_word_of_the_session(guarded):
    cookie = signed_in(guarded)
    page = look(guarded, "/", cookie=cookie).text
    word = re.search(r'name="form" value="(\w{64})"', page)[1]
    other = re.search(r'name="form" value="(\w{64})"', look(guarded, "/", cookie=signed_in(guarded)).text)[1]

    without = look(guarded, "/sign-out", form={}, cookie=cookie)
    strange = look(guarded, "/sign-out", form={"form": other}, cookie=cookie)
    elsewhere = look(guarded, "/sign-out", form={"form": word}, cookie=cookie, origin="https://evil.example")
    out = look(guarded, "/sign-out", form={"form": word}, cookie=cookie)

    assert [403, 403, 403, 303] == [answer.status for answer in (without, strange, elsewhere, out)]
    assert "Max-Age=0" in out.cookies[0]


def test_a_hook_says_who_asks(engine):
    def who(scope):
        name = dict(scope["headers"]).get(b"x-user")
        return name and Access(name.decode(), frozenset({Role.VIEWER}))

    monitor = Monitor(engine, who=who)

    assert 200 == look(monitor, "/", x_user="anna", host="jobs.example.com").status
    assert 403 == look(monitor, "/").status


def test_a_hook_may_be_a_coroutine(engine):
    async def who(_scope):
        return Access("anna", frozenset({Role.VIEWER}))

    assert 200 == look(Monitor(engine, who=who), "/").status


def test_other_methods_and_large_forms_are_refused(open_monitor):
    deleted = look(open_monitor, "/", method="DELETE")
    large = look(open_monitor, "/sign-out", form={"form": "x" * 70_000})

    assert (405, "GET, HEAD, POST") == (deleted.status, deleted.header("allow"))
    assert 413 == large.status


def test_the_words_of_a_session_differ_from_its_cookie(open_monitor):
    first = look(open_monitor, "/")
    value = first.cookies[0].partition(";")[0].partition("=")[2]

    assert value not in first.text


def test_a_header_that_is_no_token_of_ours_is_meant_for_a_proxy(guarded):
    cookie = signed_in(guarded)
    statuses = [
        look(guarded, "/", cookie=cookie, authorization="Basic b3BzOnNlY3JldA==").status for _ in range(9)
    ]

    assert [200] * 9 == statuses


def test_over_tls_a_page_of_the_same_host_without_it_is_not_ours(guarded):
    origins = [f"http://{HOST}", f"https://{HOST}"]

    statuses = [
        look(guarded, "/sign-in", form={"token": TOKEN}, scheme="https", origin=origin).status
        for origin in origins
    ]

    assert [403, 303] == statuses


def test_a_session_that_would_last_longer_than_twelve_hours_is_none(keyring):
    text = "99999999999.word"
    cookie = f"{text}.{keyring.seal(TOKEN, sessions._sealed_text(text))}"

    assert None is sessions.access(keyring, cookie, 0)


def test_a_hook_cannot_let_in_a_tenant_without_a_name(engine):
    monitor = Monitor(engine, who=lambda _: Access("anna", frozenset(Role), ""))

    assert 403 == look(monitor, "/").status
