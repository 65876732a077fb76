"""Sequences of blocks, written in JSON: read, and conducted.  Pure: no clock, no store, no chance."""

from penstock.sequences.blocks import Sequence, Step, Wait
from penstock.sequences.conductor import begin, cancel, conduct
from penstock.sequences.memory import Ended, Memory, block_id
from penstock.sequences.parse import parse
from penstock.sequences.retry import forgotten, resume

__all__ = [
    "Ended",
    "Memory",
    "Sequence",
    "Step",
    "Wait",
    "begin",
    "block_id",
    "cancel",
    "conduct",
    "forgotten",
    "parse",
    "resume",
]
