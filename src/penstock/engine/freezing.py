"""Freeze jobs of a paused instance that wait, and let them go on: they stand aside, in no line."""

from collections.abc import Sequence
from typing import Final

from penstock.engine.admission.arrivals import rejoin
from penstock.engine.admission.board import Board
from penstock.engine.removal import leave_line
from penstock.limits.gate import ON_RELEASE
from penstock.store import instances as rows
from penstock.store import jobs as job_rows
from penstock.store import waiting as waiting_rows
from penstock.store.instances import LiveJob
from penstock.store.jobs import Made

PAUSED: Final = "its instance is paused"


def freeze(board: Board, seqs: Sequence[int]) -> None:
    """Let jobs that wait, or are scheduled, not be due until they are thawed.  Those that run go on."""
    board.db.need_gates()
    board.flush_lanes()
    put_off, marked = [], []
    for seq in seqs:
        left = _leave(board, seq)
        if left is not None:
            (attempt, lost), due = left
            put_off.append((seq, ON_RELEASE, attempt, lost, PAUSED))
            marked.append((due, seq))
    if marked:
        waiting_rows.put_off(board.db, put_off)
        rows.freeze(board.db, marked)


def thaw(board: Board, jobs: Sequence[LiveJob]) -> None:
    """Let frozen jobs go on: they arrive as newcomers, or when they would have been due."""
    put_off, arriving = [], []
    frozen = [job for job in jobs if job.frozen is not None]
    for job in frozen:
        made = job_rows.leave(board.db, "scheduled", job.seq)
        assert made is not None  # noqa: S101 - nothing takes a frozen job from there
        if job.frozen is not None and job.frozen > board.now:
            put_off.append((job.seq, job.frozen, *made))
        else:
            arriving.append((job.seq, None, *made))
    rows.freeze(board.db, [(None, job.seq) for job in frozen])
    if put_off:
        waiting_rows.schedule(board.db, put_off)
    rejoin(board, arriving)


def _leave(board: Board, seq: int) -> tuple[Made, int] | None:
    """Take a job from where it waits; return the attempts it made, and when it would be due (0: now)."""
    while (found := job_rows.place(board.db, seq)) is not None and found.table != "running":
        due = 0
        if found.lane is not None:
            made = leave_line(board, seq, board.lane(found.lane))
        else:
            if found.table == "scheduled":
                due = waiting_rows.due_of(board.db, seq) or 0
                if due == ON_RELEASE:
                    return None  # it is frozen already
            made = job_rows.leave(board.db, found.table, seq)
        if made is not None:
            return made, due
    return None
