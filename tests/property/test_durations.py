"""What durations promise, whatever is written."""

from contextlib import suppress
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidError
from penstock.limits.durations import format_duration, parse_duration, to_iso
from penstock.limits.rules import MAX_NUMBER

spans = st.one_of(st.integers(1, 2_000_000), st.integers(1, MAX_NUMBER))
alphabet = "PTYMWDHSwdhmsu0123456789., -"


@given(spans)
def test_what_is_shown_reads_back(microseconds):
    assert microseconds == parse_duration(format_duration(microseconds))
    assert microseconds == parse_duration(to_iso(microseconds))


@given(spans)
def test_a_timedelta_keeps_every_microsecond(microseconds):
    assert microseconds == parse_duration(timedelta(microseconds=microseconds))


@given(st.integers(1, 10**9))
def test_seconds_are_seconds_in_every_spelling(seconds):
    spellings = [seconds, float(seconds), f"{seconds}s", f"PT{seconds}S", timedelta(seconds=seconds)]

    assert {seconds * 1_000_000} == {parse_duration(spelling) for spelling in spellings}


@given(
    st.one_of(st.text(alphabet), st.text(), st.floats(), st.integers(), st.booleans(), st.none()),
    st.booleans(),
)
def test_anything_else_is_refused_politely(written, zero):
    with suppress(InvalidError):
        microseconds = parse_duration(written, "per", zero=zero)

        assert (0 if zero else 1) <= microseconds <= MAX_NUMBER
