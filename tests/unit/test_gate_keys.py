"""A concurrency key and a rate resource never share a gate, whatever they are called."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.sequences.gate_keys import concurrency_name, resource_key, resource_name, slot_key

NAMES = st.one_of(
    st.text(min_size=1),
    st.builds(
        str.__add__, st.sampled_from(["instance:", "resource:", "instance", "resource:resource:"]), st.text()
    ),
)


@given(NAMES, NAMES)
def test_names_of_both_kinds_stay_apart_and_are_read_back(one, other):
    assert slot_key(one) != resource_key(other)
    assert one == concurrency_name(slot_key(one)) == resource_name(resource_key(one))
    assert (one == other) == (resource_key(one) == resource_key(other))


def test_a_resource_is_usually_called_as_its_gate():
    assert "mailbox:a@b" == resource_key("mailbox:a@b")
    assert concurrency_name("mailbox:a@b") is None
