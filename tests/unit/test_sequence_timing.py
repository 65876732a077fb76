"""Delays and windows: to which moment a step is put off."""

from datetime import UTC, date, datetime, time, timedelta

import pytest

from penstock.sequences.blocks import Delay, SendWindow
from penstock.sequences.context import Context
from penstock.sequences.timing import delayed, in_window
from tests.support.sequences import DAY, HOUR


def moment(text):
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


MONDAY = moment("2024-01-15T10:00:00")
FRIDAY = moment("2024-01-19T10:00:00")


@pytest.mark.parametrize(
    ("delay", "chance", "expected"),
    [
        (Delay(), 0.5, "2024-01-19T10:00:00"),
        (Delay(2 * HOUR), 0.5, "2024-01-19T12:00:00"),
        # Jitter goes both ways, but never into the past.
        (Delay(2 * HOUR, HOUR), 0.0, "2024-01-19T11:00:00"),
        (Delay(2 * HOUR, HOUR), 0.5, "2024-01-19T12:00:00"),
        (Delay(2 * HOUR, HOUR), 0.75, "2024-01-19T12:30:00"),
        (Delay(0, HOUR), 0.0, "2024-01-19T10:00:00"),
        # Weekends and holidays are skipped, at the same local time.
        (Delay(DAY, business_days_only=True), 0.5, "2024-01-22T10:00:00"),
        (Delay(2 * DAY, business_days_only=True), 0.5, "2024-01-22T10:00:00"),
        (Delay(HOUR, business_days_only=True), 0.5, "2024-01-19T11:00:00"),
        (
            Delay(DAY, business_days_only=True, holidays=frozenset({date(2024, 1, 22)})),
            0.5,
            "2024-01-23T10:00:00",
        ),
        # It is Saturday in Auckland.
        (Delay(3 * HOUR, business_days_only=True, timezone="Pacific/Auckland"), 0.5, "2024-01-21T13:00:00"),
        # Local times.
        (Delay(fire_at_local=time(9)), 0.5, "2024-01-20T09:00:00"),
        (Delay(fire_at_local=time(11, 30)), 0.5, "2024-01-19T11:30:00"),
        (Delay(DAY, fire_at_local=time(9)), 0.5, "2024-01-21T09:00:00"),
        (Delay(fire_at_local=time(10), timezone="Europe/Rome"), 0.5, "2024-01-20T09:00:00"),
        (Delay(fire_at_local=datetime(2024, 2, 1, 9), timezone="Europe/Rome"), 0.5, "2024-02-01T08:00:00"),
        (Delay(fire_at_local=datetime(2020, 2, 1, 9)), 0.5, "2024-01-19T10:00:00"),
        # Half past two is skipped that night in New York; it comes an hour later.
        (
            Delay(fire_at_local=datetime(2026, 3, 8, 2, 30), timezone="America/New_York"),
            0.5,
            "2026-03-08T07:30:00",
        ),
    ],
)
def test_a_delay_is_over_at_a_moment(delay, chance, expected):
    assert moment(expected) == delayed(delay, FRIDAY, chance, "UTC")


def test_the_zone_and_the_holidays_of_the_instance_count_too():
    holidays = frozenset({date(2024, 1, 22)})

    assert moment("2024-01-23T10:00:00") == delayed(
        Delay(DAY, business_days_only=True), FRIDAY, 0.5, "UTC", holidays
    )
    assert moment("2024-01-20T08:00:00") == delayed(Delay(fire_at_local=time(9)), FRIDAY, 0.5, "Europe/Rome")


def test_a_delay_without_end_is_a_moment_too():
    longest = Delay(2**53 - 1, 2**53 - 1, business_days_only=True, fire_at_local=time(9))
    for now in range(FRIDAY, 27 * 2**53, 2**53):
        put_off = delayed(longest, now, 0.999, "Pacific/Kiritimati")

        assert put_off >= now
        assert in_window(SendWindow(days=frozenset({0})), put_off, "Pacific/Niue") >= put_off


