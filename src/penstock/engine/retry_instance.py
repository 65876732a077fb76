"""Retry an instance that has ended: it arrives like any other, remembers what was done, and forgets what failed."""

import msgspec

from penstock.engine.admission.arrivals import rejoin
from penstock.engine.admission.board import Board
from penstock.engine.definitions import Definitions
from penstock.engine.instance_run import Ending
from penstock.engine.uniqueness import retake_key
from penstock.errors import NotFoundError
from penstock.job import LEFT_BEHIND, EntryState
from penstock.lifecycle.states import State
from penstock.store import instances as rows
from penstock.store import jobs as job_rows
from penstock.store.instances import ShownInstance, StepRow


def retry(board: Board, definitions: Definitions, found: ShownInstance) -> None:
    """Let an ended instance arrive again."""
    retake_key(board, found.seq)
    if not job_rows.revive(board.db, found.seq):
        raise NotFoundError("instance", found.id)
    steps = rows.steps(board.db, found.seq)
    if found.sequence is None:
        _forget_failed(board, found, steps)
    else:
        states = {step.key: EntryState(step.state) for step in steps}
        sequence = definitions.of(board.db, found.sequence)
        forgotten = definitions.conductor.forgotten(sequence, states)
        rows.forget_steps(board.db, [(found.seq, key) for key in forgotten])
    rows.begin_again(board.db, found.seq)
    rejoin(board, [(found.seq, None, 0, 0)])
    board.events.tell("instance.retried", instance=found.id, workflow=found.workflow, tenant=found.tenant)


def _forget_failed(board: Board, found: ShownInstance, steps: list[StepRow]) -> None:
    """Forget what ended without success since the end was decided, and the step that failed last if it did fail.

    What began after that step failed may be what its failure led to.  It is kept, and begins no second time; but the
    body need not come by it.
    """
    decided = found.ended or 0
    if found.ending is not None:
        decided = msgspec.json.decode(found.ending, type=Ending).at
    forgotten = [
        step
        for step in steps
        if step.state in (EntryState.FAILED, EntryState.CANCELLED) and (step.ended or 0) >= decided
    ]
    if found.state != State.CANCELLED:
        failed = [step for step in steps if step.state == EntryState.FAILED]
        last = max((step.ended or 0 for step in failed), default=0)
        forgotten += [step for step in failed if step.ended == last]
    rows.forget_steps(board.db, {(found.seq, step.key) for step in forgotten})
    if forgotten:
        rows.mark_steps(board.db, found.seq, min(step.ended or 0 for step in forgotten), LEFT_BEHIND)
