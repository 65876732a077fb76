"""Recompute everything that is stored though it could be derived, and report any difference."""

from collections import Counter

from penstock.engine.admission.board import Board
from penstock.engine.admission.lane import stand_of
from penstock.engine.transactions import Transactions
from penstock.limits.rules import numbers_from_text
from penstock.store import checks
from penstock.store import lending as lending_rows
from penstock.store import successors as successor_rows
from penstock.store import uniqueness as unique_rows
from penstock.store import workflows as workflow_rows
from penstock.store.session import Session


class DoctorVerbs(Transactions):
    def doctor(self) -> list[str]:
        """Recompute every counter; return one sentence for each difference.

        Raises `StoreDamagedError` if the database itself is damaged: counts derived from it would mean nothing.
        """
        self.store.examine()
        return self._read(_examine)

    def advice(self) -> list[str]:
        """Return what an operator should attend to in the database, though nothing is wrong with the jobs."""
        return self.store.advice()


def _examine(board: Board) -> list[str]:
    db = board.db
    return [
        *_places(db),
        *_running(db),
        *_lanes(db),
        *_asking(board),
        *_heads(db),
        *_uncalled(board),
        *_workflows(db),
        *_unique(db),
    ]


def _places(db: Session) -> list[str]:
    return [f"job {id_} stands in {places} places instead of one" for id_, places in checks.places(db)]


def _running(db: Session) -> list[str]:
    true: Counter[int] = Counter()
    for (gates,) in checks.running_gates(db):
        true.update(int(gate) for gate in gates.split(","))
    true.update(dict(lending_rows.all_held(db)))
    stored: dict[int, int] = dict(checks.gate_running(db))
    return [
        f"gate {checks.gate_name(db, gate)} counts {stored.get(gate, 0)} running, but {true[gate]} are"
        for gate in sorted(stored.keys() | true.keys())
        if stored.get(gate, 0) != true[gate]
    ]


def _lanes(db: Session) -> list[str]:
    return [
        f"gate {checks.gate_name(db, gate)} counts {stored} lanes behind it, but {true} are"
        for gate, stored, true in checks.lane_counts(db)
    ]


def _asking(board: Board) -> list[str]:
    db = board.db
    found = [
        f"gate {checks.gate_name(db, gate)} counts {stored} calls that wait for slots, but {true} do"
        for gate, stored, true in lending_rows.miscounted(db)
    ]
    found += [
        f"holder {holder} has or wants slots, but does not exist" for (holder,) in lending_rows.orphans(db)
    ]
    for gate in lending_rows.asked_gates(db, board.now):
        board.load_gates([gate])
        post, first = board.posts[gate], lending_rows.first(db, gate)
        if first is None or post.gate.starts is not None or post.turn is not None:
            continue
        if board.loans.opens_at(post, numbers_from_text(first.own), first.slots) <= board.now < first.lease:
            found.append(
                f"gate {checks.gate_name(db, gate)} is open, but the first call that waits for slots was given none"
            )
    return found


def _heads(db: Session) -> list[str]:
    return [
        f"lane {lane} names {stored} as its first job, but {true} is"
        for lane, stored, true in checks.lane_heads(db)
    ]


def _workflows(db: Session) -> list[str]:
    found = [
        f"workflow {id_} counts {stored} steps that have not ended, but {true} have not"
        for id_, stored, true in workflow_rows.miscounted(db)
    ]
    found += [f"step {step!r} of workflow {id_} will never go on" for id_, step in workflow_rows.stuck(db)]
    return found


def _unique(db: Session) -> list[str]:
    found = [
        f"job {id_} waits for the end of job number {earlier}, which does not know of it"
        for id_, earlier in successor_rows.forsaken(db)
    ]
    found += [
        f"{jobs} jobs stand for the unique key {key.rpartition(chr(0x1F))[2]!r} at once"
        for key, jobs in unique_rows.twice(db)
    ]
    return found


def _uncalled(board: Board) -> list[str]:
    """Check invariant P: where a gate is open for the first in line, that lane is ready.

    Gates whose wake is due are left out: the next claim calls there first.
    """
    found = []
    for line, lane_id in checks.dormant_firsts(board.db, board.now):
        gate, _ = stand_of(line)
        lane = board.lane(lane_id)
        stand = next(s for s in lane.stands if s.gate == gate)
        if board.posts[gate].heavy or board.posts[gate].turn is not None:
            continue
        if board.opens_at(stand, lane) <= board.now:
            found.append(
                f"gate {checks.gate_name(board.db, gate)} is open, but the first in line was not called"
            )
    found += [
        f"lane {lane} is neither ready nor parked, but jobs wait in it"
        for (lane,) in checks.lost_lanes(board.db)
    ]
    return found
