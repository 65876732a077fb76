"""When two requests are the same."""

import pytest

from penstock.errors import InvalidJobError
from penstock.lifecycle.checks import MAX_TASK
from penstock.lifecycle.states import ENDED, LIVE, State
from penstock.lifecycle.unique import (
    MAX_UNIQUE_KEY,
    OnDuplicate,
    Unique,
    UniqueBy,
    check_chosen,
    holds,
    unique_key,
)

ARGUMENTS = {"account_id": "acme", "op": "fetch", "options": {"b": 1, "a": 2}}


def test_by_task_every_call_is_the_same():
    assert "tasks.sync" == unique_key("tasks.sync", UniqueBy.TASK, ARGUMENTS)


def test_by_arguments_the_order_of_names_does_not_matter():
    turned = {"options": {"a": 2, "b": 1}, "op": "fetch", "account_id": "acme"}

    key = unique_key("tasks.sync", UniqueBy.ARGUMENTS, ARGUMENTS)

    assert key == unique_key("tasks.sync", UniqueBy.ARGUMENTS, turned)
    assert key.startswith("tasks.sync:")
    assert len("tasks.sync:") + 32 == len(key)


def test_keys_already_stored_stay_good():
    key = unique_key("tasks.sync", UniqueBy.ARGUMENTS, {"account_id": "acme"})

    assert "tasks.sync:35d883f4a7255362e86652940155e5c1" == key


@pytest.mark.parametrize("changed", [{"op": "push"}, {"options": None}, {"account_id": "ACME"}, {"more": 1}])
def test_by_arguments_another_value_is_another_request(changed):
    key = unique_key("t", UniqueBy.ARGUMENTS, ARGUMENTS)

    assert key != unique_key("t", UniqueBy.ARGUMENTS, ARGUMENTS | changed)


def test_another_task_is_another_request():
    assert unique_key("t", UniqueBy.ARGUMENTS, ARGUMENTS) != unique_key("u", UniqueBy.ARGUMENTS, ARGUMENTS)


def test_by_chosen_arguments_the_others_do_not_matter():
    key = unique_key("t", UniqueBy.CHOSEN, ARGUMENTS, ("op", "account_id"))

    assert key == unique_key("t", UniqueBy.CHOSEN, ARGUMENTS | {"options": 5}, ("account_id", "op"))
    assert key != unique_key("t", UniqueBy.CHOSEN, ARGUMENTS | {"op": "push"}, ("account_id", "op"))


def test_an_explicit_key_is_used_as_it_is():
    assert "order 5" == unique_key("t", UniqueBy.KEY, ARGUMENTS, key="order 5")


def test_the_longest_task_name_still_makes_a_valid_key():
    Unique(unique_key("t" * MAX_TASK, UniqueBy.ARGUMENTS, ARGUMENTS))


@pytest.mark.parametrize("value", [object(), "\ud800", {object(): 1}])
def test_arguments_that_cannot_be_written_cannot_be_compared(value):
    with pytest.raises(InvalidJobError, match=r"^unique: the arguments cannot be written as JSON"):
        unique_key("t", UniqueBy.ARGUMENTS, {"a": value})


def test_known_arguments_may_be_chosen():
    check_chosen(["op"], ["account_id", "op"])


def test_an_unknown_argument_is_named_together_with_the_known_ones():
    with pytest.raises(
        InvalidJobError, match=r"^unique: there is no argument 'opp'; the arguments are: account_id, op"
    ):
        check_chosen(["op", "opp"], ["op", "account_id"])
    with pytest.raises(InvalidJobError, match=r"the arguments are: none"):
        check_chosen(["op"], [])


def test_choosing_no_argument_is_refused():
    with pytest.raises(InvalidJobError, match=r"at least one argument"):
        check_chosen([], ["op"])


@pytest.mark.parametrize("state", State)
def test_without_a_window_a_job_stands_for_its_key_while_in_its_states(state):
    assert (state in LIVE) is holds(LIVE, None, state, now=5)
    assert (state in ENDED) is holds(ENDED, None, state, now=5)


@pytest.mark.parametrize("state", State)
def test_with_a_window_a_job_stands_for_its_key_until_it_ends(state):
    assert holds(LIVE, 10, state, now=9)
    assert not holds(LIVE, 10, state, now=10)


def test_states_and_duplicates_may_be_given_by_name():
    unique = Unique("k", {"waiting", State.DONE}, on_duplicate="reject")

    assert Unique("k", frozenset({State.WAITING, State.DONE}), None, OnDuplicate.REJECT) == unique
    assert isinstance(unique.states, frozenset)


def test_with_a_window_no_states_are_needed():
    assert frozenset() == Unique("k", frozenset(), window=1).states


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("unique", {"key": ""}),
        ("unique", {"key": None}),
        ("unique", {"key": "a\nb"}),
        ("unique", {"key": "x" * (MAX_UNIQUE_KEY + 1)}),
        ("states", {"states": frozenset()}),
        ("states", {"states": {"asleep"}}),
        ("window", {"window": 0}),
        ("window", {"window": -1}),
        ("window", {"window": 1.5}),
        ("window", {"window": True}),
        ("on_duplicate", {"on_duplicate": "explode"}),
    ],
)
def test_what_makes_no_sense_is_refused_and_the_field_named(field, settings):
    with pytest.raises(InvalidJobError) as caught:
        Unique(**{"key": "k"} | settings)

    assert field == caught.value.field
