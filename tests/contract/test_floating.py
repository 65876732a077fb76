"""Floating limits: a number of slots that a handler computes again every so often."""

from functools import partial
from typing import Any

import pytest

from penstock.clock import SECOND
from penstock.errors import InvalidError, NotFoundError
from penstock.job import NewJob, Refresh
from penstock.limits.rules import MAX_NUMBER, Floating, Limit, Numbers
from tests.support.desk import LEASE, Desk, slots

EVERY = 60 * SECOND


def floating(
    key: str, count: int, every: int = EVERY, metadata: str = "{}", handler: str = "how_many"
) -> Limit:
    return Limit(key, Numbers(slots=count), floating=Floating(handler, every, metadata))


def lend(desk: Desk, worker: str = "worker", lease: int = LEASE) -> list[Refresh]:
    return desk.engine.refreshes(["how_many"], 10, worker=worker, lease=lease)


def refresh(desk: Desk, value: object = None, error: str = "") -> None:
    """Lend the one refresh that is due, and answer."""
    (lent,) = lend(desk)
    assert desk.engine.refreshed(lent, value=value, error=error)  # type: ignore[arg-type]


def test_the_first_value_rules_until_the_first_refresh(desk: Desk) -> None:
    desk.enqueue("a b c", floating("X", 2))

    assert desk.claim() == "a b"
    assert desk.engine.floating("X").value == 2
    assert desk.engine.floating("X").refreshed is None
    desk.wait(10 * EVERY)
    assert desk.engine.gate("X").numbers.slots == 2


def test_the_first_job_decides_how_a_key_floats(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 2, EVERY, '{"pool":"one"}'))
    desk.enqueue("b", floating("X", 7, SECOND, '{"pool":"two"}', "other"))

    view = desk.engine.floating("X")

    assert (view.value, view.default, view.every) == (2, 2, EVERY)
    assert (view.handler, view.metadata) == ("how_many", '{"pool":"one"}')


def test_the_first_job_decides_within_one_batch_too(desk: Desk) -> None:
    one, two = floating("X", 2, EVERY, '{"pool":"one"}'), floating("X", 7, SECOND, '{"pool":"two"}')
    desk.engine.enqueue([_new("a", one), _new("b", two)])

    view = desk.engine.floating("X")

    assert (view.value, view.every, view.metadata) == (2, EVERY, '{"pool":"one"}')


def test_a_refresh_is_due_at_once_and_then_by_the_clock_while_a_job_runs(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 1))
    desk.claim(lease=10 * EVERY)
    refresh(desk, 3)
    assert lend(desk) == []

    desk.wait(EVERY - 1)
    assert lend(desk) == []
    desk.wait(1)
    refresh(desk, 4)  # nothing was enqueued since

    assert desk.engine.floating("X").value == 4


def test_a_refresh_goes_only_to_a_worker_that_has_its_handler(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 1))

    assert desk.engine.refreshes(["something_else"], 10, worker="worker", lease=LEASE) == []
    assert desk.engine.refreshes([], 10, worker="worker", lease=LEASE) == []
    assert len(lend(desk)) == 1


def test_a_worker_is_lent_no_more_than_it_asks_for(desk: Desk) -> None:
    for key in "WXYZ":
        desk.enqueue(key.lower(), floating(key, 1))

    first = desk.engine.refreshes(["how_many"], 3, worker="one", lease=LEASE)
    second = desk.engine.refreshes(["how_many"], 3, worker="two", lease=LEASE)

    assert sorted(lent.key for lent in first + second) == ["W", "X", "Y", "Z"]
    assert len(first) == 3


def test_two_workers_never_get_the_same_refresh(desks: list[Desk]) -> None:
    here, there = desks
    here.enqueue("a", floating("X", 1))

    (lent,) = lend(here, "one")
    assert lend(there, "two") == []
    here.wait(LEASE - 1)
    assert lend(there, "two") == []
    assert here.engine.refreshed(lent, value=2)
    assert lend(there, "two") == []
    assert there.engine.floating("X").value == 2


def test_a_refresher_that_dies_is_replaced_and_its_late_answer_refused(desk: Desk) -> None:
    desk.enqueue("a b c", floating("X", 1))
    (dead,) = lend(desk, "dead")
    desk.wait(LEASE)
    (alive,) = lend(desk, "alive")

    assert not desk.engine.refreshed(dead, value=9)
    assert desk.engine.floating("X").value == 1
    assert desk.engine.refreshed(alive, value=2)
    assert not desk.engine.refreshed(dead, value=9)
    assert not desk.engine.refreshed(dead, error="too late")
    assert (desk.engine.floating("X").value, desk.engine.floating("X").failures) == (2, 0)


