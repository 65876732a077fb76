"""What follows a failure."""

from datetime import timedelta

import pytest

from penstock.errors import InvalidJobError
from penstock.lifecycle.retry import (
    MAX_ATTEMPTS,
    Backoff,
    Exhausted,
    RetryPolicy,
    delay_before,
    error_names,
    policy_from_json,
    policy_to_json,
    verdict,
)

SECOND = 1_000_000


class UpstreamError(ConnectionError):
    class InnerError(Exception):
        pass


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        ("fixed", [3, 3, 3, 3, 3, 3]),
        ("linear", [3, 6, 9, 12, 15, 18]),
        ("exponential", [3, 6, 12, 24, 30, 30]),
    ],
)
def test_delays_grow_as_the_policy_says_up_to_the_cap(backoff, delays):
    policy = RetryPolicy.of(9, backoff=backoff, delay=3, cap=30, jitter=False)

    assert [delay * SECOND for delay in delays] == [delay_before(policy, n, 0.3) for n in range(1, 7)]


def test_a_factor_may_be_broken():
    policy = RetryPolicy.of(9, delay=4, factor=1.5, jitter=False)

    assert [4 * SECOND, 6 * SECOND, 9 * SECOND] == [delay_before(policy, n, 0) for n in (1, 2, 3)]


def test_a_very_late_failure_waits_for_the_cap():
    policy = RetryPolicy.of(MAX_ATTEMPTS, delay="1s", cap="1h", factor=1_000, jitter=False)

    assert 3600 * SECOND == delay_before(policy, MAX_ATTEMPTS - 1, 0)


def test_no_delay_stays_no_delay_however_late():
    policy = RetryPolicy.of(MAX_ATTEMPTS, delay=0, factor=1_000)

    assert 0 == delay_before(policy, 1, 0.5)
    assert 0 == delay_before(policy, MAX_ATTEMPTS - 1, 0.5)


@pytest.mark.parametrize(("chance", "delay"), [(0.0, 5 * SECOND), (0.5, 7.5 * SECOND)])
def test_jitter_takes_away_up_to_half(chance, delay):
    policy = RetryPolicy.of(delay=10)

    assert delay == delay_before(policy, 1, chance)


@pytest.mark.parametrize("full", [1, 2, 3, 10 * SECOND, 2**53 - 1])
def test_jitter_always_takes_something_away(full):
    policy = RetryPolicy(delay=full, cap=full)

    assert full - 1 == delay_before(policy, 1, 1 - 2**-53)


def test_a_failure_is_followed_by_another_attempt_until_they_are_used_up():
    policy = RetryPolicy.of(3, backoff="fixed", delay=1, jitter=False, exhausted="discard")

    assert [SECOND, SECOND, Exhausted.DISCARD] == [verdict(policy, n, (), 0) for n in (1, 2, 3)]


def test_by_default_there_is_one_attempt_and_the_job_is_kept():
    assert Exhausted.KEEP is verdict(RetryPolicy(), 1, ("ValueError",), 0)


@pytest.mark.parametrize(
    "never",
    [
        UpstreamError, [ConnectionError], (ValueError, OSError), Exception,
        ("UpstreamError",), [f"{__name__}.UpstreamError"], {"ConnectionError"}, "OSError",
    ],
)  # fmt: skip
def test_an_error_or_its_base_can_be_final(never):
    policy = RetryPolicy.of(3, never=never)

    assert Exhausted.KEEP is verdict(policy, 1, error_names(UpstreamError), 0)


@pytest.mark.parametrize("never", [ValueError, "other.UpstreamError", "Upstream", "Error"])
def test_other_errors_are_not_final(never):
    policy = RetryPolicy.of(3, never=never, jitter=False)

    assert SECOND == verdict(policy, 1, error_names(UpstreamError), 0)


def test_errors_are_named_with_their_bases():
    assert ("KeyError", "LookupError", "Exception", "BaseException") == error_names(KeyError)
    assert f"{__name__}.UpstreamError.InnerError" == error_names(UpstreamError.InnerError)[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("attempts", value) for value in (0, -1, 1.5, True, "3", None, MAX_ATTEMPTS + 1)),
        *(("backoff", value) for value in ("quadratic", "", None)),
        *(("delay", value) for value in (-1, 1.5, True, "1s", 2**53)),
        *(("cap", value) for value in (-1, 1.5, True, "1s", 2**53)),
        *(("factor", value) for value in (0.5, -1, 1001, True, "2", None, float("nan"), float("inf"))),
        *(("jitter", value) for value in (1, "yes", None)),
        *(("never", value) for value in ("ValueError", ["ValueError"], ("",), (5,))),
        *(("exhausted", value) for value in ("forget", "", None)),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_and_the_field_named(field, value):
    with pytest.raises(InvalidJobError) as caught:
        RetryPolicy(**{field: value})

    assert field == caught.value.field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("delay", "soon"), ("cap", -1), ("backoff", "wild"), ("exhausted", "forget"),
        ("never", [5]), ("never", [int]), ("never", int), ("never", None), ("never", ""),
    ],
)  # fmt: skip
def test_what_users_write_is_refused_in_the_same_way(field, value):
    with pytest.raises(InvalidJobError) as caught:
        RetryPolicy.of(**{field: value})

    assert field == caught.value.field


def test_durations_are_read_as_users_write_them():
    policy = RetryPolicy.of(5, backoff="linear", delay="250ms", cap="PT1M", never=(ValueError, "pkg.Error"))

    assert (
        RetryPolicy(5, Backoff.LINEAR, 250_000, 60 * SECOND, 2.0, True, ("ValueError", "pkg.Error")) == policy
    )


def test_the_default_policy_is_stored_as_nothing():
    assert "" == policy_to_json(RetryPolicy())
    assert RetryPolicy() == policy_from_json("")


def test_a_policy_is_stored_as_what_differs_from_the_default():
    assert '{"attempts":3,"factor":3.0}' == policy_to_json(RetryPolicy(3, factor=3))


def test_a_stored_policy_is_read_once():
    assert policy_from_json('{"attempts":3}') is policy_from_json('{"attempts":3}')


@pytest.mark.parametrize("name", ["delay", "cap"])
@pytest.mark.parametrize("span", ["100ms", timedelta(seconds=1)])
def test_a_duration_where_microseconds_are_meant_is_answered_with_the_way_to_write_it(name, span):
    with pytest.raises(InvalidJobError, match=rf"{name}: .*RetryPolicy\.of\({name}="):
        RetryPolicy(**{name: span})
