"""Expressions: what they come to, what they cannot do, and how much of it."""

import re

import pytest

from penstock.errors import InvalidError
from penstock.sequences.expression_parser import DEEPEST, LONGEST, TALLEST, read_expression
from penstock.sequences.expressions import evaluate
from penstock.sequences.paths import dig
from penstock.sequences.values import LARGEST, ExpressionError, TemplateError, is_same, is_true

NOW = 1_705_312_800_000_000  # Monday, 2024-01-15T10:00:00Z
ROOTS = {
    "data": {
        "plan": "pro",
        "n": 3,
        "items": [3, 1, 2, 1],
        "words": ["b", "a"],
        "object": {"a": 1, "b": [2]},
        "empty": [],
        "zero": 0,
        "when": "2024-01-16T08:30:00+02:00",
        "many": list(range(60_000)),
        "people": [{"name": "Ada"}, {"name": "Bob"}],
    },
    "outputs": {"send-email": {"status": 200}},
    "steps": {"send-email": {"status": 200}},
}


def look_up(path):
    if path.root not in ROOTS:
        raise TemplateError(f"unknown {path.root}")
    return dig(ROOTS[path.root], path.steps)


def value(text, seed="seed"):
    return evaluate(read_expression(text, "when"), look_up, NOW, seed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("8 / 2 / 2", 2),
        ("7 / 2", 3.5),
        ("1.5e2", 150.0),
        ("-data.n", -3),
        ("--3", 3),
        ("data.n-1", 2),
        ("'a' + 1", "a1"),
        ("1 + 'a'", "1a"),
        ('"it\'s"', "it's"),
        ("'it\\'s'", "it's"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("[1, 'a', [data.n]]", [1, "a", [3]]),
        ("[]", []),
        # Comparisons: no coercion, and null is neither before nor after anything.
        ("data.plan == 'pro'", True),
        ('data.plan != "pro"', False),
        ("1 == 1.0", True),
        ("1 == '1'", False),
        ("true == 1", False),
        ("[1, true] == [1, 1]", False),
        ("[1] == [1, 2]", False),
        ("data.object == data.object", True),
        ("data.object == 1", False),
        ("data.nowhere == null", True),
        ("data.nowhere > 3", False),
        ("data.nowhere < 3", False),
        ("data.nowhere <= null", True),
        ("2 < 3", True),
        ("2 > 3", False),
        ("3 <= 3", True),
        ("3 >= 4", False),
        ("4 >= 3", True),
        ("'a' < 'b'", True),
        ("3 in data.items", True),
        ("5 in [1, 2]", False),
        ("'ro' in data.plan", True),
        ("'a' in data.object", True),
        ("1 in data.object", False),
        ("1 in null", False),
        # Logic: what decides is the value.
        ("data.plan == 'pro' && data.n >= 3", True),
        ("data.zero || 'x'", "x"),
        ("data.n || nowhere.x", 3),
        ("data.zero && nowhere.x", 0),
        ("true || false && false", True),
        ("!data.nowhere", True),
        ("!!data.n", True),
        ("data.n > 2 ? 'a' : 'b'", "a"),
        ("data.empty ? 'a' : data.zero ? 'b' : 'c'", "c"),
        # Paths, also to blocks with hyphens, and templates.
        ("outputs.send-email.status == 200", True),
        ("steps.send-email.status - 1", 199),
        ("data.items[0]", 3),
        ("data['items'][1]", 1),
        ("{{data.nowhere | data.plan}} == 'pro'", True),
        # Functions.
        ("abs(-2)", 2),
        ("len(data.items)", 4),
        ("len('abc') + len(null) + len(data.object)", 5),
        ("json(data.object)", '{"a":1,"b":[2]}'),
        ("now()", NOW // 1000),
        ("format_date(data.when, '%Y-%m-%d')", "2024-01-16"),
        ("format_date(now(), '%H:%M')", "10:00"),
        ("day_of_week('2024-01-15')", 0),
        ("keys(data.object)", ["a", "b"]),
        ("values(data.object)", [1, [2]]),
        ("contains(data.words, 'a')", True),
        ("starts_with(data.plan, 'p')", True),
        ("ends_with(data.plan, 'p')", False),
        ("sum(data.items)", 7),
        ("sum(1, 2, 3)", 6),
        ("avg(data.items)", 1.75),
        ("avg(data.empty)", None),
        ("min(data.items)", 1),
        ("max(1, 5, 3)", 5),
        ("max(data.empty)", None),
        ("first(data.items)", 3),
        ("last(data.items)", 1),
        ("first(data.empty)", None),
        ("first(data.people).name", "Ada"),
        ("slice(data.items, 1, 3)", [1, 2]),
        ("slice(data.plan, 1)", "ro"),
        ("sort(data.items)", [1, 1, 2, 3]),
        ("sort(data.words)", ["a", "b"]),
        ("sort(data.items)[0]", 1),
        ("unique(data.items)", [3, 1, 2]),
        ("count(data.items)", 4),
        ("count(data.items, 1)", 2),
        ("change_pct(50, 75)", 50.0),
        ("change_pct(-50, -25)", 50.0),
        ("clamp(5, 1, 3)", 3),
        ("clamp(0, 1, 3)", 1),
    ],
)
def test_an_expression_has_a_value(text, expected):
    actual = value(text)

    assert expected == actual
    assert type(expected) is type(actual)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "ends too early"),
        ("1 +", "ends too early"),
        ("data.x ==", "ends too early"),
        ("1 2", "'2' was not expected"),
        ("(1", r"'\)' is missing"),
        ("[1, 2", "is missing"),
        ("[1 2]", "',' is missing"),
        ("a ? b", "':' is missing"),
        ("in", "'in' was not expected"),
        ("'a", "cannot be read"),
        ("1 # 2", "cannot be read"),
        ("12abc", "cannot be read"),
        ("__import__('os')", "no function '__import__'"),
        ("abs()", "does not take 0 arguments"),
        ("now(1)", "does not take 1 arguments"),
        ("9" * 30, "is too large"),
        ("9" * 6_000, "is too large"),
        ("1e999", "is too large"),
        ("{{data.x | nope(1)}} == 1", "no filter"),
        ("(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1), "nested deeper"),
        ("1||1&&1==1<1+1*(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1), "nested deeper"),
        ("!" * 2_000 + "1", "operators in a row"),
        ("1" + "+1" * 2_000, "operators in a row"),
        ("(" * 20 + "1" + ("+1" * 10 + ")") * 20, "operators in a row"),
        (" " * LONGEST + "1", "characters"),
    ],
)
def test_what_is_no_expression_is_refused_when_it_is_read(text, problem):
    with pytest.raises(InvalidError, match=problem) as refused:
        read_expression(text, "blocks[0].when")

    assert "blocks[0].when" == refused.value.field