def test_a_late_answer_is_taken_as_long_as_nobody_else_was_asked(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 1))
    (lent,) = lend(desk)
    desk.wait(10 * LEASE)

    assert desk.engine.refreshed(lent, value=2)
    assert desk.engine.floating("X").value == 2


def test_success_sets_the_value_and_forgets_failures(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 1))
    refresh(desk, error="the pool is down")
    desk.wait(SECOND)
    refresh(desk, 6)

    view = desk.engine.floating("X")

    assert (view.value, view.failures, view.last_error) == (6, 0, "")
    assert view.refreshed == desk.clock.now()
    assert view.next_at == desk.clock.now() + EVERY
    desk.wait(EVERY)
    refresh(desk, error="down again")
    assert desk.engine.floating("X").next_at == desk.clock.now() + SECOND  # back-off begins again


def test_failure_keeps_the_value_and_backs_off_to_a_minute(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 3))
    refresh(desk, 5)
    desk.wait(EVERY)
    succeeded = desk.engine.floating("X").refreshed

    delays = []
    for _ in range(9):
        refresh(desk, error="the pool is down")
        view = desk.engine.floating("X")
        delays.append((view.next_at - desk.clock.now()) // SECOND)
        desk.wait(view.next_at - desk.clock.now() - 1)
        assert lend(desk) == []
        desk.wait(1)

    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert (view.value, view.failures, view.last_error) == (5, 9, "the pool is down")
    assert view.refreshed == succeeded


def test_failing_for_very_long_still_means_a_minute(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 3))
    for _ in range(70):
        refresh(desk, error="down")
        desk.wait(60 * SECOND)

    assert desk.engine.floating("X").failures == 70


@pytest.mark.parametrize(
    "rubbish",
    [None, -1, 1.5, 2.0, True, float("nan"), float("inf"), MAX_NUMBER + 1, 10**400, "3", [3]],
    ids=lambda value: str(value)[:12],
)
def test_rubbish_is_a_failure(desk: Desk, rubbish: object) -> None:
    desk.enqueue("a b c", floating("X", 2))
    refresh(desk, rubbish)

    view = desk.engine.floating("X")

    assert (view.value, view.failures) == (2, 1)
    assert view.last_error
    assert view.next_at == desk.clock.now() + SECOND
    assert desk.claim() == "a b"


def test_zero_pauses_and_raising_lets_those_who_wait_go_at_once(desk: Desk) -> None:
    desk.enqueue("a b c", floating("X", 1, SECOND))
    refresh(desk, 0)
    assert desk.claim() == ""
    desk.wait(SECOND)
    refresh(desk, 2)

    assert desk.claim() == "a b"


def test_a_default_of_zero_waits_for_the_first_refresh(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 0))
    assert desk.claim() == ""
    refresh(desk, 1)

    assert desk.claim() == "a"


def test_lowering_below_what_runs_evicts_nobody_and_starts_nobody(desk: Desk) -> None:
    desk.enqueue("a b c d", floating("X", 3))
    assert desk.claim() == "a b c"
    refresh(desk, 1)

    assert [desk.job(name).state for name in "abc"] == ["running"] * 3
    assert desk.claim() == ""
    assert desk.settle("a b") == [True, True]
    assert desk.claim() == ""
    assert desk.settle("c") == [True]
    assert desk.claim() == "d"


def test_metadata_passes_through_to_the_refresher(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 4, metadata='{"pool":"warehouse"}'), tenant="acme")
    (lent,) = lend(desk)

    assert (lent.key, lent.tenant, lent.handler) == ("X", "acme", "how_many")
    assert (lent.metadata, lent.current, lent.refreshed) == ('{"pool":"warehouse"}', 4, None)
    assert desk.engine.refreshed(lent, value=5)
    desk.wait(EVERY)
    (lent,) = lend(desk)
    assert (lent.current, lent.refreshed) == (5, desk.clock.now() - EVERY)


def test_the_value_can_be_changed_by_hand(desk: Desk) -> None:
    desk.enqueue("a b c", floating("X", 1))
    assert desk.claim() == "a"
    desk.engine.set_floating("X", value=3)

    assert desk.claim() == "b c"
    assert desk.engine.floating("X").value == 3
    assert desk.engine.floating("X").every == EVERY


def test_the_interval_can_be_changed_by_hand_and_counts_from_now(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 1))
    refresh(desk, 2)
    desk.engine.set_floating("X", every=5 * SECOND)

    assert desk.engine.floating("X").every == 5 * SECOND
    desk.wait(5 * SECOND)
    refresh(desk, 3)
    desk.wait(5 * SECOND)
    refresh(desk, 4)
    assert desk.engine.floating("X").value == 4


def test_the_metadata_can_be_changed_by_hand(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 1))
    desk.engine.set_floating("X", metadata='{"pool":"other"}')

    (lent,) = lend(desk)

    assert lent.metadata == '{"pool":"other"}'
    assert desk.engine.floating("X").value == 1


