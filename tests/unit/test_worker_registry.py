"""S9: what workers say of themselves takes a bounded place, however many names are made up."""

import pytest

from penstock.clock import SECOND
from penstock.dialects.ojs import worker_registry
from penstock.dialects.ojs.format.requests import HeartbeatBody
from penstock.dialects.ojs.worker_registry import GONE, MOST_BYTES, MOST_SAID, STALE, WorkerRegistry
from penstock.errors import InvalidError

LONG = [f"{n:0100}" for n in range(300)]


def kept(crew):
    """Return the bytes that members say of themselves, by counting."""
    return sum(len(member.said) for member in crew.members.values())


def beat(crew, name, now=0, tenant=None, **facts):
    crew.beat(HeartbeatBody(worker_id=name, **facts), tenant, now, 0)


def test_fifteen_hundred_workers_with_long_lists_are_kept_within_bounds():
    crew = WorkerRegistry()
    for n in range(1_500):
        beat(crew, f"{n:0256}", n, queues=LONG, hostname="h" * 256)

    assert kept(crew) == crew.bytes <= MOST_BYTES
    assert f"{1_499:0256}" == crew.of(None)[-1].id
    assert LONG == crew.of(None)[-1].facts["queues"]


def test_no_more_workers_are_known_than_there_may_be_and_the_one_last_heard_from_stays(monkeypatch):
    monkeypatch.setattr(worker_registry, "MOST", 10)
    crew = WorkerRegistry()
    for n in range(30):
        crew.fetches(f"worker-{n}", "acme", n)
        beat(crew, "faithful", n)

    assert 10 == len(crew.members)
    assert crew.find("faithful", None) is not None
    assert crew.find("worker-29", "acme") is not None


@pytest.mark.parametrize(
    ("field", "value"),
    [("queues", ["q" * 256] * 1_000), ("labels", {f"{n:0256}": "v" * 256 for n in range(100)})],
)
def test_one_that_says_too_much_is_refused_with_the_field_named_and_nothing_kept(field, value):
    crew = WorkerRegistry()

    with pytest.raises(InvalidError, match=f"^{field}.*{MOST_SAID}") as refused:
        beat(crew, "w", hostname="h", **{field: value})

    assert field == refused.value.field
    assert {} == crew.members
    assert 0 == crew.bytes


def test_what_is_said_bit_by_bit_counts_together():
    crew = WorkerRegistry()
    beat(crew, "w", queues=LONG[:290])

    with pytest.raises(InvalidError, match="queues"):
        beat(crew, "w", labels=["l" * 256] * 100)

    assert {"queues": LONG[:290]} == crew.members["", "w"].facts


def test_a_worker_that_was_not_heard_from_for_very_long_leaves():
    crew = WorkerRegistry()
    beat(crew, "early", 0, queues=["q"])
    beat(crew, "late", GONE - SECOND)
    assert ["early", "late"] == [member.id for member in crew.of(None)]

    beat(crew, "new", GONE + STALE)

    assert ["late", "new"] == [member.id for member in crew.of(None)]
    assert kept(crew) == crew.bytes
