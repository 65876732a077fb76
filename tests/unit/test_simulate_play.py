"""Cases with known answers, played through the engine."""

from itertools import islice
from random import Random
from xml.etree import ElementTree as ET

import pytest

from penstock.errors import InvalidError
from penstock.simulate.document import document
from penstock.simulate.plan import read_plan
from penstock.simulate.play import play
from penstock.simulate.plot import draw
from penstock.simulate.report import report, verdict
from tests.support.soak import often

SECOND, DAY = 1_000_000, 86_400_000_000


def test_a_single_server_is_as_the_textbook_says():
    """M/M/1 at half its capacity: on average a job waits as long as one takes."""
    plan = read_plan("""
        workers.concurrency = 1
        [[jobs]]
        name = "job"
        duration = { exponential = "1s" }
        arrivals = { rate = "0.5/1s", count = 2000 }
    """)

    played = play(plan, seed=7)

    found = report(played)
    assert pytest.approx(1 * SECOND, rel=0.05) == found.overall.mean
    assert pytest.approx(0.5, rel=0.05) == found.uses[-1].used
    assert ("workers", 1.0) == (found.bottleneck.limit, found.bottleneck.held)
    assert waits_of_one_server(plan.jobs[0], 2_000, seed=7) == list(played.everything.waits)


def test_at_saturation_a_rate_is_the_throughput():
    found = findings("""
        until = "60s"
        limits.api.rate = "10/1s"
        [[jobs]]
        limits = ["api"]
        duration = "100ms"
        arrivals = { rate = "20/1s", pattern = "even" }
    """)

    assert (1_200, 600, 600) == (found.arrived, found.started, found.waiting)
    assert pytest.approx(10, rel=0.01) == found.throughput
    most = found.bottleneck
    assert ("api", "rate 10/1s", 1.0) == (most.limit, most.rule, most.used)
    assert found.growing


@pytest.mark.parametrize(("duration", "tighter", "per_minute"), [("1s", "api", 30), ("4s", "account", 15)])
def test_of_two_limits_in_series_the_tighter_one_rules(duration, tighter, per_minute):
    found = findings(f"""
        until = "10m"
        limits.account.slots = 1
        limits.api.throttle = "30/1m"
        [[jobs]]
        limits = ["account", "api"]
        duration = "{duration}"
        arrivals = {{ rate = "1/1s" }}
    """)

    assert tighter == found.bottleneck.limit
    assert found.bottleneck.used > 0.98
    assert found.bottleneck.held > 0.5
    assert pytest.approx(per_minute, rel=0.02) == found.started / 10


def test_thirty_mails_a_day_serve_five_hundred_contacts_in_seventeen_days():
    found = findings("""
        limits.mailbox.rate = "30/1d"
        [[jobs]]
        limits = ["mailbox"]
        duration = "0s"
        arrivals = { count = 500 }
    """)

    assert (500, 16 * DAY) == (found.done, found.last_start)
    assert (8 * DAY, 16 * DAY) == (found.overall.p50, found.overall.longest)
    assert not found.growing


def test_each_key_waits_for_itself():
    found = findings("""
        limits.account = { key = "account:{name}", slots = 1 }
        [[jobs]]
        limits = ["account"]
        keys.name = ["a", "b"]
        duration = "1s"
        arrivals = { count = 6 }
    """)

    waits = {waits.name: (waits.started, waits.mean, waits.longest) for _, waits in found.keys}
    assert {"account:a": (3, SECOND, 2 * SECOND), "account:b": (3, SECOND, 2 * SECOND)} == waits
    assert (2, 1.0, 1.0) == (found.uses[0].keys, found.uses[0].used, found.uses[0].busiest)


def test_what_comes_at_a_full_gate_that_drops_is_counted():
    found = findings("""
        until = "10s"
        limits.line = { slots = 2, on_limit = "drop" }
        [[jobs]]
        limits = ["line"]
        duration = "1s"
        arrivals = { rate = "4/1s", pattern = "even" }
    """)

    assert (40, 20, 20, 0) == (found.arrived, found.started, found.dropped, found.waiting)


def test_what_was_shut_at_the_same_time_shares_the_blame():
    """A worker is busy for four seconds; for the first two the throttle is shut as well."""
    found = findings("""
        workers.concurrency = 1
        limits.calls.throttle = "1/2s"
        [[jobs]]
        limits = ["calls"]
        duration = "4s"
        arrivals = { count = 2 }
    """)

    assert {"calls": 0.25, "workers": 0.75} == {use.limit: use.held for use in found.uses}
    said = "Bottleneck: workers (concurrency 1), 75% of the waiting was for it; 100% of it was used."
    assert said == verdict(found)


def test_what_lies_after_the_end_is_not_counted_as_used():
    found = findings("""
        until = "1h"
        workers.concurrency = 4
        limits.calls.slots = 2
        [[jobs]]
        limits = ["calls"]
        duration = "10h"
        arrivals = { count = 1 }
    """)

    assert {"calls": 0.5, "workers": 0.25} == {use.limit: use.used for use in found.uses}
    assert (1, 0, None) == (found.running, found.done, found.bottleneck)


def test_a_throttle_is_used_up_when_every_gap_is():
    found = findings("""
        until = "90s"
        limits.calls.throttle = "2/1m"
        [[jobs]]
        limits = ["calls"]
        duration = "1s"
        arrivals = { count = 9 }
    """)

    assert (3, 1.0) == (found.started, found.uses[0].used)


