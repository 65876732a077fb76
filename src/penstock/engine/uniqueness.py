"""Unique keys: which job holds a key, and why a job waits for its key."""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.clock import SECOND
from penstock.engine.admission.board import Board
from penstock.errors import DuplicateJobError
from penstock.job import JobView, NewJob, Why
from penstock.lifecycle.states import ENDED, LIVE, State
from penstock.lifecycle.unique import holds
from penstock.limits.durations import format_duration
from penstock.store import jobs as job_rows
from penstock.store import successors as successor_rows
from penstock.store import uniqueness as unique_rows
from penstock.store.uniqueness import KeyHolder


class Holder(NamedTuple):
    """A job that stands for a unique key.  If it waits for a pause in the calls, they have come *since* then."""

    seq: int
    id: str
    state: State
    since: int | None


def holder(board: Board, key: str) -> Holder | None:
    """Return the job that stands for a key now, the latest if there are several."""
    return next(_standing(board, unique_rows.holders(board.db, key)), None)


def earlier(board: Board, seq: int) -> Holder | None:
    """Return the latest live job that stands for the key of a job and came before it."""
    found = _standing(board, unique_rows.earlier(board.db, seq))
    return next((each for each in found if each.state in LIVE), None)


def _standing(board: Board, holders: Iterable[KeyHolder]) -> Iterator[Holder]:
    for job in holders:
        state = job_rows.state(board.db, job.seq)
        # The holder's own states and window count: it was told that nothing else would run while it stands.
        if state is not None and holds(unique_rows.states(job.states), job.until, state, board.now):
            yield Holder(job.seq, job.id, state, job.since)
        elif state in ENDED:
            unique_rows.forget(board.db, job.seq)


def unique_to_text(job: NewJob) -> str:
    """Write down how a job is unique, for when it is retried by hand."""
    assert job.unique is not None  # noqa: S101 - the caller looked
    unique = job.unique
    fields = [job.tenant, unique.key, sorted(unique.states), unique.window]
    return json.dumps(fields if unique.quiet is None else [*fields, unique.quiet, unique.max_wait])


def pause_of(board: Board, seq: int) -> tuple[int, int | None] | None:
    """Return the (quiet, max_wait) of a job that waits for a pause in the calls."""
    text = job_rows.unique_terms(board.db, seq)
    fields = [] if text is None else json.loads(text)
    return (fields[4], fields[5]) if len(fields) > 4 else None  # noqa: PLR2004 - tenant, key, states, window


def by_its_key(board: Board, view: JobView) -> Why | None:
    """Say why a job waits if it does so for its unique key: an earlier job runs, or calls still come."""
    if view.state not in (State.SCHEDULED, State.WAITING) or view.attempt:
        return None
    earlier = successor_rows.waits_for(board.db, view.seq) if view.state is State.WAITING else None
    pause = pause_of(board, view.seq) if earlier is not None or view.state is State.SCHEDULED else None
    parts = [] if earlier is None else [f"waits for job {earlier[0]} to end"]
    due = view.due if earlier is None else earlier[1] or None
    if pause is not None and due is not None and due > board.now:
        parts.append(_pause_in_words(board, view.seq, *pause))
    return Why(view.id, view.state, (), None, due, "; ".join(parts)) if parts else None


def _pause_in_words(board: Board, seq: int, quiet: int, max_wait: int | None) -> str:
    words = f"waits until no call has come for {format_duration(quiet)}"
    since = unique_rows.since(board.db, seq)
    if max_wait is None or since is None:
        return words
    left = -(-max(since + max_wait - board.now, 0) // SECOND) * SECOND
    most = format_duration(max_wait)
    return f"{words}, at the latest {format_duration(left)} from now: {most} after the first call"


def retake_key(board: Board, seq: int) -> None:
    """Let a job that is retried by hand stand for its key again; raise `DuplicateJobError` if another does."""
    text = job_rows.unique_terms(board.db, seq)
    if text is None:
        return
    tenant, name, states, window, *_ = json.loads(text)
    key = f"{tenant}\x1f{name}"
    board.db.lock([key])
    found = holder(board, key)
    if found is not None and found.seq != seq:
        raise DuplicateJobError(found.id)
    until = None if window is None else board.now + window
    unique_rows.take(board.db, key, seq, [State(state) for state in states], until)
