"""What became of the attempts at a job: a bounded number is kept for each, as long as the job is.

An attempt is one run of a handler: one that was handed back before it began leaves nothing.  An attempt that ended
done is kept with the job's end; every other end has a row of its own, written in the transaction that settles it.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from penstock.engine.lookup import row_of
from penstock.engine.transactions import Transactions
from penstock.engine.wording import gate_title
from penstock.job import Failure, PastAttempt
from penstock.lifecycle.outcomes import Ending
from penstock.limits.spec import limits_from_json
from penstock.store import history as history_rows
from penstock.store.attempts import gates_from_text
from penstock.store.history import EndedAttempt
from penstock.store.session import Session
from penstock.store.views import JobViewRow

KEPT: Final = 100  # attempts of one job that have a row; the oldest are forgotten
_GONE: Final = "a limit that is gone"


class HistoryVerbs(Transactions):
    def history(self, job_id: str, tenant: str | None = None) -> list[PastAttempt]:
        """Return the attempts at a job, the first one first and the one that runs last.

        The oldest of many are forgotten: the first number, less one, says how many.
        """
        return self.store.read(lambda db: _history(db, row_of(db, job_id, tenant)))

    def failures(self, job_id: str, tenant: str | None = None) -> list[Failure]:
        """Return the attempts of a job that left an error, the first one first."""

        def work(db: Session) -> list[Failure]:
            rows = history_rows.failures(db, row_of(db, job_id, tenant).seq)
            return [_failure(attempt, at, json.loads(error)) for attempt, at, error in rows]

        return self.store.read(work)


def record(db: Session, ended: Sequence[EndedAttempt]) -> None:
    """Keep attempts that ended, each under the next number of its job, and forget the oldest of too many."""
    if not ended:
        return
    last = history_rows.numbers(db, [row.seq for row in ended])
    rows = []
    for row in ended:
        last[row.seq] = number = last.get(row.seq, 0) + 1
        rows.append(row._replace(number=number))
    history_rows.add(db, rows)
    history_rows.forget(db, [(row.seq, row.number - KEPT) for row in rows if row.number > KEPT])


def _history(db: Session, job: JobViewRow) -> list[PastAttempt]:
    rows, last = history_rows.of(db, job.seq), history_rows.last(db, job.seq)
    result = None if last is None else last.result
    if last is not None:
        outcome = Ending.RUNNING if last.state is None else Ending.DONE
        number = rows[-1].number + 1 if rows else 1
        rows.append(
            EndedAttempt(
                job.seq, number, last.attempt, outcome, last.started, last.began, last.ended, last.worker or "",
                last.gates or "", last.behind, "", None,
            )
        )  # fmt: skip
    names = _gate_names(db, job, rows)
    return [
        PastAttempt(
            row.number, row.attempt, Ending(row.outcome), row.started, row.began, row.ended, row.worker,
            tuple(names[gate] for gate in gates_from_text(row.gates)),
            "" if row.behind is None else names.get(row.behind, _GONE), row.reason,
            result if row.outcome == Ending.DONE else None, json.loads(row.error) if row.error else None, row.retried,
        )
        for row in rows
    ]  # fmt: skip


def _gate_names(db: Session, job: JobViewRow, rows: Sequence[EndedAttempt]) -> dict[int, str]:
    """Return the names of the gates that attempts held; one that is gone was that of a key of the job, or of none."""
    held = {row.gates: gates_from_text(row.gates) for row in rows}
    found = history_rows.gate_names(db, sorted({gate for gates in held.values() for gate in gates}))
    names = {gate: gate_title(kind, name) for gate, (kind, name) in found.items()}
    # The gates of its own limits come first, in their order.
    keys = [limit.key for limit in limits_from_json(job.limits)] if job.limits else []
    for gates in held.values():
        for place, gate in enumerate(gates):
            names.setdefault(gate, keys[place] if place < len(keys) else _GONE)
    return names


def _failure(attempt: int, at: int, error: dict[str, Any]) -> Failure:
    kind, message, traceback, details = (
        error.get(n, "") for n in ("kind", "message", "traceback", "details")
    )
    return Failure(attempt, at, kind, message, traceback, details, error.get("delay"))
