"""Instances: create them, signal, pause, resume, cancel and retry them, and look at them.

On PostgreSQL a transaction that changes an instance holds the gates; one that creates some only if they have limits or
a tenant.  An instance is created, and its first steps with it if its gates are open, in one transaction.
"""

import json
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Final

from penstock import sequences
from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.after_ends import follow
from penstock.engine.commands import check_signal_name
from penstock.engine.conducting import Conducting
from penstock.engine.definitions import Definitions
from penstock.engine.enqueue import check_text, enqueue
from penstock.engine.freezing import freeze, thaw
from penstock.engine.new_instances import add_instances, check_instance
from penstock.engine.retry_instance import retry
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidError, NotFoundError, WrongStateError
from penstock.ids import new_id
from penstock.job import (
    CreatedInstance,
    Entry,
    EntryState,
    EntryView,
    InstanceState,
    InstanceView,
    Memo,
    NewInstance,
)
from penstock.lifecycle.states import State
from penstock.limits.spec import limits_from_json
from penstock.store import instances as rows
from penstock.store.instances import ShownInstance, Standing, StepRow, WantedInstances
from penstock.store.jobs import TENANTS
from penstock.store.session import Locks, Session

CANCELLED: Final = "cancelled on request"


class InstanceVerbs(Transactions):
    def create_instances(self, new: Sequence[NewInstance]) -> list[CreatedInstance]:
        """Add instances, all or none, and admit those whose gates are open; durable when this returns."""
        if not new:
            return []
        limited = any(each.limits or each.tenant for each in new)
        return self._write(
            lambda board: _create(board, self._definitions, new), Locks.GATES if limited else Locks.NONE
        )

    def memo(self, instance_id: str, tenant: str | None = None) -> Memo:
        """Return what a running instance remembers, for a pass over it."""

        def work(db: Session) -> Memo:
            found = find(db, instance_id, tenant)
            entries = [
                Entry(step.key, EntryState(step.state), step.result, step.error, step.frame)
                for step in rows.steps(db, found.seq)
            ]
            started = found.running_since or found.started or 0
            return Memo(found.context, tuple(entries), started, found.memo_version)

        return self.store.read(work)

    def signal(self, instance_id: str, name: str, payload: str = "null", tenant: str | None = None) -> str:
        """Send a signal, with JSON text, to an instance that has not ended; one that comes early waits for it.

        Returns the signal's id.
        """
        check_signal_name(name)
        check_text("payload", payload)

        def work(board: Board) -> str:
            found = find_live(board.db, instance_id, tenant)
            id_ = new_id()
            # Locked first: a transaction without the gates may admit it at this moment, and find no signal.
            conducting = Conducting(board, self._definitions)
            conducting.load([found.seq])
            waits = rows.waits_for(board.db, found.seq, name)
            if not waits:
                (number,) = board.db.numbers(1)
                rows.add_signal(board.db, (number, id_, found.seq, name, payload, board.now))
            else:
                conducting.signalled(conducting.runs[found.seq], waits[0], payload)
                conducting.save()
            return id_

        return self._write(work)

    def cancel_instance(
        self, instance_id: str, reason: str = CANCELLED, tenant: str | None = None
    ) -> InstanceView:
        """Cancel an instance: at once if it waits; if it runs, after its live steps were removed or have ended."""

        def work(board: Board) -> InstanceView:
            found = find_live(board.db, instance_id, tenant)
            conducting = Conducting(board, self._definitions)
            conducting.cancel(found.seq, reason)
            conducting.save()
            told = "" if reason == CANCELLED else reason
            before = {"state": _state(found, board.now).value}
            audit.note(
                board, "instance.cancel", "instance", found.id, found.tenant, before=before, reason=told
            )
            return _settled_view(board, found.seq)

        return self._write(work)

    def pause_instance(self, instance_id: str, tenant: str | None = None) -> None:
        """Let no step of an instance begin: those that wait are frozen, those that run go on; its slots stay taken."""

        def work(board: Board) -> None:
            found = find_live(board.db, instance_id, tenant)
            if not found.paused:
                audit.note(board, "instance.pause", "instance", found.id, found.tenant)
            _pause(board, found)

        self._write(work)

    def resume_instance(self, instance_id: str, tenant: str | None = None) -> None:
        """Let a paused instance go on."""

        def work(board: Board) -> None:
            found = find_live(board.db, instance_id, tenant)
            if not found.paused:
                raise WrongStateError(
                    instance_id, _state(found, board.now).value, "a paused instance", "instance"
                )
            _resume(board, found)
            audit.note(board, "instance.resume", "instance", found.id, found.tenant)

        self._write(work)

    def retry_instance(self, instance_id: str, tenant: str | None = None) -> None:
        """Let an instance that failed, or was cancelled, arrive again and go on from the step that failed."""

        def work(board: Board) -> None:
            found = find(board.db, instance_id, tenant)
            if found.state is None or found.state == State.DONE:
                told = _state(found, board.now).value
                raise WrongStateError(instance_id, told, "a failed or cancelled instance", "instance")
            retry(board, self._definitions, found)
            before = {"state": _state(found, board.now).value}
            audit.note(board, "instance.retry", "instance", found.id, found.tenant, before=before)

        self._write(work)

    def instance(self, instance_id: str, tenant: str | None = None, *, steps: bool = True) -> InstanceView:
        """Return one instance, with its *steps* unless told otherwise."""

        def work(board: Board) -> InstanceView:
            found = find(board.db, instance_id, tenant)
            return instance_view(found, board.now, rows.steps(board.db, found.seq) if steps else ())

        return self._read(work)

    def instances(
        self,
        tenant: str | None = None,
        offset: int = 0,
        limit: int = 50,
        *,
        workflow: str | None = None,
        state: InstanceState | Collection[InstanceState] | None = None,
        sequence: str | None = None,
        namespace: str | None = None,
    ) -> tuple[list[InstanceView], int]:
        """Return a page of instances, newest first and without their steps, and how many there are.

        Of several states one must fit; *sequence* is the id of one.
        """
        states = (state,) if isinstance(state, InstanceState) else state
        chosen = None if states is None else tuple(each.value for each in states)
        wanted = WantedInstances(tenant, workflow, chosen, sequence, namespace)

        def work(board: Board) -> tuple[list[InstanceView], int]:
            found = rows.page(board.db, wanted, offset, limit)
            return [instance_view(each, board.now) for each in found], rows.total(board.db, wanted)

        return self._read(work)

    def timers(self, queues: Sequence[str], tenant: str | None = None) -> int:
        """Return how many timers are set for instances whose passes stand in these queues."""
        return self.store.read(lambda db: rows.timers_of(db, list(queues), tenant))

    @cached_property
    def _definitions(self) -> Definitions:
        return Definitions(sequences)

    def _follow(self, board: Board) -> None:
        follow(board, self._definitions)


