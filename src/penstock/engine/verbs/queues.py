"""Pause queues, bound them, put them into pools, count what is in them."""

from penstock.engine import bounds, look, operating, pools
from penstock.engine.board import Board
from penstock.engine.transactions import Transactions
from penstock.job import Bound, Pool, QueueCounts
from penstock.lifecycle.checks import check_queue
from penstock.store import bounds as bound_rows
from penstock.store import queues as queue_rows
from penstock.store.session import Hold


class QueueVerbs(Transactions):
    def pause(self, queue: str) -> None:
        """Let nothing start from a queue."""
        check_queue(queue)
        self._write(lambda board: operating.pause(board, queue), Hold.RULES)

    def resume(self, queue: str) -> None:
        """Let jobs start from a queue again."""
        check_queue(queue)
        self._write(lambda board: operating.resume(board, queue), Hold.RULES)

    def bound(self, queue: str, bound: Bound | None) -> None:
        """Let a queue become so full and no fuller; None removes the bound."""
        bounds.check(queue, bound)
        self._write(lambda board: bounds.put(board, queue, bound), Hold.NOTHING)

    def bounds(self) -> dict[str, Bound]:
        """Return the bounds of queues."""
        return self.store.read(bounds.every)

    def depth(self, queue: str) -> int:
        """Return how many jobs of a queue wait or are scheduled."""
        return self.store.read(lambda db: bound_rows.depth(db, queue))

    def set_pool(self, pool: Pool) -> None:
        """Add a pool of queues, or replace the one of its name."""
        pools.check(pool)
        self._write(lambda board: pools.put(board, pool), Hold.RULES)

    def delete_pool(self, name: str, *, tenant: str = "") -> None:
        """Delete a pool; its queues stay."""
        self._write(lambda board: pools.delete(board, name, tenant), Hold.RULES)

    def pools(self, tenant: str | None = None) -> list[Pool]:
        """Return the pools of one tenant or of all, by name."""
        return self.store.read(lambda db: pools.pools(db, tenant))

    def queues(self) -> list[dict[str, object]]:
        """Return every queue that has jobs or rules."""

        def work(board: Board) -> list[dict[str, object]]:
            return [
                {
                    "name": n,
                    "waiting": w,
                    "running": r,
                    "paused": bool(p),
                    "numbers": look.configured(board, "queue", n),
                }
                for n, w, r, p in queue_rows.counts(board.db)
            ]

        return self._read(work)

    def busy_queues(self) -> list[str]:
        """Return the queues in which a claim might find somebody."""
        return self.store.read(queue_rows.busy)

    def tally(self) -> list[QueueCounts]:
        """Count the jobs of every queue that has any."""
        return self._read(operating.tally)

    def ended_since(self, since: int) -> list[QueueCounts]:
        """Count the jobs of every queue that ended after then."""
        return self.store.read(lambda db: operating.ended_since(db, since))
