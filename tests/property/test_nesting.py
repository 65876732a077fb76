"""The scan counts levels as a parser does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lifecycle.nesting import DEEPEST, is_deep

LEAVES = st.none() | st.integers() | st.text(alphabet='[]{}"\\ \u00e9a')
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text('[{"\\'), inner))


def levels(value):
    match value:
        case dict():
            return 1 + max(map(levels, value.values()), default=0)
        case list():
            return 1 + max(map(levels, value), default=0)
        case _:
            return 0


@given(VALUES, st.integers(DEEPEST - 6, DEEPEST + 3), st.booleans(), st.booleans())
def test_a_value_is_too_deep_when_it_has_more_levels_than_allowed(value, around, in_object, as_bytes):
    beside = json.dumps(["[" * 80, value])
    before, after = ('{"[\\\\": ', "}") if in_object else (f"[{beside}, ", "]")
    text = before * around + json.dumps(value, ensure_ascii=False) + after * around
    deep = levels(json.loads(text)) > DEEPEST

    assert deep == is_deep(text.encode() if as_bytes else text)


@pytest.mark.parametrize("text", ["[" * 100_000, "[}" * 100_000, "{" * 65 + "]" * 65])
def test_what_is_no_json_is_refused_or_left_to_its_reader_but_never_slow(text):
    is_deep(text)


def test_text_that_was_cut_off_is_left_to_its_reader_which_says_so():
    assert not is_deep('{"jobs": [' + '{"args": []}, ' * 1_000)


def test_levels_that_are_never_closed_count_with_those_inside_them():
    assert is_deep("[" * 2 * DEEPEST + "]" * DEEPEST)
