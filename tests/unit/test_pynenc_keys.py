import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dialects.pynenc.options import gate_key
from penstock.limits.rules import check_key

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "account_id"]), VALUES, max_size=3)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "pynenc:t"),
        ({"account_id": "acme"}, "pynenc:t:account_id=acme"),
        ({"account_id": "ann@acme.org", "n": 5}, "pynenc:t:account_id=ann@acme.org,n=5"),
        ({"x": "5"}, 'pynenc:t:x="5"'),
        ({"x": "true"}, 'pynenc:t:x="true"'),
        ({"x": True}, "pynenc:t:x=true"),
        ({"x": None}, "pynenc:t:x=null"),
        ({"x": "a,y=b"}, 'pynenc:t:x="a,y=b"'),
        ({"x": ""}, 'pynenc:t:x=""'),
        ({"x": Decimal("1.5")}, 'pynenc:t:x="1.5"'),
    ],
)
def test_a_key_is_readable_if_its_values_are_simple(arguments, expected):
    assert expected == gate_key("t", arguments)


def test_a_key_is_a_digest_if_its_values_are_not_simple():
    assert gate_key("t", {"x": "two words"}).startswith("pynenc:t#")
    assert gate_key("t", {"x": "x" * 300}).startswith("pynenc:t#")
    assert gate_key("a task", {"x": 1}).startswith("pynenc:#")


@given(ARGUMENTS, st.sampled_from(["t", "a task", "t" * 255]))
def test_every_key_can_name_a_gate(arguments, task):
    key = gate_key(task, arguments)

    check_key(key)
    assert len(key) <= 256


@given(ARGUMENTS, ARGUMENTS)
def test_different_arguments_never_share_a_key(one, other):
    same = json.dumps([*one.items()]) == json.dumps([*other.items()])

    assert same == (gate_key("t", one) == gate_key("t", other)) or same_but_for_order(one, other)


def same_but_for_order(one, other):
    """Mappings inside arguments count as equal whatever their order."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
