"""Enqueue a job whenever the moment of its schedule comes.

A moment and its job are one transaction, so each fires once however many processes look.  Moments that
passed while nobody looked fire once together.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import structs

from penstock.clock import SECOND
from penstock.engine.board import Board
from penstock.engine.enqueue import enqueue
from penstock.engine.schedules import json_object, schedule_of
from penstock.engine.waiting import ask_to_stop, remove
from penstock.errors import ConflictError, InvalidError
from penstock.job import NewJob, Schedule
from penstock.lifecycle.cron import parse_cron
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers
from penstock.store import schedules as rows

LATER: Final = 60 * SECOND  # when to look again at a schedule that this process cannot read


def fire(board: Board, most: int) -> int:
    """Fire what is due; return how many were looked at."""
    due = [schedule_of(row) for row in rows.due(board.db, board.now, most)]
    if due:
        # One that waits for a name must have nothing that whoever has the name might wait for.
        board.db.need_gates()
        board.db.send_last()  # a job that has just ended may stand for a unique key
        firing = _without_overlap(board, _moved_on(board, due))
        alone = [[schedule] for schedule in firing if schedule.job.unique is not None]
        together = [schedule for schedule in firing if schedule.job.unique is None]
        fired = [pair for group in (together, *alone) for pair in _enqueued(board, group)]
        rows.fired(board.db, [(board.now, job, s.tenant, s.name) for s, job in fired])
        board.db.keep()  # or the moment would come again if the machine loses its power
        for s, job in fired:
            board.events.tell(
                "schedule.fired",
                schedule=s.name,
                tenant=s.tenant,
                job=job,
                task=s.job.task,
                queue=s.job.queue,
            )
    return len(due)


def _moved_on(board: Board, due: Sequence[Schedule]) -> list[Schedule]:
    """Have schedules fire next at their next moment; return those that this process can read."""
    moved, moments = [], []
    for schedule in due:
        try:
            next_at = parse_cron(schedule.expression, schedule.timezone).next_after(board.now)
            moved.append(schedule)
        except InvalidError as error:
            # Made where more is known, as a new time zone: left to whoever knows it.
            next_at = board.now + LATER
            _skip(board, schedule, str(error))
        moments.append((next_at, schedule.tenant, schedule.name))
    rows.move_on(board.db, moments)
    return moved


def _without_overlap(board: Board, schedules: Sequence[Schedule]) -> list[Schedule]:
    """Return those that may fire now; cancel the last job of those that want that.

    One that skips has no live job but its last, since it fires only when that has ended.
    """
    minding = (Overlap.SKIP, Overlap.CANCEL_PREVIOUS)
    last = [s.last_job for s in schedules if s.last_job is not None and s.overlap in minding]
    live = rows.live(board.db, last) if last else {}
    firing = []
    for schedule in schedules:
        seq = live.get(schedule.last_job) if schedule.last_job is not None else None
        if seq is not None and schedule.overlap is Overlap.SKIP:
            _skip(board, schedule, "its last job has not ended")
            continue
        if seq is not None and schedule.overlap is Overlap.CANCEL_PREVIOUS:
            _cancel(board, seq, f"schedule {schedule.name} fired again")
        firing.append(schedule)
    return firing


def _enqueued(board: Board, group: Sequence[Schedule]) -> list[tuple[Schedule, str]]:
    """Enqueue the jobs of schedules; return with their ids those that were not refused."""
    if not group:
        return []
    try:
        added = enqueue(board, [_job(board, schedule) for schedule in group])
    except (ConflictError, InvalidError) as error:
        # Neither a claim nor another schedule is to fail for it.
        if len(group) > 1:
            return [pair for schedule in group for pair in _enqueued(board, [schedule])]
        _skip(board, group[0], str(error))
        return []
    return [(schedule, job.id) for schedule, job in zip(group, added, strict=True)]


def _skip(board: Board, schedule: Schedule, reason: str) -> None:
    board.events.tell("schedule.skipped", schedule=schedule.name, tenant=schedule.tenant, reason=reason)


def _cancel(board: Board, seq: int, reason: str) -> None:
    if not remove(board, seq, State.CANCELLED, reason):
        ask_to_stop(board, seq)


def _job(board: Board, schedule: Schedule) -> NewJob:
    """Return the job of a schedule's present moment."""
    job = schedule.job
    origin = {"schedule": {"name": schedule.name, "at": schedule.next_at}}
    meta = msgspec.json.encode(json_object(job.meta) | origin).decode()
    limits = job.limits
    if schedule.overlap is Overlap.WAIT:
        limits = (*limits, Limit(f"schedule:{schedule.name}", Numbers(slots=1)))
    expires = None if schedule.ttl is None else board.now + schedule.ttl
    return structs.replace(job, meta=meta, limits=limits, expires=expires)
