"""Labels are bounded, and nothing is left out of the count."""

from penstock.http.counters import MOST, OTHER, Histogram, LabelCounter


def test_after_so_many_labels_all_others_count_together():
    tally = LabelCounter()
    for n in range(MOST + 500):
        tally.add(f"key:{n}", "rate")
    tally.add("key:0", "rate")

    assert MOST + 1 == len(tally.counts)
    assert (2, 500) == (tally.counts["key:0", "rate"], tally.counts[OTHER, OTHER])


def test_values_are_spread_by_their_upper_bounds():
    spread = Histogram((1, 10))
    for value in (0.5, 1, 5, 50):
        spread.add(value, "a")

    assert {("a",): [2, 1, 1, 56.5]} == spread.values


def test_of_spreads_too_there_are_only_so_many():
    spread = Histogram((1,))
    for n in range(MOST + 3):
        spread.add(0.5, str(n))

    assert (MOST + 1, 3) == (len(spread.values), spread.values[OTHER,][0])
