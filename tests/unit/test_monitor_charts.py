"""Charts of the monitor: numbers become paths, round numbers and words, whatever the numbers are."""

import re
import xml.etree.ElementTree as ET

import pytest

from penstock.clock import SECOND
from penstock.job import AuditEntry, Count, GateLook, KeptBy, Moment, Past, WaitedFor
from penstock.limits.rules import Numbers, Window
from penstock.monitor import charts, plot, words
from penstock.monitor.limit_past import Limit, limits_over
from penstock.monitor.lookback import Remembered, pace, parts_of
from penstock.monitor.plot import Axis, Scale

MINUTE = 60 * SECOND
NOW = 1_767_225_600_000_000
FOUR = Axis(0, 4 * MINUTE, MINUTE)
TEN = Scale(10, 0, 100)
SLOW = Numbers(rate=Window(6, MINUTE))
FAST = Numbers(rate=Window(12, MINUTE))


def past(*started, step=MINUTE, **facts):
    since = NOW - len(started) * step
    moments = [Moment(since + n * step, started=each, **facts) for n, each in enumerate(started)]
    return Past(since, NOW, step, moments, Moment(since, started=sum(started), **facts))


def look(**facts):
    return GateLook(
        **{
            "tenant": "", "key": "k", "numbers": FAST, "own": FAST, "running": 0, "recent": 0, "waiting": Count(),
            "held": None, "since": None, "configured": None, "floating": None, "override": None,
            "override_until": None, "shut_until": None, "shut_reason": "", "opens_at": None, "last_start": None,
            "next_start": None, **facts,
        }
    )  # fmt: skip


def entry(at, before, after, verb="gate.override"):
    return AuditEntry(at, at, "anna", "cli", verb, "gate", "", "k", before, after, "")


def told(drawn):
    return ET.fromstring(drawn).get("aria-label")


DRAWN = {
    "no job waited": lambda: charts.waited_chart(WaitedFor(NOW, NOW, MINUTE, [], [0], [0]), NOW),
    "no step": lambda: charts.waited_chart(WaitedFor(NOW - MINUTE, NOW, MINUTE, [], [], []), NOW),
    "no start": lambda: charts.starts_chart(past(0), [], NOW),
    "huge limit": lambda: charts.starts_chart(
        past(10**18, 3), [Limit(NOW, Numbers(rate=Window(10**15, 1)))], NOW
    ),
    "slots": lambda: charts.slots_chart(past(1, used=3.5), [Limit(0, Numbers(slots=4))], NOW),
    "huge line": lambda: charts.waiting_chart(past(0, 0, kept=10**12), NOW),
    "huge waits": lambda: charts.waits_chart(past(1, waited_p50=10**16, waited_p95=10**18), NOW),
    "no waits": lambda: charts.waits_chart(past(0, 0), NOW),
    "sparkline of nothing": lambda: charts.sparkline([], "nothing"),
    "sparkline of one": lambda: charts.sparkline([None, 7, None], "one"),
    "sparkline of much": lambda: charts.sparkline([10**18, 0], "much"),
}


def test_values_become_a_line_through_the_middles_of_their_steps_and_an_area_below():
    assert "M0.0 100.0L125.0 100.0L375.0 50.0L625.0 0.0L875.0 50.0L1000.0 50.0" == plot.line(
        FOUR, [0, 5, 10, 5], TEN
    )
    assert "M0.0 90.0L500.0 90.0L1000.0 90.0L1000.0 100.0L500.0 100.0L0.0 100.0Z" == plot.area(
        Axis(0, MINUTE, MINUTE), [1], TEN
    )


def test_what_is_not_known_leaves_a_gap_and_nothing_at_all_no_path():
    assert 2 == plot.line(FOUR, [1, None, 2, 3], TEN).count("M")
    assert "M500.0 80.0L625.0 80.0L750.0 80.0" == plot.line(FOUR, [None, None, 2, None], TEN)
    assert "" == plot.line(FOUR, [], TEN) == plot.area(FOUR, [None], TEN) == plot.bars(FOUR, [0, 0], TEN)


