"""Instances: durable runs of a workflow, what they remember, and the commands that move them on.

An instance is a job that the store itself runs.  A conductor looks at what has ended and answers with commands; the
engine applies them in the transaction in which it ended.
"""

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from penstock.job.jobs import NewJob
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.limits.rules import Limit

# The queue in which instances stand.  No queue can be named so, and no claim may ask for it.
INSTANCES: Final = ""
# In the meta of a pass: the id of its instance.
PASS_OF: Final = "penstock.pass"  # noqa: S105 - no secret

# In the frame of an entry that began after a step which a retry has forgotten: the body may come by it, or not.
LEFT_BEHIND: Final = '"left behind"'


class EntryState(StrEnum):
    """Where one step of an instance stands."""

    LIVE = "live"  # its job, timer, wait, child or frame has not ended
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Entry(Struct, frozen=True):
    """What an instance remembers of one step; its *key* is unique within the instance.

    *result*, *error* and *frame* are JSON text.  An error has a `kind` and a `message`; a frame is what the conductor
    of blocks keeps for itself, or `LEFT_BEHIND`.
    """

    key: str
    state: EntryState
    result: str | None = None
    error: str | None = None
    frame: str | None = None


class NewInstance(Struct, frozen=True):
    """An instance to create, of the Python *workflow* of that name or of the stored *sequence* with that number.

    *args* is JSON text: the arguments of a Python workflow, or the context of a sequence.  Passes, and steps that name
    no queue, stand in its *queue*.  It holds its *limits* from its admission to its end.
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
    expires: int | None = None  # if it was not admitted by then


class CreatedInstance(Struct, frozen=True):
    """What became of a `NewInstance`; *reused* means that an earlier one stands for it."""

    id: str
    state: str
    reused: bool = False


class Start(Struct, frozen=True, tag_field="do", tag="start"):
    """Begin a step that is an ordinary job; its end becomes the entry's.

    A job with an empty queue stands in the queue of the instance.
    """

    key: str
    job: NewJob


class Timer(Struct, frozen=True, tag_field="do", tag="timer"):
    """Wait until *at*, or for so long *after* now: exactly one is given, in microseconds."""

    key: str
    at: int | None = None
    after: int | None = None


class Await(Struct, frozen=True, tag_field="do", tag="await"):
    """Wait for a signal of that *name*; *after* so long the entry fails with an error of kind `SignalTimeout`."""

    key: str
    name: str
    after: int | None = None


class Child(Struct, frozen=True, tag_field="do", tag="child"):
    """Begin another instance, of the same tenant; its end becomes the entry's."""

    key: str
    instance: NewInstance


class Note(Struct, frozen=True, tag_field="do", tag="note"):
    """Remember a *value*, which is JSON text, as done."""

    key: str
    value: str


class Save(Struct, frozen=True, tag_field="do", tag="save"):
    """Remember an entry as it is given: a frame, or a step that ran inside the engine.  Of the conductor of blocks."""

    entry: Entry


class SetContext(Struct, frozen=True, tag_field="do", tag="set_context"):
    """Replace the context of the instance, which is JSON text.  Of the conductor of blocks."""

    context: str


class Cancel(Struct, frozen=True, tag_field="do", tag="cancel"):
    """End what is live at this key; its entry is cancelled and is not conducted again.

    If it waited for a *signal*, and one came since the pass looked, that signal is kept for the next wait.
    """

    key: str
    signal: str | None = None


class Finish(Struct, frozen=True, tag_field="do", tag="finish"):
    """End the instance: done, failed or cancelled.  What is live is ended first."""

    state: State
    result: str | None = None
    error: str | None = None


class Restart(Struct, frozen=True, tag_field="do", tag="restart"):
    """Restart with an empty memo, the same slots and other arguments, which are JSON text."""

    args: str


Command = Start | Timer | Await | Child | Note | Save | SetContext | Cancel | Finish | Restart


class Memo(Struct, frozen=True):
    """What a pass is told of its instance: its arguments, what it remembers, and when it was admitted.

    *version* grows with every end of a step.  A pass that answers with it says which ends it has seen.
    """

    args: str
    entries: tuple[Entry, ...]
    started: int
    version: int = 0


class InstanceState(StrEnum):
    """Where an instance stands."""

    SCHEDULED = "scheduled"
    DEFERRED = "deferred"  # waits for its slots
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"  # a limit said no, and its rule for that is `drop`
    EXPIRED = "expired"


class EntryView(Struct, frozen=True):
    """One step as people and programs see it; *job_id* is that of its job or of its child."""

    key: str
    kind: str  # job, timer, wait, child, note or frame
    state: EntryState
    job_id: str | None = None
    result: str | None = None
    error: dict[str, Any] | None = None
    began: int | None = None
    ended: int | None = None


class InstanceView(Struct, frozen=True):
    """An instance as people and programs see it.  Lists of instances come without their *steps*."""

    id: str
    seq: int
    workflow: str
    version: int | None
    sequence: int | None
    tenant: str
    queue: str
    state: InstanceState
    reason: str
    args: str
    meta: str
    limits: tuple[Limit, ...]
    result: str | None
    error: dict[str, Any] | None
    created: int
    due: int | None = None
    started: int | None = None
    ended: int | None = None
    parent: str | None = None
    priority: int = 0
    sequence_id: str | None = None
    namespace: str | None = None
    steps: tuple[EntryView, ...] = ()


class StepJob(Struct, frozen=True):
    """The job of a step that has not ended, by its number: whose step it is, and the context of that instance."""

    seq: int
    instance: str
    tenant: str
    key: str
    workflow: str
    context: str


class WaitView(Struct, frozen=True):
    """A step that waits for a signal, *since* then and *until* then; its *key* is the step's own."""

    instance: str
    tenant: str
    workflow: str
    sequence: int | None
    meta: str
    key: str
    name: str
    since: int
    until: int | None


class SequenceView(Struct, frozen=True):
    """A stored sequence; *definition* is JSON text."""

    number: int
    tenant: str
    namespace: str
    name: str
    version: int
    definition: str
    created: int
    deprecated: bool = False
    id: str = ""
