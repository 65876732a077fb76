"""How the demo measures, judges and draws what the provider saw."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import MILLISECOND, SECOND
from penstock.demo.checks import Request, Seen, alone, apart, at_once, clashes, counts, ordered, per_second
from penstock.demo.main import choose
from penstock.demo.measure import Call, handovers, most_in_flight, smallest_gap, worst_window
from penstock.demo.scenarios import SCENARIOS, Setting
from penstock.demo.timeline import draw
from penstock.demo.watch import has_desktop
from penstock.errors import InvalidError

moments = st.lists(st.integers(0, 50), max_size=12)


def call(account, op, start, span=400 * MILLISECOND, *, collided=False, late=0):
    return Call(account, op, start, start + late, start + late + span, collided)


def seen(*calls, asked=("one", "two", "three", "four"), **facts):
    requests = [Request(account, op) for account in ("acme", "globex") for op in asked]
    blank = {"dropped": Counter(), "reused": Counter(), "errors": [], "elapsed": 0}
    return Seen(requests, calls, **{**blank, **facts})


@given(moments, st.integers(1, 20))
def test_the_worst_window_is_that_of_a_naive_count(found, period):
    naive = max((sum(begin <= each < begin + period for each in found) for begin in range(51)), default=0)

    assert naive == worst_window(found, period)


@given(moments)
def test_the_smallest_gap_is_that_of_a_naive_search(found):
    naive = min((later - earlier for earlier, later in pairwise(sorted(found))), default=None)

    assert naive == smallest_gap(found)


def test_calls_that_touch_do_not_overlap():
    assert 1 == most_in_flight([Call("a", "x", 0, 0, 10, False), Call("a", "y", 10, 10, 20, False)])
    assert 2 == most_in_flight([Call("a", "x", 0, 0, 11, False), Call("a", "y", 10, 10, 20, False)])


def test_a_handover_is_the_time_an_account_stands_idle():
    calls = [call("acme", "one", 0), call("acme", "two", 410 * MILLISECOND), call("globex", "one", 5)]

    assert [10 * MILLISECOND] == handovers(calls)


def test_wrong_counts_are_noticed():
    expected = counts(calls=1, dropped=1)

    assert expected(seen(call("acme", "one", 0), dropped=Counter(acme=1))).kept
    assert not expected(seen(call("acme", "one", 0))).kept
    assert not expected(seen(call("acme", "one", 0), dropped=Counter(acme=1), errors=["no answer"])).kept


def test_a_collision_breaks_the_rule_and_proves_the_control():
    clean, clash = (
        seen(call("acme", "one", 0)),
        seen(call("acme", "one", 0), call("acme", "two", 1, collided=True)),
    )

    assert (True, False) == (alone(clean).kept, alone(clash).kept)
    assert (False, True) == (clashes(clean).kept, clashes(clash).kept)


def test_both_too_many_and_too_few_at_once_are_noticed():
    pair = seen(call("acme", "one", 0), call("acme", "two", 1))

    assert [False, True, False] == [at_once(slots)(pair).kept for slots in (1, 2, 3)]


def test_calls_out_of_order_are_noticed():
    assert ordered(seen(call("acme", "one", 0), call("acme", "two", SECOND))).kept
    assert not ordered(seen(call("acme", "two", 0), call("acme", "one", SECOND))).kept


def test_starts_are_judged_where_handlers_begin_and_told_at_the_door():
    late = seen(call("acme", "one", 0, late=3 * MILLISECOND), call("acme", "two", SECOND))

    rate, spacing = per_second(1)(late), apart(SECOND)(late)

    assert (True, "1 in 1 s", "at the door: 2") == (rate.kept, rate.figure, rate.remark)
    assert (True, "at the door: 997.0 ms") == (spacing.kept, spacing.remark)
    assert not per_second(1)(seen(call("acme", "one", 0), call("acme", "two", SECOND - 1))).kept
    assert not apart(SECOND)(seen(call("acme", "one", 0), call("acme", "two", SECOND - 1))).kept


def test_a_gap_a_hair_too_small_is_not_rounded_up():
    hair = apart(200 * MILLISECOND)(seen(call("acme", "one", 0), call("acme", "two", 199_999)))

    assert (False, "199.9 ms apart") == (hair.kept, hair.figure)


def test_each_account_is_a_lane_and_overlaps_are_rows():
    rows = draw(
        seen(
            call("acme", "one", 0),
            call("acme", "two", 1000, collided=True),
            call("acme", "three", SECOND),
            call("globex", "one", 0),
            dropped=Counter(globex=2),
        ),
        columns=58,
    )

    first, second, third, axis = rows
    assert ("▐██1███▌" + " " * 12 + "▐██3███▌") == first.bars
    assert ("acme", False, "▐▒▒2▒▒▒▌") == (second.account, second.first, second.bars)
    assert ("globex", "▐██1███▌", "2 dropped") == (third.account, third.bars, third.remark)
    assert axis.bars.startswith("╵0 s")


def test_a_drawing_is_never_wider_than_asked():
    calls = [call("acme", "one", start, span=900 * MILLISECOND) for start in range(0, 9 * SECOND, SECOND)]
    for columns in (20, 40, 80):
        assert all(len(row.bars) <= columns for row in draw(seen(*calls), columns))


def test_nothing_to_draw_is_drawn_as_nothing():
    assert ["", "", "╵0 s"] == [row.bars for row in draw(seen(), columns=10)]


def test_scenarios_are_chosen_by_letter_or_name_in_their_own_order():
    assert ["B", "F"] == [scenario.letter for scenario in choose(["rate", "b"])]
    assert list(SCENARIOS) == list(choose([]))
    with pytest.raises(InvalidError, match="'Z'"):
        choose(["A", "Z"])


@pytest.mark.parametrize(
    ("environment", "platform", "opens"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": ":0", "CI": "true"}, "linux", False),
        ({}, "darwin", True),
        ({"CI": "1"}, "win32", False),
    ],
)
def test_a_browser_is_opened_only_where_there_is_a_desktop(environment, platform, opens):
    assert opens == has_desktop(environment, platform)


def test_without_a_limit_more_workers_are_faster():
    unsafe = SCENARIOS[0]

    assert [800, 400] == [unsafe.ideal(Setting(workers)) // MILLISECOND for workers in (1, 2)]
