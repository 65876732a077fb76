"""What retries promise, whatever the policy."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.lifecycle.retry import (
    Backoff,
    Exhausted,
    RetryPolicy,
    delay_before,
    policy_from_json,
    policy_to_json,
    verdict,
)

spans = st.integers(0, 2**53 - 1)
names = st.lists(st.sampled_from(["ValueError", "pkg.Error", "é"]), max_size=3).map(tuple)
policies = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 2**31 - 1),
    backoff=st.sampled_from(Backoff),
    delay=spans,
    cap=spans,
    factor=st.one_of(st.integers(1, 1_000), st.floats(1, 1_000)),
    jitter=st.booleans(),
    never=names,
    exhausted=st.sampled_from(Exhausted),
)
failures = st.integers(1, 2**31 - 1)
chances = st.floats(0, 1, exclude_max=True)


@given(policies, failures, chances)
def test_a_delay_is_never_negative_and_never_past_the_cap(policy, count, chance):
    assert 0 <= delay_before(policy, count, chance) <= policy.cap


@given(policies, failures, chances)
def test_delays_do_not_shrink(policy, count, chance):
    assert delay_before(policy, count, chance) <= delay_before(policy, count + 1, chance)


@given(policies, st.integers(1, 1_000), chances)
def test_jitter_keeps_at_least_half(policy, count, chance):
    full = delay_before(
        RetryPolicy(1, policy.backoff, policy.delay, policy.cap, policy.factor, jitter=False), count, 0
    )
    jittered = delay_before(
        RetryPolicy(1, policy.backoff, policy.delay, policy.cap, policy.factor), count, chance
    )

    assert full // 2 <= jittered
    assert jittered < full or full == jittered == 0


@given(policies, chances)
def test_the_first_retry_waits_for_the_delay(policy, chance):
    plain = RetryPolicy(1, policy.backoff, policy.delay, 2**53 - 1, policy.factor, jitter=False)

    assert policy.delay == delay_before(plain, 1, chance)


@given(policies, failures, names, chances)
def test_a_job_gets_a_delay_or_its_end_but_never_both(policy, count, ancestry, chance):
    answer = verdict(policy, count, ancestry, chance)

    over = count >= policy.attempts or not set(policy.never).isdisjoint(ancestry)
    assert (policy.exhausted if over else delay_before(policy, count, chance)) == answer


@given(policies)
def test_a_stored_policy_reads_back(policy):
    assert policy == policy_from_json(policy_to_json(policy))


@given(policies, policies)
def test_policies_are_equal_exactly_when_their_text_is(one, other):
    assert (one == other) is (policy_to_json(one) == policy_to_json(other))
