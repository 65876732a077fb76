"""Workers that may go on when the machine of the store loses its power."""

import pytest

from penstock.dialects.served import SERVED
from penstock.http.app import app_for
from penstock.job import LEASE, START_GRACE, ClaimFor, NewJob


@pytest.fixture
def kept(desk, monkeypatch):
    """Every `keep` with which the store was asked to write."""
    asked = []
    write = desk.engine.store.write

    def watched(work, *, keep=True, **options):
        asked.append(keep)
        return write(work, keep=keep, **options)

    monkeypatch.setattr(desk.engine.store, "write", watched)
    return asked


@pytest.mark.parametrize("far", [False, True])
def test_claims_and_leases_are_on_disk_where_workers_may_outlive_the_store(desk, kept, far):
    engine = desk.engine
    engine.far = far
    engine.enqueue([NewJob("task", queue="q"), NewJob("task", queue="q")])
    kept.clear()

    (first,) = engine.claim(["q"], 1, worker="w").jobs
    engine.claims([ClaimFor(("q",), 1, "w", LEASE, START_GRACE)])
    engine.heartbeat([(first.seq, first.fence)])

    assert [far] * 3 == kept


def test_workers_of_a_database_elsewhere_outlive_it(desk):
    assert desk.engine.store.remote == desk.engine.far


def test_a_server_takes_its_workers_to_be_elsewhere(desk):
    site = app_for(desk.engine, SERVED)
    site.service.close()

    assert desk.engine.far
