"""The audit in the monitor: what was changed, by whom, through what, from what to what, and why."""

import pytest

from penstock.acting import Actor
from penstock.clock import SECOND
from penstock.limits.rules import Numbers
from tests.support.monitored import OPERATOR, TENANT, VIEWER

WHY = "the provider is slow"


def verbs(site, query="", token=OPERATOR):
    return [entry["verb"] for entry in site.program(token, f"/audit{query}").json["entries"]]


def test_it_shows_who_changed_what_from_what_to_what_and_why(engine, site, anna):
    engine.configure("key", "api:<b>", Numbers(slots=5))
    anna.send("/gates/configure?key=api:%3Cb%3E", slots="3", reason=WHY)

    page = site.browser(VIEWER).get("/audit").shown
    (entry, _) = site.program(VIEWER, "/audit").json["entries"]

    assert all(text in page for text in ("gate.configure", "api:<b>", "anna", "monitor", WHY, '{"slots": 3}'))
    assert ('{"configured": {"slots": 5}}', '{"configured": {"slots": 3}}') == (
        entry["before"],
        entry["after"],
    )


def test_it_is_narrowed_by_who_subject_kind_time_and_tenant(engine, clock, site):
    with engine.acting(Actor("bob", "cli")):
        engine.pause("old")
    clock.advance(3_600 * SECOND)
    engine.pause("mail", tenant="acme")
    engine.configure("key", "mail", Numbers(1))

    found = [
        verbs(site, query)
        for query in (
            "?who=bob",
            "?subject=mail",
            "?kind=queue",
            "?last=30m",
            "?tenant=acme",
            "?through=cli&who=eve",
        )
    ]

    pause, configure = "queue.pause", "gate.configure"
    assert [[pause], [configure, pause], [pause, pause], [configure, pause], [pause], []] == found


def test_a_tenant_sees_its_own_changes_only(engine, site):
    engine.pause("a", tenant="acme")
    engine.pause("b", tenant="other")
    engine.resume("b")

    assert ["queue.pause"] == verbs(site, token=TENANT) == verbs(site, "?tenant=other", token=TENANT)


def test_it_goes_on_by_cursor(engine, site):
    for n in range(60):
        engine.pause(f"queue-{n}")

    first = site.program(OPERATOR, "/audit").json
    second = site.program(OPERATOR, f"/audit?before={first['before']}").json

    assert (50, 10, None) == (len(first["entries"]), len(second["entries"]), second["before"])
    assert "queue-0" == second["entries"][-1]["subject"]


@pytest.mark.parametrize("query", ["?last=soon", "?last=-1h", "?before=x", "?since=-1", "?until=9e9"])
def test_what_cannot_be_read_is_told(site, anna, query):
    answer = anna.get(f"/audit{query}")

    assert 400 == answer.status
    assert query[1:].partition("=")[0] in answer.shown
