"""Replay the body of a workflow over what its instance remembers, by hand: no event loop, no thread, no clock."""

from penstock.replay.awaited import Awaited
from penstock.replay.combined import Winner, first, gather
from penstock.replay.driver import Ended, Raised, Returned, replay
from penstock.replay.recorder import MOST_STEPS
from penstock.replay.restart import Restart
from penstock.replay.steps import MOST_NOTE, Step, ask, note, signal, sleep

__all__ = [
    "MOST_NOTE",
    "MOST_STEPS",
    "Awaited",
    "Ended",
    "Raised",
    "Restart",
    "Returned",
    "Step",
    "Winner",
    "ask",
    "first",
    "gather",
    "note",
    "replay",
    "signal",
    "sleep",
]
