"""The monitor in a real browser: nothing is forbidden or cut off, it follows the store, and it works by keyboard."""

import json
import signal
import time
from contextlib import closing, contextmanager

import pytest

from penstock.engine import open_engine
from penstock.job import NewJob
from penstock.monitor.pages.table import PAGES
from tests.support.busy import fill
from tests.support.command import Process
from tests.support.devtools import NARROW, WIDE
from tests.support.postgres import empty_store
from tests.support.server import TOP, Served
from tests.support.stores import new_file, on_sqlite
from tests.support.timing import until

NEEDED = {"/gate": "?key=api:stripe", "/job": "?id=watched", "/workflow": "?id=run", "/find": "?q=account"}
EVERY = [f"{page.path}{NEEDED.get(page.path, '')}" for page in PAGES]
MORE = [
    "/gate?key=smtp",
    "/jobs?state=waiting&key=smtp",
    "/workflows?kind=steps",
    "/job?id=secret",
    "/gates?order=name",
]
VIEWER = "viewer-0123456789"

# Text whose contrast with what is behind it is less than 4.5, by the formula of WCAG 2.
_FAINT = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const wrong = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    const box = element.getBoundingClientRect();
    if (!text || box.width < 2 || element.closest(".sr, .skip, svg")) continue;
    const one = light(rgba(getComputedStyle(element).color)), other = light(behind(element));
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) wrong.push(`${element.className || element.tagName}: ${contrast.toFixed(2)}`);
  }
  return [...new Set(wrong)];
})()
"""
# Controls without a name, pages without one main part or one heading, and the same id twice.
_UNNAMED = """
(() => {
  const wrong = [];
  for (const e of document.querySelectorAll("a, button, input:not([type=hidden]), select, summary, svg[role=img]")) {
    const name = e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length || e.title;
    if (!name) wrong.push(e.outerHTML.slice(0, 80));
  }
  for (const [what, most] of [["main", 1], ["h1", 1], ["nav", 1]]) {
    const found = document.querySelectorAll(what).length;
    if (found !== most) wrong.push(`${found} of ${what}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  wrong.push(...ids.filter((id, n) => ids.indexOf(id) !== n));
  if (!document.documentElement.lang) wrong.push("no language");
  return wrong;
})()
"""


@contextmanager
def shown(store):
    """Run `penstock monitor` on a store; give its address."""
    process = Process("monitor", store, "--port", "0", folder=TOP, streams=["stderr"])
    try:
        yield process.stderr.readline().split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stderr.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request, tmp_path_factory):
    if request.param == "postgres":
        with empty_store() as url:
            yield url
    else:
        yield new_file(tmp_path_factory.mktemp("store") / "jobs.db")


@pytest.fixture(scope="module")
def engine(store):
    with closing(open_engine(store)) as made:
        fill(made)
        yield made


@pytest.fixture(scope="module")
def address(engine, store):
    with shown(store) as url:
        yield url


@on_sqlite  # every page shows the same of every store: `tests/contract` and the test without script ask both
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_nothing_on_any_page_is_forbidden_cut_off_faint_or_without_a_name(browser, address, width, dark):
    tab = browser.page(width, dark=dark)
    wrong = {}
    for path in EVERY + MORE:
        tab.open(address + path)
        tab.eval("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        found = [*tab.cut_off(), *tab.eval(_FAINT), *tab.eval(_UNNAMED), *tab.errors()]
        tab.complaints.clear()
        if found:
            wrong[path] = found

    assert {} == wrong


def test_a_page_follows_the_store_and_keeps_focus_and_scroll(browser, address, engine):
    tab = browser.page(NARROW)
    tab.open(address + "/queues")
    until(lambda: tab.text(".live").startswith("Live"))
    tab.eval(
        "document.querySelector('main a').focus(); scrollTo(0, 90); window.kept = document.activeElement; 1"
    )

    engine.enqueue([NewJob(task="late", queue="appeared")])

    until(lambda: "appeared" in tab.text("main"))
    assert tab.eval("document.activeElement === window.kept")
    assert tab.eval("scrollY > 0 || document.documentElement.scrollHeight <= innerHeight")
    assert [] == tab.errors()


def test_a_change_that_comes_while_a_page_is_fetched_is_shown_too(browser, address, engine):
    tab = browser.page()
    tab.open(address + "/queues")
    until(lambda: tab.text(".live").startswith("Live"))
    tab.eval("""
        (() => {
          const get = fetch;
          window.held = [];
          window.fetch = async (...all) => {
            const answer = await get(...all);
            await new Promise((go) => held.push(go));
            return answer;
          };
          window.heard = 0;
          new EventSource(document.body.dataset.live).addEventListener("change", () => { heard += 1 });
        })()
    """)

    engine.enqueue([NewJob(task="t", queue="before")])
    until(lambda: tab.eval("held.length") == 1)
    until(lambda: tab.eval("heard") >= 1)
    known = tab.eval("heard")
    engine.enqueue([NewJob(task="t", queue="meanwhile")])
    until(lambda: tab.eval("heard") > known)

    until(lambda: tab.eval("held.splice(0).forEach((go) => go())") or "meanwhile" in tab.text("main"))


def test_a_page_that_follows_asks_at_most_once_a_second(browser, address, engine):
    tab = browser.page()
    tab.open(address + "/")
    until(lambda: tab.text(".live").startswith("Live"))
    tab.eval(
        "window.asked = 0; const f = fetch; window.fetch = (...all) => { window.asked += 1; return f(...all) }; 1"
    )
    began = time.monotonic()
    while time.monotonic() < began + 3:
        engine.enqueue([NewJob(task="many", queue="busy")])
    took = time.monotonic() - began

    assert 1 <= tab.eval("window.asked") <= took + 1


def test_a_page_says_when_it_is_no_longer_live(browser, store, engine):
    tab = browser.page()
    with shown(store) as url:
        tab.open(url + "/")
        until(lambda: tab.text(".live").startswith("Live"))

    until(lambda: tab.text(".live").startswith("Not live"))


def test_every_page_works_without_script(browser, address):
    tab = browser.page()
    tab.without_script()
    for path in EVERY:
        tab.open(address + path)
        assert "UTC" in tab.text("body")
        assert tab.text("main")
        assert "as of" in tab.text(".live")


def test_the_search_field_is_a_key_away_and_finds(browser, address):
    tab = browser.page()
    tab.open(address + "/gates")
    tab.press("/")
    tab.type("smtp")
    tab.press("Enter")

    until(lambda: tab.eval("location.pathname") == "/find")
    tab.loaded()
    assert "smtp" in tab.text("main")


def test_the_first_key_skips_to_the_content_and_every_link_is_reached(browser, address):
    tab = browser.page()
    tab.open(address + "/")
    tab.press("Tab")
    assert "Skip to the content" == tab.eval("document.activeElement.textContent")
    reached = set()
    for _ in range(80):
        tab.press("Tab")
        reached.add(tab.eval("document.activeElement.getAttribute('href') || document.activeElement.tagName"))
    links = json.loads(
        tab.eval(
            "JSON.stringify([...document.querySelectorAll('main a')].map((a) => a.getAttribute('href')))"
        )
    )

    assert set(links[:20]) <= reached
    assert tab.eval("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_other_numbers_of_a_gate_are_tried_by_keyboard_without_script_and_compared(browser, address):
    tab = browser.page()
    tab.without_script()
    tab.open(address + "/gate?key=smtp")
    tab.eval("document.querySelector('main a[href^=\"/plan\"]').focus()")
    tab.press("Enter")
    until(lambda: tab.eval("location.pathname") == "/plan" and tab.eval("document.readyState") == "complete")
    filled_in = [tab.eval(f"document.getElementById('f-{side}_throttle').value") for side in "ab"]
    while tab.eval("document.activeElement.id") != "f-b_throttle":
        tab.press("Tab")
    tab.type("5/1s")
    tab.press("Enter")
    until(lambda: tab.text("#result"))
    tab.loaded()
    wrong = {}
    for dark in (False, True):
        tab.theme(dark=dark)
        for width in (WIDE, NARROW):
            tab.resize(width)
            wrong[width, dark] = [*tab.cut_off(), *tab.eval(_FAINT), *tab.eval(_UNNAMED), *tab.errors()]

    assert ["10/1s", "20/1s"] == filled_in
    assert "5/1s" == tab.eval("document.getElementById('f-b_throttle').value")
    assert "With A the line is through after" in tab.text("#result")
    assert [False, True] == tab.eval(
        "[...document.querySelectorAll('svg.chart')].map((e) => !!e.clientWidth)"
    )
    assert {()} == {tuple(each) for each in wrong.values()}


def test_the_theme_is_kept_from_page_to_page(browser, address):
    tab = browser.page()
    tab.open(address + "/")
    light = tab.eval("getComputedStyle(document.body).backgroundColor")
    for _ in range(2):  # light, then dark
        tab.click("[data-theme-switch]")
    dark = tab.eval("getComputedStyle(document.body).backgroundColor")

    tab.open(address + "/gates")

    assert light != dark == tab.eval("getComputedStyle(document.body).backgroundColor")
    assert "dark" == tab.eval("document.documentElement.dataset.theme")


def test_a_browser_signs_in_looks_and_signs_out(browser, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"{VIEWER} roles=viewer name=screen\n")
    server = Served(new_file(tmp_path / "jobs.db"), "--token-file", str(tokens))
    server.start()
    try:
        tab = browser.page()
        tab.open(server.url + "/gates")
        assert tab.eval("location.pathname + location.search") == "/sign-in?next=%2Fgates"
        tab.eval("document.getElementById('token').focus()")
        tab.type(VIEWER)
        tab.press("Enter")
        until(lambda: tab.eval("location.pathname") == "/gates")
        tab.loaded()
        assert "signed in as screen" in tab.text(".foot")
        assert "" == tab.eval("document.cookie")
        tab.click(".foot button")
        until(lambda: tab.eval("location.pathname") == "/sign-in")
        tab.open(server.url + "/jobs")
        assert tab.eval("location.pathname") == "/sign-in"
        assert [] == tab.errors()
    finally:
        server.stop()


def test_a_browser_at_a_path_of_a_protocol_is_led_to_the_page(browser, tmp_path):
    server = Served(new_file(tmp_path / "jobs.db"))
    server.start()
    try:
        tab = browser.page()
        for path, page in (("/instances", "/workflows"), ("/cron", "/schedules"), ("/rate-limits", "/gates")):
            tab.open(server.url + path)
            assert page == tab.eval("location.pathname")
        assert [] == tab.errors()
    finally:
        server.stop()


def test_the_page_of_the_api_has_nothing_inline_and_works(browser, tmp_path):
    server = Served(new_file(tmp_path / "jobs.db"))
    server.start()
    try:
        tab = browser.page()
        tab.open(server.url + "/docs")
        until(lambda: tab.eval("document.querySelectorAll('details').length") > 10)
        tab.eval("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        assert [] == tab.errors()
    finally:
        server.stop()
