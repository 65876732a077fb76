"""A job whose moment has come waits from that moment on, though no transaction has put it in line yet."""

from penstock.clock import SECOND
from penstock.job import JobFilter
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.lifecycle.states import State
from tests.support.desk import Desk

TWICE = RetryPolicy(attempts=2, backoff=Backoff.FIXED, delay=SECOND, jitter=False)


def found(desk, state):
    """Return the jobs that are told to be in this state, by two ways to ask."""
    views, total = desk.engine.search(JobFilter(frozenset({state})))
    assert total == len(views)
    ids, _ = desk.engine.matching(JobFilter(frozenset({state})), 9)
    assert [(view.id, view.tenant) for view in views] == ids[::-1]
    return " ".join(view.id for view in views)


def tallied(desk):
    (counts,) = desk.engine.tally()
    return counts.counts


def test_a_scheduled_job_waits_as_soon_as_it_is_due(desk: Desk, clock, limits) -> None:
    desk.enqueue("a", *limits, due=clock.now() + SECOND)
    assert (State.SCHEDULED, "a", "") == (desk.state("a"), found(desk, "scheduled"), found(desk, "waiting"))
    assert {"scheduled": 1} == tallied(desk)

    clock.advance(SECOND)

    assert (State.WAITING, None) == (desk.state("a"), desk.job("a").due)
    assert ("", "a") == (found(desk, "scheduled"), found(desk, "waiting"))
    assert {"waiting": 1} == tallied(desk)
    assert ["a"] == [view.id for view in desk.engine.jobs(state=State.WAITING)]
    assert [] == desk.engine.jobs(state=State.SCHEDULED)
    assert "waits for a worker" in desk.engine.why("a").sentence


def test_a_job_to_be_tried_again_waits_as_soon_as_its_pause_is_over(desk: Desk, clock, limits) -> None:
    desk.enqueue("a", *limits, retry=TWICE)
    desk.claim()
    desk.settle("a", Failed("ValueError", "no"))
    assert ("a", "") == (found(desk, "retrying"), found(desk, "waiting"))
    assert {"retrying": 1} == tallied(desk)

    clock.advance(SECOND)

    assert State.WAITING is desk.state("a")
    assert ("", "a") == (found(desk, "retrying"), found(desk, "waiting"))
    assert {"waiting": 1} == tallied(desk)
