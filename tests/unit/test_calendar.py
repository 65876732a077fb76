"""Caps by the calendar: days of a time zone, ramps, and when a day with room begins."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from penstock.clock import SECOND
from penstock.errors import InvalidLimitError
from penstock.limits.calendar import EVE, KEPT, DailyCap, Days, Ramp, day_ends, day_starts, local_day
from penstock.limits.gate import ON_RELEASE

HOUR = 3_600 * SECOND


def at(text: str, zone: str = "UTC") -> int:
    """Return a moment by the clocks of a zone."""
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def number(text: str) -> int:
    return date.fromisoformat(text).toordinal()


class TestDays:
    @pytest.mark.parametrize(
        ("zone", "day", "hours"),
        [
            ("UTC", "2026-06-10", 24),
            ("Europe/Berlin", "2026-03-29", 23),
            ("Europe/Berlin", "2026-10-25", 25),
            ("Australia/Lord_Howe", "2026-10-04", 23.5),
            ("Africa/Cairo", "2026-04-24", 23),  # begins at 1 o'clock
            ("America/Havana", "2026-11-01", 25),  # its first hour comes twice
            ("America/Sao_Paulo", "2018-02-17", 25),  # its last hour comes twice
            ("Asia/Kathmandu", "2026-06-10", 24),
        ],
    )
    def test_a_day_is_from_midnight_to_midnight(self, zone: str, day: str, hours: float) -> None:
        start = day_starts(number(day), zone)
        end = day_ends(start, zone)

        assert end - start == hours * HOUR
        assert local_day(start - 1, zone) == number(day) - 1
        assert {local_day(moment, zone) for moment in (start, (start + end) // 2, end - 1)} == {number(day)}
        assert end == day_starts(number(day) + 1, zone)
        assert day_ends(end - 1, zone) == end

    def test_a_date_that_was_left_out_begins_with_the_next(self) -> None:
        assert day_starts(number("2011-12-30"), "Pacific/Apia") == day_starts(
            number("2011-12-31"), "Pacific/Apia"
        )

    def test_a_date_that_comes_back_for_a_while_ends_twice(self) -> None:
        # One minute after midnight the clocks of that night showed 23:01 again.
        midnight = at("2006-10-29T00:00:00", "America/St_Johns")

        assert day_ends(midnight - SECOND, "America/St_Johns") == midnight
        assert day_ends(midnight, "America/St_Johns") == midnight + 60 * SECOND
        assert day_ends(midnight + 60 * SECOND, "America/St_Johns") == midnight + HOUR

    def test_counts_are_kept_of_near_days_and_written_down(self) -> None:
        days = Days()
        for day in (10, 10, 11, 10 + KEPT + 1):
            days.add(day)

        assert (days.on(10), days.on(11), days.on(10 + KEPT + 1)) == (0, 1, 1)
        assert Days.from_text(days.text) == days
        assert days.remove(11)
        assert not days.remove(11)
        assert Days.from_text(days.text) == Days({10 + KEPT + 1: 1})
        assert Days.from_text("") == Days()


class TestDailyCap:
    def test_a_ramp_goes_evenly_from_its_first_cap_to_the_whole_one(self) -> None:
        cap = DailyCap(100, ramp=Ramp(date(2026, 6, 10), 10, 10))

        days = ["2026-06-01", "2026-06-10", "2026-06-15", "2026-06-19", "2026-06-20", "2027-01-01"]

        assert [cap.on(number(day)) for day in days] == [10, 10, 55, 91, 100, 100]

    def test_nothing_starts_on_day_0_of_a_ramp_from_0(self) -> None:
        cap = DailyCap(2, ramp=Ramp(date(2026, 6, 10), 10))

        assert cap.on(number("2026-06-10")) == 0
        assert cap.opens_at(Days(), at("2026-06-10T12:00:00")) == at("2026-06-15T00:00:00")
        assert cap.opens_at(Days(), at("2026-06-10T12:00:00"), 2) == at("2026-06-20T00:00:00")

    def test_a_day_with_room_is_open(self) -> None:
        cap, noon = DailyCap(2), at("2026-06-10T12:00:00")

        assert cap.opens_at(Days({cap.day(noon): 1}), noon) == noon
        assert cap.opens_at(Days({cap.day(noon): 1}), noon, 2) == at("2026-06-11T00:00:00")
        assert cap.opens_at(Days({cap.day(noon): 2}), noon) == at("2026-06-11T00:00:00")

    def test_days_to_come_count_if_the_clock_was_set_back(self) -> None:
        cap, noon = DailyCap(1), at("2026-06-10T12:00:00")
        today = cap.day(noon)

        assert cap.opens_at(Days({today: 1, today + 1: 1}), noon) == at("2026-06-12T00:00:00")

    def test_a_cap_of_0_is_shut_for_ever(self) -> None:
        assert DailyCap(0).opens_at(Days(), at("2026-06-10T12:00:00")) == ON_RELEASE
        assert DailyCap(1).opens_at(Days(), at("2026-06-10T12:00:00"), 2) == ON_RELEASE

    def test_on_its_eve_the_next_day_is_waited_for(self) -> None:
        cap, midnight = DailyCap(1), at("2026-06-11T00:00:00")

        assert cap.opens_at(Days(), midnight - EVE - 1) == midnight - EVE - 1
        assert cap.opens_at(Days(), midnight - EVE) == midnight
        assert cap.opens_at(Days({cap.day(midnight): 1}), midnight - 1) == at("2026-06-12T00:00:00")
        assert cap.last_moment(midnight - EVE - 1) == midnight - 1

    @pytest.mark.parametrize(
        ("field", "make"),
        [
            ("cap", lambda: DailyCap(-1)),
            ("cap", lambda: DailyCap(1.5)),
            ("zone", lambda: DailyCap(1, "Nowhere/Else")),
            ("zone", lambda: DailyCap(1, "../etc/passwd")),
            ("ramp.cap", lambda: DailyCap(1, ramp=Ramp(date(2026, 1, 1), 1, 2))),
            ("ramp.cap", lambda: Ramp(date(2026, 1, 1), 1, -1)),
            ("ramp.days", lambda: Ramp(date(2026, 1, 1), 0)),
            ("ramp.days", lambda: Ramp(date(2026, 1, 1), 99_999)),
            ("ramp.start", lambda: Ramp(date(9999, 1, 1), 1)),
        ],
        ids=range(9),
    )
    def test_a_cap_that_makes_no_sense_is_refused(self, field: str, make) -> None:
        with pytest.raises(InvalidLimitError) as refused:
            make()

        assert refused.value.field == field
