"""What operators change from the pages of the monitor, over HTTP: who may, and what becomes of the store."""

import pytest

from penstock.clock import SECOND
from penstock.job import AuditFilter
from penstock.limits.rules import Numbers, Window
from penstock.monitor.actions.table import ACTIONS
from tests.support.desk import slots
from tests.support.monitored import OPERATOR, TENANT, VIEWER, keyring, monitored

WHY = "the provider is down"


@pytest.fixture
def site(engine):
    with monitored(engine, keyring=keyring()) as made:
        yield made


@pytest.fixture
def anna(site):
    """A browser in which an operator of all tenants is signed in."""
    return site.browser(OPERATOR)


@pytest.fixture
def acme(site):
    """A browser in which an operator of the tenant acme is signed in."""
    return site.browser(TENANT)


def last_change(engine):
    """Return the verb, the subject, the tenant, who made it, through what and why."""
    entry = engine.audit(limit=1)[0]
    return entry.verb, entry.subject, entry.tenant, entry.who, entry.through, entry.reason


def test_a_gate_is_configured(engine, anna):
    answer = anna.send("/gates/configure?key=api", slots="3", rate="100/1m", throttle="10/1s+5", reason=WHY)

    assert 303 == answer.status
    wanted = Numbers(3, Window(100, 60 * SECOND), Window(10, SECOND, 5))
    assert wanted == engine.gate("api").configured
    assert ("gate.configure", "api", "", "anna", "monitor", WHY) == last_change(engine)


def test_the_form_shows_what_is_configured_and_without_it_jobs_bring_their_own(engine, anna):
    engine.configure("key", "api", Numbers(3, throttle=Window(10, SECOND, 5)))

    form = anna.get("/gates/configure?key=api")
    anna.send("/gates/configure?key=api", slots="", throttle="", reason=WHY)

    assert ("3", "", "10/1s+5") == tuple(form.fields[name] for name in ("slots", "rate", "throttle"))
    assert None is engine.gate("api").configured


def test_a_gate_is_overridden_for_a_while(engine, clock, anna):
    anna.send("/gates/override?key=api", **{"slots": "2", "for": "15m", "reason": WHY})

    gate = engine.gate("api")
    assert (Numbers(2), clock.now() + 900 * SECOND) == (gate.override, gate.override_until)
    assert ("gate.override", "api", "", "anna", "monitor", WHY) == last_change(engine)


def test_an_override_without_an_end_lasts_until_it_is_cleared(engine, anna):
    anna.send("/gates/override?key=api", slots="2", reason=WHY)
    until = engine.gate("api").override_until
    anna.send("/gates/clear?key=api", reason=WHY)

    assert (None, None) == (until, engine.gate("api").override)
    assert "gate.clear" == last_change(engine)[0]


def test_a_gate_is_paused_and_resumed_and_stays_shut_as_long_as_it_was_to_be(engine, clock, desk, anna):
    desk.enqueue("a b", slots("api", 1))
    anna.send("/gates/shut?key=api", **{"for": "90", "reason": WHY})
    shut_until = engine.gate("api").shut_until
    anna.send("/gates/pause?key=api", reason=WHY)
    clock.advance(100 * SECOND)
    paused = desk.claim()
    anna.send("/gates/resume?key=api", reason=WHY)

    assert clock.now() - 10 * SECOND == shut_until
    assert ("", "a") == (paused, desk.claim())
    verbs = [entry.verb for entry in engine.audit(AuditFilter(kind="gate"))]
    assert ["gate.resume", "gate.pause", "gate.shut"] == verbs


def test_a_gate_that_is_not_paused_is_not_resumed(engine, anna):
    engine.override("api", Numbers(2))

    answer = anna.send("/gates/resume?key=api", reason=WHY)

    assert 409 == answer.status
    assert "gate api is not paused; this needs a paused gate" in answer.shown
    assert Numbers(2) == engine.gate("api").override


def test_the_form_says_how_many_jobs_it_touches(desk, anna):
    desk.enqueue("a b c", slots("api", 1))
    desk.claim()

    assert "Touches 3 jobs now." in anna.get("/gates/pause?key=api").shown


def test_what_was_done_is_told_once_on_the_page_it_leads_back_to(anna):
    answer = anna.send("/gates/pause?key=api&back=/", reason=WHY)
    first, second = anna.follow(answer), anna.get("/")

    assert "/" == answer.header("location")
    assert "The gate is paused." in first.shown
    assert "The gate is paused." not in second.shown


def test_a_wrong_value_brings_the_form_back_filled_in_with_what_is_wrong_beside_it(engine, anna):
    answer = anna.send("/gates/override?key=api", slots="two", rate="100/1m", reason=WHY)

    assert 400 <= answer.status < 500
    assert "'two' must be a whole number" in answer.shown
    assert ("two", "100/1m", WHY, "api") == tuple(
        answer.fields[name] for name in ("slots", "rate", "reason", "key")
    )
    assert 'aria-describedby="p-slots h-slots" aria-invalid="true"' in answer.text
    assert [] == engine.audit()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"slots": "-1"}, "'-1' must be a whole number"),
        ({"slots": "9" * 40}, "must be a whole number"),
        ({"slots": "٣"}, "must be a whole number"),
        ({"rate": "100"}, "must be a number and a time, as in 100/1m"),
        ({"rate": "1/0s"}, "must be at least a microsecond"),
        ({"throttle": "1/1s+0"}, "burst"),
        ({"slots": "1", "for": "soon"}, "write 90 (seconds), 15m, 2h or 1d"),
        ({"slots": "1", "reason": ""}, "must not be empty"),
        ({"slots": "1", "reason": " "}, "must not be empty"),
        ({"slots": "1", "reason": "x" * 501}, "at most 500 characters"),
        ({}, "give at least one of slots, rate and throttle"),
        ({"slots": "1", "key": ""}, "must not be empty"),
        ({"slots": "1", "key": "a\x07b"}, "control characters"),
        ({"slots": "1", "key": "k" * 1_025}, "at most 1,024"),
    ],
)
def test_what_cannot_be_read_changes_nothing(engine, anna, fields, told):
    answer = anna.send("/gates/override?key=api", **{"reason": WHY, **fields})

    assert 400 <= answer.status < 500
    assert told in answer.shown
    assert [] == engine.audit()


