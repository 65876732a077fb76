"""Workers: each tells of itself every ten seconds, and is forgotten an hour after it was last heard from."""

from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.clock import SECOND
from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.engine.wording import storable
from penstock.errors import InvalidError
from penstock.job import ENDED, WorkerReport, WorkerView
from penstock.lifecycle.checks import check_tenant
from penstock.names import name_problem
from penstock.store import workers as rows
from penstock.store.session import Locks

FORGOTTEN: Final = 3_600 * SECOND
LONGEST: Final = 32 * 1024  # characters that one worker tells of itself


class WorkerVerbs(Transactions):
    def hear(self, reports: Sequence[WorkerReport]) -> None:
        """Note what workers tell of themselves; one that has ended is forgotten."""
        told = {(report.name, report.tenant): _text(report) for report in reports}
        ended = sorted((each.name, each.tenant) for each in reports if each.state == ENDED)

        def work(board: Board) -> None:
            # Sorted, so that two transactions that write the same rows take them in one order.
            alive = [(*key, board.now, text) for key, text in sorted(told.items()) if key not in ended]
            if alive:
                rows.hear(board.db, alive)
            if ended:
                rows.forget(board.db, ended)

        if told:
            self._write(work, Locks.NONE, keep=False)

    def workers(self, tenant: str | None = None) -> list[WorkerView]:
        """Return the workers of one tenant, or all, by name, with when each was last heard from."""
        found = self.store.read(lambda db: rows.all_of(db, tenant))
        return [WorkerView(msgspec.json.decode(text, type=WorkerReport), heard) for heard, text in found]


def forget_silent(board: Board) -> None:
    """Forget workers that were not heard from for long."""
    rows.forget_silent(board.db, board.now - FORGOTTEN)


def _text(report: WorkerReport) -> str:
    if problem := name_problem(report.name):
        raise InvalidError("name", problem)
    if report.tenant:
        check_tenant(report.tenant)
    text = storable(msgspec.json.encode(report).decode())
    if len(text) > LONGEST:
        # Names of tasks are what may be many.
        text = msgspec.json.encode(msgspec.structs.replace(report, tasks=())).decode()
    if len(text) > LONGEST:
        raise InvalidError("worker", f"tells {len(text)} characters of itself; at most {LONGEST} are kept")
    return text