@pytest.mark.parametrize(
    "wrong",
    [{"value": value} for value in (-1, MAX_NUMBER + 1, 1.5, True, "2")] + [{"every": -1}],
    ids=lambda wrong: "".join(f"{name} {value}" for name, value in wrong.items()),
)
def test_a_change_by_hand_must_make_sense(desk: Desk, wrong: dict[str, Any]) -> None:
    desk.enqueue("a", floating("X", 1))

    with pytest.raises(InvalidError):
        desk.engine.set_floating("X", **wrong)

    assert desk.engine.floating("X").value == 1


def test_a_deleted_state_holds_jobs_to_their_own_numbers_again(desk: Desk) -> None:
    desk.enqueue("a b c", floating("X", 2))
    refresh(desk, 0)
    assert desk.claim() == ""
    desk.engine.delete_floating("X")

    assert desk.claim() == "a b"
    with pytest.raises(NotFoundError):
        desk.engine.floating("X")
    desk.wait(EVERY)
    assert lend(desk) == []


def test_an_answer_to_a_deleted_state_is_refused_also_by_the_one_that_followed(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 2))
    (old,) = lend(desk)
    desk.engine.delete_floating("X")

    assert not desk.engine.refreshed(old, value=9)
    assert desk.engine.gate("X").numbers.slots == 2
    desk.enqueue("b", floating("X", 3))
    (new,) = lend(desk)
    assert not desk.engine.refreshed(old, value=9)
    assert desk.engine.refreshed(new, value=4)


def test_a_key_floats_again_when_a_job_comes_after_it_was_deleted(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 2))
    desk.engine.delete_floating("X")
    desk.enqueue("b", floating("X", 2))

    assert desk.engine.floating("X").value == 2


def test_what_does_not_float_cannot_be_asked_changed_or_deleted(desk: Desk) -> None:
    desk.enqueue("a", slots("X", 1))

    change = partial(desk.engine.set_floating, value=1)
    for verb in (desk.engine.floating, change, desk.engine.delete_floating):
        for key in ("X", "unused"):
            with pytest.raises(NotFoundError):
                verb(key)


def test_tenants_float_apart(desk: Desk) -> None:
    desk.enqueue("a b", floating("X", 1), tenant="acme")
    desk.enqueue("c d", floating("X", 1), tenant="globex")
    desk.engine.set_floating("X", value=2, tenant="acme")

    assert desk.claim() == "a c b"


@pytest.mark.parametrize("floating_first", [True, False])
def test_a_floating_and_a_plain_limit_on_one_key_in_one_batch(desk: Desk, floating_first: bool) -> None:
    jobs = [_new("floating", floating("X", 2)), _new("plain", slots("X", 5)), _new("more", slots("X", 5))]
    desk.engine.enqueue(jobs if floating_first else jobs[::-1])

    assert desk.engine.floating("X").value == 2
    assert len(desk.claim().split()) == 2  # the floating value rules jobs that bring another number too
    refresh(desk, 3)
    assert len(desk.claim().split()) == 1
    assert desk.engine.doctor() == []


def test_a_plain_key_begins_to_float_with_the_first_job_that_says_so(desk: Desk) -> None:
    desk.enqueue("a b c", slots("X", 1))
    assert desk.claim() == "a"
    desk.enqueue("d", floating("X", 2))

    assert desk.claim() == "d"  # the others bring a maximum of 1, and one runs
    assert desk.engine.floating("X").default == 2


def test_a_configured_value_and_an_override_beat_a_floating_one(desk: Desk) -> None:
    desk.enqueue("a b c d e f", floating("X", 1))
    assert desk.claim() == "a"
    desk.engine.configure("key", "X", Numbers(slots=2))
    assert desk.claim() == "b"
    desk.engine.override("X", Numbers(slots=3))
    assert desk.claim() == "c"
    refresh(desk, 6)
    assert desk.claim() == ""
    desk.engine.clear_override("X")
    desk.engine.configure("key", "X", None)
    assert desk.claim() == "d e f"


def _new(name: str, limit: Limit) -> NewJob:
    return NewJob("task", id=name, queue="q", limits=(limit,))


def test_a_refresh_is_reported_once(desk: Desk) -> None:
    desk.enqueue("a", floating("X", 2))
    (lent,) = lend(desk)

    assert desk.engine.refreshed(lent, error="no\0answer")
    assert not desk.engine.refreshed(lent, error="no answer")
    assert not desk.engine.refreshed(lent, value=9)

    view = desk.engine.floating("X")
    assert (view.value, view.failures, view.last_error) == (2, 1, "no\N{REPLACEMENT CHARACTER}answer")
