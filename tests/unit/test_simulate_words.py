"""How figures and axes read."""

import pytest

from penstock.simulate.axes import bins, count_axis, time_axis
from penstock.simulate.words import number, per_unit, percent, span

SECOND, DAY = 1_000_000, 86_400_000_000


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (None, ""),
        (0, "0"),
        (350_000, "350 ms"),
        (1_500, "1.50 ms"),
        (12_340_000, "12.3 s"),
        (59_999_999, "60.0 s"),
        (250 * SECOND, "4 min 10 s"),
        (7_199 * SECOND, "2 h"),
        (16 * DAY + 3_600 * SECOND, "16 d 1 h"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(microseconds, text):
    assert text == span(microseconds)


def test_a_throughput_is_told_in_a_unit_in_which_it_is_one_at_least():
    told = [per_unit(value) for value in (12.34, 0.5, 0.01, 0.001, 30 / 86_400, 0)]

    assert ["12.3 per s", "30 per min", "36 per h", "3.60 per h", "1.25 per h", "0 per day"] == told


def test_numbers_have_three_digits_and_parts_of_a_percent_are_seen():
    assert ["1,234", "0.12", "7", "7.50"] == [number(value) for value in (1234.4, 0.123, 7, 7.5)]
    assert ["0%", "<1%", "50%"] == [percent(part) for part in (0, 0.001, 0.5)]


@pytest.mark.parametrize("until", [1, 999, 5 * SECOND, 100 * SECOND, DAY, 17 * DAY, 4_000 * DAY])
def test_an_axis_of_time_has_a_few_marks_within_it(until):
    axis = time_axis(until)
    edges = bins(until, 48)

    assert 1 <= len(axis.ticks) <= 9
    assert all(place <= until for place, _ in axis.ticks)
    assert 1 <= len(edges) - 1 <= 48
    assert edges[-2] < until <= edges[-1]


@pytest.mark.parametrize("most", [0, 1, 7, 40, 501, 10**6])
def test_an_axis_of_counts_has_whole_marks_and_room_for_all(most):
    axis = count_axis(most)

    assert most <= axis.most <= 2 * max(most, 1)
    assert 2 <= len(axis.ticks) <= 6
