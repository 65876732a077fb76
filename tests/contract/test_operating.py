"""What operators ask for and decide, on every store."""

import pytest

from penstock.clock import SECOND
from penstock.errors import InvalidError
from penstock.job import JobFilter
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import Exhausted, RetryPolicy


@pytest.fixture
def busy(desk):
    """One job in each state, named after it."""
    once = RetryPolicy(1, exhausted=Exhausted.KEEP)
    desk.enqueue("done failed", retry=once)
    desk.claim()
    desk.settle("done")
    desk.settle("failed", Failed("Error", "no"))
    desk.enqueue("retrying", retry=RetryPolicy(3, delay=3_600 * SECOND))
    desk.claim()
    desk.settle("retrying", Failed("Error", "no"))
    desk.enqueue("running")
    desk.claim()
    desk.enqueue("cancelled")
    desk.engine.cancel("cancelled")
    desk.enqueue("scheduled", due=desk.clock.now() + 3_600 * SECOND)
    desk.enqueue("waiting")
    return desk


@pytest.mark.parametrize(
    "state", ["done", "failed", "retrying", "running", "cancelled", "scheduled", "waiting"]
)
def test_jobs_are_found_by_their_state(busy, state):
    found, total = busy.engine.search(JobFilter(frozenset({state})))

    assert ([state], 1) == ([view.id for view in found], total)


def test_several_states_are_one_question(busy):
    found, total = busy.engine.search(JobFilter(frozenset({"waiting", "done", "scheduled"})))

    assert (["waiting", "scheduled", "done"], 3) == ([view.id for view in found], total)


def test_no_state_at_all_fits_nobody(busy):
    assert ([], 0) == busy.engine.search(JobFilter(frozenset()))


def test_jobs_are_found_by_all_that_is_given(desk):
    desk.enqueue("a", task="mail.send", queue="x")
    desk.enqueue("b", task="mail_send", queue="x", tenant="acme")
    desk.enqueue("c", task="mail.read", queue="y")

    def found(**wanted):
        return " ".join(id_ for id_, _ in desk.engine.matching(JobFilter(**wanted), 10)[0])

    assert "a b c" == found()
    assert "a" == found(queues=frozenset({"x", "z"}), task="mail.send")
    assert "a c" == found(task_prefix="mail.")
    assert "b" == found(task_prefix="mail_")
    assert "" == found(task_prefix="%")
    assert "b" == found(tenant="acme")
    assert "" == found(tenant="acme", queues=frozenset({"y"}))
    assert "" == found(since=desk.clock.now() + 1)
    assert "" == found(ended_before=desk.clock.now() + 1)


def test_pages_come_newest_first_and_ids_oldest_first(desk):
    desk.enqueue("a b c d")

    found, total = desk.engine.search(JobFilter(), offset=1, limit=2)

    assert (["c", "b"], 4) == ([view.id for view in found], total)
    assert ([("a", ""), ("b", "")], 4) == desk.engine.matching(JobFilter(), 2)


def test_everything_is_counted_once(busy):
    (tally,) = busy.engine.tally()

    expected = dict.fromkeys(("done", "failed", "retrying", "cancelled", "scheduled", "waiting"), 1)
    assert expected | {"running": 1} == tally.counts
    assert ("", "q") == (tally.tenant, tally.queue)


def test_only_what_ended_lately_is_counted(busy):
    now = busy.clock.now()

    assert {"done": 1, "failed": 1, "cancelled": 1} == busy.engine.ended_since(now - SECOND)[0].counts
    assert [] == busy.engine.ended_since(now)


def test_settings_are_kept_for_every_process(opened):
    one, other = opened(), opened()
    one.set_setting("a:1", "x")
    one.set_setting("a:2", "y")
    one.set_setting("a:1", "z")
    one.set_setting("b%", "w")

    assert {"a:1": "z", "a:2": "y"} == other.settings("a:")
    assert {"b%": "w"} == other.settings("b%")
    one.set_setting("a:1", None)
    assert {"a:2": "y"} == other.settings("a")


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 513])
def test_a_setting_needs_a_name(opened, name):
    with pytest.raises(InvalidError):
        opened().set_setting(name, "x")
