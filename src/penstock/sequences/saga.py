"""Sagas: actions in order, and if one fails, what undoes those before it, in reverse."""

from penstock.job import EntryState
from penstock.sequences.blocks import Saga
from penstock.sequences.memory import At, CompositeAt, Outcome
from penstock.sequences.run import Frame, Run
from penstock.sequences.values import from_json, to_json


def after_saga(run: Run, where: CompositeAt, saga: Saga, outcome: Outcome) -> None:
    """Go on after an action, or after what undid one: actions are the even branches."""
    frame = run.frame(where.at.key)
    if where.branch % 2:
        _after_undoing(run, where, saga, frame, outcome)
    elif not outcome.is_good:
        _undo(run, where, saga, {"error": outcome.error, "left": []}, where.branch - 1)
    elif where.branch + 2 < len(saga.branches):
        _begin(run, where, frame, where.branch + 2)
    else:
        run.conclude(where.at, Outcome(EntryState.DONE, to_json({"steps": len(saga.names)})))


def _after_undoing(run: Run, where: CompositeAt, saga: Saga, frame: Frame, outcome: Outcome) -> None:
    left = frame["left"]
    if not outcome.is_good and isinstance(left, list):
        # The others are undone all the same.
        frame = {**frame, "left": [*left, saga.names[where.branch // 2]]}
    _undo(run, where, saga, frame, where.branch - 2)


def _undo(run: Run, where: CompositeAt, saga: Saga, frame: Frame, branch: int) -> None:
    """Undo the action before this one, and then those before it; one that was skipped has done nothing."""
    while branch > 0 and _was_skipped(run, where, saga, branch):
        branch -= 2
    if branch > 0:
        _begin(run, where, frame, branch)
    else:
        run.conclude(where.at, Outcome(EntryState.FAILED, error=_told(frame)))


def _was_skipped(run: Run, where: CompositeAt, saga: Saga, branch: int) -> bool:
    action = At(saga.branches[branch - 1][0], where.at.prefix)
    entry = run.entry(action.key)
    return not saga.branches[branch] or (entry is not None and entry.state is EntryState.SKIPPED)


def _begin(run: Run, where: CompositeAt, frame: Frame, branch: int) -> None:
    run.save_frame(where.at.key, {**frame, "branch": branch})
    run.enter_branch(where._replace(branch=branch))


def _told(frame: Frame) -> str:
    """Return the error of the action, and which actions could not be undone."""
    error, left = from_json(str(frame["error"])), frame["left"]
    if not left or not isinstance(error, dict) or not isinstance(left, list):
        return str(frame["error"])
    return to_json({**error, "message": f"{error.get('message')}; not undone: {', '.join(left)}"})
