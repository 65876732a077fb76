"""Steps of running instances: whose a job is, what is awaited, events for many, and another context."""

from functools import partial

import msgspec

from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.commands import check_signal_name
from penstock.engine.conducting import Conducting
from penstock.engine.enqueue import check_text
from penstock.engine.instances import InstanceVerbs, find_live
from penstock.errors import InvalidError
from penstock.job import StepJob, WaitView
from penstock.store import instances as rows
from penstock.store.session import Locks

MOST_WOKEN = 1_000  # waits that one event ends in one transaction


class InstanceStepVerbs(InstanceVerbs):
    def step_jobs(self, seqs: list[int]) -> dict[int, StepJob]:
        """Return to which steps of which instances these jobs belong, by number; those that have ended to none."""
        return self.store.read(lambda db: {each.seq: each for each in rows.step_jobs(db, seqs)})

    def waits(
        self,
        prefix: str,
        tenant: str | None = None,
        offset: int = 0,
        limit: int = 50,
        *,
        namespace: str | None = None,
    ) -> tuple[list[WaitView], int]:
        """Return a page of waits for signals whose names begin with *prefix*, oldest first, and how many there are.

        With a *namespace* only those of its sequences.
        """
        return self.store.read(
            lambda db: (
                rows.waits_page(db, prefix, tenant, offset, limit, namespace),
                rows.waits_total(db, prefix, tenant, namespace),
            )
        )

    def send_event(self, name: str, payload: str = "null", tenant: str = "") -> int:
        """Give a signal to every instance of a tenant that waits for one of that *name*; return how many were told.

        What an instance waits for after it was told is not meant.
        """
        check_signal_name(name)
        check_text("payload", payload)

        def work(board: Board, after: int) -> list[tuple[int, str, int]]:
            waiting = rows.waiting_for(board.db, name, tenant, after, before, MOST_WOKEN)
            conducting = Conducting(board, self._definitions)
            conducting.load(instance for instance, _, _ in waiting)
            for instance, key, _ in waiting:
                conducting.signalled(conducting.runs[instance], key, payload)
            conducting.save()
            return waiting

        told, after = 0, 0
        (before,) = self._write(lambda board: board.db.numbers(1), Locks.NONE, keep=False)
        while waiting := self._write(partial(work, after=after)):
            told, after = told + len(waiting), waiting[-1][2]
        return told

    def set_context(self, instance_id: str, context: str, tenant: str | None = None) -> None:
        """Replace the context of an instance that has not ended; what follows sees the new one."""
        try:
            msgspec.json.decode(context, type=dict[str, object])
        except msgspec.MsgspecError as error:
            raise InvalidError("context", f"must be a JSON object: {error}") from None
        check_text("context", context)

        def work(board: Board) -> None:
            found = find_live(board.db, instance_id, tenant)
            conducting = Conducting(board, self._definitions)
            conducting.load([found.seq])
            run = conducting.runs[found.seq]
            run.text, run.decoded, run.is_changed = context, None, True
            conducting.save()
            audit.note(board, "instance.context", "instance", found.id, found.tenant)

        self._write(work)
