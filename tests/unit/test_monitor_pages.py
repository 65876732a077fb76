"""What the pages of the monitor show: as HTML and as JSON, to whom, and what they say to nonsense."""

import re
from contextlib import closing
from urllib.parse import quote, urlencode

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.errors import StoreBusyError, StoreDownError
from penstock.http.access import Access, Role
from penstock.http.tokens import Keyring
from penstock.job import NewInstance, NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Limit, Numbers, Window
from penstock.monitor import Monitor, tallies
from penstock.monitor.pages.table import PAGES
from tests.support.busy import ODD, fill
from tests.support.looking import BROWSER, look

OPERATOR, VIEWER, TENANT = "operator-01234567", "viewer-0123456789", "tenant-0123456789"
NEEDED = {"/gate": {"key": "api:stripe"}, "/job": {"id": "watched"}, "/workflow": {"id": "run"}}
EVERY = [
    f"{page.path}{'?' if page.path in NEEDED else ''}{urlencode(NEEDED.get(page.path, {}))}" for page in PAGES
]
LONG = "k" * 1_000


@pytest.fixture(scope="module")
def engine():
    with closing(open_engine(":memory:")) as made:
        fill(made)
        yield made


@pytest.fixture(scope="module")
def monitor(engine):
    keyring = Keyring()
    keyring.add(OPERATOR, Access("on-call", frozenset(Role)))
    keyring.add(VIEWER, Access("screen", frozenset({Role.VIEWER})))
    keyring.add(TENANT, Access("acme", frozenset({Role.VIEWER}), "acme"))
    return Monitor(engine, keyring=keyring)


def seen(monitor, path, token=OPERATOR, **query):
    """Ask for the JSON of a page."""
    query = {name: value for name, value in query.items() if value is not None}
    address = f"{path}?{urlencode(query)}" if query else path
    return look(monitor, address, json=True, authorization=f"Bearer {token}")


def page(monitor, path, token=OPERATOR, **query):
    """Ask for the HTML of a page."""
    address = f"{path}?{urlencode(query)}" if query else path
    return look(monitor, address, authorization=f"Bearer {token}")


@pytest.mark.parametrize("path", EVERY)
def test_every_page_is_html_for_a_browser_and_json_for_a_program(monitor, path):
    html = page(monitor, path)
    plain = seen(monitor, path)

    assert (200, "text/html; charset=utf-8") == (html.status, html.header("content-type"))
    assert (200, "application/json") == (plain.status, plain.header("content-type"))
    assert "<main" in html.text
    assert isinstance(plain.json, dict)


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (BROWSER, "text/html"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        (None, "application/json"),
        ("text/html;q=0.5, application/json", "application/json"),
        ("text/html;q=0", "application/json"),
        ("TEXT/HTML", "text/html"),
        ("text/html;q=nonsense", "application/json"),
    ],
)
def test_what_is_welcome_decides_between_them(monitor, accept, media):
    answer = look(monitor, "/", accept=accept, authorization=f"Bearer {OPERATOR}")

    assert answer.header("content-type").startswith(media)


def test_a_query_may_ask_for_json_in_a_browser(monitor):
    assert "application/json" == page(monitor, "/", format="json").header("content-type")


@pytest.mark.parametrize("path", EVERY)
def test_links_lead_to_pages_that_are_there(monitor, path):
    html = page(monitor, path).text
    links = {link.replace("&amp;", "&") for link in re.findall(r'href="([^"#]+)"', html)}

    wrong = {link: look(monitor, link, authorization=f"Bearer {OPERATOR}").status for link in sorted(links)}

    assert {} == {link: status for link, status in wrong.items() if status != 200}


@pytest.mark.parametrize("path", EVERY)
def test_mounted_under_a_path_all_that_a_page_names_is_under_it(monitor, path):
    html = look(monitor, path, root="/ops/jobs", authorization=f"Bearer {OPERATOR}").text
    named = re.findall(r'(?:href|src|action|data-live)="([^"#][^"]*)"', html)

    assert [] == [link for link in named if not link.startswith("/ops/jobs/")]


