"""How the benchmark counts: a measure that cannot fail would prove nothing."""

import pytest

from penstock.bench.rate import worst_window

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("starts", "worst"),
    [
        ([], 0),
        ([5], 1),
        ([0, SECOND], 1),
        ([0, SECOND - 1], 2),
        ([0, 1, 2, SECOND, SECOND + 1, 3 * SECOND], 3),
        ([0, SECOND // 2, SECOND, 3 * SECOND // 2], 2),
    ],
)
def test_the_worst_window_is_found_wherever_it_begins(starts, worst):
    assert worst_window(starts) == worst
