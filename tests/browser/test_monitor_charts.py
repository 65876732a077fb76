"""Charts in a real browser: there, legible in light and dark, wide and narrow, and they follow the store."""

from contextlib import closing
from datetime import datetime, timedelta

import pytest

from penstock.clock import SystemClock
from penstock.engine import open_engine
from penstock.job import NewJob
from tests.support.clock import FakeClock
from tests.support.devtools import NARROW, WIDE
from tests.support.monitored import monitored
from tests.support.past import MINUTE, live
from tests.support.stores import new_file
from tests.support.timing import until

PAGES = {
    "/": 1,
    "/?last=week": 1,
    "/gate?key=api:stripe": 3,
    "/gate?key=render&last=day": 4,
    "/gates": 0,
    "/queues": 0,
    "/timeline?as=table&span=900": 0,
}
# What of the drawings has less contrast than 3 with what is behind it, by the formula of WCAG 2.  What only helps the
# eye does not count: lines of a grid, and what lies below a line.
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
  for (const shape of document.querySelectorAll("main :is(path, rect, circle, line, text)")) {
    const helps = shape.closest(".grid, .base, .wash, .band, .spark-area, .track");
    if (helps || !shape.checkVisibility()) continue;
    const style = getComputedStyle(shape);
    const ink = style.stroke === "none" || shape.matches(".layer") ? style.fill : style.stroke;
    const least = shape.nodeName === "text" ? 4.5 : 3;
    const one = light(rgba(ink)), other = light(behind(shape));
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < least) wrong.push(`${shape.nodeName}.${shape.getAttribute("class")}: ${contrast.toFixed(2)}`);
  }
  return [...new Set(wrong)];
})()
"""
# Words in charts that reach out of their card or stand on each other, and charts without height or width.
_WRONG = """
(() => {
  const wrong = [];
  for (const chart of document.querySelectorAll("main svg[role=img]")) {
    if (!chart.checkVisibility()) continue;
    const box = chart.getBoundingClientRect();
    if (box.width < 20 || box.height < 4) wrong.push(`${chart.getAttribute("class")} is ${box.width} by ${box.height}`);
    const card = chart.closest(".card").getBoundingClientRect();
    const words = [...chart.querySelectorAll("text")].filter((each) => each.checkVisibility());
    const boxes = words.map((each) => each.getBoundingClientRect());
    boxes.forEach((one, n) => {
      const text = words[n].textContent;
      if (one.left < card.left || one.right > card.right) wrong.push(`${text} reaches out of its card`);
      for (const [m, other] of boxes.slice(n + 1).entries()) {
        const apart = one.right <= other.left || other.right <= one.left ||
          one.bottom - 3 <= other.top || other.bottom - 3 <= one.top;
        if (!apart) wrong.push(`${text} stands on ${words[n + 1 + m].textContent}`);
      }
    });
  }
  return wrong;
})()
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    path = new_file(tmp_path_factory.mktemp("store") / "jobs.db")
    clock = FakeClock(SystemClock().now() - 30 * MINUTE)
    with closing(open_engine(path, clock=clock)) as made:
        live(made, clock, minutes=30)
    with closing(open_engine(path)) as made:
        yield made


@pytest.fixture(scope="module")
def site(engine):
    with monitored(engine) as made:
        yield made


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_charts_are_there_and_legible_in_light_and_dark(browser, site, width):
    tab = browser.page(width)
    wrong = {}
    for path, charts in PAGES.items():
        tab.open(site.url + path)
        found = [*tab.eval(_WRONG), *tab.cut_off(), *tab.errors()]
        for dark in (False, True):
            tab.theme(dark=dark)
            found += tab.eval(_FAINT)
        if found:
            wrong[path] = found
        assert charts == tab.eval("document.querySelectorAll('main svg.chart').length")
        assert tab.eval("document.querySelectorAll('svg path[d]:not([d=\"\"])').length") > 2

    assert {} == wrong


def test_a_chart_follows_the_store_and_looks_back_further_by_a_link(browser, site, engine):
    tab = browser.page()
    tab.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    tab.open(site.url + "/gate?key=api:stripe")
    until(lambda: tab.text(".live").startswith("Live"))
    tab.eval("document.querySelector('main .spark, main .chart').kept = 1")
    tiles = tab.text(".tiles")
    at, written = tab.eval(
        "(() => { const e = document.querySelector('tspan'); return [e.dataset.at, e.textContent] })()"
    )
    assert (
        written == f"{datetime.fromisoformat(at) + timedelta(hours=5, minutes=30):%H:%M}"
    )  # as the reader's clock has it

    engine.enqueue([NewJob(task="more", queue="default") for _ in range(3)])
    engine.shut("api:stripe", engine.clock.now() + 10 * MINUTE)

    until(lambda: tab.text(".tiles") != tiles)
    assert tab.eval("document.querySelector('main .chart').kept") == 1
    until(lambda: "gate.shut" in tab.text("main"))
    tab.click(".choices a:nth-child(2)")
    until(lambda: "last=day" in tab.eval("location.search"))
    tab.loaded()
    assert "Last day" in tab.text("#past")
    assert [] == tab.errors()
