"""What follows, in the same transaction, from the ends of jobs and from slots that became free."""

from penstock.engine import workflows
from penstock.engine.admission.board import Board
from penstock.engine.admission.instances import admit
from penstock.engine.conducting import Conducting
from penstock.engine.definitions import Definitions
from penstock.engine.freezing import freeze
from penstock.store import instances as rows
from penstock.store.instances import EndOf


def follow(board: Board, definitions: Definitions) -> None:
    """Move workflows and instances on, and admit the instances whose gates are open, until nothing follows."""
    while board.to_follow.is_any:
        _go_on(board, definitions)
        if board.to_follow.admissions > 0 and (admitted := admit(board)):
            conducting = Conducting(board, definitions)
            conducting.begin(admitted)
            conducting.save()


def _go_on(board: Board, definitions: Definitions) -> None:
    """Take what ended, and do what follows."""
    ended, board.to_follow.ended = board.to_follow.ended, {}
    fired, board.to_follow.fired = board.to_follow.fired, []
    returned, board.to_follow.returned = board.to_follow.returned, []
    cancelling, board.to_follow.cancelling = board.to_follow.cancelling, []
    found = rows.of_ends(board.db, list(ended)) if ended else []
    steps = [(end.of, end.step, ended[end.seq]) for end in found if end.step is not None]
    if steps:
        workflows.follow(board, steps)
    if returned and (paused := rows.paused(board.db, returned)):
        freeze(board, paused)
    jobs = [(end, ended[end.seq]) for end in found if end.key is not None]
    if jobs or fired or cancelling:
        board.db.need_gates()  # so that the ends of two steps come one after the other
        conducting = Conducting(board, definitions)
        conducting.jobs_ended(jobs)
        conducting.timers_over(fired)
        for seq, reason in cancelling:
            conducting.cancel(seq, reason)
        conducting.save()
    for end in found:
        if end.step is None and end.key is None and end.seq not in board.to_follow.finished:
            _tell_gone(board, end, ended[end.seq].state.value)


def _tell_gone(board: Board, end: EndOf, state: str) -> None:
    """Tell of an instance that ended before it was admitted."""
    if board.events.wanted:
        (row,) = rows.shown(board.db, [end.seq]).values()
        board.events.tell(
            f"instance.{state}", instance=row.id, workflow=row.workflow, tenant=row.tenant, reason=row.reason
        )
