"""End what is live inside a block: the losers of a race, or all of an instance that is cancelled.

Blocks of a cancellation scope, and jobs of steps that are not cancellable, come to their end first.  Until then each
composite around them remembers which there are, and begins nothing more.
Nothing is written for this while a sequence goes on: where a branch stands is found by looking at its entries, which
are those of a first part of its blocks.
"""

from penstock.job import EntryState
from penstock.sequences.blocks import (
    AnyBlock,
    Branching,
    CancellationScope,
    Parallel,
    Race,
    Step,
    SubSequence,
)
from penstock.sequences.memory import At, Outcome, inside
from penstock.sequences.run import STOPPING, Frame, Run
from penstock.sequences.steps import end_watch, live_keys

_CANCELLED = Outcome(EntryState.CANCELLED)


def stop_branches(run: Run, at: At, block: Branching, frame: Frame) -> list[str]:
    """End what is live in the branches of a composite; return the keys of those that must come to their end first."""
    prefix = inside(at, _number(frame, "n"))
    begun = [At(current, prefix) for current in _current(run, block, frame, prefix)]
    return [current.key for current in begun if not _stop(run, current)]


def _stop(run: Run, at: At) -> bool:
    """End a block, unless it must come to its end first; tell which."""
    run.cancel(f"{at.key}@next")
    match at.block:
        case Step() as step:
            return _stop_step(run, at, step)
        case CancellationScope() if run.is_live(at.key):
            return False
        case SubSequence():
            run.cancel(at.key)
            return True
        case block:
            return _stop_composite(run, at, block)


def _stop_composite(run: Run, at: At, block: Branching) -> bool:
    frame = run.frame(at.key)
    run.cancel(f"{at.key}@poll.{_number(frame, 'n') + 1}")
    still = stop_branches(run, at, block, frame)
    if still:
        run.save_frame(at.key, {**frame, STOPPING: still})
        return False
    run.save(at.key, _CANCELLED)
    return True


def _stop_step(run: Run, at: At, step: Step) -> bool:
    if not step.cancellable and run.entry(at.key) is not None:
        return False
    live = live_keys(run, at)
    for key in live:
        run.cancel(key)
    end_watch(run, at, step)
    if at.key not in live:
        run.save(at.key, _CANCELLED)
    return True


def _current(run: Run, block: Branching, frame: Frame, prefix: str) -> list[AnyBlock]:
    """Return the blocks that have begun and not ended, one for each branch that is open."""
    if isinstance(block, Parallel | Race):
        branches = list(block.branches)
    else:
        branches = [block.branches[_number(frame, "branch")]]
    found = (first_open(run, branch, prefix) for branch in branches)
    return [current for current in found if current is not None]


def first_open(run: Run, branch: tuple[AnyBlock, ...], prefix: str) -> AnyBlock | None:
    """Return the block at which a branch stands; None if the branch has ended."""
    least, most = 0, len(branch)
    while least < most:
        middle = (least + most) // 2
        entry = run.entry(prefix + branch[middle].id)
        if entry is not None and entry.state is not EntryState.LIVE:
            least = middle + 1
        else:
            most = middle
    if least:
        last = At(branch[least - 1], prefix)
        if not run.has_ended_well(last.key):
            # Its job failed or was cancelled; a fallback, another try or what follows a deadline may be live.
            return last.block if live_keys(run, last) else None
    return branch[least] if least < len(branch) else None


def _number(frame: Frame, name: str) -> int:
    value = frame.get(name, 0)
    return value if isinstance(value, int) else 0
