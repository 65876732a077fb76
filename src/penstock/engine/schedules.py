"""Schedules: enqueue a job whenever the moment of a cron expression comes.

A moment and its job are one transaction, so each fires once however many processes look.  Moments that
passed while no process looked fire once together.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import structs

from penstock.clock import SECOND
from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.enqueue import check, check_text, enqueue
from penstock.engine.new_instances import add_instances
from penstock.engine.removal import ask_to_stop, remove
from penstock.engine.transactions import Transactions
from penstock.errors import ConflictError, InvalidError, InvalidJobError, NotFoundError, WrongStateError
from penstock.job import Enqueued, NewInstance, NewJob, Schedule
from penstock.lifecycle.checks import MAX_NUMBER, check_schedule_name, check_whole, choose
from penstock.lifecycle.cron import parse_cron
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers
from penstock.store import schedules as rows
from penstock.store import sequences as sequence_rows
from penstock.store.session import Locks, NamesTakenError, Session

LATER: Final = 60 * SECOND  # when to look again at a schedule that this process cannot read
SOON: Final = SECOND // 10  # when a schedule tries again whose queue or tenant is being counted


class ScheduleVerbs(Transactions):
    def set_schedule(self, schedule: Schedule) -> Schedule:
        """Add a schedule, or replace the one of its name; return it with its next moment."""
        wanted = _checked(schedule)
        return self._write(lambda board: _put(board, wanted), Locks.NONE)

    def schedules(
        self, tenant: str | None = None, offset: int = 0, limit: int = 50, *, of_sequences: bool = False
    ) -> tuple[list[Schedule], int]:
        """Return a page of schedules by name, of one tenant or of all, and how many there are.

        With *of_sequences* only those that create instances of sequences.
        """

        def work(db: Session) -> tuple[list[Schedule], int]:
            found = rows.page(db, tenant, offset, limit, of_sequences=of_sequences)
            return found, rows.total(db, tenant, of_sequences=of_sequences)

        return self.store.read(work)

    def schedule(self, name: str, tenant: str = "") -> Schedule:
        """Return one schedule."""
        return self.store.read(lambda db: _get(db, name, tenant))

    def pause_schedule(self, name: str, tenant: str = "") -> Schedule:
        """Let a schedule fire no more."""

        def work(board: Board) -> Schedule:
            before = rows.locked(board.db, tenant, name)
            rows.enable(board.db, tenant, name, None)
            if before is not None and before.enabled:
                audit.note(board, "schedule.disable", "schedule", name, tenant)
            return _get(board.db, name, tenant)

        return self._write(work, Locks.NONE)

    def resume_schedule(self, name: str, tenant: str = "") -> Schedule:
        """Let a schedule fire again, from its next moment on."""

        def work(board: Board) -> Schedule:
            schedule = rows.locked(board.db, tenant, name)
            if schedule is None:
                raise NotFoundError("schedule", name)
            if not schedule.enabled:
                rows.enable(board.db, tenant, name, _next(board, schedule))
                audit.note(board, "schedule.enable", "schedule", name, tenant)
            return _get(board.db, name, tenant)

        return self._write(work, Locks.NONE)

    def fire_schedule(self, name: str, tenant: str = "") -> str:
        """Enqueue the job of a schedule now, besides those of its moments; return the id.

        Its last job may still live: then its overlap says what becomes of that, and of this.
        """

        def work(board: Board) -> str:
            found = rows.locked(board.db, tenant, name)
            if found is None:
                raise NotFoundError("schedule", name)
            schedule = structs.replace(found, next_at=board.now)
            board.db.send_last()  # a job that has just ended may stand for a unique key
            if not _without_overlap(board, [schedule]):
                raise WrongStateError(
                    name, "to skip this: its last job lives", "one that has ended", "schedule"
                )
            (made,) = _add(board, [schedule])
            rows.fired(board.db, [(board.now, made.id, tenant, name)])
            audit.note(board, "schedule.fire", "schedule", name, tenant, after={"job": made.id})
            return made.id

        return self._write(work)

    def delete_schedule(self, name: str, tenant: str = "") -> None:
        """Delete a schedule; its jobs stay."""

        def work(board: Board) -> None:
            before = rows.locked(board.db, tenant, name)
            if not rows.delete(board.db, tenant, name):
                raise NotFoundError("schedule", name)
            audit.note(board, "schedule.delete", "schedule", name, tenant, before=_told(before))

        self._write(work, Locks.NONE)


def fire(board: Board, most: int) -> int:
    """Fire what is due; return how many were looked at."""
    due = rows.due(board.db, board.now, most)
    if due:
        # A transaction that waits for a lock must hold nothing that the lock's owner may wait for.
        board.db.need_gates()
        board.db.send_last()  # a job that has just ended may stand for a unique key
        firing = _without_overlap(board, _moved_on(board, due))
        alone = [[each] for each in firing if each.job.unique is not None or each.sequence is not None]
        together = [each for each in firing if each.job.unique is None and each.sequence is None]
        fired = [pair for group in (together, *alone) for pair in _enqueued(board, group)]
        rows.fired(board.db, [(board.now, job, s.tenant, s.name) for s, job in fired])
        board.db.keep()  # or the moment would come again if the machine loses its power
        for s, job in fired:
            facts = {
                "schedule": s.name,
                "tenant": s.tenant,
                "job": job,
                "task": s.job.task,
                "queue": s.job.queue,
            }
            board.events.tell("schedule.fired", **facts)
    return len(due)


def _moved_on(board: Board, due: Sequence[Schedule]) -> list[Schedule]:
    """Move schedules on to their next moment; return those that this process can read."""
    moved, moments = [], []
    for schedule in due:
        try:
            next_at = parse_cron(schedule.expression, schedule.timezone).next_after(board.now)
            moved.append(schedule)
        except InvalidError as error:
            # Made by a process that knows more, as a new time zone: left to such a process.
            next_at = board.now + LATER
            _skip(board, schedule, str(error))
        moments.append((next_at, schedule.tenant, schedule.name))
    rows.move_on(board.db, moments)
    return moved


def _without_overlap(board: Board, schedules: Sequence[Schedule]) -> list[Schedule]:
    """Return the schedules that may fire now; cancel the last job where the overlap says so.

    A schedule that skips has no live job but its last, since it fires only when that has ended.
    """
    minding = (Overlap.SKIP, Overlap.CANCEL_PREVIOUS)
    last = [s.last_job for s in schedules if s.last_job is not None and s.overlap in minding]
    live = rows.live(board.db, last) if last else {}
    firing = []
    for schedule in schedules:
        seq = live.get((schedule.tenant, schedule.last_job)) if schedule.last_job is not None else None
        if seq is not None and schedule.overlap is Overlap.SKIP:
            _skip(board, schedule, "its last job has not ended")
            continue
        if seq is not None and schedule.overlap is Overlap.CANCEL_PREVIOUS:
            _cancel(board, schedule, seq)
        firing.append(schedule)
    return firing


def _enqueued(board: Board, group: Sequence[Schedule]) -> list[tuple[Schedule, str]]:
    """Enqueue the jobs of schedules; return the schedules whose job was accepted, with its id."""
    if not group:
        return []
    try:
        added = _add(board, group)
    except (ConflictError, InvalidError, NotFoundError, NamesTakenError) as error:
        # Neither a claim nor another schedule may fail because of it.
        if len(group) > 1:
            return [pair for schedule in group for pair in _enqueued(board, [schedule])]
        if isinstance(error, NamesTakenError):
            # A producer is about to add to the same bounded queue, or for the same tenant, and may take long.  The
            # schedule fires a moment later: claims must not wait for a producer.
            rows.move_on(board.db, [(board.now + SOON, group[0].tenant, group[0].name)])
        else:
            _skip(board, group[0], str(error))
        return []
    return [(schedule, job.id) for schedule, job in zip(group, added, strict=True)]


def _add(board: Board, group: Sequence[Schedule]) -> list[Enqueued]:
    if group[0].sequence is None:
        return enqueue(board, [_job(board, schedule) for schedule in group])
    new = [_instance(board, schedule) for schedule in group]
    return [enqueued for _, enqueued in add_instances(board, new, [None] * len(new), enqueue)]


def _skip(board: Board, schedule: Schedule, reason: str) -> None:
    board.events.tell("schedule.skipped", schedule=schedule.name, tenant=schedule.tenant, reason=reason)


def _cancel(board: Board, schedule: Schedule, seq: int) -> None:
    reason = f"schedule {schedule.name} fired again"
    if schedule.sequence is not None:
        board.to_follow.cancelling.append((seq, reason))
    elif not remove(board, seq, State.CANCELLED, reason):
        ask_to_stop(board, seq)


def _job(board: Board, schedule: Schedule) -> NewJob:
    """Return the job of a schedule's present moment."""
    job = schedule.job
    origin = {"schedule": {"name": schedule.name, "at": schedule.next_at}}
    meta = msgspec.json.encode(_json_object(job.meta) | origin).decode()
    limits = job.limits
    if schedule.overlap is Overlap.WAIT:
        limits = (*limits, Limit(f"schedule:{schedule.name}", Numbers(slots=1)))
    expires = None if schedule.ttl is None else board.now + schedule.ttl
    return structs.replace(job, meta=meta, limits=limits, expires=expires)


