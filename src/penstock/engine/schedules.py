"""Enqueue a job whenever the moment of its schedule comes.

A moment and its job are one transaction, so each fires once however many processes look.  Moments that
passed while nobody looked fire once together.
"""

from typing import Final

import msgspec

from penstock.clock import SECOND
from penstock.engine.board import Board
from penstock.engine.enqueue import check, enqueue
from penstock.engine.waiting import remove
from penstock.errors import ConflictError, InvalidError, InvalidJobError, NotFoundError
from penstock.job import NewJob, Schedule
from penstock.lifecycle.checks import MAX_NUMBER, check_schedule_name, check_whole, choose
from penstock.lifecycle.cron import parse_cron
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers
from penstock.store import leases as lease_rows
from penstock.store import schedules as rows
from penstock.store.session import Row, Session

LATER: Final = 60 * SECOND  # when to look again at a schedule that this process cannot read
_replace: Final = msgspec.structs.replace


def checked(schedule: Schedule) -> Schedule:
    """Return *schedule* as it is stored; raise unless it could ever fire."""
    check_schedule_name(schedule.name)
    parse_cron(schedule.expression, schedule.timezone)
    job = _replace(schedule.job, tenant=schedule.tenant)
    check(job)
    for field in ("id", "due", "expires"):
        if getattr(job, field) is not None:
            raise InvalidJobError(field, "is each job's own; a schedule enqueues many")
    if schedule.ttl is not None:
        check_whole("ttl", schedule.ttl, 1, MAX_NUMBER)
    _object(job.meta)
    _object(schedule.meta)
    return _replace(schedule, job=job, overlap=choose("overlap", Overlap, schedule.overlap))


def put(board: Board, schedule: Schedule) -> Schedule:
    """Add a `checked` schedule, or replace the one of its name."""
    before = _held(board, schedule.tenant, schedule.name)
    if not schedule.enabled:
        next_at = None
    elif before is not None and before.enabled and _when(before) == _when(schedule):
        next_at = before.next_at  # its moment may just have come
    else:
        next_at = _next(board, schedule)
    rows.put(board.db, _row(_replace(schedule, created=board.now, next_at=next_at)))
    return get(board.db, schedule.name, schedule.tenant)


def get(db: Session, name: str, tenant: str) -> Schedule:
    """Return one schedule."""
    row = rows.of(db, tenant, name)
    if row is None:
        raise NotFoundError("schedule", name)
    return _schedule(row)


def page(db: Session, tenant: str | None, offset: int, limit: int) -> tuple[list[Schedule], int]:
    """Return schedules by name, of one tenant or of all, and how many there are."""
    return [_schedule(row) for row in rows.page(db, tenant, offset, limit)], rows.total(db, tenant)


def pause(board: Board, name: str, tenant: str) -> Schedule:
    """Let a schedule fire no more."""
    rows.enable(board.db, tenant, name, None)
    return get(board.db, name, tenant)


def resume(board: Board, name: str, tenant: str) -> Schedule:
    """Let a schedule fire again, from its next moment on."""
    schedule = _held(board, tenant, name)
    if schedule is None:
        raise NotFoundError("schedule", name)
    if not schedule.enabled:
        rows.enable(board.db, tenant, name, _next(board, schedule))
    return get(board.db, name, tenant)


def delete(board: Board, name: str, tenant: str) -> None:
    """Delete a schedule; its jobs stay."""
    if not rows.delete(board.db, tenant, name):
        raise NotFoundError("schedule", name)


def fire(board: Board, most: int) -> int:
    """Fire what is due; return how many were looked at."""
    due = [_schedule(row) for row in rows.due(board.db, board.now, most)]
    for schedule in due:
        _fire(board, schedule)
    return len(due)


def _fire(board: Board, schedule: Schedule) -> None:
    db, tenant, name = board.db, schedule.tenant, schedule.name
    try:
        following = parse_cron(schedule.expression, schedule.timezone).next_after(board.now)
    except InvalidError as error:
        # Made where more is known, as a new time zone: left to whoever knows it.
        rows.move_on(db, tenant, name, board.now + LATER)
        _skip(board, schedule, str(error))
        return
    rows.move_on(db, tenant, name, following)
    rows.forget_ended(db, tenant, name)
    if schedule.overlap is Overlap.SKIP and rows.live(db, tenant, name):
        _skip(board, schedule, "an earlier job has not ended")
        return
    if schedule.overlap is Overlap.CANCEL_PREVIOUS:
        _cancel_earlier(board, schedule)
    try:
        (added,) = enqueue(board, [_job(board, schedule)])
    except (ConflictError, InvalidError) as error:
        # Not its caller's fault: a claim, or another schedule, goes on.
        _skip(board, schedule, str(error))
        return
    rows.fired(db, tenant, name, board.now, added.id)
    db.keep()  # or the moment would come again if the machine loses its power
    board.events.tell(
        "schedule.fired",
        schedule=name,
        tenant=tenant,
        job=added.id,
        task=schedule.job.task,
        queue=schedule.job.queue,
    )


def _skip(board: Board, schedule: Schedule, reason: str) -> None:
    board.events.tell("schedule.skipped", schedule=schedule.name, tenant=schedule.tenant, reason=reason)


def _cancel_earlier(board: Board, schedule: Schedule) -> None:
    for seq in rows.live(board.db, schedule.tenant, schedule.name):
        if not remove(board, seq, State.CANCELLED, f"schedule {schedule.name} fired again"):
            lease_rows.ask_to_cancel(board.db, seq)


def _job(board: Board, schedule: Schedule) -> NewJob:
    """Return the job of a schedule's present moment."""
    job = schedule.job
    origin = {"schedule": {"name": schedule.name, "at": schedule.next_at}}
    meta = msgspec.json.encode(_object(job.meta) | origin).decode()
    limits = job.limits
    if schedule.overlap is Overlap.WAIT:
        limits = (*limits, Limit(f"schedule:{schedule.name}", Numbers(slots=1)))
    expires = None if schedule.ttl is None else board.now + schedule.ttl
    return _replace(job, meta=meta, limits=limits, expires=expires)


def _next(board: Board, schedule: Schedule) -> int:
    next_at = parse_cron(schedule.expression, schedule.timezone).next_after(board.now)
    if next_at is None:
        raise InvalidJobError("expression", f"{schedule.expression!r} never comes")
    return next_at


def _when(schedule: Schedule) -> tuple[str, str]:
    return schedule.expression, schedule.timezone


def _held(board: Board, tenant: str, name: str) -> Schedule | None:
    row = rows.held(board.db, tenant, name)
    return None if row is None else _schedule(row)


def _schedule(row: Row) -> Schedule:
    tenant, name, expression, timezone, overlap, enabled, job, *rest = row
    template = msgspec.json.decode(job, type=NewJob)
    return Schedule(name, expression, template, timezone, tenant, Overlap(overlap), bool(enabled), *rest)


def _row(s: Schedule) -> Row:
    return (
        s.tenant, s.name, s.expression, s.timezone, s.overlap.value, int(s.enabled),
        msgspec.json.encode(s.job).decode(), s.ttl, s.meta, s.created, s.next_at, None, None, 0,
    )  # fmt: skip


def _object(meta: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(meta, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise InvalidJobError("meta", f"must be a JSON object: {error}") from None