def test_holidays_for_ever_are_taken_for_a_mistake():
    ten_years = frozenset(date(2024, 1, 1) + timedelta(days=n) for n in range(5_000))
    assert delayed(Delay(DAY, business_days_only=True, holidays=ten_years), FRIDAY, 0.5, "UTC") > FRIDAY


WEEKDAYS = frozenset(range(5))


@pytest.mark.parametrize(
    ("window", "now", "expected"),
    [
        (SendWindow(), "2024-01-15T10:00:00", "2024-01-15T10:00:00"),
        (SendWindow(), "2024-01-15T08:59:59", "2024-01-15T09:00:00"),
        (SendWindow(), "2024-01-15T17:00:00", "2024-01-16T09:00:00"),
        (SendWindow(days=WEEKDAYS), "2024-01-19T18:00:00", "2024-01-22T09:00:00"),
        (SendWindow(days=frozenset({0})), "2024-01-15T17:00:00", "2024-01-22T09:00:00"),
        # Over midnight: it belongs to the day on which it began.
        (SendWindow(22, 6), "2024-01-15T23:00:00", "2024-01-15T23:00:00"),
        (SendWindow(22, 6), "2024-01-15T05:00:00", "2024-01-15T05:00:00"),
        (SendWindow(22, 6), "2024-01-15T07:00:00", "2024-01-15T22:00:00"),
        (SendWindow(22, 6, frozenset({0})), "2024-01-15T05:00:00", "2024-01-15T22:00:00"),
        (SendWindow(22, 6, frozenset({0})), "2024-01-16T05:00:00", "2024-01-16T05:00:00"),
        (SendWindow(timezone="America/New_York"), "2024-01-15T10:00:00", "2024-01-15T14:00:00"),
    ],
)
def test_a_window_opens_at_a_moment(window, now, expected):
    assert moment(expected) == in_window(window, moment(now), "UTC")


def test_a_window_is_in_the_zone_of_the_instance():
    assert moment("2024-01-15T14:00:00") == in_window(SendWindow(), MONDAY, "America/New_York")


def test_a_context_knows_its_zone_its_holidays_and_its_depth():
    context = Context(
        {
            "data": {"a": 1},
            "config": {"holidays": ["2024-01-01", "soon"]},
            "runtime": {"timezone": "Europe/Rome", "depth": 3},
        }
    )

    assert ("Europe/Rome", {date(2024, 1, 1)}, 3) == (context.zone, context.holidays, context.depth)


@pytest.mark.parametrize("runtime", [{}, {"timezone": "Mars", "depth": -5}, {"timezone": 3, "depth": "x"}])
def test_a_context_that_says_nothing_of_use_has_defaults(runtime):
    context = Context({"runtime": runtime, "config": {"holidays": "none"}})

    assert ("UTC", frozenset(), 0) == (context.zone, context.holidays, context.depth)


@pytest.mark.parametrize(
    ("given", "steps", "expected"),
    [
        ({"x": 1}, ("x",), 1),
        ({"x": 1}, ("data", "x"), 1),
        ({"data": {"x": 1}}, ("x",), 1),
        ({"data": {"x": 1}}, ("data", "x"), 1),
        ({"data": {"x": 1}, "config": {"x": 2}}, ("config", "x"), 2),
        ({"data": {"x": 1}, "y": 2}, ("y",), 2),
        ({"x": 1}, ("config", "x"), None),
        # A value of a flat context may be called as a section is.
        ({"config": "fast"}, ("config",), "fast"),
        ({"config": "fast"}, ("data", "config"), "fast"),
        ({"data": "text"}, ("data",), {"data": "text"}),
        ({"x": 1}, (), {"data": {"x": 1}}),
    ],
)
def test_a_context_may_be_flat(given, steps, expected):
    assert expected == Context(given).dig(steps)
