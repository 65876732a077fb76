"""What a call really used, in place of what its start was estimated to cost."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits.gate import Gate
from penstock.limits.rules import Numbers, Window
from penstock.policies import Bulkhead, InvalidPolicyError, Limits, RateLimiter, Throttler, Timeout, clock
from penstock.policies.options import WaitOptions
from penstock.policies.pacing import Spaced, Windowed
from penstock.policies.slot import calls
from tests.support.forked import trouble_in_a_fork
from tests.support.sharing import until


@pytest.fixture
def tokens():
    return RateLimiter(10, per=10, name="tokens")


async def starts_after(time, limit, cost, report):
    """Return when the calls start that wait behind one of *cost*, which says after a second what it used."""
    starts = []

    async def wait():
        async with limit.slot():
            starts.append(round(time.now(), 3))

    async with limit.slot(cost=cost) as slot:
        others = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(1)
        report(slot)
        await asyncio.sleep(1)
    await asyncio.gather(*others)
    return starts


@pytest.mark.parametrize(
    ("used", "starts"),
    [
        (0, [1, 1, 1]),
        (8, [1, 1, 10]),
        (10, [10, 10, 10]),
        (15, [10, 10, 10]),
        (None, [10, 10, 10]),
    ],
    ids=["nothing", "less", "the same", "more", "not reported"],
)
def test_of_a_rate_a_call_used(time, tokens, used, starts):
    async def main():
        return await starts_after(time, tokens, 10, lambda slot: used is None or slot.spend(used))

    assert starts == time.run(main())


@pytest.mark.parametrize(
    ("used", "starts"),
    [(0, [1, 2, 3]), (2, [2, 3, 4]), (4, [4, 5, 6]), (6, [6, 7, 8])],
    ids=["nothing", "less", "the same", "more"],
)
def test_of_a_throttle_a_call_used(time, used, starts):
    async def main():
        return await starts_after(time, Throttler(1, per=1), 4, lambda slot: slot.spend(used))

    assert starts == time.run(main())


def test_what_was_used_beyond_the_estimate_keeps_others_out_until_it_fits_again(time, tokens):
    async def main():
        starts = []
        async with tokens.slot(cost=2) as slot:
            await asyncio.sleep(3)
            slot.spend(15)
        assert 15 == tokens.stats().in_use
        async with tokens:
            starts.append(time.now())
        return starts

    assert [10] == [pytest.approx(at) for at in time.run(main())]


def test_the_last_report_counts(time, tokens):
    async def main():
        async with tokens.slot(cost=5) as slot:
            found = []
            for used in (1, 9, 0, 3):
                slot.spend(used)
                found.append(tokens.stats().in_use)
            return found

    assert [1, 9, 0, 3] == time.run(main())


def test_a_slot_that_is_used_again_has_its_first_cost(time, tokens):
    async def main():
        slot = tokens.slot(cost=4)
        async with slot:
            slot.spend(0)
        async with slot:
            return tokens.stats().in_use

    assert 4 == time.run(main())


def test_what_is_reported_after_its_window_changes_nothing(time, tokens):
    async def main():
        async with tokens.slot(cost=2) as slot:
            await asyncio.sleep(10)
            slot.spend(10)
        return tokens.stats().in_use, tokens.stats().keys

    assert (0, 0) == time.run(main())


def test_a_key_that_was_forgotten_since_nothing_was_used_is_remembered_when_something_was(time, tokens):
    async def main():
        async with tokens.slot():
            pass
        await asyncio.sleep(5)
        async with tokens.slot(cost=3) as slot:
            slot.spend(0)
            await asyncio.sleep(6)
            assert 0 == tokens.stats().keys
            slot.spend(7)
            found = tokens.stats().in_use
        await asyncio.sleep(10)
        return found, tokens.stats().keys

    assert (7, 0) == time.run(main())


def test_budget_that_is_given_back_goes_to_a_thread_that_waits(tokens):
    with ThreadPoolExecutor(1) as threads, tokens.slot(cost=10) as slot:
        waiting = threads.submit(tokens.call, len, "abc")
        until(lambda: tokens.stats().queued)
        slot.spend(9)

        assert 3 == waiting.result(timeout=5)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "of several limits"])
def test_a_call_that_had_to_wait_gives_budget_back_too(time, tokens, together):
    limit = Limits(Bulkhead(2), tokens) if together else tokens

    async def main():
        async with limit.slot(cost=10):
            pass
        async with limit.slot(cost=10) as slot:
            assert 10 == pytest.approx(time.now())
            slot.spend(4)
            return tokens.stats().in_use

    assert 4 == time.run(main())


@pytest.mark.parametrize("together", [False, True], ids=["alone", "of several limits"])
@pytest.mark.parametrize("looks", range(10, 20))
def test_the_start_that_is_meant_is_found_although_time_goes_on(monkeypatch, looks, together):
    # Each look at the clock finds it a millisecond later, so the second call is let in by its first look or another.
    ticks = count(1_000_000, 1000)
    monkeypatch.setattr(clock, "now", lambda: next(ticks))
    tokens = RateLimiter(10, per=0.02)
    limit = Limits(Bulkhead(2), tokens) if together else tokens
    with limit.slot(cost=10):
        pass
    for _ in range(looks):
        clock.now()
    with limit.slot(cost=10) as slot:
        slot.spend(4)

        (start,) = slot.starts()
        assert [(start.at, 4)] == tokens.pool.gates[None].starts.since_pairs(start.at - 1)


def test_a_rate_says_what_was_used_of_its_keys_apart(time):
    tokens = RateLimiter(10, key="model")

    async def main():
        async with tokens.slot("small", cost=9) as small, tokens.slot("large", cost=9):
            small.spend(2)
            return tokens.pool.in_use("small"), tokens.pool.in_use("large")

    assert (2, 9) == time.run(main())


def test_a_slot_taken_by_hand_reports_until_it_is_given_back(tokens):
    slot = tokens.try_acquire(cost=9)
    slot.spend(4)
    slot.release()

    assert 4 == tokens.stats().in_use
    with pytest.raises(RuntimeError, match="before it is given back"):
        slot.spend(3)


@pytest.mark.parametrize("used", [-1, True, 1.5, "3", None])
def test_what_cannot_have_been_used_is_an_error_that_names_it(tokens, used):
    with tokens.slot(cost=5) as slot:
        with pytest.raises(InvalidPolicyError, match=r"^used: .*whole number, at least 0"):
            slot.spend(used)
        with pytest.raises(InvalidPolicyError, match=r"^used\.tokens: "):
            slot.spend({"tokens": used})

        assert 5 == tokens.stats().in_use


def test_slots_of_a_bulkhead_cannot_be_spent():
    with Bulkhead(2, name="door") as slot, pytest.raises(InvalidPolicyError, match=r"^used: door counts no"):
        slot.spend(1)


# Around functions.


def test_a_function_reports_through_its_limit(time, tokens):
    @tokens
    async def ask():
        tokens.spend(4)
        return tokens.stats().in_use

    @tokens
    def ask_plainly():
        tokens.spend(3)
        return tokens.stats().in_use

    async def main():
        return await ask(), ask_plainly(), await tokens.acall(ask.__wrapped__)

    assert (4, 7, 11) == time.run(main())


def test_what_a_function_cannot_have_used_is_an_error_that_names_it(tokens):
    @tokens
    def ask():
        tokens.spend(-1)

    with pytest.raises(InvalidPolicyError, match=r"^used: -1 must be"):
        ask()


def test_calls_that_ended_leave_nothing_behind(time, tokens):
    async def main():
        await tokens.acall(asyncio.sleep, 0)
        tokens.call(len, "abc")
        return calls.get()

    assert () == time.run(main())


def test_each_call_reports_for_itself(time):
    tokens = RateLimiter(100, per=10)

    @tokens
    async def inner():
        tokens.spend(2)

    @tokens
    async def outer():
        await inner()
        tokens.spend(3)
        await asyncio.gather(inner(), inner())
        tokens.spend(1)

    async def main():
        await asyncio.gather(outer(), outer())
        return tokens.stats().in_use

    assert 14 == time.run(main())


def test_a_report_may_come_from_a_thread_that_works_for_the_call(tokens):
    @tokens
    @Timeout(10)
    def ask():
        tokens.spend(6)

    @tokens
    async def ask_in_a_thread():
        await asyncio.to_thread(tokens.spend, 3)

    ask()
    asyncio.run(ask_in_a_thread())

    assert 9 == tokens.stats().in_use


def test_outside_a_call_there_is_nothing_to_report_for(time, tokens):
    other = RateLimiter(10, name="other")
    left_behind = []

    @other
    async def ask():
        with pytest.raises(LookupError, match="tokens"):
            tokens.spend(1)
        left_behind.append(asyncio.create_task(later()))

    async def later():
        await asyncio.sleep(1)
        with pytest.raises(LookupError, match="other"):
            other.spend(1)

    async def main():
        await ask()
        with pytest.raises(LookupError, match="other"):
            other.spend(1)
        await left_behind[0]

    time.run(main())


def test_a_call_that_is_closed_in_another_context_than_its_own_ends_as_any_other():
    events = []
    tokens = RateLimiter(10, on_event=events.append)

    @tokens
    async def ask():
        await Forever()

    call = ask()
    Context().run(call.send, None)
    call.close()

    assert ["acquired", "released"] == [event.kind for event in events]


class Forever:
    def __await__(self):
        yield


# Several limits.


@pytest.fixture
def api(tokens):
    return Limits(Bulkhead(5, name="slots"), tokens, RateLimiter(10, name="requests"))


def in_use(limits):
    return [each.pool.in_use(None) for each in limits.members]


def test_of_several_limits_each_is_told_what_was_used_of_it(time, api):
    async def main():
        async with api.slot(cost={"tokens": 9}) as slot:
            slot.spend({"tokens": 4})
            found = [in_use(api)]
            slot.spend({"tokens": 5, "requests": 3})
            return [*found, in_use(api)]

    assert [[1, 4, 1], [1, 5, 3]] == time.run(main())


def test_a_function_within_several_limits_reports_through_each(time, api, tokens):
    @api
    async def ask():
        tokens.spend(7)
        return in_use(api)

    async def main():
        return await ask()

    assert [1, 7, 1] == time.run(main())


def test_of_several_limits_a_report_says_which(api):
    with api.slot() as slot:
        with pytest.raises(InvalidPolicyError, match=r"^used: .*'tokens', 'requests'"):
            slot.spend(3)
        with pytest.raises(InvalidPolicyError, match=r"^used: 'slots'"):
            slot.spend({"slots": 3})
        with pytest.raises(InvalidPolicyError, match=r"^used\.requests"):
            slot.spend({"tokens": 3, "requests": -1})

        assert [1, 1, 1] == in_use(api)
    with Limits(Bulkhead(1), Bulkhead(1)) as slot, pytest.raises(InvalidPolicyError, match=r"counts no"):
        slot.spend(1)


def test_budget_that_is_given_back_lets_calls_in_that_need_several_limits(time, api):
    async def main():
        starts = []

        async def wait(seconds):
            async with api.slot(cost={"tokens": 5}):
                starts.append(time.now())
                await asyncio.sleep(seconds)

        async with api.slot(cost={"tokens": 10}) as slot:
            others = [asyncio.create_task(wait(1)) for _ in range(3)]
            await asyncio.sleep(1)
            slot.spend({"tokens": 1})
            await asyncio.sleep(1)
            slot.spend({"tokens": 0})
        await asyncio.gather(*others)
        return starts

    assert [1, 2, 11] == [pytest.approx(at) for at in time.run(main())]


# As the engine counts.


@pytest.mark.parametrize("burst", [None, 1, 3], ids=["rate", "throttle", "throttle with a burst"])
@given(
    st.integers(1, 5),
    st.lists(
        st.tuples(
            st.integers(0, 12), st.integers(1, 5), st.none() | st.tuples(st.integers(0, 2), st.integers(0, 9))
        ),
        max_size=30,
    ),
)
def test_starts_and_reports_count_as_in_the_engine(burst, limit, happens):
    period = 10 if burst is None else -(-10 // limit)
    window = Window(limit if burst is None else 1, period, burst or 1)
    numbers = Numbers(rate=window) if burst is None else Numbers(throttle=window)
    options = WaitOptions("any")
    pace = Windowed(window, options) if burst is None else Spaced(window, burst, options)
    most = {None: limit, 1: 5, 3: 3}[burst]
    gate, started, now = Gate(0), [], 1
    real, clock.now = clock.now, lambda: now
    try:
        for step, asked, report in happens:
            now += step
            # None can cost more than the whole rate.  What a bucket never holds, the engine may count for longer.
            weight = min(asked, most)
            gate.remember(numbers, now)
            if report is not None and started:
                back, used = report[0], min(report[1], most) if burst == 3 else report[1]
                start, cost = started[-1 - min(back, len(started) - 1)]
                gate.starts.weigh(start.at, cost[0], used, now)
                cost[0] = used
                start.spend(used)

            opens = gate.opens_at(numbers, weight, now)
            assert max(opens, now) == max(pace.opens_at(None, weight, now), now)
            if opens <= now:
                gate.start(now, weight)
                pace.take(None, weight, now, None)
                started.append((pace.grant(None, weight, now), [weight]))
    finally:
        clock.now = real


def test_what_is_reported_in_a_forked_process_of_a_call_before_it_counts_for_nothing(tokens):
    with tokens.slot(cost=5) as slot:
        trouble = trouble_in_a_fork(partial(report_in_the_fork, tokens, slot))

    assert not trouble, trouble


def report_in_the_fork(tokens, slot):
    slot.spend(9)
    assert 0 == tokens.stats().in_use
