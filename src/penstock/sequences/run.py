"""One call of the conductor: what it has read, what it has decided, and the moves that are still to be made.

Moves wait in a list instead of calling each other, so a sequence of any length needs no more stack than a short one.
Commands for one key replace each other, so nothing is started only to be cancelled by the same list.
"""

from collections import deque
from typing import Final, NamedTuple

from penstock.job import (
    Await,
    Cancel,
    Child,
    Command,
    Entry,
    EntryState,
    Finish,
    Save,
    SetContext,
    Start,
    Timer,
)
from penstock.lifecycle.states import State
from penstock.sequences.blocks import Sequence
from penstock.sequences.context import Context
from penstock.sequences.memory import GOOD, At, CompositeAt, Ended, Memory, Outcome, around, inside
from penstock.sequences.values import Effort, TemplateError, from_json, reading_steps, to_json

Frame = dict[str, object]
Act = Start | Timer | Await | Child
STOPPING: Final = "stopping"  # in a frame: the keys of those inside that must still come to their end


class Enter(NamedTuple):
    """Begin a block."""

    at: At


class Leave(NamedTuple):
    """A block ended."""

    at: At
    outcome: Outcome


class Over(NamedTuple):
    """A branch of a composite ended."""

    where: CompositeAt
    outcome: Outcome


class Run:
    """What one call of the conductor knows and decides."""

    def __init__(self, sequence: Sequence, memory: Memory) -> None:
        self.sequence = sequence
        self.memory = memory
        self.moves: deque[Enter | Leave | Over] = deque()
        self._seen: dict[str, Entry | None] = {}
        self._saved: dict[str, Entry] = {}
        self._acts: dict[str, Act] = {}
        self._cancelled: list[str] = []
        self._context: Context | None = None
        self._context_changed = False
        self._around: dict[At, CompositeAt] = {}
        self._finish: Finish | None = None
        self._decoded: dict[str, tuple[str | None, object]] = {}
        self.effort = Effort()

    @property
    def context(self) -> Context:
        """The context, read only where it is needed."""
        if self._context is None:
            self._context = Context(self.memory.context)
        return self._context

    def commands(self) -> list[Command]:
        """Return what was decided, in an order in which it can be done.

        Cancels come first, since how a step ended counts more than that its job was cancelled for it.
        """
        commands: list[Command] = [Cancel(key) for key in self._cancelled]
        commands += [Save(entry) for entry in self._saved.values()]
        if self._context_changed:
            commands.append(SetContext(to_json(self.context.sections)))
        commands += self._acts.values()
        if self._finish is not None:
            commands.append(self._finish)
        return commands

    def entry(self, key: str) -> Entry | None:
        """Return what is remembered of *key*, by the instance or by this call."""
        if key not in self._seen:
            self._seen[key] = self.memory.entry(key)
        return self._seen[key]

    def ended(self, ended: Ended) -> None:
        """Take note of what the instance remembers, or is about to, of something that ended."""
        self._seen[ended.key] = Entry(ended.key, ended.state, ended.result, ended.error)

    def is_live(self, key: str) -> bool:
        entry = self.entry(key)
        return entry is not None and entry.state is EntryState.LIVE

    def has_ended_well(self, key: str) -> bool:
        entry = self.entry(key)
        return entry is not None and entry.state in GOOD

    def result(self, key: str) -> object:
        """Return the result at *key*, which is read once."""
        entry = self.entry(key)
        text = None if entry is None else entry.result
        known = self._decoded.get(key)
        if known is None or known[0] is not text:
            self.effort.take(reading_steps(text), TemplateError)
            known = self._decoded[key] = (text, from_json(text))
        return known[1]

    def frame(self, key: str) -> Frame:
        """Return the counters at *key*; empty if there are none."""
        entry = self.entry(key)
        frame = from_json(entry.frame) if entry is not None else None
        return frame if isinstance(frame, dict) else {}

    def awaits(self, key: str, inside: str) -> bool:
        """Tell whether the composite at *key* goes on with the end of what is *inside*.

        One that is being cancelled does so only for those that had to come to their end.
        """
        stopping = self.frame(key).get(STOPPING)
        return not isinstance(stopping, list) or inside in stopping

    def save(self, key: str, outcome: Outcome, frame: Frame | None = None) -> None:
        """Remember how something inside the engine ended."""
        text = None if frame is None else to_json(frame)
        entry = Entry(key, outcome.state, outcome.result, outcome.error, text)
        self._seen[key] = self._saved[key] = entry

    def save_frame(self, key: str, frame: Frame) -> None:
        """Remember the counters of a block that goes on."""
        self.save(key, Outcome(EntryState.LIVE), frame)

    def act(self, command: Act) -> None:
        """Start something that ends later."""
        self._acts[command.key] = command
        self._seen[command.key] = Entry(command.key, EntryState.LIVE)

    def cancel(self, key: str) -> None:
        """End what is live at *key*; what this call itself would have started is not started."""
        if not self.is_live(key):
            return
        if self._acts.pop(key, None) is None:
            self._cancelled.append(key)
            self._seen[key] = Entry(key, EntryState.CANCELLED)
        else:
            self.save(key, Outcome(EntryState.CANCELLED))

    def set_data(self, name: str, value: object) -> None:
        """Put a value into the section `data` of the context."""
        self._context = self.context.with_data(name, value)
        self._context_changed = True

    def finish(self, state: State, outcome: Outcome) -> None:
        """End the instance."""
        self._finish = Finish(state, outcome.result, outcome.error)

    def around(self, at: At) -> CompositeAt:
        """Return the composite around a block."""
        found = self._around.get(at)
        if found is None:
            found = self._around[at] = around(at, self.sequence.places[at.block.id])
        return found

    def enter(self, at: At) -> None:
        self.moves.append(Enter(at))

    def enter_branch(self, where: CompositeAt) -> None:
        """Begin the first block of a branch; an empty branch is over at once."""
        branch = where.block.branches[where.branch]
        if branch:
            self.enter(At(branch[0], inside(where.at, where.iteration)))
        else:
            self.moves.append(Over(where, Outcome(EntryState.DONE)))

    def leave(self, at: At, outcome: Outcome) -> None:
        """Let what is around a block know how it ended, when that is remembered already."""
        self.moves.append(Leave(at, outcome))

    def conclude(self, at: At, outcome: Outcome, frame: Frame | None = None) -> None:
        """Remember how a block ended, and let what is around it know."""
        self.save(at.key, outcome, frame)
        self.leave(at, outcome)
