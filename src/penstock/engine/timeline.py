"""What ran when: the attempts of a span of time, page by page.

A page looks at a bounded number of rows and keeps those that were asked for: it may be short, or empty, though more
follow.  The order is that of their ends, the latest first, so that a page costs the same in a store of any size.
"""

import re
from collections.abc import Sequence
from typing import Final

from penstock.engine.transactions import Transactions
from penstock.engine.wording import gate_title
from penstock.errors import InvalidError
from penstock.job import TIMELINE_BY, TIMELINE_MOST, TimedAttempt, TimelinePage
from penstock.lifecycle.outcomes import Ending
from penstock.limits.spec import limits_from_json
from penstock.store import history as history_rows
from penstock.store import timeline as rows
from penstock.store.attempts import gates_from_text
from penstock.store.session import Session
from penstock.store.timeline import Place, TimedJob, TimedRow

DROPPED: Final = "dropped"
_LATEST: Final = 2**63 - 1
_DELAY: Final = re.compile(r'"delay": (\d{1,18})\}$')
_RUNNING: Final = re.compile(r"r(\d{1,19})")
_ENDED: Final = re.compile(r"e(\d{1,19})\.(\d{1,19})\.(\d{1,19})")
# Ends after which a job stands in line again, whatever its policy; after a loss nearly always.
_RETURN: Final = frozenset({Ending.LIMITED.value, Ending.HANDED_BACK.value, Ending.LOST.value})
_KEEP_GATES: Final = (Ending.RUNNING, Ending.DONE)  # without a row in the history of attempts
_GONE: Final = "a limit that is gone"


class TimelineVerbs(Transactions):
    def timeline(
        self,
        since: int,
        until: int,
        *,
        by: str = "key",
        name: str = "",
        tenant: str | None = None,
        most: int = 1_000,
        cursor: str | None = None,
    ) -> TimelinePage:
        """Return the attempts that ended between *since* and *until*, and those that run if they began before.

        Only those of a key, worker, queue or task whose name begins with *name*; look at *most* at a time.
        """
        _check(since, until, by, most)
        place = _read_place(cursor, until)

        def work(db: Session) -> TimelinePage:
            found, reached, follows = _page(db, since, until, place, most)
            jobs = rows.jobs(db, sorted({row.seq for row in found})) if found else {}
            wanted = [
                (row, jobs[row.seq]) for row in found if _is_shown(row, jobs.get(row.seq), until, tenant)
            ]
            attempts = [
                attempt
                for attempt in _attempts(db, wanted)
                if not name or any(row.startswith(name) for row in attempt.rows(by))
            ]
            return TimelinePage(tuple(attempts), reached, follows)

        return self.store.read(work)


def _check(since: int, until: int, by: str, most: int) -> None:
    if by not in TIMELINE_BY:
        raise InvalidError("by", f"{by[:40]!r} must be one of: {', '.join(TIMELINE_BY)}")
    if not 0 <= since <= until <= _LATEST:
        raise InvalidError("since", f"{since} must be a moment before {until}")
    if not 1 <= most <= TIMELINE_MOST:
        raise InvalidError("most", f"{most} must be a whole number from 1 to {TIMELINE_MOST}")


def _read_place(cursor: str | None, until: int) -> int | Place:
    """Return the place from which a page goes on: a job that runs, or an attempt that ended."""
    if cursor is None:
        return _LATEST
    if found := _RUNNING.fullmatch(cursor):
        place: int | Place = int(found[1])
        numbers: Sequence[int] = (int(found[1]),)
    elif found := _ENDED.fullmatch(cursor):
        numbers = tuple(map(int, found.groups()))
        place = Place(min(numbers[0], until), *numbers[1:])
    else:
        raise InvalidError("cursor", f"{cursor[:40]!r} is not the cursor of a timeline")
    if max(numbers) > _LATEST:
        raise InvalidError("cursor", f"{cursor[:40]!r} is not the cursor of a timeline")
    return place


