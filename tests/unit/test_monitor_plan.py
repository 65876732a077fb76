"""Plans that are played from the monitor: what comes of two sides, what is refused, and that it is bounded."""

import threading
from contextlib import closing, contextmanager

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.http.access import Access, Role
from penstock.http.tokens import Keyring
from penstock.monitor import Monitor
from penstock.monitor.plans import plays
from penstock.monitor.plans.plays import Plays
from penstock.simulate.apart import Outcome
from tests.support.looking import look
from tests.support.timing import until

VIEWERS = [f"viewer-{n}-0123456789" for n in range(3)]
JOBS = {"line": "60", "median": "1s", "workers": "60"}
WORDS = """
workers.concurrency = 60
[limits.mailbox]
rate = "{}"

[[jobs]]
limits = ["mailbox"]
duration = "1s"
arrivals = {{ count = 60 }}
"""


@pytest.fixture(scope="module")
def engine():
    with closing(open_engine(":memory:")) as made:
        yield made


@pytest.fixture
def monitor(engine):
    keyring = Keyring()
    for number, token in enumerate(VIEWERS):
        keyring.add(token, Access(f"screen {number}", frozenset({Role.VIEWER})))
    made = Monitor(engine, keyring=keyring)
    yield made
    made.close()


def play(monitor, token=VIEWERS[0], *, json=True, **fields):
    """Send a plan with a token in the header, as programs do."""
    return look(monitor, "/plan", json=json, form=fields, authorization=f"Bearer {token}")


def test_two_sides_are_told_as_a_program_wants_them(monitor):
    numbers = play(monitor, **JOBS, a_rate="30/1m", b_rate="60/1m", b_slots="4").json
    words = play(monitor, **{"as": "text"}, a=WORDS.format("30/1m"), b=WORDS.format("60/1m")).json

    (a, b), (first, second) = numbers["sides"], words["sides"]
    waits = [side["waits"] for side in (a, b, first, second)]
    assert [60] * 8 == [each[what] for each in waits for what in ("arrived", "started")]
    assert (60 * SECOND, 60 * SECOND) == (a["through"], waits[0]["longest"])
    assert waits[0]["p95"] > waits[1]["longest"] >= waits[1]["p95"] > waits[1]["p50"] > 0
    assert {"gate", "workers"} == {use["limit"] for use in a["uses"]}
    assert a["line"] == first["line"]
    assert ("mailbox", 1.0) == (first["uses"][0]["limit"], first["uses"][0]["held"])


def test_fields_are_written_out_as_plans_in_words(monitor):
    fields = {**JOBS, "a_throttle": "10/1s+5", "b_slots": "0", "key": 'one {odd} "key"', "do": "write-out"}
    words = {field["name"]: field["value"] for field in play(monitor, **fields).json["fields"]}

    assert 'throttle = "10/1s"\nburst = 5' in words["a"]
    assert 'key = "one {{odd}} \\"key\\""\nslots = 0' in words["b"]
    a, b = play(monitor, **{"as": "text"}, **words).json["sides"]
    assert (60, 0, 60) == (a["waits"]["started"], b["waits"]["started"], b["waits"]["still"])


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"line": "many"}, "line", "'many' must be a whole number"),
        ({"line": ""}, "line", "say how many jobs are in line, or how many come"),
        ({"line": "20001"}, "line", "must be at most 20,000"),
        ({"median": ""}, "median", "must not be empty"),
        ({"median": "soon"}, "median", "is not a duration"),
        ({"p95": "1ms"}, "p95", "must not be less than what half of them take"),
        ({"come": "0/1s"}, "come", "must be more than 0"),
        ({"come": "5/1s"}, "span", "must not be empty if jobs come"),
        ({"come": "5/1s", "span": "1d"}, "span", "about 432,060 jobs would arrive; at most 20,000 can be played"),
        ({"span": "2000d"}, "span", "must be at most 400d"),
        ({"workers": "0"}, "workers", "must be from 1 to 100,000"),
        ({"b_rate": "30"}, "b_rate", "'30' must be a number and a time"),
        ({"a_throttle": "1/1s+0"}, "a_throttle", "burst"),
        ({"as": "text"}, "a", "must not be empty"),
        ({"as": "text", "a": "x = "}, "a", "plan: Invalid value"),
        ({"as": "text", "a": WORDS.format("30")}, "a", "plan, line 4: limits.mailbox.rate: '30' must be"),
        ({"as": "text", "a": WORDS.format("3/1m"), "b": "x = " + "[" * 9_000}, "b", "its lists are too deep"),
        ({"as": "text", "a": WORDS.format("3/1m"), "b": "a = " + "1" * 9_000}, "b", "plan: "),
        ({"as": "text", "a": 'until = "999d"' + WORDS.format("3/1m")}, "a", "until: must be at most 400d"),
    ],
)  # fmt: skip
def test_a_bad_plan_comes_back_as_filled_in_with_the_error_beside_its_field(monitor, changes, field, told):
    answer = play(monitor, json=False, **{**JOBS, **changes})
    plain = play(monitor, **{**JOBS, **changes})

    html = answer.text.replace("&#39;", "'").replace("&#34;", '"')
    beside = html.partition(f'id="p-{field}"')[2].partition("</p>")[0]
    assert (400, 400) == (answer.status, plain.status)
    assert told in beside
    assert plain.json["error"]["message"].startswith(f"{field}: ")
    assert f'aria-describedby="p-{field} ' in html
    assert all(value in html for value in changes.values())


