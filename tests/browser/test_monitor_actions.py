"""Changes from the monitor in a real browser: by keyboard alone, without script, and many jobs with progress."""

import threading
from contextlib import closing

import pytest

from penstock.engine import Engine, open_engine
from penstock.job import NewJob, Schedule, Settlement, WorkerReport
from penstock.lifecycle.outcomes import Failed
from penstock.limits.rules import Numbers
from tests.support.desk import LEASE, slots
from tests.support.devtools import NARROW, WIDE
from tests.support.monitored import monitored
from tests.support.postgres import empty_store
from tests.support.stores import new_file
from tests.support.timing import until

WHY = "the provider is slow"
JOBS = 2_000
SHOWN = [
    "/gates/override?key=api:stripe&back=/gate%3Fkey%3Dapi:stripe",
    "/bulk/cancel?state=waiting&queue=default",
    "/jobs/forget?id=job-1",
    "/gate?key=api:stripe",
    "/jobs",
    "/job?id=job-1",
    "/queues",
    "/workers",
    "/schedules",
    "/settings",
    "/operations",
    "/audit",
]


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request, tmp_path):
    if request.param == "sqlite":
        with closing(open_engine(new_file(tmp_path / "jobs.db"))) as made:
            yield made
        return
    with empty_store() as url, closing(open_engine(url)) as made:
        yield made


@pytest.fixture
def site(engine):
    engine.enqueue([NewJob("charge", id=f"job-{n}", limits=(slots("api:stripe", 2),)) for n in range(4)])
    (attempt, _) = engine.claim(["default"], 10, worker="w", lease=LEASE).jobs
    engine.settle([_failed(attempt)])
    engine.set_schedule(Schedule("nightly", "0 3 * * *", NewJob("clean")))
    engine.hear([WorkerReport("anna:1:abc", "anna", hands=8, running=1, queues=("default",))])
    engine.override("api:stripe", Numbers(slots=1))
    with monitored(engine) as made:
        yield made


def _failed(attempt):
    return Settlement(attempt.seq, attempt.fence, Failed("Boom", "no", final=True))


def reach(tab, selector):
    """Press Tab until something has the focus."""

    def there():
        tab.press("Tab")
        return tab.eval(f"document.activeElement?.matches({selector!r})")

    until(there)


def arrived(tab, path):
    until(lambda: tab.eval("location.pathname") == path and tab.eval("document.readyState") == "complete")


def test_a_gate_is_overridden_by_keyboard_alone(browser, engine, site):
    tab = browser.page(WIDE)
    tab.open(f"{site.url}/gate?key=api:stripe")
    reach(tab, "a[href^='/gates/override']")
    tab.press("Enter")
    arrived(tab, "/gates/override")
    for field, text in (("for", "15m"), ("reason", WHY)):
        reach(tab, f"#f-{field}")
        tab.type(text)
    reach(tab, "main form button")
    tab.press("Enter")
    arrived(tab, "/gate")

    assert "The override is in force." == tab.text(".done")
    assert (Numbers(1), WHY) == (engine.gate("api:stripe").override, engine.audit(limit=1)[0].reason)
    assert engine.gate("api:stripe").override_until
    assert [] == tab.errors()


def test_a_wrong_value_is_told_beside_its_field_without_script(browser, engine, site):
    tab = browser.page(NARROW)
    tab.without_script()
    tab.open(f"{site.url}/gates/configure?key=api:stripe")
    for field, text in (("slots", "two"), ("reason", WHY)):
        tab.click(f"#f-{field}")
        tab.type(text)
    tab.click("main form button")
    until(lambda: "'two' must be a whole number" in tab.text("#p-slots"))

    assert "two" == tab.eval("document.querySelector('#f-slots').value")
    assert "p-slots h-slots" == tab.eval(
        "document.querySelector('#f-slots').getAttribute('aria-describedby')"
    )
    assert [] == tab.cut_off()
    assert None is engine.gate("api:stripe").configured


def test_many_jobs_are_cancelled_with_progress_and_stopped(browser, engine, site, monkeypatch):
    there, may_go_on, change = threading.Event(), threading.Event(), Engine.change_jobs

    def change_jobs(self, *args):
        done = change(self, *args)
        if engine.count().get("cancelled", 0) >= 100:
            there.set()
            assert may_go_on.wait(60)
        return done

    monkeypatch.setattr(Engine, "change_jobs", change_jobs)
    engine.enqueue([NewJob("send", queue="mail") for _ in range(JOBS)])
    tab = browser.page(WIDE)
    tab.open(f"{site.url}/jobs?queue=mail")
    tab.click("a[href^='/bulk/cancel']")
    arrived(tab, "/bulk/cancel")
    touched = tab.text()
    tab.click("#f-reason")
    tab.type(WHY)
    tab.click("main form button")
    arrived(tab, "/operations")
    assert there.wait(60)
    until(lambda: 0 < tab.eval("document.querySelector('progress').value") < JOBS)
    tab.click("form[action='/operations/stop'] button")
    until(lambda: "asked to stop" in tab.text(".done"))
    may_go_on.set()
    until(lambda: tab.text(".card .tag") == "stopped")  # by itself: the page follows the store

    assert f"Touches {JOBS:,} jobs now." in touched
    done = engine.audit(limit=1)[0].touched
    assert 0 < done < JOBS
    assert done == engine.count()["cancelled"]
    assert [] == tab.errors()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)  # a form looks the same on every store
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True])
def test_forms_and_buttons_fit_and_forbid_nothing(browser, site, width, dark):
    tab = browser.page(width, dark=dark)
    site.browser().send("/queues/pause?queue=default", reason=WHY)
    found = {}
    for path in SHOWN:
        tab.open(f"{site.url}{path}")
        found[path] = tab.cut_off()

    assert {path: [] for path in SHOWN} == found
    assert [] == tab.errors()
