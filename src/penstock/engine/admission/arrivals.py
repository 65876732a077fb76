"""Stand jobs in line: new ones, due ones, retried, rescued and handed-back ones all arrive the same way.

Starts nothing: only a claim does.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import Lane, Stand, stands_to_text
from penstock.engine.admission.placement import Budget, join, new_lane
from penstock.engine.floating import begin
from penstock.limits.rules import UNLIMITED, Limit, OnLimit
from penstock.limits.spec import limits_from_json
from penstock.store import gates as gate_rows
from penstock.store import jobs as job_rows
from penstock.store import lanes as lane_rows
from penstock.store import waiting as waiting_rows


class Arrival(NamedTuple):
    """A job about to stand in line at place *ord*, having made *attempt* attempts of which *lost* were lost.

    One that takes another's place brings how often that one was *refused*.
    """

    seq: int
    tenant: str
    queue: str
    task: str
    limits: str
    priority: int
    cost: int
    ord: int
    attempt: int
    lost: int
    refused: int = 0


class Kind(NamedTuple):
    """What makes jobs alike: the same tenant, queue, limits and gate of their type, if that is configured.

    Every job of a tenant passes the tenant's own gate too.
    """

    tenant: str
    queue: str
    limits: str
    type_gate: int | None

    @property
    def signature(self) -> str:
        suffix = "" if self.type_gate is None else f"@{self.type_gate}"
        return f"{self.tenant}\x1f{self.queue}\x1f{self.limits}{suffix}"


def arrive(board: Board, arrivals: Sequence[Arrival]) -> None:
    """Stand jobs in line, in order."""
    types = gate_rows.ruled(board.db, "type")
    free: list[Arrival] = []
    alike: defaultdict[Kind, list[Arrival]] = defaultdict(list)
    for job in arrivals:
        type_gate = types.get(job.task) if types else None
        if job.limits or job.tenant or type_gate is not None:
            alike[Kind(job.tenant, job.queue, job.limits, type_gate)].append(job)
        else:
            free.append(job)
    if free:
        waiting_rows.get_ready(
            board.db, [(j.seq, j.queue, j.priority, j.ord, j.cost, j.attempt, j.lost) for j in free]
        )
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
    lanes = _lanes(board, list(alike))
    waiting_rows.join_lanes(
        board.db,
        [
            (j.seq, lanes[kind].id, j.priority, j.ord, j.cost, j.attempt, j.lost, j.refused)
            for kind, jobs in alike.items()
            for j in jobs
        ],
    )
    for kind, jobs in alike.items():
        first = min(jobs, key=lambda j: (-j.priority, j.ord))
        heaviest = max(j.cost for j in jobs)
        join(
            board,
            lanes[kind],
            first.seq,
            first.priority,
            first.ord,
            first.cost,
            Budget(1_000 + len(jobs)),
            heaviest,
        )


def _lanes(board: Board, kinds: list[Kind]) -> dict[Kind, Lane]:
    by_signature = {kind.signature: kind for kind in kinds}
    board.flush_lanes()
    rows = lane_rows.by_signature(board.db, list(by_signature))
    adopted = board.adopt([row for _, row in rows])
    lanes = {by_signature[signature]: lane for (signature, _), lane in zip(rows, adopted, strict=True)}
    for kind, lane in lanes.items():
        _float_again(board, kind, lane)
    missing = [kind for kind in kinds if kind not in lanes]
    if missing:
        gates = _gates(board, missing)
        board.load_gates(gates.values())
        for id_, kind in zip(board.db.numbers(len(missing)), missing, strict=True):
            text = _gates_text(kind, gates)
            lanes[kind] = new_lane(board, id_, kind.signature, (kind.tenant, kind.queue), text)
    return lanes


def _float_again(board: Board, kind: Kind, lane: Lane) -> None:
    """Let the floating keys of a known lane float, if `delete_floating` has ended that meanwhile."""
    for limit, stand in zip(limits_from_json(kind.limits) if kind.limits else (), lane.stands, strict=False):
        if limit.floating is not None:
            begin(board, stand.gate, limit)


def _gates(board: Board, kinds: list[Kind]) -> dict[tuple[str, str], int]:
    """Find or make the gates of lanes to be; return their ids by (tenant, key), those of tenants without a key."""
    wanted: defaultdict[str, dict[str, Limit]] = defaultdict(dict)
    for kind in kinds:
        for limit in limits_from_json(kind.limits) if kind.limits else ():
            owner = "" if limit.shared else kind.tenant
            known = wanted[owner].setdefault(limit.key, limit)
            if known.floating is None and limit.floating is not None:
                wanted[owner][limit.key] = limit
    ids: dict[tuple[str, str], int] = {}
    for tenant, limits in wanted.items():
        found = _find_or_add(board, "key", tenant, list(limits))
        for key, limit in limits.items():
            if limit.floating is not None:
                begin(board, found[key], limit)
        ids.update({(tenant, key): id_ for key, id_ in found.items()})
    for tenant in sorted({kind.tenant for kind in kinds if kind.tenant}):
        ids[tenant, ""] = _find_or_add(board, "tenant", tenant, [""])[""]
    return ids


def _find_or_add(board: Board, kind: str, tenant: str, names: list[str]) -> dict[str, int]:
    found = gate_rows.find(board.db, kind, tenant, names)
    missing = [name for name in names if name not in found]
    if missing:
        found.update(zip(missing, board.db.numbers(len(missing)), strict=True))
        gate_rows.add(board.db, [(found[name], kind, tenant, name) for name in missing])
    return found


def _gates_text(kind: Kind, gates: dict[tuple[str, str], int]) -> str:
    stands = [
        Stand(gates["" if limit.shared else kind.tenant, limit.key], limit.numbers, limit.on_limit)
        for limit in (limits_from_json(kind.limits) if kind.limits else ())
    ]
    if kind.tenant:
        stands.append(Stand(gates[kind.tenant, ""], UNLIMITED, OnLimit.WAIT))
    if kind.type_gate is not None:
        stands.append(Stand(kind.type_gate, UNLIMITED, OnLimit.WAIT))
    return stands_to_text(stands)
