"""How many jobs a change would touch, counted up to 10,000."""

from penstock.engine.looks import COUNTED, bounded
from penstock.engine.transactions import Transactions
from penstock.job import Count
from penstock.store import touched as rows


class TouchedVerbs(Transactions):
    def touched_by_gate(self, key: str, tenant: str = "") -> Count:
        """Count the jobs that wait at the gate of a key or hold a slot of it."""
        return bounded(Count(self.store.read(lambda db: rows.of_gate(db, tenant, key, COUNTED))))

    def touched_by_queue(self, queue: str, tenant: str = "") -> Count:
        """Count the jobs of a queue that have not ended: of one tenant, or of all."""
        return bounded(Count(*self.store.read(lambda db: rows.of_queue(db, (tenant, queue), COUNTED))))
