"""Retry an instance that has ended: what it forgets, and where it goes on.

It goes on at the block of the sequence's own list that failed.  A composite is begun again from its first block.
"""

from collections.abc import Mapping

from penstock.job import Command, EntryState
from penstock.sequences.blocks import Root, Sequence
from penstock.sequences.conductor import moved
from penstock.sequences.memory import At, CompositeAt, Memory, Outcome, block_id
from penstock.sequences.parse import ROOT
from penstock.sequences.run import Over, Run
from penstock.sequences.stopping import first_open

_GOOD = {EntryState.DONE, EntryState.SKIPPED}


def forgotten(sequence: Sequence, states: Mapping[str, EntryState]) -> list[str]:
    """Return the keys to forget, given the states of all: those of the block that failed, and of what followed.

    What steps have stored for the instance, it keeps.
    """
    own = sequence.root.branches[0]
    failed = next((block.id for block in own if states.get(block.id) not in _GOOD), None)
    kept = {block.id for block in own} - {failed}
    return [key for key in states if key == ROOT or _top(sequence, block_id(key)) not in {*kept, None}]


def resume(sequence: Sequence, memory: Memory) -> list[Command]:
    """Return what an instance does first that remembers the blocks which were done."""
    run = Run(sequence, memory)
    block = first_open(run, sequence.root.branches[0], "")
    if block is not None:
        run.enter(At(block))
    else:
        where = CompositeAt(At(sequence.root), sequence.root, 0, 0, 0)
        run.moves.append(Over(where, Outcome(EntryState.DONE)))
    return moved(run)


def _top(sequence: Sequence, id_: str) -> str | None:
    """Return the outermost block around one, or itself; None if there is no block of that id."""
    if id_ not in sequence.places:
        return None
    while not isinstance(parent := sequence.places[id_].parent, Root):
        id_ = parent.id
    return id_
