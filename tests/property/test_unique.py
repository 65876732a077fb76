"""What unique keys promise, whatever the arguments."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.lifecycle.unique import UniqueBy, unique_key

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from("abcd"), plain, max_size=4)


def key(given_arguments):
    return unique_key("task", UniqueBy.ARGUMENTS, given_arguments)


def arranged(value, order):
    """Return *value* with every mapping in this *order*."""
    match value:
        case dict():
            return {name: arranged(value[name], order) for name in order(value)}
        case list():
            return [arranged(each, order) for each in value]
        case _:
            return value


@given(arguments)
def test_the_order_of_names_never_matters(given_arguments):
    assert key(given_arguments) == key(arranged(given_arguments, reversed))


@given(arguments, arguments)
def test_keys_are_equal_exactly_when_arguments_are(one, other):
    # True equals 1 to Python, but not as JSON.
    assert (repr(arranged(one, sorted)) == repr(arranged(other, sorted))) is (key(one) == key(other))


@given(arguments, st.sets(st.sampled_from("abcd")))
def test_choosing_all_arguments_is_the_same_as_choosing_none(given_arguments, names):
    chosen = names & given_arguments.keys()

    only = {name: given_arguments[name] for name in chosen}
    assert key(only) == unique_key("task", UniqueBy.CHOSEN, given_arguments, chosen)