@pytest.mark.parametrize(
    "text",
    ["+".join(["1"] * TALLEST), "(" * (DEEPEST - 1) + "1" + ")" * (DEEPEST - 1), "[" * 20 + "]" * 20],
)
def test_what_is_as_deep_as_allowed_has_a_value(text):
    value(text)


@pytest.mark.parametrize(
    "text",
    [
        "1 / 0",
        "data.plan < 3",
        "data.plan - 1",
        "-data.plan",
        "true + 1",
        "abs('x')",
        "len(3)",
        "sum([1, 'a'])",
        "sum(3)",
        "keys(data.items)",
        "3 in 4",
        "slice(3, 1)",
        "slice(data.items, 1.5)",
        "sort([1, 'a'])",
        "first(data.object)",
        "change_pct(0, 1)",
        "day_of_week('soon')",
        "day_of_week(9e17)",
        "format_date(now(), '" + "%Y" * 60 + "')",
        "9000000000000000000 * 9",
        "9e18 * 9e18",
        "json('a') < {{'x'}} + 1 - 1",
    ],
)
def test_what_has_no_value_is_an_error(text):
    with pytest.raises(ExpressionError):
        value(text)


def test_an_unknown_root_is_an_error():
    with pytest.raises(TemplateError):
        value("status == 'ok'")


def test_a_date_in_a_format_that_cannot_be_written_is_an_error():
    with pytest.raises(ExpressionError, match="no format"):
        evaluate(read_expression("format_date(now(), data.x)", "when"), lambda _: "\ud800", NOW)


@pytest.mark.parametrize(
    "text",
    [
        "sum(data.many) + sum(data.many)",
        "1 in data.many && 60001 in data.many",
        "count([data.many], 1) + len(data.many) + len(data.many)",
    ],
)
def test_steps_are_bounded(text):
    with pytest.raises(ExpressionError, match="steps"):
        value(text)


def test_texts_are_bounded():
    with pytest.raises(ExpressionError, match="at most"):
        evaluate(read_expression("data.x + 'a'", "when"), lambda _: "a" * LARGEST)


def test_chance_is_the_same_whenever_it_is_asked_for_again():
    assert value("uuid()") == value("uuid()")
    assert value("random()") == value("random()")
    assert value("uuid()", "other") != value("uuid()")
    assert value("random() == random()") is False
    assert 0 <= value("random()") < 1


def test_a_uuid_looks_like_one():
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", value("uuid()")
    )


@pytest.mark.parametrize("falsy", [None, False, 0, 0.0, "", []])
def test_nothing_zero_and_what_is_empty_do_not_hold(falsy):
    assert not is_true(falsy)


@pytest.mark.parametrize("truthy", [True, 1, -1, "x", [None], {}, {"a": None}])
def test_all_else_holds(truthy):
    assert is_true(truthy)


def test_objects_are_the_same_by_their_values():
    assert is_same({"a": [1]}, {"a": [1.0]})
    assert not is_same({"a": 1}, {"a": True})
    assert not is_same({"a": 1}, {"b": 1})
