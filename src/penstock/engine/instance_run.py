"""An instance as one transaction has loaded it, and the jobs that it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from penstock.engine.admission.board import Board
from penstock.engine.enqueue import check
from penstock.engine.wording import error_text
from penstock.errors import InvalidJobError
from penstock.job import PASS_OF, Entry, EntryState, NewJob
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import MAX_ATTEMPTS, RetryPolicy
from penstock.lifecycle.states import State
from penstock.store import instances as rows
from penstock.store.instances import InstanceRow, StepRow

# A body is replayed until it answers.  A worker that is lost counts as a failure, so that the next pass is put off.
PASS_POLICY: Final = RetryPolicy(attempts=MAX_ATTEMPTS, cap=60_000_000, lost_counts=True)


class Ending(msgspec.Struct, frozen=True):
    """How an instance will end once its jobs have ended, since it was decided *at* that moment."""

    state: State
    result: str | None
    error: str | None
    reason: str
    at: int


@dataclass(slots=True, eq=False)
class Run:
    """An instance that this transaction moves on.  It is the `Memory` of its conductor."""

    row: InstanceRow
    board: Board
    text: str  # the context, or the arguments
    ending: Ending | None
    version: int
    pass_seq: int | None
    pass_version: int
    steps: dict[str, StepRow | None] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    is_changed: bool = False
    wants_pass: bool = False
    winds_up: bool = False  # its ending was decided in this transaction
    is_empty: bool = False  # nothing is remembered in the store
    may_be_stuck: bool = False  # it was conducted, and nothing new was asked for
    reason: str = ""  # why it is cancelled
    decoded: dict[str, Any] | None = None

    @property
    def seq(self) -> int:
        return self.row.seq

    @property
    def instance(self) -> str:
        return self.row.id

    @property
    def now(self) -> int:
        return self.board.now

    @property
    def context(self) -> Mapping[str, Any]:
        if self.decoded is None:
            self.decoded = msgspec.json.decode(self.text, type=dict[str, Any])
        return self.decoded

    def entry(self, key: str) -> Entry | None:
        step = self.step(key)
        if step is None:
            return None
        return Entry(key, EntryState(step.state), step.result, step.error, step.frame)

    def step(self, key: str) -> StepRow | None:
        if key not in self.steps:
            self.steps[key] = None if self.is_empty else rows.step(self.board.db, self.seq, key)
        return self.steps[key]

    def put(self, step: StepRow) -> None:
        self.steps[step.key] = step
        self.changed[step.key] = None

    def new(self, key: str, kind: str, state: EntryState = EntryState.LIVE) -> StepRow:
        ended = None if state is EntryState.LIVE else self.now
        return StepRow(self.seq, key, kind, state.value, None, None, None, None, self.now, ended)


def step_job(row: InstanceRow, job: NewJob) -> NewJob:
    """Return the job of a step as it is enqueued; raise unless it could run."""
    if job.id is not None or job.unique is not None:
        raise InvalidJobError("job", "the job of a step must have no id and no unique key")
    try:
        meta = merged(row.meta, job.meta)
    except msgspec.MsgspecError as error:
        raise InvalidJobError("meta", f"must be a JSON object: {error}") from None
    filled = msgspec.structs.replace(
        job,
        tenant=row.tenant,
        queue=job.queue or row.queue,
        priority=job.priority or row.priority,
        meta=meta,
    )
    check(filled)
    return filled


def pass_job(row: InstanceRow) -> NewJob:
    """Return a pass over the memo of an instance."""
    meta = merged(row.meta, msgspec.json.encode({PASS_OF: row.id}).decode())
    return NewJob(
        row.workflow, queue=row.queue, tenant=row.tenant, priority=row.priority, meta=meta, retry=PASS_POLICY
    )


def merged(ours: str, theirs: str) -> str:
    """Return the meta of an instance with that of its job over it."""
    if ours == "{}" or theirs == "{}":
        return theirs if ours == "{}" else ours
    both = {
        **msgspec.json.decode(ours, type=dict[str, Any]),
        **msgspec.json.decode(theirs, type=dict[str, Any]),
    }
    return msgspec.json.encode(both).decode()


def error_of(kind: str, message: str) -> str:
    """Return an error as it is remembered."""
    return error_text(Failed(kind, message))
