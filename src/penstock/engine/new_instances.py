"""Add instances: each is a job of the queue that no claim can name."""

from collections.abc import Callable, Sequence

import msgspec

from penstock.engine.admission.board import Board
from penstock.engine.definitions import Definitions
from penstock.engine.enqueue import check
from penstock.errors import InvalidJobError
from penstock.job import INSTANCES, Enqueued, NewInstance, NewJob
from penstock.lifecycle.unique import OnDuplicate
from penstock.store import instances as rows
from penstock.store.session import Session

Adding = Callable[[Board, Sequence[NewJob], Sequence[int]], list[Enqueued]]


def check_instance(db: Session, definitions: Definitions, new: NewInstance) -> None:
    """Raise unless an instance could run."""
    check(_job(new, new.workflow, new.queue))
    if new.unique is not None and new.unique.on_duplicate is OnDuplicate.REPLACE:
        raise InvalidJobError("unique", "an instance cannot take the place of another")
    for name, text in (("args", new.args), ("meta", new.meta)):
        try:
            msgspec.json.decode(text, type=dict[str, object])
        except msgspec.MsgspecError as error:
            raise InvalidJobError(name, f"must be a JSON object: {error}") from None
    if new.sequence is not None:
        definitions.of(db, new.sequence)


def add_instances(
    board: Board, new: Sequence[NewInstance], parents: Sequence[int | None], adding: Adding
) -> list[tuple[int, Enqueued]]:
    """Write instances down, and stand them in line; return the number of each, and what became of it."""
    seqs = board.db.numbers(len(new))
    added = adding(board, [_job(each, "", INSTANCES) for each in new], seqs)
    rows.add(
        board.db,
        [
            (seq, each.workflow, each.sequence, each.queue, parent)
            for seq, each, parent, enqueued in zip(seqs, new, parents, added, strict=True)
            if not enqueued.reused
        ],
    )
    for each, enqueued in zip(new, added, strict=True):
        if not enqueued.reused:
            board.events.tell(
                "instance.created", instance=enqueued.id, workflow=each.workflow, tenant=each.tenant
            )
    return list(zip(seqs, added, strict=True))


def _job(new: NewInstance, task: str, queue: str) -> NewJob:
    return NewJob(
        task, new.args, queue, new.tenant, new.id, new.priority, new.limits, due=new.due, expires=new.expires,
        unique=new.unique, meta=new.meta,
    )  # fmt: skip
