"""Many jobs are retried, cancelled or forgotten in one transaction, and counted in one entry of the audit."""

import pytest

from penstock.acting import Actor
from penstock.errors import InvalidError, NotFoundError
from penstock.job import NewJob
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from tests.support.desk import slots

ANNA = Actor("anna", "monitor", "the provider is back")


def named(names, tenant=""):
    return [(name, tenant) for name in names.split()]


def test_jobs_that_may_be_are_changed_and_the_others_left_as_they_are(engine, desk):
    desk.enqueue("a b c d", slots("api", 2))
    desk.claim()
    desk.settle("a", Failed("Boom", "no", final=True))

    retried = engine.change_jobs("retry", named("a b c nothing"))
    cancelled = engine.change_jobs("cancel", named("b c d"), "enough")
    forgotten = engine.change_jobs("forget", named("a c d"))

    assert (1, 3, 2) == (retried, cancelled, forgotten)
    assert (State.WAITING, State.RUNNING) == (desk.state("a"), desk.state("b"))
    assert desk.job("b").cancel_asked
    with pytest.raises(NotFoundError):
        desk.job("c")
    entries = [(entry.verb, entry.kind, entry.subject, entry.touched) for entry in engine.audit()]
    assert [
        ("job.forget", "jobs", "a, c, d", 2), ("job.cancel", "jobs", "b, c, d", 3),
        ("job.retry", "jobs", "a, b, c", 1),
    ] == entries  # fmt: skip
    assert [] == engine.doctor()


def test_of_jobs_with_one_unique_key_one_is_retried(engine, desk):
    for name in ("a", "b"):
        desk.enqueue(name, unique=Unique("k"))
        engine.cancel(name)

    assert 1 == engine.change_jobs("retry", named("a b"))
    assert (State.WAITING, State.CANCELLED) == (desk.state("a"), desk.state("b"))


def test_what_a_bulk_operation_does_is_counted_in_its_one_entry(engine, desk):
    desk.enqueue("a b c")
    with engine.acting(ANNA):
        bulk = engine.begin_bulk("jobs.cancel", "jobs", "queue=q")
    with engine.acting(bulk):
        for names in ("a b", "c nothing", "a"):
            engine.change_jobs("cancel", named(names))

    (entry,) = engine.audit()
    assert ("jobs.cancel", "anna", 3) == (entry.verb, entry.who, entry.touched)


def test_a_batch_has_at_most_500_jobs(engine):
    with pytest.raises(InvalidError):
        engine.change_jobs("cancel", named("a") * 501)


def test_jobs_of_other_tenants_are_not_meant(engine):
    engine.enqueue([NewJob("t", id="a", tenant=tenant) for tenant in ("", "acme")])

    assert 1 == engine.change_jobs("cancel", named("a", "acme"))
    assert (State.WAITING, State.CANCELLED) == tuple(engine.job("a", tenant).state for tenant in ("", "acme"))
