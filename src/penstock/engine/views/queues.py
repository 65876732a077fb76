"""How many jobs are in each queue, and how full queues and gates are."""

from collections.abc import Iterable

from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.engine.views.gates import configured
from penstock.job import Gauges, KeyGauge, QueueCounts
from penstock.store import counts as count_rows
from penstock.store import gauges as gauge_rows
from penstock.store import queues as queue_rows
from penstock.store.session import Session


class QueueViews(Transactions):
    def queues(self) -> list[dict[str, object]]:
        """Return every queue that has jobs or rules."""

        def work(board: Board) -> list[dict[str, object]]:
            return [
                {
                    "tenant": t,
                    "name": n,
                    "waiting": w,
                    "running": r,
                    "paused": bool(p),
                    "numbers": configured(board, "queue", n, t),
                }
                for t, n, w, r, p in queue_rows.counts(board.db)
            ]

        return self._read(work)

    def tally(self) -> list[QueueCounts]:
        """Count the jobs of every queue that has any."""
        return self._read(lambda board: _tallies(count_rows.tally(board.db, board.now)))

    def ended_since(self, since: int) -> list[QueueCounts]:
        """Count the jobs of every queue that ended after then."""
        return self.store.read(lambda db: _tallies(count_rows.ended_since(db, since)))

    def gauges(self, most: int, *, without: str = "") -> Gauges:
        """Return how full queues and gates are; of the keys only the *most* busy ones by name.

        Keys that begin with *without* do not count.
        """

        def work(db: Session) -> Gauges:
            found = gauge_rows.keys(db, most, without)
            keys = [KeyGauge(tenant, key, running, waiting) for tenant, key, running, waiting, *_ in found]
            running, waiting = next(((running, waiting) for *_, running, waiting in found), (0, 0))
            rest = (running - sum(key.running for key in keys), waiting - sum(key.waiting for key in keys))
            return Gauges([(queue, state, jobs) for queue, state, jobs in gauge_rows.queues(db)], keys, *rest)

        return self.store.read(work)


def _tallies(rows: Iterable[tuple[str, str, str, int]]) -> list[QueueCounts]:
    found: dict[tuple[str, str], QueueCounts] = {}
    for tenant, queue, state, number in rows:
        of_queue = found.setdefault((tenant, queue), QueueCounts(tenant, queue, {}))
        of_queue.counts[state] = of_queue.counts.get(state, 0) + number
    return list(found.values())