def test_what_is_written_in_keys_and_arguments_stays_text(monitor):
    html = "".join(page(monitor, path, **query).text for path, query in [
        ("/gates", {}), ("/jobs", {}), ("/gate", {"key": ODD, "tenant": "acme"}), ("/find", {"q": ODD}),
    ])  # fmt: skip

    assert "<b>bold" not in html
    assert "<script>alert" not in html
    assert "\u202e" not in re.sub(r'(?:value|href|data-key)="[^"]*"', "", html)
    assert r"\u{202e}" in html


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/gate", {"key": "no such"}, 404),
        ("/gate", {}, 400),
        ("/gate", {"key": "\0"}, 400),
        ("/gate", {"key": "\udc80".encode("utf-8", "surrogateescape")}, 400),
        ("/gate", {"key": "k" * 10_000}, 404),
        ("/gate", {"key": "k" * 20_000}, 400),
        ("/gate", {"key": "<script>"}, 404),
        ("/gate", {"key": "api:stripe", "tenant": "nobody"}, 404),
        ("/job", {}, 400),
        ("/job", {"id": "no such"}, 404),
        ("/job", {"id": "\u202e"}, 404),
        ("/workflow", {"id": "no such"}, 404),
        ("/jobs", {"state": "lost"}, 400),
        ("/jobs", {"before": "-1"}, 400),
        ("/jobs", {"before": "9" * 30}, 400),
        ("/jobs", {"before": "²"}, 400),
        ("/jobs", {"since": "yesterday"}, 400),
        ("/jobs", {"before": str(2**63 - 1)}, 200),
        ("/jobs", {"key": "%_'\"\\"}, 200),
        ("/jobs", {"task": "\u202e<b>"}, 200),
        ("/jobs", {"id": "k" * 10_000}, 200),
        ("/gates", {"order": "size"}, 400),
        ("/gates", {"after": "zzz", "order": "name"}, 200),
        ("/gates", {"prefix": "k" * 10_000}, 200),
        ("/workflows", {"kind": "odd"}, 400),
        ("/workflows", {"before": "x"}, 400),
        ("/schedules", {"after": "\u202e"}, 200),
        ("/find", {"q": "\0"}, 400),
        ("/plan", {"key": "no such"}, 404),
        ("/plan", {"key": "\0"}, 400),
        ("/plan", {"key": "api:stripe", "hours": "0"}, 400),
        ("/plan", {"key": "api:stripe", "tenant": "other"}, 404),
        ("/plan", {"as": "verse"}, 400),
        ("/find", {"q": "k" * 10_000}, 200),
        ("/nothing", {}, 404),
        ("/../etc/passwd", {}, 404),
        ("/static/../asgi.py", {}, 404),
    ],
)
def test_nonsense_gets_a_page_that_says_so(monitor, path, query, status):
    html, plain = page(monitor, path, **query), seen(monitor, path, **query)

    assert (status, status) == (html.status, plain.status)
    assert status == 200 or {"code", "message"} == set(plain.json["error"])
    assert "Traceback" not in html.text


def test_a_query_of_very_many_fields_is_refused(monitor):
    assert 400 == page(monitor, "/jobs", **{f"f{n}": n for n in range(100)}).status


def test_an_error_names_the_field(monitor):
    assert "before: 'x' must be a whole number" in page(monitor, "/jobs", before="x").text.replace(
        "&#39;", "'"
    )


def test_a_token_of_a_tenant_sees_its_own_and_nothing_else(monitor):
    html = "".join(page(monitor, path.partition("?")[0], TENANT).text for path in EVERY)
    jobs, gates = (
        seen(monitor, "/jobs", TENANT).json["jobs"],
        seen(monitor, "/gates", TENANT, order="name").json,
    )

    assert {"acme"} == {job["tenant"] for job in jobs}
    assert {ODD} == {row["gate"]["key"] for row in gates["gates"]}
    for strange in ("sync_account", "api:stripe", "render", "eu-1/4410", "warehouse", "nightly"):
        assert strange not in html


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/gate", {"key": "api:stripe", "tenant": ""}),
        ("/gate", {"key": "api:stripe"}),
        ("/job", {"id": "watched"}),
        ("/job", {"id": "watched", "tenant": ""}),
        ("/workflow", {"id": "run"}),
    ],
)
def test_what_is_another_tenants_is_not_there(monitor, path, query):
    assert 404 == seen(monitor, path, TENANT, **query).status


def test_a_tenant_cannot_name_another_one(monitor):
    assert {"acme"} == {job["tenant"] for job in seen(monitor, "/jobs", TENANT, tenant="globex").json["jobs"]}


def test_jobs_are_found_by_all_that_they_have_in_common(monitor):
    def found(**query):
        return {job["task"] for job in seen(monitor, "/jobs", **query).json["jobs"]}

    assert {"sync_account"} == found(key="api:stripe")
    assert {"import_rows"} == found(error="TimeoutError", state="failed")
    assert {"send_mail", "odd"} == found(queue="mail")
    assert {"nightly"} == found(state="scheduled", queue="reports")
    assert {"odd"} == found(tenant="acme")
    assert {"odd"} == found(words="<script>")
    assert {"sync_account"} == found(worker="eu-1/4410", state="running")
    assert {"watched"} == found(id="watch")
    assert set() == found(task="none")