def find(db: Session, id_: str, tenant: str | None) -> ShownInstance:
    """Return the instance that is meant by an id: of no tenant, or else the only one."""
    found = rows.of_id(db, id_, tenant, TENANTS)
    if not found:
        raise NotFoundError("instance", id_)
    if len(found) > 1 and found[0].tenant:
        whose = ", ".join(repr(each.tenant) for each in found)
        raise InvalidError(
            "tenant", f"instances of several tenants have the id {id_!r}, as of {whose}; name one"
        )
    return found[0]


def find_live(db: Session, id_: str, tenant: str | None) -> ShownInstance:
    """Return the instance that is meant by an id; raise if it has ended."""
    found = find(db, id_, tenant)
    if found.state is not None:
        raise WrongStateError(id_, found.state, "an instance that has not ended", "instance")
    return found


def _create(board: Board, definitions: Definitions, new: Sequence[NewInstance]) -> list[CreatedInstance]:
    for each in new:
        check_instance(board.db, definitions, each)
    # Their creator is told which were admitted, so these count by themselves.
    board.to_follow.admissions = max(board.to_follow.admissions, len(new))
    added = add_instances(board, new, [None] * len(new), enqueue)
    board.follow()
    board.flush()
    board.db.send_last()
    standing = rows.standing(board.db, [seq for seq, enqueued in added if not enqueued.reused])
    answers = []
    for each, (seq, enqueued) in zip(new, added, strict=True):
        where: Standing | ShownInstance = (
            find(board.db, enqueued.id, each.tenant) if enqueued.reused else standing[seq]
        )
        answers.append(CreatedInstance(enqueued.id, _state(where, board.now).value, enqueued.reused))
    return answers


def _pause(board: Board, found: ShownInstance) -> None:
    if found.paused:
        return
    rows.set_paused(board.db, found.seq, 1)
    jobs = rows.jobs(board.db, [found.seq])
    freeze(board, [job.seq for job in jobs if not job.child])
    board.events.tell("instance.paused", instance=found.id, workflow=found.workflow, tenant=found.tenant)
    for child in rows.shown(board.db, [job.seq for job in jobs if job.child]).values():
        _pause(board, child)


def _resume(board: Board, found: ShownInstance) -> None:
    rows.set_paused(board.db, found.seq, 0)
    jobs = rows.jobs(board.db, [found.seq])
    thaw(board, [job for job in jobs if not job.child])
    board.events.tell("instance.resumed", instance=found.id, workflow=found.workflow, tenant=found.tenant)
    for child in rows.shown(board.db, [job.seq for job in jobs if job.child]).values():
        if child.paused:
            _resume(board, child)


def _settled_view(board: Board, seq: int) -> InstanceView:
    """Return an instance as it is once everything that follows was written."""
    board.follow()
    board.flush()
    board.db.send_last()
    return instance_view(rows.shown(board.db, [seq])[seq], board.now)


def _state(found: ShownInstance | Standing, now: int) -> InstanceState:
    if found.state is not None:
        return InstanceState(found.state)
    if found.paused:
        return InstanceState.PAUSED
    if found.running_since is not None:
        return InstanceState.RUNNING
    return InstanceState.SCHEDULED if found.due is not None and found.due > now else InstanceState.DEFERRED


def instance_view(found: ShownInstance, now: int, steps: Sequence[StepRow] = ()) -> InstanceView:
    reason = found.reason or ""
    if found.state is None and found.ending is not None:
        reason = f"ends as {json.loads(found.ending)['state']} when its steps have ended"
    return InstanceView(
        id=found.id, seq=found.seq, workflow=found.workflow, version=found.version, sequence=found.sequence,
        tenant=found.tenant, queue=found.queue, state=_state(found, now), reason=reason, args=found.context,
        meta=found.meta, limits=limits_from_json(found.limits) if found.limits else (), result=found.result,
        error=None if found.error is None else json.loads(found.error), created=found.created, due=found.due,
        started=found.running_since or found.started, ended=found.ended, parent=found.parent,
        priority=found.priority, sequence_id=found.sequence_id, namespace=found.namespace,
        steps=tuple(map(_entry, steps)),
    )  # fmt: skip


def _entry(step: StepRow) -> EntryView:
    return EntryView(
        step.key, step.kind, EntryState(step.state), step.job, step.result,
        None if step.error is None else json.loads(step.error), step.began, step.ended,
    )  # fmt: skip