def test_a_step_that_is_under_way_is_as_wide_as_it_has_lasted():
    axis = Axis(0, MINUTE + 15 * SECOND, MINUTE)

    assert (800, 1000) == axis.edges(1)


def test_a_limit_is_a_line_that_steps_and_is_interrupted_where_there_is_none():
    assert "M0.0 80.0H500.0V40.0H1000.0" == plot.steps(FOUR, [(-MINUTE, 2), (2 * MINUTE, 6)], TEN)
    assert "M250.0 80.0H500.0M750.0 40.0H1000.0" == plot.steps(
        FOUR, [(0, None), (MINUTE, 2), (2 * MINUTE, None), (3 * MINUTE, 6)], TEN
    )
    assert "M0.0 40.0H1000.0" == plot.steps(FOUR, [(-2 * MINUTE, 2), (-MINUTE, 6)], TEN)


@pytest.mark.parametrize(
    ("most", "found"),
    [(0, [0, 1]), (0.2, [0, 1]), (3, [0, 1, 2, 3]), (746, [0, 250, 500, 750]), (3_460, [0, 1200, 2400, 3600]),
     (10**15 * 3, [0, 10**15, 2 * 10**15, 3 * 10**15]), (10**15 * 3 + 1, [0, 12 * 10**14, 24 * 10**14, 36 * 10**14])],
)  # fmt: skip
def test_the_numbers_beside_a_chart_are_round_and_reach_far_enough(most, found):
    assert found == plot.marks(most)


@pytest.mark.parametrize("most", [0, 1, 999, SECOND, 61 * SECOND, 25 * MINUTE, 30 * 3_600 * SECOND, 10**18])
def test_so_are_times(most):
    marks = plot.time_marks(most)

    assert 2 <= len(marks) <= 3
    assert marks[-1] >= most
    assert len({words.short_span(mark) for mark in marks}) == len(marks)


def test_a_number_beside_a_chart_is_short_however_large():
    assert ["0", "12,000", "120k", "1.2M", "1e+03E"] == [
        plot.brief(n) for n in (0, 12_000, 120_000, 1_200_000, 10**21)
    ]


def test_more_steps_than_can_be_told_apart_become_means():
    axis, values = plot.thinned(Axis(0, 672 * MINUTE, MINUTE), [1.0, 3.0, 1.0, 3.0] * 168)

    assert (168, {2.0}, 4 * MINUTE) == (len(values), set(values), axis.step)


def test_what_jobs_waited_for_is_stacked_and_told_in_percent():
    waited = WaitedFor(
        NOW - 4 * MINUTE, NOW, MINUTE, [KeptBy("<b>\u202e", "", [0, 3, 3, 3])], [1, 0, 0, 0], [1, 0, 1, 0]
    )
    drawn = charts.waited_chart(waited, NOW)

    assert [75, 8, 17] == [part.share for part in parts_of(waited)]
    assert [100, 0, 0] == [part.share for part in parts_of(waited, 1)]
    assert (
        "What jobs waited for in the last 4 min: <b>\\u{202e} 75 %, other gates 8 %, a free worker 17 %"
        in told(drawn)
    )
    assert "2 to 4, 3 at last" in told(drawn)
    assert ["layer k1", "layer k5", "layer k6"] == re.findall(r"layer k\d", drawn)


@pytest.mark.parametrize("name", DRAWN)
def test_every_chart_is_drawn_of_nothing_one_value_and_huge_ones_within_its_edges(name):
    drawn = DRAWN[name]()
    image = ET.fromstring(drawn)
    numbers = [
        float(n) for path in image.iter("path") for n in re.findall(r"[-\d.]+(?:e\+?\d+)?", path.get("d"))
    ]

    assert "img" == image.get("role")
    assert image.get("aria-label")
    assert all(0 <= n <= plot.WIDE for n in numbers)
    assert "style" not in drawn
    assert "nan" not in drawn


