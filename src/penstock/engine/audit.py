"""Audit: who changed what, through what and why, written in the transaction that makes the change.

A verb that finds everything as it should be changes nothing and leaves no entry.  Never written: arguments and results
of jobs, payloads, secrets and addresses of webhooks, values of settings.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from msgspec.structs import replace

from penstock.acting import Actor, acting, actor
from penstock.clock import SECOND
from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.engine.wording import in_short, numbers_plain
from penstock.job import AuditEntry, AuditFilter
from penstock.lifecycle.checks import MAX_NUMBER, check_whole
from penstock.limits.gate import Rules
from penstock.store import audit as rows
from penstock.store.session import Locks

KEPT: Final = 90 * 86_400 * SECOND
MOST: Final = 1_000  # entries of a page
LONGEST: Final = 4_000  # characters of what it was before, or after

Facts = Mapping[str, object]


class AuditVerbs(Transactions):
    def acting(self, actor: Actor) -> AbstractContextManager[None]:
        """Let *actor* be the one for whom the verbs of this thread or task change something."""
        return acting(actor)

    def audit(
        self, wanted: AuditFilter | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return changes that fit, newest first; *before* an entry's number for the next page."""
        check_whole("limit", limit, 1, MOST)
        if before is not None:
            check_whole("before", before, 0, MAX_NUMBER)
        return self.store.read(lambda db: rows.page(db, wanted or AuditFilter(), before, limit))

    def begin_bulk(self, verb: str, kind: str, subject: str, *, tenant: str = "") -> Actor:
        """Write down a bulk operation; what the actor that this returns does is counted in its one entry."""
        who = actor()

        def work(board: Board) -> int:
            number = _number(board)
            rows.add(board.db, _entry(board, who, number, verb, kind, tenant, in_short(subject), touched=0))
            return number

        return replace(who, bulk=self._write(work, Locks.NONE))

    def end_bulk(self, number: int, facts: Facts) -> None:
        """Write down how a bulk operation ended, in its entry."""
        self._write(lambda board: rows.end(board.db, number, _text(facts)), Locks.NONE)


def note(
    board: Board,
    verb: str,
    kind: str,
    subject: str,
    tenant: str = "",
    *,
    before: Facts | None = None,
    after: Facts | None = None,
    reason: str = "",
    touched: int = 1,
) -> int:
    """Write down a change that this transaction makes; return its number, 0 if nothing was changed."""
    if before is not None and before == after:
        return 0
    who = actor()
    if who.bulk:
        rows.count(board.db, who.bulk, touched)
        return who.bulk
    number = _number(board)
    entry = _entry(
        board, who, number, verb, kind, tenant, subject, before=before, after=after, reason=reason, touched=touched
    )  # fmt: skip
    rows.add(board.db, entry)
    return number


def rules_told(rules: Rules | None) -> dict[str, object]:
    """Return what was decided about a gate, but for what a worker computes."""
    if rules is None:
        return {}
    told: dict[str, object] = {}
    if rules.configured is not None:
        told["configured"] = numbers_plain(rules.configured)
    if rules.override is not None:
        told["override"] = numbers_plain(rules.override)
        if rules.override_until is not None:
            told["override_until"] = rules.override_until
    if rules.shut_until:
        told["shut_until"] = rules.shut_until
    return told


def count(board: Board, number: int, more: int) -> None:
    """Count what a bulk operation has touched in one more transaction."""
    rows.count(board.db, number, more)


def prune(board: Board, most: int) -> int:
    """Forget entries that are old enough, a bounded number."""
    return rows.prune(board.db, board.now - KEPT, most)


def _entry(
    board: Board,
    who: Actor,
    number: int,
    verb: str,
    kind: str,
    tenant: str,
    subject: str,
    *,
    before: Facts | None = None,
    after: Facts | None = None,
    reason: str = "",
    touched: int = 1,
) -> AuditEntry:
    return AuditEntry(
        number, board.now, who.name, who.through, verb, kind, tenant, subject, _text(before), _text(after),
        who.reason or in_short(reason), touched,
    )  # fmt: skip


def _number(board: Board) -> int:
    (number,) = board.db.numbers(1)
    return number


def _text(facts: Facts | None) -> str | None:
    if facts is None:
        return None
    text = json.dumps(facts)
    return text if len(text) <= LONGEST else json.dumps({"left_out": f"{len(text)} characters"})
