"""What specs promise, whatever is written on a task."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidLimitError
from penstock.limits import Concurrency, Floating, Limit, Numbers, OnLimit, Rate, Throttle, Window
from penstock.limits.rules import check_key
from penstock.limits.spec import check_specs, limits_from_json, limits_to_json, resolve
from penstock.limits.template import parse_template


def usable(key):
    try:
        check_key(key)
    except InvalidLimitError:
        return False
    return True


counts = st.integers(0, 2**53 - 1)
windows = st.builds(Window, counts, st.integers(1, 2**53 - 1))
numbers = st.builds(Numbers, st.none() | counts, st.none() | windows, st.none() | windows)
keys = st.text(min_size=1, max_size=20).filter(usable)
floating = st.builds(Floating, keys, st.integers(1, 10**9), st.sampled_from(["{}", '{"a":"\\u2028é"}']))
limits = st.one_of(
    st.builds(Limit, keys, numbers, st.sampled_from(OnLimit)),
    st.builds(
        Limit, keys, st.builds(Numbers, counts, st.none() | windows), st.sampled_from(OnLimit), floating
    ),
)
limit_sets = st.lists(limits, max_size=4, unique_by=lambda limit: limit.key)

templates = st.sampled_from(["fixed", "{a}", "{b}", "k:{a}", "k:{b}", "{a}:{b}", "k:{a}:{b}"])
periods = st.sampled_from(["1s", 60, "PT1H"])
small = st.integers(0, 3)
specs = st.one_of(
    st.builds(Concurrency, small, key=templates),
    st.builds(Rate, small, per=periods, key=templates),
    st.builds(Throttle, small, per=periods, key=templates),
)
values = st.sampled_from(["x", "y", "fixed", 7])


def outcome(action, *arguments):
    """Return what *action* returns, or that it refuses."""
    try:
        return action(*arguments)
    except InvalidLimitError:
        return "refused"


@given(limit_sets)
def test_stored_limits_read_back(made):
    assert tuple(sorted(made, key=lambda limit: limit.key)) == limits_from_json(limits_to_json(made))


@given(limit_sets, limit_sets, st.randoms())
def test_limits_are_equal_exactly_when_their_text_is(one, other, random):
    shuffled = random.sample(one, len(one))

    assert limits_to_json(one) == limits_to_json(shuffled)
    assert (set(one) == set(other)) is (limits_to_json(one) == limits_to_json(other))


@given(st.lists(specs, max_size=4), values, values, st.randoms())
def test_the_order_of_specs_does_not_matter(written, a, b, random):
    arguments = {"a": a, "b": b}
    shuffled = random.sample(written, len(written))

    assert outcome(resolve, written, arguments) == outcome(resolve, shuffled, arguments)


@given(st.lists(specs, max_size=4), values, values)
def test_checking_first_changes_nothing_but_when_a_mistake_is_seen(written, a, b):
    arguments = {"a": a, "b": b}

    checked = outcome(lambda: resolve(check_specs(written, ("a", "b")), arguments))

    assert outcome(resolve, written, arguments) == checked


@given(st.lists(specs, max_size=4), values, values)
def test_each_key_has_one_limit_and_they_are_in_order(written, a, b):
    made = outcome(resolve, written, {"a": a, "b": b})

    if made != "refused":
        names = [limit.key for limit in made]
        assert sorted({spec.key.format(a=a, b=b) for spec in written}) == names


@given(st.text("ab{}:.[]!0 ", max_size=12))
def test_a_template_is_read_or_refused_and_never_crashes(text):
    template = outcome(parse_template, text)

    if template != "refused":
        outcome(template.fill, {"a": "x", "b": ["y"]})