def test_a_list_goes_on_where_it_stopped(monitor):
    seen_ids, before = [], None
    while True:
        answer = seen(monitor, "/jobs", before=before).json
        seen_ids += [job["id"] for job in answer["jobs"]]
        before = answer["before"]
        if before is None:
            break

    assert len(seen_ids) == len(set(seen_ids)) > 100


def test_numbers_are_told_with_what_they_come_from(monitor):
    sources = seen(monitor, "/gate", key="api:stripe").json["sources"]

    told = [(source["origin"], source["numbers"]["rate"]["limit"], source["holds"]) for source in sources]
    assert [("override", 12, True), ("configured", 100, False), ("jobs bring", 60, False)] == told


def test_a_start_is_told_as_exact_only_where_clocks_alone_decide_it(monitor):
    by_clock = seen(monitor, "/gate", key="smtp").json["detail"]["line"]
    by_slots = seen(monitor, "/gate", key="render").json["detail"]["line"]

    assert {True} == {job["exact"] for job in by_clock}
    assert {False} == {job["exact"] for job in by_slots}
    assert "≈" in page(monitor, "/gate", key="render").text
    assert re.search(r'data-form="tenths">\d\d:\d\d:\d\d\.\d<', page(monitor, "/gate", key="smtp").text)


def test_one_slot_elsewhere_makes_a_start_a_guess():
    now = 0
    with closing(open_engine(":memory:")) as engine:
        rate = Limit("r", Numbers(rate=Window(1, 60 * SECOND)))
        engine.enqueue([NewJob(task="t", limits=(rate,))])
        now = engine.claim(["default"], 1, worker="w").jobs[0].started
        limits = (rate, Limit("s", Numbers(slots=1)))
        engine.enqueue(
            [NewJob(task="t", limits=limits, id="both"), NewJob(task="t", limits=(rate,), id="one")]
        )
        line = engine.gate_detail("r").line

    assert [("both", False), ("one", False)] == [(job.id, job.exact) for job in line]
    assert now < line[0].starts < line[1].starts


def test_secrets_are_hidden_from_viewers(monitor):
    for path, query in (
        ("/job", {"id": "secret"}),
        ("/jobs", {"task": "secret"}),
        ("/find", {"q": "secret"}),
    ):
        assert "hunter2" not in page(monitor, path, VIEWER, **query).text
        assert "hunter2" not in seen(monitor, path, VIEWER, **query).body.decode()
        assert "hunter2" in page(monitor, path, OPERATOR, **query).text
    assert 400 == seen(monitor, "/jobs", VIEWER, words="hunter2").status


def test_the_life_of_a_job_tells_what_it_waited_for_and_where_it_ran(monitor):
    life = seen(monitor, "/job", id="watched").json["life"]

    assert ["wait", "run"] == [part["what"] for part in life]
    assert "on eu-1/4410" == life[1]["note"]
    assert all(part["begin"] <= part["end"] for part in life)


def test_a_run_of_a_workflow_is_shown_as_jobs_are():
    limits = (Limit("flow", Numbers(slots=1)),)
    with closing(open_engine(":memory:")) as engine:
        runs = [NewInstance("order", id=f"run-{n}", queue="q", limits=limits) for n in range(3)]
        engine.create_instances(runs)
        monitor = Monitor(engine)
        gate, held = look(monitor, "/gate?key=flow"), look(monitor, "/workflow?id=run-1")
        admitted, found = look(monitor, "/workflow?id=run-0", json=True).json, look(monitor, "/find?q=run-2")
        engine.cancel_instance("run-1")
        ended = look(monitor, "/workflow?id=run-1", json=True).json["life"]
        live = look(
            monitor, f"/timeline?since={engine.clock.now()}&until={engine.clock.now() + 9 * SECOND}"
        ).text
        table = look(monitor, "/timeline?as=table").text

    assert {"/workflow?id=run-0", "/workflow?id=run-1", "/workflow?id=run-2"} <= set(
        re.findall(r'href="([^"]*run-\d)"', gate.text)
    )
    assert "flow: 1 running of 1 at once" in held.text
    assert "waited <span" in held.text
    assert (["run"], ["flow"], ["wait"]) == (
        [part["what"] for part in admitted["life"]], admitted["facts"]["needs"], [part["what"] for part in ended]
    )  # fmt: skip
    assert 'href="/workflow?id=run-2"' in found.text
    assert 'href="/workflow?id=run-0"' in table
    assert " data-live data-fixed" in live