def _instance(board: Board, schedule: Schedule) -> NewInstance:
    """Return the instance of a schedule's present moment."""
    job = _job(board, schedule)
    if sequence_rows.definition(board.db, schedule.sequence or 0) is None:
        raise NotFoundError("sequence", job.task)
    return NewInstance(
        job.task, job.args, sequence=schedule.sequence, queue=job.queue, tenant=job.tenant, priority=job.priority,
        limits=job.limits, meta=job.meta, expires=job.expires,
    )  # fmt: skip


def _checked(schedule: Schedule) -> Schedule:
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
    _json_object(job.meta)
    check_text("meta", schedule.meta)
    _json_object(schedule.meta)
    return structs.replace(schedule, job=job, overlap=choose("overlap", Overlap, schedule.overlap))


def _put(board: Board, schedule: Schedule) -> Schedule:
    """Add a `checked` schedule, or replace the one of its name."""
    before = rows.locked(board.db, schedule.tenant, schedule.name)
    if not schedule.enabled:
        next_at = None
    elif before is not None and before.enabled and _when(before) == _when(schedule):
        next_at = before.next_at  # its moment may just have come
    else:
        next_at = _next(board, schedule)
    new = structs.replace(schedule, created=board.now, next_at=next_at, last_at=None, last_job=None, fired=0)
    rows.put(board.db, new)
    audit.note(
        board, "schedule.put", "schedule", new.name, new.tenant, before=_told(before) or {}, after=_told(new)
    )
    return _get(board.db, schedule.name, schedule.tenant)


def _get(db: Session, name: str, tenant: str) -> Schedule:
    """Return one schedule."""
    found = rows.of(db, tenant, name)
    if found is None:
        raise NotFoundError("schedule", name)
    return found


def _json_object(meta: str) -> dict[str, object]:
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


def _told(schedule: Schedule | None) -> dict[str, object] | None:
    """Return what the audit tells of a schedule: nothing of the arguments of its jobs."""
    if schedule is None:
        return None
    return {
        "expression": schedule.expression,
        "timezone": schedule.timezone,
        "overlap": str(schedule.overlap),
        "enabled": schedule.enabled,
        "task": schedule.job.task,
        "queue": schedule.job.queue,
    }


def _when(schedule: Schedule) -> tuple[str, str]:
    return schedule.expression, schedule.timezone
