"""Gates: look at them, and change their rules from outside the jobs (configure, override, shut).

Nothing parked is touched: the gate's row changes and the gate is rung.  Jobs at the door or not due yet have not come
to their gates; their keys are shown with the numbers they bring.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Post
from penstock.engine.admission.rows import rules_to_text, stands_from_text
from penstock.engine.in_use import in_use
from penstock.engine.transactions import Transactions
from penstock.engine.wording import in_short
from penstock.errors import InvalidLimitError, NotFoundError
from penstock.job import GateView
from penstock.lifecycle.checks import check_tenant
from penstock.limits.gate import ON_RELEASE, Gate, Rules
from penstock.limits.rules import UNLIMITED, Numbers, Window, check_key, numbers_from_text
from penstock.limits.spec import limits_from_json
from penstock.store import attempts as attempt_rows
from penstock.store import gates as gate_rows
from penstock.store import lending as lending_rows
from penstock.store import views as view_rows
from penstock.store.session import Locks, Session

SCOPES = ("key", "queue", "type")
_SUBJECTS = {"key": "gate"}  # how the audit calls a gate, where not by its kind


class GateVerbs(Transactions):
    def configure(self, scope: str, name: str, numbers: Numbers | None, *, tenant: str = "") -> None:
        """Set the numbers of a key, a queue or a job type, for all jobs; None removes them."""

        def work(board: Board) -> None:
            with noted(board, f"{_SUBJECTS.get(scope, scope)}.configure", scope, name, tenant):
                configure(board, scope, name, tenant, numbers)

        self._write(work, Locks.RULES)

    def override(self, key: str, numbers: Numbers, *, until: int | None = None, tenant: str = "") -> None:
        """Let other numbers rule a key until then, or until cleared."""

        def work(board: Board) -> None:
            gate = find_or_add(board, "key", key, tenant)
            with noted(board, "gate.override", "key", key, tenant):
                change(board, gate, lambda rules: replace(rules, override=numbers, override_until=until))

        self._write(work)

    def clear_override(self, key: str, *, tenant: str = "") -> None:
        """End an override and a shut-until of a key."""

        def work(board: Board) -> None:
            if key not in gate_rows.find(board.db, "key", tenant, [key]):
                raise NotFoundError("gate", key)
            gate = find_or_add(board, "key", key, tenant)
            with noted(board, "gate.clear", "key", key, tenant):
                change(
                    board,
                    gate,
                    lambda rules: replace(rules, override=None, override_until=None, shut_until=0),
                )

        self._write(work)

    def shut(self, key: str, until: int, *, tenant: str = "", reason: str = "") -> None:
        """Let nothing through a gate until then."""

        def work(board: Board) -> None:
            gate = find_or_add(board, "key", key, tenant)
            with noted(board, "gate.shut", "key", key, tenant, reason):
                shut_until(board, [gate], until, key, reason)

        self._write(work)

    def configured(self, scope: str, name: str, *, tenant: str = "") -> Numbers | None:
        """Return the numbers that were set for a queue or a type; None if none were."""
        return self._read(lambda board: configured(board, scope, name, tenant))

    def gate(self, key: str, tenant: str = "") -> GateView:
        """Return one gate with its numbers in force; or those that jobs to come will bring."""
        return self._read(lambda board: view_of_gate(board, key, tenant))

    def gates(
        self,
        *,
        tenant: str | None = None,
        prefix: str = "",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[GateView], int]:
        """Return a page of gates by name, of one tenant or of all, and how many there are.

        Only those whose names begin with *prefix*.
        """
        return self._read(lambda board: _page(board, tenant, prefix, offset, limit))


@contextmanager
def noted(board: Board, verb: str, kind: str, name: str, tenant: str, reason: str = "") -> Iterator[None]:
    """Write down what a block of code changes of the rules of a gate."""
    before = audit.rules_told(_rules(board, kind, name, tenant))
    yield
    after = audit.rules_told(_rules(board, kind, name, tenant))
    audit.note(
        board, verb, _SUBJECTS.get(kind, kind), name, tenant, before=before, after=after, reason=reason
    )


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
    named = gate_rows.keys(board.db, gates)
    return [named[gate] for gate in gates if gate in named]


def change(board: Board, gate: int, edit: Callable[[Rules], Rules]) -> None:
    """Edit what was decided about a gate, and ring it."""
    board.db.need_gates()
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
    check_tenant(tenant)
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
    for numbers in (rules.configured, rules.override):
        if numbers is not None and post.gate.remember(numbers, board.now):
            # Heavy jobs may be waiting already, unmarked because nothing was remembered.
            post.heavy = post.memory_changed = True


def configured(board: Board, scope: str, name: str, tenant: str) -> Numbers | None:
    """Return the numbers that were set for a queue, a type or a tenant."""
    rules = _rules(board, scope, name, tenant)
    return None if rules is None else rules.configured


def _rules(board: Board, kind: str, name: str, tenant: str) -> Rules | None:
    """Return what was decided about a gate, if anything was."""
    found = gate_rows.find(board.db, kind, tenant, [name]).get(name)
    if found is None:
        return None
    board.load_gates([found])
    return board.posts[found].gate.rules


def view_of_gate(board: Board, key: str, tenant: str) -> GateView:
    """Return one gate, or what its jobs will bring if none has come to it yet."""
    found = gate_rows.find(board.db, "key", tenant, [key]).get(key)
    if found is not None:
        return _gate_view(board, found, key, tenant)
    numbers = _foretold(board).get((key, tenant))
    if numbers is None:
        raise NotFoundError("gate", key)
    return _foretold_view(board, key, tenant, numbers)


def _page(
    board: Board, tenant: str | None, prefix: str, offset: int, limit: int
) -> tuple[list[GateView], int]:
    """Return a page of gates and keys without one yet, by name, and how many there are."""
    coming = {
        (key, owner): numbers
        for (key, owner), numbers in _foretold(board).items()
        if tenant in (None, owner) and key.startswith(prefix)
    }
    for owner in {owner for _, owner in coming}:
        names = [key for key, whose in coming if whose == owner]
        for key in gate_rows.find(board.db, "key", owner, names):
            del coming[key, owner]
    # Those before this gate, and all that are coming, are no more than *offset*: they cannot be on the page.
    first = max(offset - len(coming), 0)
    rows = view_rows.gates(board.db, tenant, prefix, first, limit + offset - first)
    known = {(name, owner): id_ for id_, owner, name in rows}
    wanted = sorted([*known, *coming])[offset - first : offset - first + limit]
    found = [
        _gate_view(board, known[key, owner], key, owner)
        if (key, owner) in known
        else _foretold_view(board, key, owner, coming[key, owner])
        for key, owner in wanted
    ]
    return found, view_rows.gates_total(board.db, tenant, prefix) + len(coming)


def _gate_view(board: Board, id_: int, key: str, tenant: str) -> GateView:
    board.load_gates([id_])
    gate_ = board.posts[id_].gate
    own = _own_numbers(board.db, id_)
    numbers = gate_.numbers(own, board.now)
    rules = gate_.rules
    period = numbers.rate.period if numbers.rate else numbers.span
    opens = gate_.opens_at(own, 1, board.now)
    return GateView(
        key=key, tenant=tenant, running=in_use(board.db, gate_, numbers),
        recent=gate_.starts.since(board.now - period) if gate_.starts and period else 0,
        waiting=view_rows.waiting(board.db, id_) + _at_door(board.db, tenant, key) + board.posts[id_].asking,
        numbers=numbers, lent=lending_rows.lent(board.db, id_) if gate_.running else 0,
        configured=rules.configured if rules else None, floating=rules.floating if rules else None,
        override=rules.live_override(board.now) if rules else None,
        override_until=rules.override_until if rules and rules.live_override(board.now) else None,
        shut_until=rules.shut_until if rules and rules.shut_until > board.now else None,
        shut_reason=rules.shut_reason if rules and rules.shut_until > board.now else "",
        opens_at=None if opens == ON_RELEASE else max(opens, board.now),
        next_start=_next_start(gate_, numbers), window_resets_at=_window_resets_at(gate_, numbers.rate, board.now),
    )  # fmt: skip


def _foretold(board: Board) -> dict[tuple[str, str], Numbers]:
    """Return the numbers that jobs will bring, the newest's, by (key, tenant)."""
    found: dict[tuple[str, str], Numbers] = {}
    for tenant, limits in view_rows.foretold(board.db):
        for limit in limits_from_json(limits):
            if not limit.group:
                found[limit.key, limit.owner(tenant)] = limit.numbers
    return found


