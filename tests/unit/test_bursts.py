"""A throttle with bursts: a bucket of starts that fills at an even pace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidLimitError
from penstock.limits import Numbers, Throttle, Window
from penstock.limits.bucket import Bucket
from penstock.limits.gate import ALWAYS, ON_RELEASE, Gate, Starts
from penstock.limits.rules import numbers_from_text

STEPS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4)), max_size=60)


def bucket_of(burst, limit=2, period=10):
    return Numbers(throttle=Window(limit, period, burst))


def started(numbers, *times):
    gate = Gate(1)
    gate.remember(numbers, 0)
    for at in times:
        gate.starts.prune(at)
        gate.start(at, 1)
    return gate


def test_what_users_write_becomes_a_window_with_a_burst():
    assert Numbers(throttle=Window(2, 1_000_000, 40)) == Throttle(2, per="1s", burst=40, key="k").numbers
    assert Throttle(2, per="1s", burst=1, key="k").numbers == Throttle(2, per="1s", key="k").numbers


@pytest.mark.parametrize("burst", [0, -1, 1.5, 2**60])
def test_a_burst_is_a_whole_number_that_can_be_filled_again(burst):
    with pytest.raises(InvalidLimitError, match="burst"):
        Throttle(1, per="1h", burst=burst, key="k")


def test_the_text_of_numbers_without_bursts_is_what_it_was():
    assert "c1;r2/3;t4/5" == Numbers(1, Window(2, 3), Window(4, 5)).text
    assert "t4/5/6" == Numbers(throttle=Window(4, 5, 6)).text
    assert Numbers(throttle=Window(4, 5, 6)) == numbers_from_text("t4/5/6")


def test_a_throttle_of_nothing_has_no_bucket():
    gate = Gate(1)
    gate.remember(bucket_of(5, limit=0), 0)

    assert gate.starts.bucket is None
    assert ON_RELEASE == gate.opens_at(bucket_of(5, limit=0), 1, 0)


def test_a_full_bucket_lets_a_burst_through_and_then_one_for_each_gap():
    numbers = bucket_of(3)
    gate = started(numbers)
    assert ALWAYS == gate.opens_at(numbers, 1, 100)

    gate = started(numbers, 100, 100, 100)
    assert 105 == gate.opens_at(numbers, 1, 100)
    gate.start(105, 1)
    assert 110 == gate.opens_at(numbers, 1, 105)


def test_a_heavy_start_needs_its_weight_and_one_heavier_than_the_bucket_a_full_one():
    numbers = bucket_of(3)
    gate = started(numbers, 100)

    assert 95 == gate.opens_at(numbers, 1, 100)
    assert 100 == gate.opens_at(numbers, 2, 100)
    assert 105 == gate.opens_at(numbers, 3, 100)
    assert 105 == gate.opens_at(numbers, 9, 100)


def test_what_is_kept_for_another_is_kept_in_the_bucket():
    numbers = bucket_of(3)
    gate = started(numbers, 100)

    assert 100 == gate.opens_at(numbers, 1, 100, kept=1)
    assert 105 == gate.opens_at(numbers, 1, 100, kept=2)
    assert ON_RELEASE == gate.opens_at(numbers, 1, 100, kept=3)
    assert ON_RELEASE == gate.opens_at(bucket_of(1), 1, 200, kept=1)


def test_a_bucket_emptied_long_ago_and_kept_busy_stays_empty():
    numbers = bucket_of(4)
    gate = started(numbers, *[0] * 4, *range(5, 2_000, 5))

    assert len(gate.starts.times) < 10
    assert 2_000 == gate.opens_at(numbers, 1, 1_995)
    assert 2_015 == gate.starts.kept_until


@given(st.integers(2, 6), st.integers(1, 3), STEPS)
def test_folding_forgets_nothing(burst, limit, asked):
    numbers = bucket_of(burst, limit)
    gate, now, full_at = Gate(1), 0, 0
    gate.remember(numbers, 0)
    gap = numbers.throttle.gap
    for step, weight in asked:
        now += step
        gate.starts.prune(now)
        opens = max(full_at - (burst - min(weight, burst)) * gap, 0)
        assert opens == gate.opens_at(numbers, weight, now)
        if opens <= now:
            full_at = max(full_at, now) + weight * gap
            gate.start(now, weight)


@given(st.integers(2, 5), st.integers(1, 4), st.integers(2, 5), st.integers(1, 4), STEPS)
def test_by_another_pace_a_bucket_is_never_fuller_than_it_would_be(burst, limit, other, slower, asked):
    one, two = bucket_of(burst, limit), bucket_of(other, slower)
    gate, now = Gate(1), 0
    gate.remember(one, 0)
    gate.remember(two, 0)
    true, gap = 0, two.throttle.gap
    for step, _ in asked:
        now += step
        gate.starts.prune(now)
        if gate.opens_at(one, 1, now) <= now and gate.opens_at(two, 1, now) <= now:
            true = max(true, now) + gap
            gate.start(now, 1)
        assert gate.opens_at(two, 1, now) >= max(true - (other - 1) * gap, 0)


def test_a_slower_pace_counts_from_when_it_is_asked_for():
    gate = started(bucket_of(4), *[0] * 4, *range(5, 100, 5))
    assert gate.remember(bucket_of(2, limit=1), 95)
    assert not gate.remember(bucket_of(2, limit=1), 95)

    assert 10 == gate.starts.bucket.gap
    assert gate.opens_at(bucket_of(2, limit=1), 1, 95) > 95


def test_a_bucket_by_a_slower_pace_may_have_been_empty():
    bucket = Bucket(5)
    assert 0 == bucket.due_by(Window(1, 10, 3))
    bucket.fold(100, 1)

    assert 105 == bucket.due_by(Window(2, 10, 3))
    assert 130 == bucket.due_by(Window(1, 10, 3))
    assert 101 == bucket.due_by(Window(10, 10, 3))


def test_a_throttle_without_bursts_beside_one_with_them_keeps_its_gaps_alone():
    gate = started(bucket_of(4), 100, 100, 100)
    plain = Numbers(throttle=Window(2, 10))
    gate.remember(plain, 100)

    assert 105 == gate.opens_at(plain, 1, 100)
    assert gate.starts.paced


def test_what_was_used_beyond_a_start_that_was_folded_counts_from_now_on():
    starts = Starts(10, bucket=Bucket(5))
    starts.add(0, 1)
    starts.prune(50)
    assert 5 == starts.bucket.due

    assert not starts.weigh(0, 3, 1, 50)
    assert starts.weigh(0, 1, 3, 50)
    assert ([50], [2]) == (starts.times, starts.weights)


def test_a_bucket_that_no_time_fills_again_is_refused():
    with pytest.raises(InvalidLimitError, match="burst: 10000000000 would take too long"):
        Throttle(1, per="30d", burst=10**10, key="k")


def test_a_gate_without_a_memory_is_open():
    assert ALWAYS == Gate(1).opens_at(bucket_of(3), 1, 5)


@given(STEPS, st.integers(1, 4))
def test_jobs_that_all_obey_one_throttle_are_never_outdone_by_each_other(steps, burst):
    numbers, gate, now = bucket_of(burst), started(bucket_of(burst)), 0
    for step, cost in steps:
        now += step
        gate.starts.prune(now)
        if gate.opens_at(numbers, cost, now) <= now:
            gate.start(now, cost)

        assert not gate.outdone(numbers, now)


@pytest.mark.parametrize("burst", [1, 3])
def test_a_job_is_outdone_where_others_bring_a_faster_throttle(burst):
    gate = started(bucket_of(burst), *range(8))

    assert gate.outdone(bucket_of(burst), 8)
    assert not gate.outdone(Numbers(throttle=Window(0, 10)), 8)


def test_a_start_leaves_room_for_another_as_long_as_the_bucket_has_enough_for_both():
    gate = started(bucket_of(3), 0)

    assert gate.leaves_room(bucket_of(3), 1, 1, 0)
    assert not gate.leaves_room(bucket_of(3), 2, 1, 0)
    assert not gate.leaves_room(bucket_of(1), 1, 1, 0)


def test_starts_leave_the_list_in_order_also_after_a_heavy_one_that_is_seen_for_longer():
    numbers = bucket_of(burst=2, limit=1, period=3)
    gate = Gate(1)
    gate.remember(numbers, 0)
    for at, weight in ((0, 4), (3, 1), (6, 1)):
        gate.start(at, weight)
    before = gate.opens_at(numbers, 1, 6)
    gate.starts.prune(11)

    assert (before, gate.opens_at(numbers, 1, 11)) == (15, 15)
