"""Looking for jobs: by what they have in common, or by how their ids begin.

A look goes over so many jobs, newest first, and says how far it got; the next goes on from there.
"""

from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.jobs import views_of
from penstock.engine.transactions import Transactions
from penstock.job import JobPage, JobQuery, JobView
from penstock.limits.gate import ON_RELEASE
from penstock.store import look_jobs as look_rows

LOOKED_AT: Final = 20_000  # jobs at once
UNPICKED: Final = 500  # the same, where nearly every job fits


class JobLookVerbs(Transactions):
    def job_page(self, wanted: JobQuery, *, before: int | None = None, most: int = 50) -> JobPage:
        """Return jobs that fit, newest first: those found among the next 20,000."""

        def work(board: Board) -> JobPage:
            start = ON_RELEASE if before is None else before
            looked_at = LOOKED_AT if wanted.picks else UNPICKED
            seqs = look_rows.found(board.db, wanted, board.now, start, looked_at, most + 1)
            jobs = views_of(board, look_rows.rows(board.db, seqs[:most])) if seqs else []
            if len(seqs) > most:
                return JobPage(jobs, 0, seqs[most - 1], full=True)
            end = look_rows.looked(board.db, wanted, start, looked_at)
            return JobPage(jobs, end.jobs, end.reached if end.jobs >= looked_at else None, full=False)

        return self._read(work)

    def jobs_called(self, begins: str, *, tenant: str | None = None, most: int = 50) -> list[JobView]:
        """Return jobs whose ids begin so."""

        def work(board: Board) -> list[JobView]:
            seqs = look_rows.of_ids_like(board.db, begins, tenant, most)
            return views_of(board, look_rows.rows(board.db, seqs)) if seqs else []

        return self._read(work)
