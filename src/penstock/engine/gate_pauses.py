"""Pause a gate and let it go on: an override of no slots, until it is ended by hand."""

from dataclasses import replace
from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.gates import change, find_or_add, noted
from penstock.engine.transactions import Transactions
from penstock.errors import NotFoundError, WrongStateError
from penstock.limits.rules import Numbers
from penstock.store import gates as gate_rows

PAUSED: Final = Numbers(slots=0)


class GatePauseVerbs(Transactions):
    def pause_gate(self, key: str, *, tenant: str = "") -> None:
        """Let nothing start at a key until it is resumed, in place of any other override."""

        def work(board: Board) -> None:
            gate = find_or_add(board, "key", key, tenant)
            with noted(board, "gate.pause", "key", key, tenant):
                change(board, gate, lambda rules: replace(rules, override=PAUSED, override_until=None))

        self._write(work)

    def resume_gate(self, key: str, *, tenant: str = "") -> None:
        """End the pause of a key; a time until which it is shut stays."""

        def work(board: Board) -> None:
            gate = gate_rows.find(board.db, "key", tenant, [key]).get(key)
            if gate is None:
                raise NotFoundError("gate", key)
            board.load_gates([gate])
            rules = board.posts[gate].gate.rules
            if rules is None or rules.live_override(board.now) != PAUSED:
                raise WrongStateError(key, "not paused", "a paused gate", "gate")
            with noted(board, "gate.resume", "key", key, tenant):
                change(board, gate, lambda rules: replace(rules, override=None, override_until=None))

        self._write(work)