def test_a_job_that_was_forgotten_meanwhile_is_not_found(engine, monitor):
    engine.enqueue([NewJob(task="t", queue="brief", id="brief")])
    job = engine.claim(["brief"], 1, worker="w").jobs[0]
    engine.settle([Settlement(job.seq, job.fence, Done())])
    assert 200 == seen(monitor, "/job", id="brief").status

    engine.forget("brief")

    assert 404 == seen(monitor, "/job", id="brief").status


@pytest.mark.parametrize("error", [StoreBusyError("it is locked"), StoreDownError("it is gone")])
def test_a_store_that_cannot_be_read_is_told_of(error):
    def fail():
        raise error

    html, plain = look(Monitor(fail), "/"), look(Monitor(fail), "/", json=True)

    assert (503, 503) == (html.status, plain.status)
    assert str(error) in html.text


def test_a_store_is_tried_again_with_the_next_page(engine):
    engines = iter([StoreDownError("it is not there yet"), engine])

    def open_it():
        found = next(engines)
        if isinstance(found, Exception):
            raise found
        return found

    monitor = Monitor(open_it)

    assert [503, 200, 200] == [look(monitor, "/").status for _ in range(3)]


def test_a_mistake_of_ours_is_told_without_its_traceback(engine, monkeypatch):
    monkeypatch.setattr(type(engine), "queue_looks", lambda *_, **__: 1 / 0)

    answer = look(Monitor(engine), "/")

    assert 500 == answer.status
    assert "the monitor made a mistake" in answer.text
    assert "ZeroDivisionError" not in answer.text


def test_static_files_are_kept_by_the_browser_as_long_as_they_are_the_same(monitor):
    first = look(monitor, "/static/monitor.css")
    again = look(monitor, "/static/monitor.css", if_none_match=first.header("etag"))

    assert (200, 304, b"") == (first.status, again.status, again.body)
    assert "text/css; charset=utf-8" == first.header("content-type")


def test_head_answers_as_get_without_a_body(monitor):
    head = look(monitor, "/", method="HEAD", authorization=f"Bearer {OPERATOR}")

    assert (200, b"") == (head.status, head.body)


def test_all_scripts_together_are_small(monitor):
    sizes = [len(body) for name, body in monitor._static._files.items() if name.endswith(".js")]

    assert 0 < sum(sizes) <= 100_000


def test_names_in_addresses_survive(monitor):
    links = re.findall(r'href="(/gate\?[^"]+)"', page(monitor, "/gates").text)
    link = next(link for link in links if "bold" in link).replace("&amp;", "&")

    assert quote(ODD, safe="") in link.replace("+", "%20")
    assert 200 == look(monitor, link, authorization=f"Bearer {OPERATOR}").status


def test_how_many_there_are_stands_beside_pages_and_is_counted_for_all_pages_together(engine, monkeypatch):
    counted, count = [], type(engine).all_counted

    def counting(engine, tenant=None):
        counted.append(tenant)
        return count(engine, tenant)

    monkeypatch.setattr(type(engine), "all_counted", counting)
    keyring = Keyring()
    keyring.add(VIEWER, Access("screen", frozenset({Role.VIEWER})))
    keyring.add(TENANT, Access("acme", frozenset(Role), "acme"))
    made = Monitor(engine, keyring=keyring, store="jobs on postgres-1")
    pages = {
        token: [page(made, path, token).text for path in ("/", "/gates", "/jobs")]
        for token in (VIEWER, TENANT)
    }
    seen(made, "/", VIEWER)
    cookie = look(made, "/sign-in", form={"token": VIEWER}).cookies[0].partition(";")[0]
    foot = look(made, "/nothing", cookie=cookie).text

    assert [None, "acme"] == counted
    told = {
        token: [dict(re.findall(r'<a href="(/\w+)"[^>]*>\w+ <span>([\d,+]+)</span>', text)) for text in texts]
        for token, texts in pages.items()
    }
    assert {"/gates", "/jobs", "/queues", "/workers", "/schedules", "/workflows"} == set(told[VIEWER][0])
    assert told[VIEWER][0] == told[VIEWER][1] == told[VIEWER][2]
    assert ("1", "3") == (told[TENANT][0]["/gates"], told[TENANT][0]["/jobs"])
    assert int(told[VIEWER][0]["/jobs"]) > 100
    assert "<p><b>jobs</b> on postgres-1</p>" in foot
    assert "viewer · <input" in foot
    assert "postgres-1" not in pages[TENANT][0]
    monkeypatch.setattr(tallies, "EVERY", 0)
    page(made, "/", VIEWER)
    assert [None, "acme", None] == counted
