"""What follows when an instance of a sequence begins, or when something of it ends?

Pure: the same memo and the same end give the same commands.  What an end costs grows with how deep its block stands,
not with how much has ended before: a block's place in its branch is known from the sequence, and only composites
remember something, in a frame under their key.
"""

from typing import Final

from penstock.job import Child, Command, EntryState, NewInstance, Timer
from penstock.sequences.blocks import Loop, Root, Sequence, Step, SubSequence
from penstock.sequences.composites import ON_CANCEL, begin_composite, branch_ended, cancelled, polled, stopped
from penstock.sequences.handlers import ParamError, failed_with, failure, params_text
from penstock.sequences.memory import At, CompositeAt, Ended, Memory, Outcome, inside, split_key
from penstock.sequences.run import STOPPING, Enter, Leave, Run
from penstock.sequences.scope import Scope
from penstock.sequences.steps import begin_step, step_ended
from penstock.sequences.stopping import stop_branches
from penstock.sequences.values import MOST_STEPS, BlockError, to_json

MOST_BEGUN: Final = 512  # blocks in one call; the rest follows a timer, so that no transaction is long
MAX_CHILD_DEPTH: Final = 16
VERSION: Final = "penstock.sequence"  # in the meta of a child: which version of the sequence it names


def begin(sequence: Sequence, memory: Memory) -> list[Command]:
    """Return what an instance does first."""
    run = Run(sequence, memory)
    begin_composite(run, At(sequence.root), sequence.root)
    return moved(run)


def conduct(sequence: Sequence, memory: Memory, ended: Ended) -> list[Command]:
    """Return what follows from the end of a job, a timer, a wait or a child."""
    run = Run(sequence, memory)
    prefix, block_id, suffix = split_key(ended.key)
    at = At(sequence.blocks[block_id], prefix)
    where = run.around(at)
    if not _is_awaited(run, where, at):
        return []
    run.ended(ended)
    match at.block:
        case _ if suffix == "next":
            run.enter(at)
        case Step() as step:
            step_ended(run, at, step, suffix, ended)
        case Loop() as loop if suffix:
            if run.is_live(at.key):
                polled(run, at, loop, int(suffix.partition(".")[2]))
        case _:
            _child_ended(run, at, ended)
    return moved(run)


def cancel(sequence: Sequence, memory: Memory) -> list[Command]:
    """Return what ends an instance: cancels, and its end unless something must come to its own end first.

    There is nothing to do for one that is being cancelled already.
    """
    run = Run(sequence, memory)
    where = CompositeAt(At(sequence.root), sequence.root, 0, 0, 0)
    frame = run.frame(where.at.key)
    if STOPPING in frame or frame.get("branch") == ON_CANCEL:
        return []
    still = stop_branches(run, where.at, sequence.root, frame)
    if still:
        run.save_frame(where.at.key, {**frame, STOPPING: still})
    else:
        cancelled(run, where)
    return moved(run)


def moved(run: Run) -> list[Command]:
    """Make all moves that follow from each other; return what they came to."""
    begun = 0
    while run.moves:
        match run.moves.popleft():
            case Enter(at):
                begun += 1
                _enter(run, at, begun)
            case Leave(at, outcome):
                _leave(run, at, outcome)
            case over:
                if _is_open(run, over.where):
                    branch_ended(run, over.where, over.outcome)
    return run.commands()


def _enter(run: Run, at: At, begun: int) -> None:
    where = run.around(at)
    if not _is_open(run, where):
        return
    if begun > MOST_BEGUN or run.effort.total > MOST_STEPS:
        run.act(Timer(f"{at.key}@next", after=0))
        return
    match at.block:
        case Step() as step:
            begin_step(run, at, step)
        case SubSequence() as block:
            _begin_child(run, at, block)
        case block:
            begin_composite(run, at, block)


def _leave(run: Run, at: At, outcome: Outcome) -> None:
    where = run.around(at)
    # What was moved before this one may have ended all that is around it.
    if not _is_awaited(run, where, at):
        return
    stopping = run.frame(where.at.key).get(STOPPING)
    if isinstance(stopping, list):
        stopped(run, where, [key for key in stopping if key != at.key])
        return
    branch = where.block.branches[where.branch]
    if outcome.is_good and where.position + 1 < len(branch):
        run.enter(At(branch[where.position + 1], inside(where.at, where.iteration)))
    else:
        branch_ended(run, where, outcome)


def _is_open(run: Run, where: CompositeAt) -> bool:
    """Tell whether blocks may still begin in a composite: it has not ended, and is not about to."""
    return _is_live(run, where) and STOPPING not in run.frame(where.at.key)


def _is_awaited(run: Run, where: CompositeAt, at: At) -> bool:
    """Tell whether a composite goes on with the end of a block inside it."""
    return _is_live(run, where) and run.awaits(where.at.key, at.key)


def _is_live(run: Run, where: CompositeAt) -> bool:
    # The whole sequence has a frame only where it needs one.
    return isinstance(where.block, Root) or run.is_live(where.at.key)


def _begin_child(run: Run, at: At, block: SubSequence) -> None:
    context = run.context
    try:
        given = Scope(run, at).render(block.input)
        if not isinstance(given, dict):
            raise ParamError("the input does not come to an object")
        params_text(given, "input")
    except BlockError as error:
        run.conclude(at, failed_with(error))
        return
    depth = context.depth + 1
    if depth > MAX_CHILD_DEPTH:
        run.conclude(at, failure("TooDeep", f"sequences are nested deeper than {MAX_CHILD_DEPTH} levels"))
        return
    inherited = {
        "data": given,
        "config": context.section("config"),
        "runtime": {**context.section("runtime"), "depth": depth},
    }
    meta = to_json({VERSION: {"version": block.version}})
    child = NewInstance(block.name, to_json(inherited), queue="", meta=meta)
    run.act(Child(at.key, child))


def _child_ended(run: Run, at: At, ended: Ended) -> None:
    if ended.state is EntryState.DONE:
        run.leave(at, Outcome(EntryState.DONE, ended.result))
    else:
        error = ended.error or to_json({"kind": "Cancelled", "message": f"{at.block.id} was cancelled"})
        run.conclude(at, Outcome(EntryState.FAILED, error=error))
