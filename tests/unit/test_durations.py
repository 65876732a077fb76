"""How users write durations, and how they are shown."""

from datetime import timedelta

import pytest

from penstock.errors import InvalidError, InvalidLimitError
from penstock.limits.durations import format_duration, parse_duration, to_iso

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        (1, SECOND),
        (0.5, SECOND // 2),
        (0.1, 100_000),
        (timedelta(minutes=1), MINUTE),
        (timedelta(microseconds=3), 3),
        ("1m", MINUTE),
        ("1h30m", HOUR + 30 * MINUTE),
        (" 1h 30m ", HOUR + 30 * MINUTE),
        ("250ms", 250_000),
        ("7us", 7),
        ("1.5s", 1_500_000),
        ("1h0.5m", HOUR + 30 * SECOND),
        ("2d", 2 * DAY),
        ("1w", 7 * DAY),
        ("90m", 90 * MINUTE),
        ("PT1M", MINUTE),
        ("P1DT2H", DAY + 2 * HOUR),
        ("PT0.5S", SECOND // 2),
        ("PT0,5S", SECOND // 2),
        ("P2W", 14 * DAY),
        ("P1D", DAY),
        ("PT90M", 90 * MINUTE),
    ],
)
def test_every_spelling_comes_to_whole_microseconds(written, microseconds):
    assert microseconds == parse_duration(written)


@pytest.mark.parametrize(
    "written",
    [
        *("", " ", "P", "PT", "P1DT", "60", "1x", "h", "1 2s", "30m1h", "1m1m", "PT1M2H", "1H", "pt1m"),
        *("1.5h30m", "P1.5DT2H", "1.s", ".5s", "1e3s", "٣s", "--1s", "1s-", "forever"),
        *(True, False, None, float("nan"), float("inf"), -float("inf"), b"1s", [1]),
    ],
)
def test_what_is_no_duration_is_refused_with_examples(written):
    with pytest.raises(
        InvalidError, match=r'^per: .* is not a duration; write .*"1h30m" or "PT1M"$'
    ) as caught:
        parse_duration(written, "per")

    assert "per" == caught.value.field


@pytest.mark.parametrize("written", ["P1Y", "P1M", "P1Y2M3D", "P2MT1H", "-P1M"])
def test_years_and_months_are_refused_because_their_length_differs(written):
    with pytest.raises(InvalidError, match=r"years or months"):
        parse_duration(written)


@pytest.mark.parametrize("written", [-1, -0.5, "-5s", "-PT1M", timedelta(seconds=-1)])
@pytest.mark.parametrize("zero", [True, False])
def test_a_negative_duration_is_refused(written, zero):
    with pytest.raises(InvalidError, match=r"must be"):
        parse_duration(written, zero=zero)


@pytest.mark.parametrize("written", [0, 0.0, "0s", "PT0S", timedelta(0), 0.000_000_1])
def test_no_time_at_all_is_refused_unless_allowed(written):
    with pytest.raises(InvalidError, match=r"at least a microsecond"):
        parse_duration(written)

    assert 0 == parse_duration(written, zero=True)


@pytest.mark.parametrize("written", [10**12, 1e30, 1.7e308, "99999999999999w", timedelta.max, "P104251D"])
def test_a_duration_that_no_store_can_hold_is_refused(written):
    with pytest.raises(InvalidError, match=r"too long; at most 104249 days"):
        parse_duration(written)


def test_the_caller_chooses_the_error():
    with pytest.raises(InvalidLimitError, match=r"^every: "):
        parse_duration("soon", "every", error=InvalidLimitError)


@pytest.mark.parametrize(
    ("microseconds", "short", "iso"),
    [
        (0, "0s", "PT0S"),
        (7, "7us", "PT0.000007S"),
        (1_000, "1ms", "PT0.001S"),
        (1_500, "1.5ms", "PT0.0015S"),
        (400_000, "400ms", "PT0.4S"),
        (SECOND, "1s", "PT1S"),
        (10 * SECOND, "10s", "PT10S"),
        (1_500_000, "1.5s", "PT1.5S"),
        (MINUTE, "1m", "PT1M"),
        (MINUTE + 1, "1m0.000001s", "PT1M0.000001S"),
        (HOUR + 30 * MINUTE, "1h30m", "PT1H30M"),
        (DAY, "1d", "P1D"),
        (7 * DAY + 2 * HOUR, "7d2h", "P7DT2H"),
        (-MINUTE, "-1m", "-PT1M"),
    ],
)
def test_durations_are_shown_short_and_exact(microseconds, short, iso):
    assert short == format_duration(microseconds)
    assert iso == to_iso(microseconds)
