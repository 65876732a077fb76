"""The page of plans on every store: filled in with what the store knows of a gate, and played."""

from urllib.parse import urlencode

import pytest

from penstock.clock import SECOND
from penstock.engine import Engine
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Limit, Numbers, Window
from tests.support.clock import FakeClock
from tests.support.desk import LEASE
from tests.support.monitored import VIEWER, Site

KEY = 'odd:{"a"}'


@pytest.fixture
def used(engine: Engine, clock: FakeClock) -> Engine:
    """Give a store in which jobs of a key took 2 s and more, two at a time, and forty wait."""
    limit = Limit(KEY, Numbers(slots=3, rate=Window(100, 60 * SECOND)))
    engine.enqueue([NewJob("call", limits=(limit,)) for _ in range(60)])
    engine.override(KEY, Numbers(slots=2))
    for spent in (2, 2, 2, 2, 2, 2, 2, 2, 3, 9):
        jobs = engine.claim(["default"], 2, worker="w", lease=LEASE).jobs
        clock.advance(spent * SECOND)
        engine.settle([Settlement(job.seq, job.fence, Done()) for job in jobs])
    return engine


def test_the_form_is_filled_in_with_what_is_known_of_a_gate_and_played(used: Engine, site: Site) -> None:
    screen = site.browser(VIEWER)
    address = f"/plan?{urlencode({'key': KEY})}"
    form, known = screen.get(address), site.program(VIEWER, address).json["known"]

    assert (60, 20) == (known["came"], known["ended"])
    assert {
        "key": KEY, "line": "40", "come": "10/1h", "median": "2s", "p95": "9s", "span": "5m", "workers": "16",
        "a_slots": "2", "a_rate": "100/1m", "b_slots": "3", "b_rate": "100/1m",
    }.items() <= form.fields.items()  # fmt: skip

    answer = screen.post("/plan", **{**form.fields, "come": "", "span": ""})

    assert 200 == answer.status, answer.shown
    assert "2 at once and 100 per 1m" in answer.shown
    assert "3 at once and 100 per 1m" in answer.shown
    assert "the line is through after" in answer.shown
    assert answer.fields.items() >= {"key": KEY, "a_slots": "2", "b_slots": "3"}.items()
    assert [] == [entry for entry in used.audit() if entry.through == "monitor"]
