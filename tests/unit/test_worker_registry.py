"""What workers say of themselves takes a bounded place, however many names are made up."""

import pytest

from penstock.clock import SECOND
from penstock.errors import InvalidError
from penstock.http import worker_registry
from penstock.http.worker_registry import GONE, MOST_BYTES, MOST_SAID, STALE, WorkerRegistry

LONG = [f"{n:0100}" for n in range(300)]


def kept(registry):
    """Return the bytes that members say of themselves, by counting."""
    return sum(len(member.said) for member in registry.members.values())


def beat(registry, name, now=0, tenant=None, **facts):
    registry.beat(name, tenant, now, facts)


def test_fifteen_hundred_workers_with_long_lists_are_kept_within_bounds():
    registry = WorkerRegistry()
    for n in range(1_500):
        beat(registry, f"{n:0256}", n, queues=LONG, hostname="h" * 256)

    assert kept(registry) == registry.bytes <= MOST_BYTES
    assert f"{1_499:0256}" == registry.of(None)[-1].id
    assert LONG == registry.of(None)[-1].facts["queues"]


def test_no_more_workers_are_known_than_there_may_be_and_the_one_last_heard_from_stays(monkeypatch):
    monkeypatch.setattr(worker_registry, "MOST", 10)
    registry = WorkerRegistry()
    for n in range(30):
        registry.fetches(f"worker-{n}", "acme", n)
        beat(registry, "faithful", n)

    assert 10 == len(registry.members)
    assert registry.find("faithful", None) is not None
    assert registry.find("worker-29", "acme") is not None


@pytest.mark.parametrize(
    ("field", "value"),
    [("queues", ["q" * 256] * 1_000), ("labels", {f"{n:0256}": "v" * 256 for n in range(100)})],
)
def test_one_that_says_too_much_is_refused_with_the_field_named_and_nothing_kept(field, value):
    registry = WorkerRegistry()

    with pytest.raises(InvalidError, match=f"^{field}.*{MOST_SAID}") as refused:
        beat(registry, "w", hostname="h", **{field: value})

    assert field == refused.value.field
    assert {} == registry.members
    assert 0 == registry.bytes


def test_what_is_said_bit_by_bit_counts_together():
    registry = WorkerRegistry()
    beat(registry, "w", queues=LONG[:290])

    with pytest.raises(InvalidError, match="queues"):
        beat(registry, "w", labels=["l" * 256] * 100)

    assert {"queues": LONG[:290]} == registry.members["", "w"].facts


def test_a_worker_that_was_not_heard_from_for_very_long_leaves():
    registry = WorkerRegistry()
    beat(registry, "early", 0, queues=["q"])
    beat(registry, "late", GONE - SECOND)
    assert ["early", "late"] == [member.id for member in registry.of(None)]

    beat(registry, "new", GONE + STALE)

    assert ["late", "new"] == [member.id for member in registry.of(None)]
    assert kept(registry) == registry.bytes
