"""Workers: each tells of itself every ten seconds, and is forgotten an hour after it was last heard from.

What an operator asks of a worker is a setting; a worker is told of it when it tells of itself, and one that speaks to
a server over another protocol with its next heartbeat.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from penstock.clock import SECOND
from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.engine.wording import storable
from penstock.errors import InvalidError, NotFoundError
from penstock.job import ENDED, WorkerReport, WorkerView
from penstock.lifecycle.checks import check_tenant
from penstock.names import name_problem
from penstock.store import settings as setting_rows
from penstock.store import workers as rows
from penstock.store.session import Locks

FORGOTTEN: Final = 3_600 * SECOND
LONGEST: Final = 32 * 1024  # characters that one worker tells of itself
_ASKED: Final = "http:worker:"  # how the names of these settings begin, where servers look for them
_VERBS: Final = {"running": "worker.resume", "quiet": "worker.quiet", "terminate": "worker.stop"}

Wanted = Literal["running", "quiet", "terminate"]


class WorkerVerbs(Transactions):
    def hear(self, reports: Sequence[WorkerReport]) -> list[str]:
        """Note what workers tell of themselves; return what is asked of each: quiet, terminate or nothing (empty).

        One that has ended is forgotten, with what was asked of it.
        """
        told = {(report.name, report.tenant): _text(report) for report in reports}
        ended = sorted((each.name, each.tenant) for each in reports if each.state == ENDED)

        def work(board: Board) -> list[str]:
            # Sorted, so that two transactions that write the same rows take them in one order.
            alive = [(*key, board.now, text) for key, text in sorted(told.items()) if key not in ended]
            if alive:
                rows.hear(board.db, alive)
            if ended:
                rows.forget(board.db, ended)
                setting_rows.delete_all(board.db, [_setting(*key) for key in ended])
            asked = setting_rows.of(board.db, [_setting(*key) for key in told])
            return [_wanted(asked, each.name, each.tenant) for each in reports]

        return self._write(work, Locks.NONE, keep=False) if told else []

    def ask_worker(self, name: str, wanted: Wanted, *, tenant: str = "") -> None:
        """Ask a worker to claim nothing more (quiet), to end once it is done (terminate), or to go on (running)."""

        def work(board: Board) -> None:
            if not rows.is_known(board.db, name, tenant):
                raise NotFoundError("worker", name)
            setting = _setting(name, tenant)
            before = _wanted(setting_rows.of(board.db, [setting]), name, tenant) or "running"
            if wanted == "running":
                setting_rows.delete(board.db, setting)
            else:
                setting_rows.put(board.db, setting, msgspec.json.encode(wanted).decode(), board.now)
            facts = ({"asked": each} for each in (before, wanted))
            audit.note(board, _VERBS[wanted], "worker", name, tenant, before=next(facts), after=next(facts))

        self._write(work, Locks.NONE)

    def workers(self, tenant: str | None = None) -> list[WorkerView]:
        """Return the workers of one tenant, or all, by name, with when each was last heard from."""
        found = self.store.read(lambda db: rows.all_of(db, tenant))
        return [WorkerView(msgspec.json.decode(text, type=WorkerReport), heard) for heard, text in found]


def _setting(name: str, tenant: str) -> str:
    return f"{_ASKED}{tenant}/{name}"


def _wanted(asked: Mapping[str, str], name: str, tenant: str) -> str:
    text = asked.get(_setting(name, tenant))
    return "" if text is None else msgspec.json.decode(text, type=str)


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
