"""How many jobs a change would touch, counted up to 10,000."""

from penstock.engine.look_jobs import LOOKED_AT
from penstock.engine.looks import COUNTED, bounded
from penstock.engine.transactions import Transactions
from penstock.job import Count, JobQuery
from penstock.limits.gate import ON_RELEASE
from penstock.store import look_jobs as look_rows
from penstock.store import touched as rows
from penstock.store.session import Session


class TouchedVerbs(Transactions):
    def touched_by_gate(self, key: str, tenant: str = "") -> Count:
        """Count the jobs that wait at the gate of a key or hold a slot of it."""
        return bounded(Count(self.store.read(lambda db: rows.of_gate(db, tenant, key, COUNTED))))

    def touched_by_queue(self, queue: str, tenant: str = "") -> Count:
        """Count the jobs of a queue that have not ended: of one tenant, or of all."""
        return bounded(Count(*self.store.read(lambda db: rows.of_queue(db, (tenant, queue), COUNTED))))

    def touched_by_query(self, wanted: JobQuery) -> Count:
        """Count the jobs that fit among the newest 20,000; where there are others there may be more."""
        now = self._time.seen()

        def work(db: Session) -> Count:
            jobs = len(look_rows.found(db, wanted, now, ON_RELEASE, LOOKED_AT, COUNTED))
            return Count(jobs, look_rows.looked(db, wanted, ON_RELEASE, LOOKED_AT).jobs >= LOOKED_AT)

        return bounded(self.store.read(work))
