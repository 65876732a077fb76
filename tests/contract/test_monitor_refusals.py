"""Who may change nothing from the pages of the monitor: each action refuses them, over HTTP, and changes nothing."""

from penstock.engine import look_jobs
from penstock.job import NewJob, Schedule
from penstock.limits.rules import Limit, Numbers
from penstock.monitor.actions.table import ACTIONS
from tests.support.monitored import OPERATOR, TENANT, VIEWER, keyring, monitored

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


def test_one_tenant_adds_no_job_to_a_gate_that_all_share(engine, site, acme):
    shared, own = Limit("api", Numbers(slots=1), shared=True), Limit("own", Numbers(slots=1))
    engine.enqueue(
        [NewJob("t", id=limit.key, queue="q", tenant="acme", limits=(limit,)) for limit in (shared, own)]
    )
    for limit in (shared, own):
        nightly = NewJob("t", queue="q", tenant="acme", limits=(limit,))
        engine.set_schedule(Schedule(limit.key, "0 0 * * *", nightly, tenant="acme"))

    answers = {}
    for path, name in (("/jobs/copy", "id"), ("/schedules/fire", "schedule")):
        for key in ("api", "own"):
            answers[path, key] = acme.send(f"{path}?{name}={key}", reason=WHY).status
    refused = site.program(TENANT, "/jobs/copy", {"id": "api", "reason": WHY})

    assert [403, 303, 403, 303] == list(answers.values())
    assert "shared by all tenants" in refused.json["error"]["message"]
    assert [("api", 1), ("own", 3)] == [
        (limit.key, sum(limit in job.limits for job in engine.jobs())) for limit in (shared, own)
    ]
    # Those who are bound to no tenant decide for all.
    anna = site.browser(OPERATOR)
    assert 303 == anna.send("/jobs/copy?id=api&tenant=acme", reason=WHY).status


def test_one_tenant_is_not_told_how_many_jobs_of_all_were_looked_at(engine, site, monkeypatch):
    monkeypatch.setattr(look_jobs, "LOOKED_AT", 5)
    engine.enqueue([NewJob("t", id=f"{n}", queue="q", tenant=("acme", "other")[n % 2]) for n in range(12)])

    answers = {token: site.program(token, "/jobs?task=none") for token in (OPERATOR, TENANT)}
    pages = {token: site.ask("GET", "/jobs?task=none", accept="text/html", authorization=f"Bearer {token}")
             for token in (OPERATOR, TENANT)}  # fmt: skip

    assert [5, None] == [answer.json["looked"] for answer in answers.values()]
    assert "None of the 5 jobs looked at is like that. Looked at 5 jobs." in pages[OPERATOR].shown
    assert "None of the jobs looked at is like that. Look further" in pages[TENANT].shown


def test_forwarded_headers_are_believed_of_named_proxies_only(engine):
    def tries(proxies):
        with monitored(engine, keyring=keyring(), proxies=proxies) as site:
            guesses = [
                site.ask("GET", "/", authorization="Bearer wrong-0123456789a", x_forwarded_for=f"192.0.2.{n}")
                for n in range(7)
            ]
            signed_in = site.ask(
                "POST", "/sign-in", f"token={OPERATOR}", content_type="application/x-www-form-urlencoded",
                origin=site.url.replace("http", "https"), x_forwarded_proto="https", x_forwarded_for="192.0.2.99",
            )  # fmt: skip
        return [guess.status for guess in guesses], signed_in

    believed, unnamed = tries(("127.0.0.0/8",)), tries(("192.0.2.1",))

    assert ([401] * 7, [401] * 5 + [429] * 2) == (believed[0], unnamed[0])
    assert (303, 429) == (believed[1].status, unnamed[1].status)
    assert "Secure" in believed[1].header("set-cookie")
