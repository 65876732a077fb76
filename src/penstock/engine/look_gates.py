"""Looking at gates: those that keep most jobs waiting, a list by name, and one with its line.

When a job of the line starts is told as exact only if clocks alone decide it: neither this gate nor any other that the
job, or one ahead of it, has to pass counts slots.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Lane, Stand
from penstock.engine.admission.rows import stands_from_text
from penstock.engine.expected import Expected
from penstock.engine.transactions import Transactions
from penstock.errors import NotFoundError
from penstock.job import (
    Count,
    Elsewhere,
    GateDetail,
    GateLook,
    GatePage,
    PastStart,
    Place,
    Through,
    Waiting,
)
from penstock.limits.costs import cost_at
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.limits.groups import Group
from penstock.limits.rules import Numbers, numbers_from_text
from penstock.store import gates as gate_rows
from penstock.store import look_gates as look_rows
from penstock.store.look_gates import GateRow

LOOKED_AT: Final = 20_000  # rows among which something is looked for
COUNTED: Final = 10_000  # counts stop here
COUNTED_EACH: Final = 1_000  # and here, for each of a list
LINE: Final = 20  # jobs of a line that are shown
LINES: Final = 50  # of a gate: one for each queue and number that its jobs bring
SHOWN: Final = 12  # of those who run through a gate, and of other gates


class GateLookVerbs(Transactions):
    def gates_under_pressure(self, *, tenant: str | None = None, most: int = 50) -> list[GateLook]:
        """Return the gates that keep most jobs waiting, among the 10,000 jobs that have waited longest."""

        def work(board: Board) -> list[GateLook]:
            found = look_rows.under_pressure(board.db, tenant, COUNTED, most)
            held: dict[int, tuple[Count, int | None]] = {
                gate: (_stopped(jobs, COUNTED), since) for gate, jobs, since in found
            }
            looks = gate_looks(board, list(held), held)
            return [looks[gate] for gate, _, _ in found if gate in looks]

        return self._read(work)

    def gate_page(
        self, *, tenant: str | None = None, prefix: str = "", after: Place | None = None, most: int = 50
    ) -> GatePage:
        """Return gates by tenant and name; it looks at 20,000 at a time, so that a page may have few and go on."""

        def work(board: Board) -> GatePage:
            place = ("", "") if after is None else (after.tenant, after.key)
            ids = look_rows.after(board.db, tenant, prefix, place, LOOKED_AT, most + 1)
            looks = gate_looks(board, ids[:most])
            gates = [looks[id_] for id_ in ids[:most] if id_ in looks]
            if len(ids) > most:
                return GatePage(gates, Place(gates[-1].tenant, gates[-1].key))
            on = look_rows.place_after(board.db, place, LOOKED_AT) if tenant is None else None
            return GatePage(gates, None if on is None else Place(*on))

        return self._read(work)

    def gate_detail(self, key: str, *, tenant: str = "") -> GateDetail:
        """Return one gate with its line; `NotFoundError` if no job has come to it."""

        def work(board: Board) -> GateDetail:
            id_ = gate_rows.find(board.db, "key", tenant, [key]).get(key)
            if id_ is None:
                raise NotFoundError("gate", key)
            jobs, since = look_rows.held(board.db, id_, COUNTED)
            look = gate_looks(board, [id_], {id_: (_stopped(jobs, COUNTED), since)}, COUNTED)[id_]
            return _detail(board, id_, look)

        return self._read(work)

    def gates_counted(self, *, tenant: str | None = None) -> Count:
        """Return how many keys have a gate."""
        return self.store.read(lambda db: _stopped(look_rows.total(db, tenant, COUNTED), COUNTED))


def _stopped(number: int, most: int) -> Count:
    return Count(number, more=number >= most)


def gate_looks(
    board: Board,
    ids: Sequence[int],
    held: Mapping[int, tuple[Count, int | None]] | None = None,
    counted: int = COUNTED_EACH,
) -> dict[int, GateLook]:
    """Return gates as people see them; *held* is how many jobs they keep, if known, and the oldest since when."""
    if not ids:
        return {}
    board.load_gates(ids)
    rows = look_rows.rows(board.db, ids, counted)
    return {row.id: _look(board, row, (held or {}).get(row.id, (None, None)), counted) for row in rows}


def _look(board: Board, row: GateRow, kept: tuple[Count | None, int | None], counted: int) -> GateLook:
    gate, now = board.posts[row.id].gate, board.now
    own = _own(row)
    numbers, rules = gate.numbers(own, now), gate.rules
    override = rules.live_override(now) if rules else None
    shut = rules is not None and rules.shut_until > now
    opens = gate.opens_at(own, 1, now)
    times = gate.starts.times if gate.starts else []
    return GateLook(
        tenant=row.tenant, key=row.name, numbers=numbers, own=own, running=gate.running,
        recent=gate.starts.since(now - numbers.rate.period) if gate.starts and numbers.rate else 0,
        waiting=_stopped(row.waiting, counted) + Count(row.asking), held=kept[0], since=kept[1],
        configured=rules.configured if rules else None, floating=rules.floating if rules else None,
        override=override, override_until=rules.override_until if rules and override else None,
        shut_until=rules.shut_until if rules and shut else None,
        shut_reason=rules.shut_reason if rules and shut else "",
        opens_at=None if opens == ON_RELEASE else max(opens, now), last_start=times[-1] if times else None,
        next_start=_next_start(gate, numbers),
    )  # fmt: skip


def _own(row: GateRow) -> Numbers:
    """Return the numbers that the jobs of a gate bring."""
    kept = numbers_from_text(row.own or "")
    if row.gates is None:
        return kept
    return next((stand.own for stand in stands_from_text(row.gates)[0] if stand.gate == row.id), kept)


def _next_start(gate: Gate, numbers: Numbers) -> int | None:
    if numbers.throttle is None or not numbers.throttle.limit:
        return None
    return gate.throttle_opens_at(numbers.throttle, 1) or None


def _detail(board: Board, id_: int, look: GateLook) -> GateDetail:
    gate = board.posts[id_].gate
    numbers = look.numbers
    period = numbers.rate.period if numbers.rate else numbers.span
    pairs = gate.starts.since_pairs(board.now - period) if gate.starts and period else []
    kept = look_rows.elsewhere(board.db, id_, LOOKED_AT, SHOWN)
    known = {row[0]: row[1:] for row in look_rows.named(board.db, [other for other, _ in kept])}
    return GateDetail(
        look,
        [PastStart(at, weight) for at, weight in pairs],
        _line(board, id_),
        [Through(*row) for row in look_rows.through(board.db, id_, LOOKED_AT, SHOWN)],
        [Elsewhere(*known[other], jobs=jobs) for other, jobs in kept if other in known],
        elsewhere_more=sum(jobs for _, jobs in kept) >= LOOKED_AT,
    )


def _line(board: Board, id_: int) -> list[Waiting]:
    """Return the first of a gate's line, and when each starts."""
    expected, found, by_clock = Expected(board), [], True
    lanes = look_rows.first_lanes(board.db, id_, LINES, LINE)
    waiters = look_rows.first_in_lanes(board.db, lanes, LINE)
    known = {lane: board.lane(lane) for lane in {waiter.lane for waiter in waiters}}
    others = {stand.gate for lane in known.values() for stand in lane.stands if stand.gate != id_}
    named = {gate: name for gate, _, _, name in look_rows.named(board.db, sorted(others))}
    for ahead, waiter in enumerate(waiters):
        lane = known[waiter.lane]
        by_clock = by_clock and all(_by_clock(board, stand) for stand in lane.stands)
        starts = _starts(expected, lane, id_, ahead, waiter.cost, waiter.costs)
        also = [named[stand.gate] for stand in lane.stands if stand.gate != id_]
        found.append(
            Waiting(
                waiter.id,
                lane.tenant,
                waiter.task,
                waiter.args,
                waiter.meta,
                waiter.enqueued,
                also,
                starts,
                by_clock and starts is not None,
                waiter.workflow,
            )
        )
    return found


def _by_clock(board: Board, stand: Stand) -> bool:
    """Tell whether the clock alone decides when a gate lets a job through."""
    gate = board.posts[stand.gate].gate
    if isinstance(gate, Group):
        return False
    return gate.numbers(stand.own, board.now).slots is None


def _starts(expected: Expected, lane: Lane, id_: int, ahead: int, cost: int, costs: str | None) -> int | None:
    """Return when a job starts, as far as its gates are known; None if nothing but a person lets it."""
    found = []
    for stand in lane.stands:
        at = expected.at(stand, ahead if stand.gate == id_ else 0, cost_at(stand.place, cost, costs))
        if at is None:
            return None
        found.append(at)
    return max(found)
