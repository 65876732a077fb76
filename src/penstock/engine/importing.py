"""Bring in jobs from elsewhere, with the attempts that they made there.

A job that has not ended is enqueued like any other: it passes its gates when it starts, and the attempts that it made
count as if they had been made here.  One that has ended is written down and never runs, unless it is retried by hand.
"""

import json
from collections.abc import Sequence
from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.enqueue import check as check_job
from penstock.engine.enqueue import check_text, enqueue, job_row, replaces, reserve
from penstock.engine.history import KEPT
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidJobError
from penstock.job import Enqueued, ImportedAttempt, ImportedJob
from penstock.lifecycle.checks import MAX_NUMBER, check_whole
from penstock.lifecycle.outcomes import Ending
from penstock.lifecycle.states import ENDED, State
from penstock.limits.spec import limits_to_json
from penstock.store import history as history_rows
from penstock.store import jobs as job_rows
from penstock.store.history import EndedAttempt
from penstock.store.jobs import DoneRow, EndedRow, Made
from penstock.store.session import JobRow

MOST_ATTEMPTS: Final = 10_000
_FREE: Final = frozenset({Ending.HANDED_BACK, Ending.LIMITED})  # after which the next has the same number


class ImportVerbs(Transactions):
    def import_jobs(self, jobs: Sequence[ImportedJob]) -> list[Enqueued]:
        """Bring in jobs, all or none, each under its own id, with the attempts that it made elsewhere."""
        for job in jobs:
            check(job)
        if not jobs:
            return []
        return self._write(lambda board: _import(board, jobs))


def check(imported: ImportedJob) -> None:
    """Raise unless this job can be brought in."""
    job, attempts = imported.job, imported.attempts
    check_job(job)
    if job.id is None:
        raise InvalidJobError("id", "a job that is brought in has one, so that none is brought in twice")
    if imported.state is not None and imported.state not in ENDED:
        raise InvalidJobError(
            "state", f"{imported.state} must be a state in which a job has ended, or missing"
        )
    if imported.state is not None and job.unique is not None:
        raise InvalidJobError("unique", "a job that has ended stands for no key")
    if replaces(job):
        raise InvalidJobError("unique", "a job that is brought in replaces no other")
    for name, moment in (("enqueued", imported.enqueued), ("finished", imported.finished)):
        _check_moment(name, moment)
    check_text("reason", imported.reason)
    if len(attempts) > MOST_ATTEMPTS:
        raise InvalidJobError("attempts", f"{len(attempts)} are too many; at most {MOST_ATTEMPTS} are read")
    for place, attempt in enumerate(attempts):
        last = place == len(attempts) - 1 and imported.state is State.DONE
        _check_attempt(f"attempts[{place}]", attempt, last=last)


def _check_attempt(field: str, attempt: ImportedAttempt, *, last: bool) -> None:
    """Raise unless an attempt may have ended so; the *last* one of a job that is done may be done."""
    if attempt.outcome is Ending.RUNNING or (attempt.outcome is Ending.DONE and not last):
        raise InvalidJobError(
            f"{field}.outcome", f"{attempt.outcome}: only the last of a job that is done is"
        )
    moments = {"started": attempt.started, "began": attempt.began, "ended": attempt.ended}
    for name, moment in (moments | {"retried": attempt.retried}).items():
        _check_moment(f"{field}.{name}", moment)
    known = [moment for moment in moments.values() if moment is not None]
    if known != sorted(known):
        raise InvalidJobError(field, "must have started before it began, and begun before it ended")
    texts = {"worker": attempt.worker, "reason": attempt.reason, "result": attempt.result or ""}
    for name, text in (
        texts | {f"error.{name}": text for name, text in (attempt.error or {}).items()}
    ).items():
        check_text(f"{field}.{name}", text)


def _check_moment(field: str, moment: int | None) -> None:
    if moment is not None:
        check_whole(field, moment, 0, MAX_NUMBER)


def _import(board: Board, jobs: Sequence[ImportedJob]) -> list[Enqueued]:
    live = [imported for imported in jobs if imported.state is None]
    added = iter(enqueue(board, [imported.job for imported in live]) if live else [])
    board.flush()
    board.db.send_last()
    ended = [imported for imported in jobs if imported.state is not None]
    reserve(board, [imported.job for imported in ended])
    written = iter(_write_ended(board, ended))
    answers = [next(added if imported.state is None else written) for imported in jobs]
    for imported, answer in zip(jobs, answers, strict=True):
        if imported.state is None and not answer.reused:
            _give_past(board, imported)
    return answers


def _give_past(board: Board, imported: ImportedJob) -> None:
    """Write down what a job that was just enqueued has been through."""
    (seq, _), *_ = job_rows.of_id(board.db, imported.job.id or "", imported.job.tenant)
    rows, made = _past(seq, imported)
    history_rows.add(board.db, rows)
    found = job_rows.place(board.db, seq)
    # One that a limit dropped at once has ended.
    job_rows.set_made(board.db, "done" if found is None else found.table, made, seq)
    if imported.enqueued is not None:
        job_rows.set_enqueued(board.db, seq, imported.enqueued)


def _write_ended(board: Board, ended: Sequence[ImportedJob]) -> list[Enqueued]:
    jobs, ends, done, past = list[JobRow](), list[EndedRow](), list[DoneRow](), list[EndedAttempt]()
    for seq, imported in zip(board.db.numbers(len(ended)), ended, strict=True):
        job, id_ = imported.job, imported.job.id or ""
        enqueued = board.now if imported.enqueued is None else imported.enqueued
        jobs.append(job_row(job, seq, id_, enqueued, limits_to_json(job.limits) if job.limits else ""))
        rows, made = _past(seq, imported)
        past += rows
        last = imported.attempts[-1] if imported.attempts else None
        finished = imported.finished or (board.now if last is None else last.ended)
        if last is not None and last.outcome is Ending.DONE:
            done.append(
                (
                    seq,
                    finished,
                    last.started,
                    made[0],
                    last.result,
                    made[1],
                    last.began,
                    last.worker,
                    "",
                    None,
                )
            )
        else:
            ends.append(_end(seq, imported, finished, made))
    if ended:
        job_rows.add(board.db, jobs)
        job_rows.end(board.db, ends, done)
        history_rows.add(board.db, past)
    return [Enqueued(imported.job.id or "", at=board.now) for imported in ended]


def _end(seq: int, imported: ImportedJob, finished: int, made: Made) -> EndedRow:
    last = imported.attempts[-1] if imported.attempts else None
    state = imported.state or State.DONE
    if last is None:
        return job_rows.unstarted(seq, state, finished, made, imported.reason)
    return (seq, state.value, finished, last.started, made[0], None, _error(last), imported.reason, made[1])


def _past(seq: int, imported: ImportedJob) -> tuple[list[EndedAttempt], Made]:
    """Return the attempts that have a row, the last ones of many, and how many count."""
    rows, attempt, lost = [], 0, 0
    for number, past in enumerate(imported.attempts, 1):
        if past.outcome is not Ending.DONE:
            rows.append(
                EndedAttempt(
                    seq, number, attempt + 1, past.outcome, past.started, past.began, past.ended, past.worker, "", None,
                    past.reason, _error(past), past.retried,
                )
            )  # fmt: skip
        attempt += past.outcome not in _FREE
        lost += past.outcome is Ending.LOST and not imported.job.retry.lost_counts
        if past.retried is not None:
            attempt = lost = 0
    return rows[-KEPT:], (attempt, lost)


def _error(attempt: ImportedAttempt) -> str | None:
    return None if attempt.error is None else json.dumps(attempt.error)