def test_starts_are_drawn_below_what_the_limit_allowed():
    limits = [Limit(NOW - 4 * MINUTE, FAST), Limit(NOW - 2 * MINUTE, SLOW, what="override", who="<anna>")]
    drawn = charts.starts_chart(past(12, 12, 6, 6), limits, NOW)

    assert "Starts per minute: 6 to 12, 6 at last; the limit was 12 per 1m, then 6 per 1m" == told(drawn)
    assert "override 6 per 1m, &lt;anna&gt;" in drawn
    assert "H500.0V" in re.search(r'class="limit" d="([^"]*)"', drawn)[1]


@pytest.mark.parametrize(
    ("numbers", "step", "found"),
    [
        (Numbers(slots=3), MINUTE, None),
        (Numbers(slots=0), MINUTE, 0),
        (Numbers(rate=Window(10, SECOND)), MINUTE, 600),
        (Numbers(rate=Window(100, 60 * MINUTE)), MINUTE, 100),
        (Numbers(rate=Window(60, MINUTE)), 15 * MINUTE, 60),
        (Numbers(throttle=Window(10, SECOND)), MINUTE, 601),
        (Numbers(throttle=Window(0, SECOND)), MINUTE, 0),
        (Numbers(rate=Window(60, MINUTE), throttle=Window(1, MINUTE, burst=5)), MINUTE, 6),
    ],
)
def test_a_limit_allows_so_many_starts_in_a_minute(numbers, step, found):
    assert found == Limit(0, numbers).starts(step)


def test_a_gate_that_is_shut_allows_none():
    assert 0 == Limit(0, FAST, shut=True).starts(MINUTE)


def test_the_limit_in_force_is_what_the_audit_says_it_was():
    entries = [
        entry(
            300, '{"override": {"rate": "6/1m"}, "override_until": 250}', '{"shut_until": 400}', "gate.shut"
        ),
        entry(200, "{}", '{"override": {"rate": "6/1m"}, "override_until": 250}'),
    ]

    found = limits_over(look(), entries, 100, 500)

    assert [
        (100, FAST, False, ""), (200, SLOW, False, "override"), (250, FAST, False, "override ended"),
        (300, FAST, True, "shut"), (400, FAST, False, "open again"),
    ] == [(limit.at, limit.numbers, limit.shut, limit.what) for limit in found]  # fmt: skip
    assert "override 6 per 1m, anna" == found[1].told


def test_an_override_of_before_that_ended_meanwhile_counts():
    entries = [entry(50, "{}", '{"override": {"rate": "6/1m"}, "override_until": 250}')]

    assert [(100, SLOW), (250, FAST)] == [
        (at.at, at.numbers) for at in limits_over(look(), entries, 100, 500)
    ]


@pytest.mark.parametrize(
    "text", ["", "[", "[]", '{"configured": {"rate": "much"}}', '{"configured": {"rate": "1/']
)
def test_an_entry_that_cannot_be_read_leaves_the_numbers_of_jobs(text):
    assert FAST == limits_over(look(), [entry(200, text, text)], 100, 500)[-1].numbers


def test_without_entries_the_limit_is_the_present_one():
    gate = look(override=SLOW, override_until=None)

    assert [Limit(100, SLOW)] == limits_over(gate, [], 100, 500)


def test_the_pace_is_that_of_the_last_minutes():
    assert 12 == pace(past(*[0] * 54, *[12] * 6))
    assert 0 == pace(past(*[12] * 54, *[0] * 6))
    assert 4 == pace(past(4))


def test_a_look_back_is_remembered_for_half_a_minute():
    remembered, looked = Remembered(), iter(range(100))

    def get(at, name="gate"):
        return remembered.get(name, at, lambda: next(looked))

    assert [0, 0, 1, 2] == [get(NOW), get(NOW + 29 * SECOND), get(NOW, "other"), get(NOW + 30 * SECOND)]
    assert 3 == get(NOW - SECOND)  # the clock was set back
    for n in range(64):
        get(NOW, f"gate {n}")
    assert 68 == get(NOW)  # it was forgotten for those