def test_a_shut_gate_lets_no_job_through_and_is_named():
    found = findings("""
        until = "1h"
        limits.closed.slots = 0
        [[jobs]]
        limits = ["closed"]
        duration = "1s"
        arrivals = { count = 3 }
    """)

    assert (0, 3, "closed") == (found.started, found.waiting, found.bottleneck.limit)
    assert found.overall.mean is None


def test_a_higher_priority_goes_first():
    found = findings("""
        workers.concurrency = 1
        [[jobs]]
        name = "later"
        duration = "1s"
        arrivals = { count = 5 }
        [[jobs]]
        name = "sooner"
        priority = 1
        duration = "1s"
        arrivals = { count = 5 }
    """)

    assert {"later": 7 * SECOND, "sooner": 2 * SECOND} == {waits.name: waits.mean for waits in found.kinds}


def test_the_same_seed_gives_the_same_answer_and_another_one_does_not():
    plan = read_plan("""
        limits.api = { key = "api:{host}", slots = 1 }
        [[jobs]]
        limits = ["api"]
        keys.host = { big = 3, small = 1 }
        duration = { lognormal = { median = "1s", p95 = "5s" } }
        arrivals = { rate = "1/1s", count = 200 }
    """)

    first, second, other = (play(plan, seed=seed) for seed in (1, 1, 2))

    assert told(first) == told(second)
    assert told(first)[0] != told(other)[0]


@pytest.mark.parametrize("seed", range(often(1, 4)))
def test_it_does_not_matter_that_the_engine_hears_of_some_things_later(seed):
    """Where jobs can be dropped it hears of everything at once."""
    text = """
        until = "5m"
        workers.concurrency = 3
        limits.account = { key = "account:{account}", slots = 1 }
        limits.api = { rate = "20/10s", throttle = "5/1s" }
        limits.other.slots = 2
        [[jobs]]
        name = "both"
        limits = ["account", "api"]
        keys.account = { a = 3, b = 2, c = 1 }
        duration = { exponential = "1s" }
        arrivals = { rate = "1/1s" }
        [[jobs]]
        name = "one"
        limits = ["other"]
        duration = { uniform = ["0s", "4s"] }
        arrivals = { rate = "1/2s" }
        [[jobs]]
        name = "heavy"
        limits = ["api", "other"]
        cost = 3
        priority = 1
        duration = "200ms"
        arrivals = { count = 5, every = "40s" }
        [[jobs]]
        name = "free"
        duration = "300ms"
        arrivals = { rate = "1/3s" }
    """
    prompt = 'limits.unused = { slots = 1, on_limit = "drop" }' + text

    later, at_once = (play(read_plan(each), seed=seed) for each in (text, prompt))

    assert list(at_once.everything.starts) == list(later.everything.starts)
    assert [list(kind.waits) for kind in at_once.kinds] == [list(kind.waits) for kind in later.kinds]


def test_two_limits_may_not_meet_at_one_key():
    plan = read_plan("""
        [limits]
        a = { slots = 1, key = "{x}" }
        b = { slots = 2, key = "{y}" }
        [[jobs]]
        limits = ["a"]
        keys = { x = 1 }
        duration = "1s"
        arrivals = { count = 1 }
        [[jobs]]
        limits = ["b"]
        keys = { y = 1 }
        duration = "1s"
        arrivals = { count = 1 }
    """)

    with pytest.raises(InvalidError, match=r"limits\.b\.key: '1' is also a key of 'a'"):
        play(plan)


def test_a_play_can_be_ended_before_its_time():
    plan = read_plan("""
        until = "1d"
        [[jobs]]
        duration = "1s"
        arrivals = { rate = "1/1s" }
    """)

    played = play(plan, keep_on=lambda now, arrived: arrived < 100)

    assert not played.whole
    assert 100 <= report(played).arrived < 200
    assert played.until < DAY


@pytest.mark.parametrize("jobs", [0, 1, 40])
def test_a_picture_is_well_formed_whatever_there_is_to_see(jobs):
    plan = read_plan(f"""
        title = "<&>"
        until = "1h"
        limits.key = {{ key = "key:{{n}}", slots = 1 }}
        [[jobs]]
        limits = ["key"]
        keys.n = 10
        duration = "10s"
        arrivals = {{ count = {max(jobs, 1)}, at = "{"2h" if not jobs else "1m"}" }}
    """)
    played = play(plan)

    picture = ET.fromstring(draw(played, report(played)))

    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<&>", "jobs waiting", "all jobs", "started", "arrived"} <= set(texts)
    assert "time since the beginning (min)" in texts


def findings(text):
    """Return the report of a play of the plan *text*."""
    return report(play(read_plan(text)))


def waits_of_one_server(kind, count, seed):
    """Return what each job waits: until the one before it has ended (Lindley's recursion)."""
    arrivals = islice(kind.arrivals.times(Random(f"{seed} {kind.name} arrivals")), count)
    durations = Random(f"{seed} {kind.name} durations")
    waits, free = [], 0
    for arrival in arrivals:
        start = max(arrival, free)
        waits.append(start - arrival)
        free = start + kind.duration.draw(durations)
    return waits


def told(played):
    found = report(played)
    return document(played, found), draw(played, found)