def _page(
    db: Session, since: int, until: int, place: int | Place, most: int
) -> tuple[list[TimedRow], int, str | None]:
    """Return the next rows, down to which moment none is missing, and the cursor of those that follow."""
    found: list[TimedRow] = []
    if isinstance(place, int):
        found = rows.running(db, place, most)
        if len(found) == most:
            return found, until, f"r{found[-1].seq}"
        place = Place(until, _LATEST, _LATEST)
    left = most - len(found)
    ended = [*rows.done(db, since, place, left), *rows.ended(db, since, place, left)]
    ended.sort(key=_order, reverse=True)
    found += ended[:left]
    if len(ended) < left:
        return found, since, None
    last = _order(ended[left - 1])
    return found, last.ended, "e" + ".".join(map(str, last))


def _order(row: TimedRow) -> Place:
    return Place(row.ended or 0, row.seq, row.number)


def _is_shown(row: TimedRow, job: TimedJob | None, until: int, tenant: str | None) -> bool:
    """Tell whether a row is an attempt, a job that was dropped, or an instance, that was asked for."""
    if job is None or tenant not in (None, job.tenant):
        return False
    if row.number == rows.AFTER_ALL and row.state not in _KEEP_GATES:
        if row.started is None:
            return row.state == "discarded"
        return not job.queue  # of jobs the attempt has a row of its own
    return row.ended is not None or (row.started or 0) <= until


def _attempts(db: Session, found: Sequence[tuple[TimedRow, TimedJob]]) -> list[TimedAttempt]:
    gates = {gate for row, _ in found for gate in gates_from_text(row.gates or "")}
    gates |= {row.behind for row, _ in found if row.behind is not None}
    names = history_rows.gate_names(db, sorted(gates)) if gates else {}
    lost = [row.seq for row, _ in found if _has_lost_keys(row, names)]
    limits = {seq: _keys(text) for seq, text in rows.limits(db, lost)} if lost else {}
    return [_attempt(row, job, names, limits.get(row.seq)) for row, job in found]


def _has_lost_keys(row: TimedRow, names: dict[int, tuple[str, str]]) -> bool:
    """Tell whether only the job's limits still say which keys it had.

    It never began, it is an instance that did not end well, or its gates are gone.
    """
    if row.started is None or (row.number == rows.AFTER_ALL and row.state not in _KEEP_GATES):
        return True
    return any(gate not in names for gate in gates_from_text(row.gates or ""))


def _keys(limits: str) -> tuple[str, ...]:
    return tuple(limit.key for limit in limits_from_json(limits)) if limits else ()


def _attempt(
    row: TimedRow, job: TimedJob, names: dict[int, tuple[str, str]], keys: tuple[str, ...] | None
) -> TimedAttempt:
    if keys is None:
        held = (names[gate] for gate in gates_from_text(row.gates or ""))
        keys = tuple(name for kind, name in held if kind == "key")
    behind = "" if row.behind is None else _title(names.get(row.behind))
    dropped = row.number == rows.AFTER_ALL and row.state == "discarded"
    return TimedAttempt(
        row.seq,
        (row.earlier or 0) + 1 if row.number == rows.AFTER_ALL else row.number,
        job.id,
        job.tenant,
        job.queue,
        job.task,
        DROPPED if dropped else row.state,
        _could_run(row, job),
        row.started,
        row.began,
        row.ended,
        row.worker or "",
        keys,
        behind,
        returns=row.state in _RETURN or _delay(row.error) is not None,
    )


def _title(gate: tuple[str, str] | None) -> str:
    return _GONE if gate is None else gate_title(*gate)


def _could_run(row: TimedRow, job: TimedJob) -> int:
    """Return when the job could first make this attempt: once it came, or once it was to be tried again."""
    first = (
        job.enqueued if row.earlier_ended is None else row.earlier_ended + (_delay(row.earlier_error) or 0)
    )
    first = max(first, row.retried or 0)
    ended = row.ended if row.started is None else row.started
    return first if ended is None else min(first, ended)


def _delay(error: str | None) -> int | None:
    found = _DELAY.search(error or "")
    return None if found is None else int(found[1])
