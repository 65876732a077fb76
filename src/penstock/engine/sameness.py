"""Who stands for a unique key?"""

import json

from penstock.engine.board import Board
from penstock.errors import DuplicateJobError
from penstock.job import NewJob
from penstock.lifecycle.states import ENDED, State
from penstock.lifecycle.unique import holds
from penstock.store import jobs as job_rows
from penstock.store import uniqueness as unique_rows


def holder(board: Board, key: str) -> tuple[int, str, State] | None:
    """Return (seq, id, state) of the job that stands for a key now, the latest if there are several."""
    for seq, id_, states, until in unique_rows.holders(board.db, key):
        state = job_rows.state(board.db, seq)
        # The holder's own terms count: it was told that nothing else would run while it stands.
        if state is not None and holds(unique_rows.states(states), until, state, board.now):
            return seq, id_, state
        if state in ENDED:
            unique_rows.forget(board.db, key, seq)
    return None


def terms_to_text(job: NewJob) -> str:
    """Write the terms of a unique job down, for when it is run again by hand."""
    assert job.unique is not None  # noqa: S101 - the caller looked
    return json.dumps([job.tenant, job.unique.key, sorted(job.unique.states), job.unique.window])


def stand_again(board: Board, seq: int) -> None:
    """Let a job that is run again stand for its key again; raise if another does."""
    text = job_rows.unique_terms(board.db, seq)
    if text is None:
        return
    tenant, name, states, window = json.loads(text)
    key = f"{tenant}\x1f{name}"
    board.db.lock([key])
    found = holder(board, key)
    if found is not None and found[0] != seq:
        raise DuplicateJobError(found[1])
    until = None if window is None else board.now + window
    unique_rows.take(board.db, key, seq, [State(state) for state in states], until)
