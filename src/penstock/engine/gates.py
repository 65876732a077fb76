"""Change the rules of gates from outside the jobs: configure, override, shut.

Nothing parked is touched: the gate's row changes and the gate is rung.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Post, rules_to_text
from penstock.engine.transactions import Transactions
from penstock.engine.wording import in_short
from penstock.errors import InvalidLimitError, NotFoundError
from penstock.limits.gate import ON_RELEASE, Rules
from penstock.limits.rules import Numbers, check_key
from penstock.store import attempts as attempt_rows
from penstock.store import gates as gate_rows
from penstock.store.session import Locks

SCOPES = ("key", "queue", "type")


class GateVerbs(Transactions):
    def configure(self, scope: str, name: str, numbers: Numbers | None, *, tenant: str = "") -> None:
        """Set the numbers of a key, a queue or a job type, for all jobs; None removes them."""
        self._write(lambda board: configure(board, scope, name, tenant, numbers), Locks.RULES)

    def override(self, key: str, numbers: Numbers, *, until: int | None = None, tenant: str = "") -> None:
        """Let other numbers rule a key until then, or until cleared."""

        def work(board: Board) -> None:
            gate = find_or_add(board, "key", key, tenant)
            change(board, gate, lambda rules: replace(rules, override=numbers, override_until=until))

        self._write(work)

    def clear_override(self, key: str, *, tenant: str = "") -> None:
        """End an override and a shut-until of a key."""

        def work(board: Board) -> None:
            if key not in gate_rows.find(board.db, "key", tenant, [key]):
                raise NotFoundError("gate", key)
            gate = find_or_add(board, "key", key, tenant)
            change(
                board, gate, lambda rules: replace(rules, override=None, override_until=None, shut_until=0)
            )

        self._write(work)

    def shut(self, key: str, until: int, *, tenant: str = "", reason: str = "") -> None:
        """Let nothing through a gate until then."""

        def work(board: Board) -> None:
            shut_until(board, [find_or_add(board, "key", key, tenant)], until, key, reason)

        self._write(work)


def configure(board: Board, scope: str, name: str, tenant: str, numbers: Numbers | None) -> None:
    """Set the numbers of a key, a queue or a job type, for all jobs; None removes them."""
    if scope == "type" and tenant:
        raise InvalidLimitError(
            "tenant", "a type is shared by all tenants; configure a key or a queue for one of them"
        )
    gate = find_or_add(board, scope, name, tenant)
    if scope != "key" and board.posts[gate].gate.rules is None and numbers is not None:
        count_running(board, scope, name, tenant, gate)
        if scope == "type":
            board.turns.end_of_type(name, gate)
    change(board, gate, lambda rules: replace(rules, configured=numbers))


def shut_until(board: Board, gates: Sequence[int], until: int, key: str | None, reason: str) -> int:
    """Let nothing through gates until then; *key* picks one of them.  Return how many were shut."""
    shut = 0

    def edit(rules: Rules) -> Rules:
        later = until > rules.shut_until
        return replace(rules, shut_until=until, shut_reason=in_short(reason)) if later else rules

    for gate in gates:
        kind, tenant, name = gate_rows.name(board.db, gate)
        if kind == "key" and key in (None, name):
            shut += 1
            change(board, gate, edit)
            board.events.tell("limit.adjusted", key=name, tenant=tenant, until=until, reason=reason)
    return shut


def keys(board: Board, gates: Sequence[int]) -> list[str]:
    """Return which of these gates are those of keys, by name."""
    named = [gate_rows.name(board.db, gate) for gate in gates]
    return [name for kind, _, name in named if kind == "key"]


def change(board: Board, gate: int, edit: Callable[[Rules], Rules]) -> None:
    """Edit what was decided about a gate, and ring it."""
    board.load_gates([gate])
    post = board.posts[gate]
    rules = edit(post.gate.rules or Rules())
    _save(board, post, rules)
    _remember(board, post, rules)
    board.lower_wake(gate, ON_RELEASE)
    board.ring([gate])


def forget_past(board: Board, gates: Sequence[int]) -> None:
    """Forget what was decided for a time that is over."""
    for gate in gates:
        rules = board.posts[gate].gate.rules
        if rules is not None and rules.next_change(board.now) == ON_RELEASE:
            _save(board, board.posts[gate], rules)


def find_or_add(board: Board, kind: str, name: str, tenant: str) -> int:
    """Return a gate's id, adding the gate if there is none."""
    if kind not in SCOPES:
        raise InvalidLimitError("scope", f"{kind!r} must be one of {', '.join(SCOPES)}")
    check_key(name)
    return gate_of(board, kind, name, tenant)


def gate_of(board: Board, kind: str, name: str, tenant: str) -> int:
    """Return the id of a gate of any kind, adding the gate if there is none."""
    found = gate_rows.find(board.db, kind, tenant, [name]).get(name)
    if found is None:
        (found,) = board.db.numbers(1)
        gate_rows.add(board.db, [(found, kind, tenant, name)])
    board.load_gates([found])
    return found


def count_running(board: Board, scope: str, name: str, tenant: str, gate: int) -> None:
    """Give every job of a queue, a type or a tenant that runs already a slot in its gate, so that it counts."""
    running = attempt_rows.of(board.db, scope, tenant, name)
    rows = [row for row in running if str(gate) not in row[1].split(",")]
    attempt_rows.set_gates(board.db, [(f"{gates},{gate}".lstrip(","), seq) for seq, gates in rows])
    post = board.posts[gate]
    post.gate.running += len(rows)


def _save(board: Board, post: Post, rules: Rules) -> None:
    if rules.shut_until <= board.now:
        rules = replace(rules, shut_until=0, shut_reason="")
    if rules.live_override(board.now) is None:
        rules = replace(rules, override=None, override_until=None)
    if rules != post.gate.rules:
        post.gate.rules = None if rules.empty else rules
        gate_rows.save_rules(board.db, post.gate.id, rules_to_text(rules))


def _remember(board: Board, post: Post, rules: Rules) -> None:
    spans = [numbers.span for numbers in (rules.configured, rules.override) if numbers is not None]
    span = max(spans, default=0)
    if span and (post.gate.starts is None or post.gate.starts.span < span):
        post.gate.remember(span, board.now)
        # Heavy jobs may be waiting already, unmarked because nothing was remembered.
        post.heavy = post.memory_changed = True
