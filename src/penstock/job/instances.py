"""Instances: what one remembers of its steps, and the commands that a conductor answers with.

Commands are tagged, so that a worker of another process can send them.
"""

from enum import StrEnum

from msgspec import Struct

from penstock.job.jobs import NewJob
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.limits.rules import Limit


class EntryState(StrEnum):
    """Where one step of an instance stands."""

    LIVE = "live"  # its job, timer, wait, child or frame has not ended
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Entry(Struct, frozen=True):
    """What an instance remembers of one step; its key is unique within the instance.

    *result*, *error* and *frame* are JSON text; *frame* holds the block conductor's own counters.
    """

    key: str
    state: EntryState
    result: str | None = None
    error: str | None = None
    frame: str | None = None


class NewInstance(Struct, frozen=True):
    """An instance to create.  *args* are a workflow's arguments, or a sequence's context: JSON text.

    *sequence* is the number of a stored sequence; without one *workflow* names a Python workflow.
    """

    workflow: str
    args: str = '{"args":[],"kwargs":{}}'
    id: str | None = None
    sequence: int | None = None
    queue: str = "default"
    tenant: str = ""
    priority: int = 0
    limits: tuple[Limit, ...] = ()
    unique: Unique | None = None
    due: int | None = None
    meta: str = "{}"


class Start(Struct, frozen=True, tag_field="do", tag="start"):
    """Start a job; its end becomes the entry's result."""

    key: str
    job: NewJob


class Timer(Struct, frozen=True, tag_field="do", tag="timer"):
    """Wait until *at*, or for *after* microseconds: exactly one of them."""

    key: str
    at: int | None = None
    after: int | None = None


class Await(Struct, frozen=True, tag_field="do", tag="await"):
    """Wait for a signal of that *name*; *after* so many microseconds the entry fails, of kind `SignalTimeout`."""

    key: str
    name: str
    after: int | None = None


class Child(Struct, frozen=True, tag_field="do", tag="child"):
    """Start another instance; its end becomes the entry's result."""

    key: str
    instance: NewInstance


class Note(Struct, frozen=True, tag_field="do", tag="note"):
    """Record a value, JSON text, as done."""

    key: str
    value: str


class Save(Struct, frozen=True, tag_field="do", tag="save"):
    """Record a frame of the block conductor, or a step that ran inside the engine."""

    entry: Entry


class SetContext(Struct, frozen=True, tag_field="do", tag="set_context"):
    """Replace the instance's context, JSON text."""

    context: str


class Cancel(Struct, frozen=True, tag_field="do", tag="cancel"):
    """End what is live at this key; its entry becomes cancelled and is not conducted again."""

    key: str


class Finish(Struct, frozen=True, tag_field="do", tag="finish"):
    """End the instance: done, failed or cancelled."""

    state: State
    result: str | None = None
    error: str | None = None


class Restart(Struct, frozen=True, tag_field="do", tag="restart"):
    """Begin anew with an empty memo, the same slots and other arguments, JSON text."""

    args: str


Command = Start | Timer | Await | Child | Note | Save | SetContext | Cancel | Finish | Restart
