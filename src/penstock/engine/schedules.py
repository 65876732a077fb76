"""Keep schedules: what to enqueue again and again, and when next."""

import msgspec
from msgspec import structs

from penstock.engine.board import Board
from penstock.engine.enqueue import check, check_text
from penstock.errors import InvalidJobError, NotFoundError
from penstock.job import NewJob, Schedule
from penstock.lifecycle.checks import MAX_NUMBER, check_schedule_name, check_whole, choose
from penstock.lifecycle.cron import parse_cron
from penstock.lifecycle.overlap import Overlap
from penstock.store import schedules as rows
from penstock.store.session import Row, Session


def checked(schedule: Schedule) -> Schedule:
    """Return *schedule* as it is stored; raise unless it could ever fire."""
    check_schedule_name(schedule.name)
    parse_cron(schedule.expression, schedule.timezone)
    job = structs.replace(schedule.job, tenant=schedule.tenant)
    check(job)
    for field in ("id", "due", "expires"):
        if getattr(job, field) is not None:
            raise InvalidJobError(field, "is each job's own; a schedule enqueues many")
    if schedule.ttl is not None:
        check_whole("ttl", schedule.ttl, 1, MAX_NUMBER)
    json_object(job.meta)
    check_text("meta", schedule.meta)
    json_object(schedule.meta)
    return structs.replace(schedule, job=job, overlap=choose("overlap", Overlap, schedule.overlap))


def put(board: Board, schedule: Schedule) -> Schedule:
    """Add a `checked` schedule, or replace the one of its name."""
    before = _held(board, schedule.tenant, schedule.name)
    if not schedule.enabled:
        next_at = None
    elif before is not None and before.enabled and _when(before) == _when(schedule):
        next_at = before.next_at  # its moment may just have come
    else:
        next_at = _next(board, schedule)
    rows.put(board.db, _row(structs.replace(schedule, created=board.now, next_at=next_at)))
    return get(board.db, schedule.name, schedule.tenant)


def get(db: Session, name: str, tenant: str) -> Schedule:
    """Return one schedule."""
    row = rows.of(db, tenant, name)
    if row is None:
        raise NotFoundError("schedule", name)
    return schedule_of(row)


def page(db: Session, tenant: str | None, offset: int, limit: int) -> tuple[list[Schedule], int]:
    """Return schedules by name, of one tenant or of all, and how many there are."""
    return [schedule_of(row) for row in rows.page(db, tenant, offset, limit)], rows.total(db, tenant)


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


def schedule_of(row: Row) -> Schedule:
    """Return a schedule from its row."""
    tenant, name, expression, timezone, overlap, enabled, job, *rest = row
    template = msgspec.json.decode(job, type=NewJob)
    return Schedule(name, expression, template, timezone, tenant, Overlap(overlap), bool(enabled), *rest)


def json_object(meta: str) -> dict[str, object]:
    """Return the object that JSON text *meta* holds."""
    try:
        return msgspec.json.decode(meta, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise InvalidJobError("meta", f"must be a JSON object: {error}") from None


def _next(board: Board, schedule: Schedule) -> int:
    next_at = parse_cron(schedule.expression, schedule.timezone).next_after(board.now)
    if next_at is None:
        raise InvalidJobError("expression", f"{schedule.expression!r} never comes")
    return next_at


def _when(schedule: Schedule) -> tuple[str, str]:
    return schedule.expression, schedule.timezone


def _held(board: Board, tenant: str, name: str) -> Schedule | None:
    row = rows.held(board.db, tenant, name)
    return None if row is None else schedule_of(row)


def _row(s: Schedule) -> Row:
    return (
        s.tenant, s.name, s.expression, s.timezone, s.overlap.value, int(s.enabled),
        msgspec.json.encode(s.job).decode(), s.ttl, s.meta, s.created, s.next_at, None, None, 0,
    )  # fmt: skip
