"""The server crashes at the worst moment, step by step: what a caller was told must still be so."""

import psycopg
import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers
from penstock.store.postgres.session import PostgresSession

ONE = (Limit("key", Numbers(slots=1)),)
LONG = 60 * SECOND


@pytest.fixture
def engine(server):
    engine = open_engine(f"{server.url}?schema=crash")
    yield engine
    engine.close()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA crash CASCADE")


@pytest.fixture
def crash_before_commit(server, monkeypatch):
    """Return how to crash the server under the next transaction that is about to be committed.

    Others write before its owner comes back to ask what became of it, and the server gives them its number.
    """
    commit = PostgresSession.commit

    def crash_first(session):
        monkeypatch.setattr(PostgresSession, "commit", commit)
        server.restart("immediate")
        with psycopg.connect(server.url, autocommit=True) as other:
            other.execute("CREATE TABLE IF NOT EXISTS others (name text)")
            for _ in range(10):
                other.execute("INSERT INTO others VALUES ('somebody')")
        commit(session)

    return lambda: monkeypatch.setattr(PostgresSession, "commit", crash_first)


def test_a_slot_that_was_taken_stays_taken(server, engine):
    engine.enqueue([NewJob("t", limits=ONE), NewJob("t", limits=ONE)])
    (first,) = engine.claim(["default"], 2, worker="one", lease=LONG).jobs
    server.restart("immediate")

    assert [] == engine.claim(["default"], 2, worker="two", lease=LONG).jobs
    assert [True] == engine.settle([Settlement(first.seq, first.fence, Done())])


def test_a_job_that_was_enqueued_is_there(engine, crash_before_commit):
    crash_before_commit()
    (made,) = engine.enqueue([NewJob("t", limits=ONE)])

    assert State.WAITING is engine.job(made.id).state


def test_an_attempt_that_was_settled_has_ended(engine, crash_before_commit):
    engine.enqueue([NewJob("t", limits=ONE)])
    (claimed,) = engine.claim(["default"], 1, worker="one", lease=LONG).jobs
    engine.pause("other")  # what comes before a commit that is kept is kept too
    crash_before_commit()

    assert [True] == engine.settle([Settlement(claimed.seq, claimed.fence, Done())])
    assert State.DONE is engine.job(claimed.id).state
    assert [] == engine.doctor()
