"""A key is there from the first job that names it, also if none has come to its gate yet."""

import pytest

from penstock.clock import SECOND
from penstock.errors import NotFoundError
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.limits.rules import Limit, Numbers
from penstock.limits.spec import limits_to_json
from penstock.store import views
from penstock.store.session import Session
from tests.support.desk import Desk, slots, work_of
from tests.support.stores import on_sqlite

LATER = RetryPolicy(attempts=2, backoff=Backoff.FIXED, delay=3600 * SECOND, jitter=False)


def keys(desk, **which):
    """Return the keys that are listed; each is there when it is looked at, and looks the same."""
    views, total = desk.engine.gates(**which)
    assert total >= len(views)
    assert views == [desk.engine.gate(view.key, view.tenant) for view in views]
    return " ".join(view.key for view in views)


def later(desk, names, *limits, **facts):
    desk.enqueue(names, *limits, due=desk.clock.now() + 3600 * SECOND, **facts)


def test_a_key_of_which_all_jobs_are_not_due_yet_is_listed(desk: Desk) -> None:
    later(desk, "a", slots("k", 3), slots("l", 1))

    assert "k l" == keys(desk)
    assert Numbers(slots=3) == desk.engine.gate("k").numbers
    desk.engine.cancel("a")
    assert "" == keys(desk)
    with pytest.raises(NotFoundError):
        desk.engine.gate("k")


def test_a_key_is_listed_once_when_its_first_job_came_to_it(desk: Desk, clock) -> None:
    desk.enqueue("a", slots("k", 1))
    later(desk, "b", slots("k", 1))
    assert "k" == keys(desk)

    desk.claim()
    desk.settle("a")
    clock.advance(3600 * SECOND)
    assert "b" == desk.claim()
    assert "k" == keys(desk)


def test_a_key_of_a_job_between_two_attempts_is_listed_though_its_gate_was_forgotten(desk: Desk) -> None:
    desk.enqueue("a", slots("k", 1), retry=LATER)
    desk.claim()
    desk.settle("a", Failed("ValueError", "no"))
    for _ in range(3):
        desk.engine.upkeep()

    assert "k" == keys(desk)


def test_the_newest_job_says_which_numbers_are_shown(desk: Desk) -> None:
    later(desk, "a", slots("k", 9))
    later(desk, "b", slots("k", 1))
    later(desk, "c", slots("k", 5))

    assert Numbers(slots=5) == desk.engine.gate("k").numbers


def test_pages_hold_every_key_once_in_the_order_of_their_names(desk: Desk) -> None:
    for n in range(7):
        later(desk, f"later{n}", slots(f"k{2 * n}", 1))
        desk.enqueue(f"now{n}", slots(f"k{3 * n}", 1))
    wanted = sorted({f"k{2 * n}" for n in range(7)} | {f"k{3 * n}" for n in range(7)})

    for size in range(1, len(wanted) + 2):
        pages = [
            desk.engine.gates(offset=start, limit=size) for start in range(0, len(wanted) + 2 * size, size)
        ]
        assert {len(wanted)} == {total for _, total in pages}
        assert wanted == [view.key for views, _ in pages for view in views]
        assert all(len(views) <= size for views, _ in pages)


def test_only_the_keys_that_are_asked_for_are_listed(desk: Desk) -> None:
    later(desk, "a", slots("api:x", 1))
    later(desk, "b", slots("db:x", 1))
    later(desk, "c", slots("api:y", 1), tenant="acme")
    later(desk, "d", Limit("api:all", Numbers(slots=1), shared=True), tenant="acme")

    assert "api:all api:x api:y" == keys(desk, prefix="api:")
    assert "api:y" == keys(desk, tenant="acme")
    assert "api:all api:x db:x" == keys(desk, tenant="")


def test_limits_too_long_for_an_index_are_listed_too(desk: Desk) -> None:
    for n in range(2):
        later(desk, f"job{n}", *(slots(f"{'k' * 200}{n}{m:02}", 1) for m in range(16)))

    assert 32 == desk.engine.gates()[1]


@on_sqlite
def test_the_list_costs_the_same_however_many_jobs_of_a_key_are_not_due_yet(desk: Desk, store: str) -> None:
    def look() -> None:
        assert 1 == len(desk.engine.store.write(views.foretold))

    later(desk, " ".join(f"a{n}" for n in range(50)), slots("k", 1))
    few = work_of(desk.engine, look)
    later(desk, " ".join(f"b{n}" for n in range(5_000)), slots("k", 1))
    many = work_of(desk.engine, look)

    assert 0 < many.steps < 2 * few.steps


def test_keys_of_jobs_that_were_scheduled_before_are_listed(migrated) -> None:
    limits, due = limits_to_json((slots("k", 3),)), 4_000_000_000 * SECOND
    adding = (
        "INSERT INTO job (seq, id, tenant, queue, task, args, priority, cost, limits, retry, meta, enqueued) "
        "VALUES (1, 'a', 'acme', 'q', 't', '{}', 0, 1, ?, '', '{}', 0)"
    )

    def stand(db: Session) -> None:
        db.run(adding, limits)
        db.run("INSERT INTO scheduled (seq, due, attempt, lost) VALUES (1, ?, 0, 0)", due)

    found, total = migrated("0012_foretold.sql", stand).gates()

    assert (1, [("k", "acme", Numbers(slots=3))]) == (total, [(v.key, v.tenant, v.numbers) for v in found])
