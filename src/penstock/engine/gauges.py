"""How full are queues and gates?"""

from penstock.job import Gauges, KeyGauge
from penstock.store import gauges as rows
from penstock.store.session import Session


def read(db: Session, most: int, without: str) -> Gauges:
    """Return how full everything is; of the keys the *most* busy ones, the others together."""
    found = rows.keys(db, most, without)
    keys = [KeyGauge(tenant, key, running, waiting) for tenant, key, running, waiting, *_ in found]
    running, waiting = found[0][4:] if found else (0, 0)
    rest = (running - sum(key.running for key in keys), waiting - sum(key.waiting for key in keys))
    return Gauges([(queue, state, jobs) for queue, state, jobs in rows.queues(db)], keys, *rest)
