"""Starts that were granted ahead are at least as far apart as planned, whatever begins late."""

from penstock.limits.pacing import Pacing

LATEST = 1_000  # after its moment a start may begin


def planned(*starts):
    """Plan starts, told as `name at gates [spaced]`; all gates are spaced unless told."""
    pacing = Pacing()
    add(pacing, *starts)
    return pacing


def add(pacing, *starts):
    pacing.add(
        (name, int(at), int(at) + LATEST, gates.split(","), (spaced[0] if spaced else gates).split(","))
        for name, at, gates, *spaced in (start.split() for start in starts)
    )


def names(starts):
    return [start.what for start in starts]


def test_a_start_is_due_at_its_moment():
    pacing = planned("a 100 X")

    assert [] == pacing.due(99)
    assert 100 == pacing.next_at()
    assert ["a"] == names(pacing.due(100))
    assert [] == pacing.due(200)
    assert pacing.next_at() is None
    assert ["a"] == pacing.sent()


def test_the_next_at_a_gate_waits_until_the_one_before_has_begun():
    pacing = planned("a 100 X", "b 110 X")
    pacing.due(100)

    assert [] == pacing.due(500)

    pacing.began("a", 100)
    assert ["b"] == names(pacing.due(110))


def test_what_follows_is_put_off_by_as_much_as_a_start_was_late():
    pacing = planned("a 100 X", "b 110 X", "c 120 X")
    pacing.due(100)
    pacing.began("a", 103)

    assert 113 == pacing.next_at()
    assert {"b": 113, "c": 123} == pacing.ask()


def test_one_that_begins_early_brings_nothing_forward():
    pacing = planned("a 100 X", "b 110 X")
    pacing.due(100)
    pacing.began("a", 99)

    assert {"b": 110} == pacing.ask()


def test_starts_of_one_moment_do_not_wait_for_each_other():
    pacing = planned("a 100 X", "b 100 X", "c 101 X")

    assert ["a", "b"] == names(pacing.due(200))

    pacing.began("b", 105)
    assert {"a": 100, "c": 106} == pacing.ask()
    assert [] == pacing.due(200)
    pacing.began("a", 101)
    assert ["c"] == names(pacing.due(200))


def test_other_gates_are_not_concerned():
    pacing = planned("a 100 X", "b 110 Y")
    pacing.due(100)

    assert ["b"] == names(pacing.due(110))
    pacing.began("a", 150)
    assert {"b": 110} == pacing.ask()


def test_a_gate_that_is_not_spaced_for_a_start_does_not_hold_it():
    pacing = planned("a 100 X", "b 110 X,Y Y", "c 120 X")
    pacing.due(100)

    assert ["b"] == names(pacing.due(110))
    pacing.began("a", 130)
    assert {"b": 110, "c": 150} == pacing.ask()


def test_a_start_that_is_given_up_holds_no_other():
    pacing = planned("a 100 X", "b 110 X")
    pacing.due(100)
    pacing.gone("a")
    pacing.gone("a")

    assert ["b"] == names(pacing.due(110))


def test_what_a_claim_grants_is_put_off_by_what_was_late_since_it_was_asked():
    pacing = planned("a 100 X", "b 110 X")
    pacing.due(100)
    assert {"a": 100, "b": 110} == pacing.ask()
    pacing.began("a", 104)
    add(pacing, "c 120 X", "d 120 Y")

    assert {"b": 114, "c": 124, "d": 120} == pacing.ask()

    add(pacing, "e 134 X")  # that claim knew of it
    assert 134 == pacing.ask()["e"]


def test_all_that_were_not_sent_can_be_taken_at_once():
    pacing = planned("a 100 X", "b 110 X", "c 120 X")
    pacing.due(100)

    assert ["b", "c"] == names(pacing.all_unsent())
    assert [] == pacing.all_unsent()
    assert 3 == len(pacing)


def test_a_start_that_is_not_known_is_passed_over():
    pacing = planned("a 100 X")
    pacing.began("b", 500)

    assert {"a": 100} == pacing.ask()


def test_what_follows_one_that_was_put_off_is_put_off_too():
    pacing = planned("a 5 X", "b 15 X,Y", "c 25 Y", "d 25 Z")
    pacing.due(5)
    pacing.began("a", 13)

    assert {"b": 23, "c": 33, "d": 25} == pacing.ask()


def test_so_is_what_a_claim_grants_meanwhile():
    pacing = planned("a 5 X", "b 15 X,Y")
    pacing.due(5)
    pacing.ask()
    pacing.began("a", 13)
    add(pacing, "c 25 Y,Z", "d 35 Z", "e 10 Y")

    assert {"b": 23, "c": 33, "d": 43, "e": 10} == pacing.ask()


def test_several_late_ones_put_off_by_the_most_and_not_by_the_sum():
    pacing = planned("a 5 X", "b 15 X,Y", "c 16 X,Z", "d 30 Y,Z")
    pacing.due(5)
    pacing.began("a", 8)

    assert {"b": 18, "c": 19, "d": 33} == pacing.ask()


def test_a_start_that_cannot_begin_any_more_holds_no_other_and_is_sent_to_be_refused():
    pacing = planned("a 100 X", "b 110 X", "c 1200 X")
    pacing.due(100)

    assert [] == pacing.due(1_099)
    assert ["b"] == names(pacing.due(1_100))
    assert ["c"] == names(pacing.due(1_200))


def test_a_start_that_was_put_off_beyond_its_latest_moment_is_sent_at_once_and_refused():
    pacing = planned("a 100 X", "b 110 X")
    pacing.due(100)
    pacing.began("a", 1_100)

    assert ["b"] == names(pacing.due(1_100))


def test_a_start_is_sent_a_little_early_and_is_not_too_late_any_earlier():
    pacing = planned("a 100 X", "b 110 X")

    assert ["a"] == names(pacing.due(70, early=30))
    # The first may begin still, so the second waits for it.
    assert [] == pacing.due(1_099, early=30)
    assert ["b"] == names(pacing.due(1_100, early=30))