def test_one_that_is_wrong_only_when_it_is_played_is_told_too(monitor):
    clash = """
        limits.a = { key = "k:{x}", slots = 1 }
        limits.b = { key = "{y}", slots = 1 }
        jobs = [{ limits = ["a", "b"], keys = { x = ["1"], y = ["k:1"] }, duration = "1s", arrivals = { count = 1 } }]
    """

    assert "is also a key of 'a'" in play(monitor, **{"as": "text"}, a=clash).json["error"]["message"]


def test_only_a_form_of_ones_own_session_is_played(monitor):
    def sent(**headers):
        return look(monitor, "/plan", form=JOBS, **headers).status

    signed_in = look(monitor, "/sign-in", form={"token": VIEWERS[0]}).cookies[0].partition(";")[0]

    assert 401 == sent()
    assert (403, 403) == (sent(cookie=signed_in), sent(cookie=signed_in, origin="https://evil.example"))
    assert 403 == look(Monitor(lambda: None), "/plan", form=JOBS, origin=None).status


@contextmanager
def held(monkeypatch):
    """Have plays begin and go on until the room is left; give a way to wait for so many."""
    go_on, begun = threading.Event(), []

    def wait(_self, order):
        begun.append(order)
        assert go_on.wait(60)
        return Outcome(wrong=0, problem="was held up")

    with monkeypatch.context() as patched:
        patched.setattr(Plays, "_played", wait)
        try:
            yield lambda many: until(lambda: len(begun) == many)
        finally:
            go_on.set()


def test_a_visitor_plays_one_at_a_time_and_all_together_a_few(monitor, monkeypatch):
    asked = {**JOBS, "a_slots": "1"}
    answers = []
    threads = [
        threading.Thread(target=lambda token=token: answers.append(play(monitor, token, **asked).status))
        for token in VIEWERS[: plays.AT_ONCE]
    ]
    with held(monkeypatch) as wait_for:
        for thread in threads:
            thread.start()
        wait_for(plays.AT_ONCE)
        again, more = play(monitor, VIEWERS[0], json=False, **asked), play(monitor, VIEWERS[-1], **asked)
        page = look(monitor, "/plan", authorization=f"Bearer {VIEWERS[0]}")
    for thread in threads:
        thread.join(60)

    assert (429, 429, 200) == (again.status, more.status, page.status)
    assert "a plan of yours is being played" in again.text
    assert 'name="a_slots" value="1"' in again.text
    assert "plans of others are being played" in more.json["error"]["message"]
    assert "5" == more.header("retry-after")
    assert [400, 400] == answers
    assert 200 == play(monitor, VIEWERS[-1], **{**asked, "do": "write-out"}).status


def test_a_play_is_bounded_in_time_and_says_how_far_it_came(monitor, monkeypatch):
    monkeypatch.setattr(plays, "TIME", 0)
    answer = play(monitor, json=False, **{**JOBS, "line": "600"}, a_rate="1/1m")

    assert 200 == answer.status
    assert "it would have taken too long" in answer.text


def test_what_is_played_ends_with_the_monitor(monitor, monkeypatch):
    processes = []
    started = Plays._started

    def note(self):
        processes.append(started(self))
        monitor.close()
        return processes[-1]

    monkeypatch.setattr(Plays, "_started", note)
    answer = play(monitor, **JOBS)

    assert 503 == answer.status
    assert processes[0].returncode < 0
