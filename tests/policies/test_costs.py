"""What a start costs: a number, or what the arguments of its call say; and what was really used afterwards."""

import pytest

from penstock.errors import InvalidLimitError
from penstock.policies import Bulkhead, InvalidPolicyError, Limits, RateLimiter, Throttler
from tests.support.tasks import together


@pytest.mark.parametrize(
    "cost",
    [2, "{tokens}", lambda prompt, tokens=2: tokens],
    ids=["a number", "a template", "a function"],
)
@pytest.mark.parametrize(
    ("limit", "starts"),
    [(RateLimiter, [0, 1, 2]), (Throttler, [0, 0.5, 1])],
    ids=["rate", "throttle"],
)
def test_the_cost_of_a_call_is(time, limit, starts, cost):
    began = []

    @limit(4 if limit is Throttler else 3, per=1, cost=cost)
    async def ask(prompt, tokens=2):
        began.append(time.now())

    time.run(together(*(ask("how?") for _ in range(3))))

    assert starts == [pytest.approx(at, abs=1e-5) for at in began]


def test_plain_functions_and_calls_have_a_cost_too(time):
    limit = RateLimiter(10, per=1, cost="{tokens}")

    def ask(tokens):
        return tokens

    async def ask_later(tokens):
        return tokens

    async def main():
        return limit(ask)(3), limit.call(ask, tokens=4), await limit.acall(ask_later, 2), limit.stats().in_use

    assert (3, 4, 2, 9) == time.run(main())


@pytest.mark.parametrize("cost", [0, -1, True, 1.5, None, "tokens", "{", "{}"])
def test_what_can_be_no_cost_is_an_error_that_names_it(cost):
    with pytest.raises(InvalidLimitError, match=r"^cost: "):
        RateLimiter(10, cost=cost)


@pytest.mark.parametrize("cost", [0, -1, True, 1.5, "3", 11])
def test_what_no_block_can_cost_is_an_error_that_names_it(cost):
    with pytest.raises(InvalidPolicyError, match=r"^cost: "):
        RateLimiter(10).slot(cost=cost).acquire()


def test_a_cost_that_the_function_does_not_take_is_an_error_where_it_is_declared():
    with pytest.raises(InvalidLimitError, match=r"^cost: .*'tokens'"):
        RateLimiter(10, cost="{tokens}")(print)


@pytest.mark.parametrize("cost", ["{tokens}", lambda tokens: tokens], ids=["template", "function"])
@pytest.mark.parametrize("tokens", [0, "many", 1.5])
def test_arguments_that_give_no_cost_are_an_error_of_the_call(cost, tokens):
    limit = RateLimiter(10, cost=cost)

    with pytest.raises(InvalidLimitError, match=r"^cost: .*cannot be used"):
        limit.call(lambda tokens: tokens, tokens)

    assert 0 == limit.stats().acquired


def test_a_block_must_say_what_is_found_from_arguments_elsewhere():
    limit = RateLimiter(10, cost="{tokens}")

    with pytest.raises(TypeError, match=r"slot\(cost="):
        limit.slot()
    with limit.slot(cost=7):
        assert 7 == limit.stats().in_use


def test_slots_have_a_weight_and_starts_have_a_cost():
    with pytest.raises(InvalidPolicyError, match=r"^weight: .*cost="):
        RateLimiter(10).slot(weight=2)
    with pytest.raises(InvalidPolicyError, match=r"^cost: .*weight="):
        Bulkhead(10).slot(cost=2)


@pytest.fixture
def api():
    slots = Bulkhead(10, name="slots")
    tokens = RateLimiter(100, name="tokens", cost="{tokens}")
    requests = RateLimiter(10, name="requests")
    return Limits(slots, tokens, requests)


def in_use(limits):
    return [each.pool.in_use(None) for each in limits.members]


def test_each_of_several_limits_has_a_cost_of_its_own(time, api):
    @api
    async def ask(tokens):
        return in_use(api)

    async def main():
        assert [1, 30, 1] == await ask(30)
        async with api.slot(weight=3, cost={"tokens": 50}):
            assert [3, 80, 2] == in_use(api)

    time.run(main())


def test_costs_of_several_limits_are_said_by_their_names(api):
    one = Limits(Bulkhead(2), RateLimiter(10, name="rate"))

    with one.slot(cost=4):
        assert [1, 4] == in_use(one)
    with pytest.raises(InvalidPolicyError, match=r"^cost: .*'tokens', 'requests'"):
        api.slot(cost=4)
    with pytest.raises(InvalidPolicyError, match=r"^cost: 'slots'"):
        api.slot(cost={"slots": 4})
    with pytest.raises(InvalidPolicyError, match=r"^cost: .*counts no starts"):
        Limits(Bulkhead(2), Bulkhead(3)).slot(cost=4)
    with pytest.raises(InvalidPolicyError, match=r"^weight: .*no slots"):
        Limits(RateLimiter(2), RateLimiter(3)).slot(weight=4)
