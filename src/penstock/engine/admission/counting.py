"""What is counted for minutes of jobs that come to stand in line, and of those that leave it without a start."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.job import INSTANCES
from penstock.store import jobs as job_rows

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board


class _Job(Protocol):
    @property
    def tenant(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def task(self) -> str: ...


def arrived(board: "Board", arrivals: Iterable[_Job]) -> None:
    """Count jobs that come to stand in line."""
    for task, jobs in Counter((job.tenant, job.queue, job.task) for job in arrivals).items():
        if task[1] != INSTANCES:
            board.tally.task(task).arrived += jobs


def left(board: "Board", seqs: Sequence[int], *, dropped: bool = True) -> None:
    """Count jobs that leave the line and do not start; *dropped* are those that end so."""
    if not seqs:
        return
    for job in job_rows.names(board.db, list(seqs)):
        if job.queue != INSTANCES:
            change = board.tally.task((job.tenant, job.queue, job.task))
            change.left += 1
            change.dropped += dropped