def _foretold_view(board: Board, key: str, tenant: str, numbers: Numbers) -> GateView:
    waiting = _at_door(board.db, tenant, key)
    return GateView(key, tenant, 0, 0, waiting, numbers, opens_at=board.now)


def _at_door(db: Session, tenant: str, key: str) -> int:
    """Return how many jobs that have not come to it yet will pass the gate of *key*."""
    return sum(
        count
        for owner, limits, count in view_rows.at_door(db, key)
        if any(
            limit.key == key and limit.owner(owner) == tenant and not limit.group
            for limit in limits_from_json(limits)
        )
    )


def _own_numbers(db: Session, gate_id: int) -> Numbers:
    text = view_rows.lane_gates(db, gate_id)
    if text is None:
        return numbers_from_text(view_rows.own_numbers(db, gate_id) or "")
    return next((s.own for s in stands_from_text(text)[0] if s.gate == gate_id), UNLIMITED)


def _window_resets_at(gate_: Gate, rate: Window | None, now: int) -> int | None:
    """Return when the oldest start that counts leaves the window; None if none counts."""
    counted = gate_.starts.since_pairs(now - rate.period) if gate_.starts and rate else []
    return counted[0][0] + rate.period if rate and counted else None


def _next_start(gate_: Gate, numbers: Numbers) -> int | None:
    if numbers.throttle is None or not numbers.throttle.limit:
        return None
    return gate_.throttle_opens_at(numbers.throttle, 1) or None
