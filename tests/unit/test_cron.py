"""When a schedule fires: fields, names, and the hours that clocks skip and repeat."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from penstock.errors import InvalidJobError
from penstock.lifecycle.cron import SHORT, parse_cron


def moment(text: str, zone: str = "UTC") -> int:
    """Return "2026-03-08 01:30" in a zone as microseconds; a "+" at the end means the second time that comes."""
    wall = datetime.fromisoformat(text.rstrip("+")).replace(tzinfo=ZoneInfo(zone), fold=text.endswith("+"))
    return round(wall.timestamp() * 1_000_000)


def fires(expression: str, after: str, count: int, zone: str = "UTC") -> list[str]:
    """Return the next moments as the clocks of the zone show them, with "+" for the second of two."""
    cron, at, found = parse_cron(expression, zone), moment(after, zone), []
    for _ in range(count):
        at = cron.next_after(at)
        wall = datetime.fromtimestamp(at / 1_000_000, ZoneInfo(zone))
        found.append(f"{wall:%m-%d %H:%M}{'+' if wall.fold else ''}")
    return found


class TestFields:
    @pytest.mark.parametrize(
        ("expression", "first", "second"),
        [
            ("* * * * *", "01-01 00:01", "01-01 00:02"),
            ("*/15 * * * *", "01-01 00:15", "01-01 00:30"),
            ("5/20 * * * *", "01-01 00:05", "01-01 00:25"),
            ("0 9-17/4 * * *", "01-01 09:00", "01-01 13:00"),
            ("1,59 0 * * *", "01-01 00:01", "01-01 00:59"),
            ("0 0 * * mon", "01-05 00:00", "01-12 00:00"),
            ("0 0 * * MON-TUE", "01-05 00:00", "01-06 00:00"),
            ("0 0 * * 0", "01-04 00:00", "01-11 00:00"),
            ("0 0 * * 7", "01-04 00:00", "01-11 00:00"),
            ("0 0 1 feb,Apr *", "02-01 00:00", "04-01 00:00"),
            ("0 0 31 * *", "01-31 00:00", "03-31 00:00"),
            ("0 0 13 * 5", "01-02 00:00", "01-09 00:00"),  # either: the thirteenth, or a Friday
            ("0 0 L * *", "01-31 00:00", "02-28 00:00"),
            ("0 0 LW * *", "01-30 00:00", "02-27 00:00"),
            ("0 0 * * 5#3", "01-16 00:00", "02-20 00:00"),
            ("  0   12 * * *  ", "01-01 12:00", "01-02 12:00"),
        ],
    )
    def test_an_expression_fires_where_its_fields_match(self, expression, first, second):
        assert [first, second] == fires(expression, "2026-01-01 00:00", 2)

    @pytest.mark.parametrize(
        ("name", "first"),
        [
            ("@yearly", "01-01 00:00"),
            ("@annually", "01-01 00:00"),
            ("@monthly", "06-01 00:00"),
            ("@weekly", "05-24 00:00"),
            ("@daily", "05-21 00:00"),
            ("@midnight", "05-21 00:00"),
            ("@hourly", "05-20 13:00"),
            (" @Hourly ", "05-20 13:00"),
        ],
    )
    def test_a_name_stands_for_five_fields(self, name, first):
        assert [first] == fires(name, "2026-05-20 12:34", 1)

    def test_a_moment_is_not_after_itself_but_a_microsecond_later_is(self):
        noon = moment("2026-01-01 12:00")
        cron = parse_cron("0 12 * * *")

        assert noon == cron.next_after(noon - 1)
        assert moment("2026-01-02 12:00") == cron.next_after(noon)

    def test_the_29th_of_february_waits_for_a_leap_year(self):
        assert moment("2028-02-29") == parse_cron("0 0 29 2 *").next_after(moment("2026-01-01"))

    def test_a_fifth_monday_in_february_is_found_however_rare(self):
        assert moment("2044-02-29") == parse_cron("0 0 * 2 mon#5").next_after(moment("2026-01-01"))

    def test_a_last_weekday_that_is_a_sunday_never_comes(self):
        assert parse_cron("0 0 LW * */7").next_after(moment("2026-01-01")) is None


class TestMistakes:
    @pytest.mark.parametrize("count", [0, 1, 4, 6, 7])
    def test_five_fields_no_more_and_no_fewer(self, count):
        with pytest.raises(InvalidJobError, match=f"has {count} fields; write 5") as caught:
            parse_cron(" ".join(["0"] * count))

        assert "expression" == caught.value.field
        assert all(name in caught.value.problem for name in SHORT)

    @pytest.mark.parametrize(
        ("expression", "problem"),
        [
            ("99 25 32 13 8", "bad minute"),
            ("60 * * * *", "bad minute"),
            ("* 24 * * *", "bad hour"),
            ("* * 0 * *", "bad day-of-month"),
            ("* * 32 * *", "bad day-of-month"),
            ("* * * 13 *", "bad month"),
            ("* * * mars *", "bad month"),
            ("* * * * 8", "bad day-of-week"),
            ("* * * * 5#6", "bad day-of-week"),
            ("* * * * L", "bad day-of-week"),
            ("*/0 * * * *", "bad minute"),
            ("-5 * * * *", "bad minute"),
            ("9-5 * * * *", "bad minute"),
            ("1,,2 * * * *", "bad minute"),
            ("1/2/3 * * * *", "bad minute"),
            ("٣ * * * *", "bad minute"),
            ("0 0 30 2 *", "bad day-of-month"),
            ("0 0 31 4,6,9,11 *", "bad day-of-month"),
            ("? * * * *", "bad minute"),
        ],
    )
    def test_a_field_that_cannot_be_is_named(self, expression, problem):
        with pytest.raises(InvalidJobError, match=problem) as caught:
            parse_cron(expression)

        assert "expression" == caught.value.field

    @pytest.mark.parametrize("expression", ["@never", "@every 5m", "tomorrow"])
    def test_an_unknown_name_is_refused_with_those_that_are_known(self, expression):
        with pytest.raises(InvalidJobError, match="@hourly"):
            parse_cron(expression)

    def test_an_endless_expression_is_not_read(self):
        with pytest.raises(InvalidJobError, match="at most 256"):
            parse_cron(f"{'9' * 5_000} * * * *")

    @pytest.mark.parametrize(
        "zone", ["", "Mars/Olympus", "Europe", "+05:00", "../UTC", "a\0b", "Europe/Berlin "]
    )
    def test_an_unknown_time_zone_is_refused(self, zone):
        with pytest.raises(InvalidJobError, match="is not a time zone") as caught:
            parse_cron("* * * * *", zone)

        assert "timezone" == caught.value.field


class TestClockChanges:
    def test_a_time_that_is_skipped_does_not_fire_that_day(self):
        # In New York 2 o'clock becomes 3 o'clock on 8 March 2026.
        assert ["03-07 02:30", "03-09 02:30"] == fires(
            "30 2 * * *", "2026-03-07 00:00", 2, "America/New_York"
        )

    def test_the_times_around_a_skipped_hour_fire(self):
        assert ["03-08 01:59", "03-08 03:00", "03-08 03:59"] == fires(
            "0,59 1,3 * * *", "2026-03-08 01:30", 3, "America/New_York"
        )

    def test_every_hour_goes_on_through_a_skipped_one(self):
        assert ["03-08 01:00", "03-08 03:00", "03-08 04:00"] == fires(
            "0 * * * *", "2026-03-08 00:30", 3, "America/New_York"
        )

    def test_a_time_that_comes_twice_fires_the_first_time(self):
        # In New York 2 o'clock becomes 1 o'clock on 1 November 2026.
        assert ["11-01 01:30", "11-02 01:30"] == fires(
            "30 1 * * *", "2026-11-01 00:00", 2, "America/New_York"
        )

    def test_and_not_again_when_asked_in_between(self):
        cron = parse_cron("30 1 * * *", "America/New_York")

        assert moment("2026-11-02 01:30", "America/New_York") == cron.next_after(
            moment("2026-11-01 01:10+", "America/New_York")
        )

    def test_every_hour_counts_both(self):
        assert ["11-01 01:00", "11-01 01:00+", "11-01 02:00"] == fires(
            "0 * * * *", "2026-11-01 00:30", 3, "America/New_York"
        )

    def test_every_few_minutes_go_on_through_both(self):
        assert ["11-01 01:40", "11-01 01:00+", "11-01 01:20+", "11-01 01:40+", "11-01 02:00"] == fires(
            "*/20 * * * *", "2026-11-01 01:20", 5, "America/New_York"
        )

    def test_chosen_hours_count_once_whatever_their_minutes(self):
        assert ["11-01 01:00", "11-01 01:30", "11-02 01:00"] == fires(
            "*/30 1 * * *", "2026-11-01 00:30", 3, "America/New_York"
        )

    def test_midnight_itself_may_be_skipped(self):
        # In Cairo midnight becomes 1 o'clock on 24 April 2026.
        assert ["04-23 00:00", "04-25 00:00"] == fires("0 0 * * *", "2026-04-22 12:00", 2, "Africa/Cairo")
        assert ["04-23 23:00", "04-24 01:00"] == fires("0 * * * *", "2026-04-23 22:30", 2, "Africa/Cairo")

    def test_half_an_hour_may_come_twice(self):
        # On Lord Howe Island 2 o'clock becomes half past 1 on 5 April 2026.
        assert ["04-05 01:45", "04-05 01:30+", "04-05 01:45+", "04-05 02:00"] == fires(
            "*/15 * * * *", "2026-04-05 01:30", 4, "Australia/Lord_Howe"
        )
        assert ["04-05 02:00", "04-05 02:10"] == fires(
            "*/10 2 * * *", "2026-04-05 01:45+", 2, "Australia/Lord_Howe"
        )

    def test_a_zone_has_its_own_midnight(self):
        assert moment("2025-12-31 15:00") == parse_cron("@daily", "Asia/Tokyo").next_after(
            moment("2025-12-31 14:59")
        )
