"""How keys are written over a task's arguments."""

from enum import Enum, IntEnum
from types import SimpleNamespace

import pytest

from penstock.errors import InvalidLimitError
from penstock.limits.template import check_template, parse_template


class Colour(str, Enum):  # noqa: UP042 - shown as "Colour.RED" by str() and as "red" by format()
    RED = "red"


class Level(IntEnum):
    HIGH = 3


ARGUMENTS = {
    "account_id": "acme",
    "number": 7,
    "nothing": None,
    "colour": Colour.RED,
    "level": Level.HIGH,
    "order": SimpleNamespace(id="o1", lines=[{"sku": "x", "next": None}], parent=None),
    "data": {"user": "ann", "7": "text", 7: "number", "first name": "Ann"},
    "args": ("zero", "one"),
}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("fixed", "fixed"),
        ("{{fixed}}", "{fixed}"),
        ("{account_id}", "acme"),
        ("account:{account_id}", "account:acme"),
        ("{account_id}:account", "acme:account"),
        ("account:{account_id}:sync", "account:acme:sync"),
        ("{account_id}:{number}", "acme:7"),
        ("{account_id}{number}", "acme7"),
        ("n:{number}", "n:7"),
        ("n:{number:03d}", "n:007"),
        ("{account_id!r}", "'acme'"),
        ("{account_id!s}", "acme"),
        ("{account_id!s:_<6}", "acme__"),
        ("{account_id!a}", "'acme'"),
        ("{order.id}", "o1"),
        ("{order.lines[0][sku]}", "x"),
        ("{data[user]}", "ann"),
        ("{data[7]}", "number"),
        ("{data[first name]}", "Ann"),
        ("{args[1]}", "one"),
    ],
)
def test_a_template_is_filled_in_like_a_format_string(text, key):
    assert key == parse_template(text).fill(ARGUMENTS)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("n:{nothing}", "nothing"),
        ("{nothing}:{account_id}", "nothing"),
        ("{nothing!s}", "nothing"),
        ("{order.parent}", "order.parent"),
        ("{order.lines[0][next]:>5}", "order.lines[0][next]"),
    ],
)
def test_none_makes_no_key_and_the_argument_is_named(text, place):
    with pytest.raises(InvalidLimitError) as caught:
        parse_template(text).fill(ARGUMENTS)

    problem = f"{text!r} cannot be filled in: {place} is None; pass a value, or write a function in its place"
    assert caught.value.problem.startswith(problem)
    assert "key" == caught.value.field


@pytest.mark.parametrize("name", ["colour", "level"])
@pytest.mark.parametrize("text", ["k:{%s}", "k:{%s}:{account_id}"])
def test_a_plain_and_a_long_template_show_a_value_alike(name, text):
    key = parse_template(text % name).fill(ARGUMENTS)

    assert str(ARGUMENTS[name]) == key.split(":")[1]


@pytest.mark.parametrize(
    "text", ["{", "}", "{account_id", "account}", "{a!}", "{a!rr}", "{order.}", "{order[}"]
)
def test_bad_syntax_is_refused(text):
    with pytest.raises(InvalidLimitError, match=r"^key: "):
        parse_template(text)


@pytest.mark.parametrize(
    "text", ["{a!x}", "{a:{b}}", "{a b}", "{ account_id }", "{a-b}", "{a[]}", "{a[0}", "{.a}"]
)
def test_a_place_that_cannot_be_read_is_refused(text):
    with pytest.raises(InvalidLimitError, match=r"^key: .*(cannot be read|not a format string)"):
        parse_template(text)


@pytest.mark.parametrize("text", ["{}", "account:{0}", "{0.id}", "{:>3}"])
def test_arguments_must_be_named_not_counted(text):
    with pytest.raises(InvalidLimitError, match=r"name them, as in {account_id}"):
        parse_template(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{missing}", "KeyError"),
        ("k:{missing}", "KeyError"),
        ("{order.missing}", "AttributeError"),
        ("{args[9]}", "IndexError"),
        ("{number[0]}", "TypeError"),
        ("{account_id:d}", "ValueError"),
    ],
)
def test_a_call_that_cannot_fill_in_the_key_is_told_which_and_why(text, problem):
    with pytest.raises(InvalidLimitError) as caught:
        parse_template(text).fill(ARGUMENTS)

    assert repr(text) in caught.value.problem
    assert problem in caught.value.problem


def test_a_known_argument_passes_the_check():
    check_template("{order.id}:{account_id}", ["account_id", "order"])
    check_template("fixed", [])


def test_an_unknown_argument_is_named_together_with_the_known_ones():
    with pytest.raises(InvalidLimitError) as caught:
        check_template("account:{acount_id}", ["op", "account_id"])

    problem = (
        "key: 'account:{acount_id}' names an unknown argument 'acount_id'; the arguments are: account_id, op"
    )
    assert problem == str(caught.value)


def test_an_argument_of_a_task_without_any_is_refused():
    with pytest.raises(InvalidLimitError, match=r"the task takes no arguments"):
        check_template("{account_id}", [])


def test_a_template_is_read_once():
    assert parse_template("a:{b}") is parse_template("a:{b}")
