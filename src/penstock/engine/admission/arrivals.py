"""Stand jobs in line: new ones, due ones, retried, rescued and handed-back ones all arrive the same way.

Starts nothing: only a claim does.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.clock import SECOND
from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Lane, Stand, stands_at, with_gate
from penstock.engine.admission.placement import Budget, join, new_lane
from penstock.engine.admission.rows import in_part
from penstock.engine.floating import begin, floats, wake
from penstock.job import INSTANCES
from penstock.lifecycle.knowledge import part_of
from penstock.limits.rules import Limit
from penstock.limits.spec import limits_from_json
from penstock.store import floating as floating_rows
from penstock.store import gates as gate_rows
from penstock.store import jobs as job_rows
from penstock.store import lanes as lane_rows
from penstock.store import parts as part_rows
from penstock.store import waiting as waiting_rows

# Characters: an index of PostgreSQL takes no more than 2,700 bytes, and a sibling or a part adds a few.
MAX_SIGNATURE: Final = 500
# Jobs go to the part of their task for so long after a claim met one there that it did not know.
PART_LASTS: Final = 3_600 * SECOND


class Arrival(NamedTuple):
    """A job about to stand in line at place *ord*, having made *attempt* attempts of which *lost* were lost.

    One that takes another's place brings how often that one was *refused*.  A new one brings its limits, in the order
    of their keys, as they are *known*; those of others are read.
    """

    seq: int
    tenant: str
    queue: str
    task: str
    limits: str
    priority: int
    cost: int
    costs: str | None
    ord: int
    attempt: int
    lost: int
    refused: int = 0
    known: tuple[Limit, ...] | None = None


class Kind(NamedTuple):
    """What makes jobs alike: the same part of a queue, limits and gate of their type, if that is configured.

    Every job of a tenant passes the tenant's own gate too.
    """

    tenant: str
    queue: str
    part: str
    limits: str
    type_gate: int | None

    @property
    def signature(self) -> str:
        suffix = "" if self.type_gate is None else f"@{self.type_gate}"
        kind = f"{self.tenant}\x1f{self.queue}\x1f{self.limits}"
        if len(kind) > MAX_SIGNATURE:
            kind = f"\x1f\x1f{hashlib.sha256(kind.encode()).hexdigest()}"
        return in_part(self.part, kind + suffix)


def arrive(board: Board, arrivals: Sequence[Arrival]) -> None:
    """Stand jobs in line, in order."""
    queues = list({job.queue for job in arrivals})
    types, parts = part_rows.arrival_rules(board.db, queues, board.now - PART_LASTS)
    if not board.db.gated:
        parts.clear()  # another transaction may find one without jobs, and delete it
    free: list[Arrival] = []
    alike: defaultdict[Kind, list[Arrival]] = defaultdict(list)
    for job in arrivals:
        type_gate = types.get(job.task) if types else None
        if job.limits or job.tenant or type_gate is not None:
            part = part_of(job.task) if (job.queue, job.task) in parts else ""
            alike[Kind(job.tenant, job.queue, part, job.limits, type_gate)].append(job)
        else:
            free.append(job)
    if free:
        board.to_follow.free_instances = board.to_follow.free_instances or INSTANCES in queues
        waiting_rows.get_ready(
            board.db,
            [
                (
                    j.seq, j.queue, part_of(j.task) if (j.queue, j.task) in parts else "",
                    j.priority, j.ord, j.cost, j.attempt, j.lost,
                )
                for j in free
            ],
        )  # fmt: skip
    if alike:
        _join_lanes(board, alike)


def rejoin(board: Board, standing: Iterable[tuple[int, int | None, int, int]]) -> None:
    """Stand known jobs in line once more, given (seq, ord or None for a newcomer's place, attempt, lost)."""
    wanted = {seq: (ord_, attempt, lost) for seq, ord_, attempt, lost in standing}
    if not wanted:
        return
    places = board.db.numbers(len(wanted))
    found = {job.seq: job for job in job_rows.arriving(board.db, list(wanted))}
    arrivals = []
    for fresh, (seq, (ord_, attempt, lost)) in zip(places, wanted.items(), strict=True):
        place = fresh if ord_ is None else ord_
        arrivals.append(Arrival(*found[seq], place, attempt, lost))
    arrive(board, arrivals)


def _join_lanes(board: Board, alike: dict[Kind, list[Arrival]]) -> None:
    board.db.need_gates()
    lanes = _lanes(board, {kind: _limits(jobs[0]) for kind, jobs in alike.items()})
    told = {kind: board.blocked.gate_of(lanes[kind]) for kind in alike}
    waiting_rows.join_lanes(
        board.db,
        [
            (j.seq, lanes[kind].id, j.priority, j.ord, j.cost, j.costs, j.attempt, j.lost, j.refused, told[kind])
            for kind, jobs in alike.items()
            for j in jobs
        ],
    )  # fmt: skip
    for kind, jobs in alike.items():
        first = min(jobs, key=lambda j: (-j.priority, j.ord))
        head = (first.seq, first.priority, first.ord, first.cost, first.costs, first.task)
        weights = {(job.cost, job.costs) for job in jobs}
        join(board, lanes[kind], head, Budget(1_000 + len(jobs)), weights)
        if board.events.wanted:
            board.blocked.joined(lanes[kind], [job.seq for job in jobs], told[kind])


def _lanes(board: Board, kinds: dict[Kind, tuple[Limit, ...]]) -> dict[Kind, Lane]:
    by_signature = {kind.signature: kind for kind in kinds}
    board.flush_lanes()
    rows = lane_rows.by_signature(board.db, list(by_signature))
    adopted = board.adopt([row for _, row in rows])
    lanes = {by_signature[signature]: lane for (signature, _), lane in zip(rows, adopted, strict=True)}
    missing = {kind: limits for kind, limits in kinds.items() if kind not in lanes}
    if missing:
        gates = _gates(board, missing)
        board.load_gates(gates.values())
        for id_, (kind, limits) in zip(board.db.numbers(len(missing)), missing.items(), strict=True):
            stands = _stands(kind, limits, gates)
            lanes[kind] = new_lane(board, Lane(id_, *kind[:3], stands, signature=kind.signature))
    _use_floating(board, kinds, lanes)
    return lanes


def _use_floating(board: Board, kinds: dict[Kind, tuple[Limit, ...]], lanes: dict[Kind, Lane]) -> None:
    """Let the keys float that do not yet, or were deleted meanwhile; note that those that do are in use."""
    uses: dict[tuple[int, str, str], None] = {}
    for kind, limits in kinds.items():
        for limit, stand in zip(limits, lanes[kind].stands, strict=False):
            if limit.floating is not None and not floats(board, stand.gate):
                begin(board, stand.gate, limit)
            if floats(board, stand.gate):
                uses[stand.gate, kind.queue, limit.floating.handler if limit.floating else ""] = None
    if uses:
        wake(board, {gate for gate, _, _ in uses})
        floating_rows.use(board.db, uses)


def _gates(board: Board, kinds: dict[Kind, tuple[Limit, ...]]) -> dict[tuple[str, str, str], int]:
    """Find or make the gates of lanes to be; return their ids by what they are of, tenant and name."""
    wanted: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for kind, limits in kinds.items():
        for limit in limits:
            wanted[_of(limit), limit.owner(kind.tenant)][limit.key] = None
    for tenant in sorted({kind.tenant for kind in kinds if kind.tenant and kind.queue != INSTANCES}):
        wanted["tenant", tenant][""] = None
    ids: dict[tuple[str, str, str], int] = {}
    for (what, tenant), names in wanted.items():
        found = _find_or_add(board, what, tenant, list(names))
        ids.update({(what, tenant, name): id_ for name, id_ in found.items()})
    return ids


def _of(limit: Limit) -> str:
    """Return what the gate of a limit is of."""
    return "group" if limit.group else "key"


def _find_or_add(board: Board, kind: str, tenant: str, names: list[str]) -> dict[str, int]:
    found = gate_rows.find(board.db, kind, tenant, names)
    missing = [name for name in names if name not in found]
    if missing:
        found.update(zip(missing, board.db.numbers(len(missing)), strict=True))
        gate_rows.add(board.db, [(found[name], kind, tenant, name) for name in missing])
    return found


def _stands(kind: Kind, limits: Sequence[Limit], gates: dict[tuple[str, str, str], int]) -> tuple[Stand, ...]:
    stands = stands_at(
        (gates[_of(limit), limit.owner(kind.tenant), limit.key], limit.numbers, limit.on_limit)
        for limit in limits
    )
    if kind.tenant and kind.queue != INSTANCES:
        # What an instance holds is kept for long, and its steps would wait for it: they pass the gate themselves.
        stands = with_gate(stands, gates["tenant", kind.tenant, ""])
    return stands if kind.type_gate is None else with_gate(stands, kind.type_gate)


def _limits(job: Arrival) -> tuple[Limit, ...]:
    if job.known is not None:
        return job.known
    return limits_from_json(job.limits) if job.limits else ()