def test_a_key_with_markup_is_shown_as_it_is_and_changed(engine, anna):
    key = "<b onclick=alert(1)>\u202e&amp;"
    answer = anna.post("/gates/pause", form=anna.get("/gates/pause").fields["form"], key=key, reason=WHY)
    form = anna.get("/gates/resume?key=%3Cb+onclick%3Dalert(1)%3E%E2%80%AE%26amp%3B")

    assert 303 == answer.status
    assert "<b onclick" not in form.text
    assert Numbers(0) == engine.gate(key).override


def test_a_program_with_a_token_sends_json_and_gets_json(engine, site):
    done = site.program(OPERATOR, "/gates/override", {"key": "api", "slots": 4, "reason": WHY})
    wrong = site.program(OPERATOR, "/gates/override", {"key": "api", "slots": "x", "reason": WHY})
    form = site.program(OPERATOR, "/gates/override?key=api")

    assert (200, {"action": "/gates/override", "done": "The override is in force."}) == (
        done.status,
        done.json,
    )
    assert Numbers(4) == engine.gate("api").override
    assert wrong.json["error"]["message"].startswith("slots: 'x' must be a whole number")
    assert {"number": 0, "more": False} == form.json["touches"]


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"slots": {}}', b'{"slots": 1.5}', b"\xff"])
def test_json_that_cannot_be_read_is_refused(engine, site, body):
    answer = site.ask(
        "POST", "/gates/override", body, authorization=f"Bearer {OPERATOR}", content_type="application/json",
        accept="application/json",
    )  # fmt: skip

    assert 400 == answer.status
    assert [] == engine.audit()


# What an operator of the tenant acme may not do, and what to send: each is refused before it is looked at.
EVERY = sorted(ACTIONS)


@pytest.mark.parametrize("path", EVERY)
def test_who_may_not_operate_sees_no_form_and_changes_nothing(engine, site, path):
    screen = site.browser(VIEWER)
    statuses = [screen.get(path).status, screen.post(path, reason=WHY).status]
    statuses += [site.program(VIEWER, path).status, site.program(VIEWER, path, {"reason": WHY}).status]

    assert [403, 403, 403, 403] == statuses
    assert "this needs the role operator" in screen.get(path).shown
    assert [] == engine.audit()


@pytest.mark.parametrize("path", EVERY)
def test_without_a_token_nothing_is_changed(engine, site, path):
    stranger = site.browser()

    assert (303, 401) == (stranger.get(path).status, stranger.post(path, reason=WHY).status)
    assert [] == engine.audit()


@pytest.mark.parametrize("path", EVERY)
def test_a_page_of_another_site_changes_nothing(engine, anna, path):
    word = anna.get(path).fields["form"]
    foreign = anna.post(path, origin="https://evil.example", form=word, reason=WHY)
    nowhere = anna.post(path, origin=None, form=word, reason=WHY)

    assert [403, 403] == [foreign.status, nowhere.status]
    assert "only a page of this server may send this" in foreign.shown
    assert [] == engine.audit()


@pytest.mark.parametrize("path", EVERY)
def test_a_form_of_another_session_changes_nothing(engine, site, anna, path):
    other = site.browser(OPERATOR).get(path).fields["form"]
    answers = [anna.post(path, form=word, reason=WHY) for word in (other, "", "\xff")]

    assert [403, 403, 403] == [answer.status for answer in answers]
    assert "this form is not of your session" in answers[0].shown
    assert [] == engine.audit()


@pytest.mark.parametrize("path", EVERY)
def test_a_read_only_monitor_changes_nothing(engine, path):
    with monitored(engine, operate=False) as site:
        visitor = site.browser()
        form, sent = visitor.get(path), visitor.post(path, reason=WHY)

    assert (403, 403) == (form.status, sent.status)
    assert "this monitor only shows" in form.shown
    assert [] == engine.audit()


@pytest.mark.parametrize("path", [path for path in EVERY if ACTIONS[path].has_tenant])
def test_what_belongs_to_another_tenant_is_not_there(engine, acme, path):
    form = acme.get(path).fields["form"]
    answers = [
        acme.get(f"{path}?tenant=other"),
        acme.post(path, form=form, tenant="other", reason=WHY),
    ]

    assert [404, 404] == [answer.status for answer in answers]
    assert [] == engine.audit()


def test_a_token_of_a_tenant_changes_what_is_its_own(engine, acme):
    acme.send("/gates/override?key=api", slots="2", reason=WHY)

    assert Numbers(2) == engine.gate("api", "acme").override
    assert ("gate.override", "api", "acme", "acme-desk", "monitor", WHY) == last_change(engine)
