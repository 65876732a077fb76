"""Which jobs are there, how many, and why do they wait?  Changes nothing."""

from penstock.engine import gauges, look, operating
from penstock.engine.board import Board
from penstock.engine.transactions import Transactions
from penstock.job import Failure, Gauges, JobFilter, JobView, Why
from penstock.lifecycle.states import State
from penstock.store import counts as count_rows
from penstock.store import views


class LookingVerbs(Transactions):
    def job(self, job_id: str) -> JobView:
        """Return one job."""
        return self._read(lambda board: look.job(board, job_id))

    def failures(self, job_id: str) -> list[Failure]:
        """Return the failed attempts of a job, the first one first."""
        return self.store.read(lambda db: look.failures(db, job_id))

    def why(self, job_id: str) -> Why:
        """Say why a job waits."""
        return self._read(lambda board: look.why(board, job_id))

    def jobs(
        self,
        *,
        state: State | None = None,
        queue: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        key: str | None = None,
        before: int | None = None,
        begins: str | None = None,
        limit: int = 50,
    ) -> list[JobView]:
        """Return jobs, newest first, perhaps of an id that *begins* so; *before* a job's number for the next page."""

        def work(board: Board) -> list[JobView]:
            rows = views.jobs(board.db, board.now, state, queue, task, tenant, key, before, begins, limit)
            return [look.job_view(row, board.now) for row in rows]

        return self._read(work)

    def search(self, wanted: JobFilter, *, offset: int = 0, limit: int = 50) -> tuple[list[JobView], int]:
        """Return a page of the jobs that fit, newest first, and how many there are."""
        return self._read(lambda board: operating.search(board, wanted, offset, limit))

    def matching(self, wanted: JobFilter, limit: int) -> tuple[list[str], int]:
        """Return the ids of the jobs that fit, oldest first, and how many there are."""
        return self._read(lambda board: operating.matching(board, wanted, limit))

    def count(
        self, *, queue: str | None = None, task: str | None = None, tenant: str | None = None
    ) -> dict[State, int]:
        """Return how many jobs are in each state."""
        return self.store.read(lambda db: views.count(db, queue, task, tenant))

    def tenant_depth(self, tenant: str, *, scheduled: bool = False) -> int:
        """Return how many jobs of a tenant wait or are *scheduled*, or only the latter."""
        return self.store.read(lambda db: count_rows.depth(db, tenant, scheduled=scheduled))

    def gauges(self, most: int, *, without: str = "") -> Gauges:
        """Return how full queues and gates are; of the keys only the *most* busy ones by name.

        Keys that begin with *without* do not count.
        """
        return self.store.read(lambda db: gauges.read(db, most, without))
