"""A server that is killed in the middle of a bulk operation: its entry in the audit says how far it came."""

from penstock.engine import open_engine
from penstock.job import NewJob
from penstock.lifecycle.states import State
from tests.support.monitored import Site
from tests.support.server import served
from tests.support.timing import until

JOBS = 4_000


def test_the_audit_says_how_far_a_killed_server_came(address):
    engine = open_engine(address)
    engine.enqueue([NewJob("t", queue="bulk") for _ in range(JOBS)])
    before = engine.count().get(State.CANCELLED, 0)
    with served(address) as server:
        visitor = Site(int(server.url.rpartition(":")[2])).browser()
        assert 303 == visitor.send("/bulk/cancel?queue=bulk", reason="never mind").status
        until(lambda: engine.audit(limit=1)[0].touched, every=0.001)
        server.kill()
    entry = engine.audit(limit=1)[0]

    assert 0 < entry.touched < JOBS
    assert entry.touched == engine.count()[State.CANCELLED] - before
    assert ("job.cancel", "never mind", None) == (entry.verb, entry.reason, entry.after)
    assert [] == engine.doctor()
    engine.close()
