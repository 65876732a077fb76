"""Who may change nothing from the pages of the monitor: each action refuses them, over HTTP, and changes nothing."""

from penstock.monitor.actions.table import ACTIONS
from tests.support.monitored import OPERATOR, VIEWER, monitored

WHY = "the provider is down"
EVERY = sorted(ACTIONS)


def test_a_viewer_sees_no_form_and_changes_nothing(engine, site):
    screen = site.browser(VIEWER)
    statuses = set()
    for path in EVERY:
        programs = (site.program(VIEWER, path), site.program(VIEWER, path, {"reason": WHY}))
        statuses |= {answer.status for answer in (screen.get(path), screen.post(path, reason=WHY), *programs)}

    assert {403} == statuses
    assert "this needs the role operator" in screen.get(EVERY[0]).shown
    assert [] == engine.audit()


def test_without_a_token_nothing_is_changed(engine, site):
    stranger = site.browser()
    statuses = {(stranger.get(path).status, stranger.post(path, reason=WHY).status) for path in EVERY}

    assert {(303, 401)} == statuses
    assert {401} == {site.program("wrong-0123456789abc", path, {"reason": WHY}).status for path in EVERY[:2]}
    assert [] == engine.audit()


def test_a_page_of_another_site_changes_nothing(engine, anna):
    word = anna.get("/gates/pause").fields["form"]
    statuses = set()
    for path in EVERY:
        foreign = anna.post(path, origin="https://evil.example", form=word, reason=WHY)
        nowhere = anna.post(path, origin=None, form=word, reason=WHY)
        statuses |= {foreign.status, nowhere.status}

    assert {403} == statuses
    assert "only a page of this server may send this" in foreign.shown
    assert [] == engine.audit()


def test_a_form_of_another_session_changes_nothing(engine, site, anna):
    other = site.browser(OPERATOR).get("/gates/pause").fields["form"]
    answers = [anna.post(path, form=word, reason=WHY) for path in EVERY for word in (other, "", "\xff")]

    assert {403} == {answer.status for answer in answers}
    assert "this form is not of your session" in answers[0].shown
    assert [] == engine.audit()


def test_a_read_only_monitor_changes_nothing(engine):
    with monitored(engine, operate=False) as site:
        visitor = site.browser()
        answers = [ask for path in EVERY for ask in (visitor.get(path), visitor.post(path, reason=WHY))]

    assert {403} == {answer.status for answer in answers}
    assert "this monitor only shows" in answers[0].shown
    assert [] == engine.audit()


def test_what_belongs_to_another_tenant_is_not_there(engine, acme):
    form = acme.get("/gates/pause").fields["form"]
    statuses = set()
    for path in (path for path in EVERY if ACTIONS[path].has_tenant):
        seen, sent = acme.get(f"{path}?tenant=other"), acme.post(path, form=form, tenant="other", reason=WHY)
        statuses |= {seen.status, sent.status}

    assert {404} == statuses
    assert [] == engine.audit()


def test_what_belongs_to_all_is_not_changed_for_one_tenant(engine, acme):
    form = acme.get("/gates/pause").fields["form"]
    shared = [path for path in EVERY if ACTIONS[path].for_all]
    answers = [ask for path in shared for ask in (acme.get(path), acme.post(path, form=form, reason=WHY))]

    assert {403} == {answer.status for answer in answers}
    assert None is engine.maintenance()
