"""What a start weighs at each of its gates, as users write it and as it is kept."""

import pytest

from penstock.errors import InvalidLimitError
from penstock.limits import Concurrency, Limit, Numbers, Rate, Throttle, Window, check_specs, resolve
from penstock.limits.costs import cost_at, costs_from_text, costs_to_text, with_costs
from penstock.limits.gate import Gate, Starts
from penstock.limits.spec import limits_to_json

NAMES = ("model", "tokens")
MINUTELY = Window(90, 60_000_000)
CALL = {"model": "gpt", "tokens": 1200}


def tokens(cost):
    return Rate(90_000, per="1m", key="tokens:{model}", cost=cost)


def fit(function):
    return lambda arguments: function(**arguments)


@pytest.mark.parametrize(
    "cost", [1200, "{tokens}", lambda model, tokens: tokens], ids=["number", "template", "function"]
)
def test_a_cost_is_a_number_a_template_or_a_function(cost):
    specs = check_specs([tokens(cost), Rate(500, per="1m", key="requests:{model}")], NAMES, fit)

    assert [("requests:gpt", None), ("tokens:gpt", 1200)] == [(x.key, x.cost) for x in resolve(specs, CALL)]


def test_a_constant_key_may_have_a_cost_that_is_not():
    specs = check_specs([Rate(90_000, per="1m", key="tokens", cost="{tokens}")], NAMES)

    assert [1200, 7] == [resolve(specs, {**CALL, "tokens": n})[0].cost for n in (1200, 7)]


def test_a_key_and_a_cost_may_both_be_functions():
    spec = Throttle(1, per=1, key=lambda model, tokens: model, cost=lambda model, tokens: tokens)

    ((limit,),) = [resolve(check_specs([spec], NAMES, fit), CALL)]
    assert ("gpt", 1200) == (limit.key, limit.cost)


@pytest.mark.parametrize(
    ("cost", "problem"),
    [
        (0, "cost: 0 must be at least 1"),
        (True, "cost: True must be a whole number"),
        (1.5, "cost: 1.5 must be a whole number"),
        ("{", "cost: '{' is not a format string"),
        ("{prompt}", "cost: '{prompt}' names an unknown argument 'prompt'"),
    ],
)
def test_a_cost_that_can_be_seen_to_be_wrong_is_refused_where_the_task_is_declared(cost, problem):
    with pytest.raises(InvalidLimitError, match=problem):
        check_specs([tokens(cost)], NAMES)


@pytest.mark.parametrize(
    ("cost", "value", "problem"),
    [
        (
            "{tokens}",
            "many",
            "cost: '{tokens}' gave a cost that cannot be used: 'many' must be a whole number",
        ),
        ("{tokens}", 0, "cannot be used: 0 must be at least 1"),
        ("{tokens[a]}", 7, r"cost: '{tokens\[a\]}' cannot be filled in from the arguments"),
        (lambda arguments: 2.5, 7, "cannot be used: 2.5 must be a whole number"),
    ],
)
def test_a_cost_that_a_call_makes_wrong_is_refused_with_the_call(cost, value, problem):
    with pytest.raises(InvalidLimitError, match=problem):
        resolve([tokens(cost)], {**CALL, "tokens": value})


def test_a_function_that_does_not_take_the_arguments_is_refused():
    def unfit(function):
        raise TypeError("it names 'prompt'")

    with pytest.raises(InvalidLimitError, match=r"cost: of Rate.*it names 'prompt'"):
        check_specs([tokens(lambda prompt: 1)], NAMES, unfit)


def test_limits_on_one_key_have_one_cost():
    joined = check_specs([Concurrency(3, key="k"), Rate(9, per=1, key="k", cost=2)], ())
    assert [2] == [limit.cost for limit in resolve(joined, {})]

    with pytest.raises(InvalidLimitError, match="cost: limits on 'k' say 2 and 3"):
        check_specs([Rate(9, per=1, key="k", cost=2), Throttle(9, per=1, key="k", cost=3)], ())
    with pytest.raises(InvalidLimitError, match="cost: limits on 'gpt' say 2 and 3"):
        resolve([Rate(9, per=1, key="{model}", cost=2), Throttle(9, per=1, key="gpt", cost=3)], CALL)


