"""Recompute everything that is stored though it could be derived, and report any difference."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.engine.why import FARTHEST, UNASKED
from penstock.engine.wording import unasked_in_words
from penstock.job import UnknownTask
from penstock.limits.rules import numbers_from_text
from penstock.store import checks, instance_checks
from penstock.store import floating as floating_rows
from penstock.store import history as history_rows
from penstock.store import lending as lending_rows
from penstock.store import parts as part_rows
from penstock.store import resources as resource_rows
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
        """Return what an operator should attend to, though nothing is wrong with what is stored."""
        return [*map(unasked_in_words, self.unknown_tasks()), *self.store.advice()]

    def unknown_tasks(self, queues: Sequence[str] | None = None) -> list[UnknownTask]:
        """Return the tasks, of all queues or these, whose jobs wait though no worker has asked for them for a while."""
        found = self._read(lambda board: part_rows.unasked(board.db, board.now - UNASKED, FARTHEST))
        return [each for each in found if queues is None or each.queue in queues]


def _examine(board: Board) -> list[str]:
    db = board.db
    told = [sentence.format(*row) for question, sentence in _ANSWERS for row in question(db)]
    return [*told, *_running(db), *_counted(db), *_asking(board), *_uncalled(board), *_unique(db)]


# What the store is asked, and what each row of its answer means.
_ANSWERS: Final[Sequence[tuple[Callable[[Session], Iterable[tuple[object, ...]]], str]]] = (
    (checks.places, "job {} stands in {} places instead of one"),
    (checks.lane_heads, "lane {} names {} as its first job, but {} is"),
    (
        part_rows.misplaced,
        "{3} jobs of task {2!r} stand in the part {1!r} of queue {0!r}, where no claim finds them",
    ),
    (checks.lost_lanes, "lane {} is neither ready nor parked, but jobs wait in it"),
    (lending_rows.orphans, "holder {} has or wants slots, but does not exist"),
    (workflow_rows.miscounted, "workflow {} counts {} steps that have not ended, but {} have not"),
    (workflow_rows.stuck, "step {1!r} of workflow {0} will never go on"),
    (instance_checks.stuck, "nothing will move instance {} of {!r} on"),
    (instance_checks.lost_jobs, "instance {} waits at {!r} for a job that has ended or does not exist"),
    (instance_checks.idle_steps, "step {1!r} of instance {0} is live, but nothing will end it"),
    (instance_checks.frozen, "the job at {1!r} of instance {0} is frozen, though its instance is not paused"),
    (instance_checks.outlived, "instance {} has ended, but something of it is live"),
    (history_rows.orphans, "job number {} does not exist, but {} attempts at it are kept"),
    (history_rows.gaps, "job {} keeps {} attempts that are not numbered one after the other up to {}"),
    (floating_rows.asleep, "the floating limit of {} is not refreshed, though its key is in use"),
    (resource_rows.misnamed, "gate {} is that of a resource of the groups {!r}, but should be of {!r}"),
    (resource_rows.orphans, "resource {} belongs to group {}, but that or its gate does not exist"),
    (resource_rows.untaken, "job {} took resource {}, but holds no slot in its gate"),
    (successor_rows.forsaken, "job {} waits for the end of job number {}, which does not know of it"),
)


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


def _counted(db: Session) -> list[str]:
    return [
        f"gate {checks.gate_name(db, gate)} counts {stored} {what.format(true)}"
        for question, what in (
            (checks.lane_counts, "lanes behind it, but {} are"),
            (lending_rows.miscounted, "calls that wait for slots, but {} do"),
        )
        for gate, stored, true in question(db)
    ]


def _asking(board: Board) -> list[str]:
    found = []
    for gate in lending_rows.asked_gates(board.db, board.now):
        board.load_gates([gate])
        post, first = board.posts[gate], lending_rows.first(board.db, gate)
        if first is None or post.gate.starts is not None or post.turn is not None:
            continue
        if board.loans.opens_at(post, numbers_from_text(first.own), first.slots) <= board.now < first.lease:
            name = checks.gate_name(board.db, gate)
            found.append(f"gate {name} is open, but the first call that waits for slots was given none")
    return found


def _uncalled(board: Board) -> list[str]:
    """Check invariant P: where a gate is open for the first in line, that lane is ready.

    Gates whose wake is due are left out: the next claim calls there first.
    """
    found = []
    for gate, lane_id in checks.dormant_firsts(board.db, board.now):
        lane = board.lane(lane_id)
        if board.posts[gate].heavy or board.posts[gate].turn is not None:
            continue
        if board.opens_at(lane.stand_at(gate), lane) <= board.now:
            name = checks.gate_name(board.db, gate)
            found.append(f"gate {name} is open, but the first in line was not called")
    return found


def _unique(db: Session) -> list[str]:
    return [
        f"{jobs} jobs stand for the unique key {key.rpartition(chr(0x1F))[2]!r} at once"
        for key, jobs in unique_rows.twice(db)
    ]