def test_costs_are_kept_beside_the_limits_in_the_order_of_their_keys():
    limits = (
        Limit("z", Numbers(rate=MINUTELY), cost=9),
        Limit("a", Numbers(rate=MINUTELY)),
        Limit("m", Numbers(throttle=MINUTELY), cost=2),
    )
    text = costs_to_text(limits, 4)

    assert "4,2,9" == text
    assert (4, 2, 9) == costs_from_text(text)
    assert [4, 2, 9, 4] == [cost_at(place, 4, text) for place in range(4)]
    assert [4, 4] == [cost_at(place, 4, None) for place in range(2)]
    ordered = sorted(limits, key=lambda limit: limit.key)
    assert [4, 2, 9] == [limit.cost for limit in with_costs(ordered, text)]
    assert tuple(ordered) == with_costs(ordered, None)


def test_slots_show_no_cost_since_they_count_none():
    limits = (Limit("a", Numbers(slots=1)), Limit("b", Numbers(rate=MINUTELY), cost=2))

    assert [None, 2] == [limit.cost for limit in with_costs(limits, costs_to_text(limits, 4))]
    assert "cost" not in repr(Concurrency(1, key="a"))
    assert "cost=2" in repr(Rate(9, per="1m", key="b", cost=2))


def test_costs_that_are_all_the_usual_one_are_not_kept():
    assert costs_to_text((Limit("a", Numbers(slots=1)), Limit("b", Numbers(slots=1), cost=4)), 4) is None


def test_costs_are_no_part_of_what_jobs_must_share_to_stand_in_one_lane():
    one, other = (limits_to_json([Limit("a", Numbers(slots=1), cost=cost)]) for cost in (None, 7))
    assert one == other


class TestWhatWasUsed:
    def test_it_takes_the_place_of_the_estimate(self):
        starts = Starts(10)
        starts.add(5, 3)

        assert starts.weigh(5, 3, 1, 6)
        assert starts.weigh(5, 1, 8, 6)
        assert ([5], [8]) == (starts.times, starts.weights)
        assert starts.weigh(5, 8, 0, 6)
        assert starts.times == []

    def test_the_same_again_changes_nothing(self):
        starts = Starts(10)
        starts.add(5, 3)

        assert not starts.weigh(5, 3, 3, 6)
        assert ([5], [3]) == (starts.times, starts.weights)

    def test_of_a_start_that_was_merged_only_more_counts(self):
        starts = Starts(10)

        assert not starts.weigh(5, 3, 1, 6)
        assert starts.weigh(5, 3, 7, 6)
        assert ([5], [4]) == (starts.times, starts.weights)

    def test_a_start_that_was_forgotten_counts_if_it_used_so_much_that_a_throttle_sees_it_still(self):
        starts = Starts(10, paced=True)

        assert not starts.weigh(5, 1, 2, 25)
        assert starts.weigh(5, 1, 3, 25)
        assert ([5], [3]) == (starts.times, starts.weights)


class TestHowLongStartsAreRemembered:
    def test_a_heavy_one_as_long_as_a_rate_looks_back(self):
        gate = Gate(1)
        assert gate.remember(Numbers(rate=Window(900, 10)), 0)
        assert not gate.remember(Numbers(rate=Window(5, 10)), 0)
        assert not gate.remember(Numbers(slots=1), 0)
        gate.start(0, 400)

        assert 10 == gate.starts.kept_until
        gate.starts.prune(9)
        assert gate.starts.times == [0]
        gate.starts.prune(10)
        assert gate.starts.times == []
        assert 0 == gate.starts.kept_until

    def test_a_heavy_one_as_long_as_it_may_shut_a_throttle(self):
        gate = Gate(1)
        gate.remember(Numbers(rate=Window(900, 10)), 0)
        assert gate.remember(Numbers(throttle=Window(5, 10)), 0)
        gate.start(0, 400)

        assert 4000 == gate.starts.kept_until
        gate.starts.prune(3999)
        assert gate.starts.times == [0]
        gate.starts.prune(4000)
        assert gate.starts.times == []

    def test_a_memory_that_was_written_down_is_read_back(self):
        for weight in (1, 7):
            for paced in (False, True):
                starts = Starts(10, [5, 6], [1, weight], paced)
                assert starts == Starts.unpack(10, starts.pack(), paced=paced)
        assert Starts(10, paced=True) == Starts.unpack(10, Starts(10).pack(), paced=True)
