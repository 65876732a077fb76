"""The lanes and gates one transaction works on: loaded once, changed in memory, written back at the end.

The four moves of the algorithm live here: `test`, `park`, `call` and `ring`.

Invariant P: for every line, if its gate is open for the first job of its first lane, that lane is ready.
`call` keeps P for one line, `ring` for all lines behind a gate.  Code that changes something names
the line or the gate it changed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from penstock.engine.admission.blocked import Blocked
from penstock.engine.admission.groups import Groups
from penstock.engine.admission.heads import Heads
from penstock.engine.admission.heavy import Heavy
from penstock.engine.admission.lane import Lane, Line, Post, Shut, Stand
from penstock.engine.admission.loan_queue import LoanQueue
from penstock.engine.admission.other_lane import with_type_now
from penstock.engine.admission.own_lanes import OwnLanes, need_lanes
from penstock.engine.admission.rows import lane_of, lane_row, line_of, memory_row, post_of, saved_lane
from penstock.engine.admission.to_follow import ToFollow
from penstock.engine.admission.turns import Turns
from penstock.engine.events import Events
from penstock.job import INSTANCES, Topic
from penstock.limits.gate import ON_RELEASE
from penstock.store import gates as gate_rows
from penstock.store import lanes as lane_rows
from penstock.store.lanes import LaneRow
from penstock.store.session import Part, Session

LEAST_PAGE: Final = 16  # lanes that a claim reads at first, at least


def first_page(count: int) -> int:
    """Return how many lanes a claim of *count* jobs reads at first."""
    return max(count, LEAST_PAGE)


class Board:
    """What one transaction has loaded and changed."""

    def __init__(
        self,
        db: Session,
        now: int,
        events: Events,
        *,
        turns: bool = True,
        later: Callable[[], int] | None = None,
        follow: "Callable[[Board], None] | None" = None,
    ) -> None:
        self.db = db
        self.now = now
        self._later = later
        self.events = events
        self.posts: dict[int, Post] = {}
        self.lanes: dict[int, Lane] = {}
        self.newly_ready: list[Lane] = []
        self.heads = Heads(self)
        self.own = OwnLanes(self)
        self.turns = Turns(self, enabled=turns)
        self.heavy = Heavy(self)
        self.loans = LoanQueue(self)
        self.groups = Groups(self)
        self.blocked = Blocked(self)
        self._changed_lanes: dict[int, Lane] = {}
        self._firsts: dict[
            tuple[int, ...], list[LaneRow]
        ] = {}  # of dormant lines, as long as no lane changes
        self._called: list[Lane] = []
        self.claims_from: tuple[Sequence[str], int] = ((), 0)  # the queues and the count of the claim to come
        self._rung_next: list[int] = []  # gates whose dormant lines were asked for together
        self._follow = follow
        self.to_follow = ToFollow()
        self.next_wake = ON_RELEASE  # the earliest of those that were set

    def look_at_clock(self) -> None:
        """Go on at the present moment: this transaction may have waited for a lock since it began."""
        if self._later is not None:
            self.now = max(self.now, self._later())

    def follow(self) -> None:
        """Let happen now what follows from the ends of this transaction's jobs, and from slots that became free."""
        if self._follow is not None and self.to_follow.is_any:
            self._follow(self)

    # Loading.

    def load_gates(self, ids: Iterable[int]) -> None:
        """Bring gates onto the board."""
        missing = sorted({gate for gate in ids if gate not in self.posts})
        if not missing:
            return
        groups = []
        for row in gate_rows.load(self.db, missing) if self.db.gated else self.own.gates(missing):
            post = self.posts[row.id] = post_of(row, self.now)
            self.turns.present = self.turns.present or post.turn is not None
            self.groups.present = self.groups.present or bool(post.group or post.member_of)
            if post.group is not None:
                groups.append(row.id)
        if groups:
            self.groups.load(groups)

    def will_ring(self, gates: Collection[int]) -> None:
        """Have what follows from a ring of these gates, and what the claim to come reads, go along with the gates."""
        queues, count = self.claims_from
        place = ("", queues[0], "") if len(queues) == 1 else None
        if not self.db.gated:
            self.own.will_claim(place, count)
            return
        asked = sorted(gates)
        if asked and self.db.along(lambda db: lane_rows.dormant_firsts(db, asked)):
            self._rung_next = asked
            if place is not None:
                self.db.along(lambda db: lane_rows.ready(db, place, first_page(count)))

    def adopt(self, rows: Sequence[LaneRow]) -> list[Lane]:
        """Bring lane rows onto the board with their gates; a lane already there stays as it is."""
        if not rows:
            return []
        lanes = self.bring(rows)
        if not self.db.gated:
            self.own.check(lanes)
        self.load_gates(stand.gate for lane in lanes for stand in lane.stands)
        return lanes

    def bring(self, rows: Sequence[LaneRow]) -> list[Lane]:
        """Bring lane rows onto the board, without their gates."""
        need_lanes(self.db)
        lanes = []
        for row in rows:
            lane = self.lanes.get(row.id)
            if lane is None:
                lane = self.lanes[row.id] = lane_of(row)
            elif lane.task is None and lane.head == row.head:
                lane.task = row.task
            lanes.append(lane)
        return lanes

    def ready_lanes(self, part: Part, most: int) -> list[LaneRow]:
        """Return the first *most* lanes of a part that a claim should look at."""
        return lane_rows.ready(self.db, part, most) if self.db.gated else self.own.ready(part, most)

    def dormant_firsts(self, gates: Sequence[int]) -> list[LaneRow]:
        """Return the first lane of each line behind these gates in which a lane waits uncalled, as it is now."""
        self.flush_lanes()
        wanted = tuple(self._rung_next if set(gates) <= set(self._rung_next) else gates)
        if wanted not in self._firsts:
            self._firsts[wanted] = lane_rows.dormant_firsts(self.db, list(wanted))
        return self._firsts[wanted]

    def lane(self, id_: int) -> Lane:
        """Return one lane, loading it if need be."""
        if id_ not in self.lanes:
            self.adopt(lane_rows.load(self.db, [id_]))
        return self.lanes[id_]

    # The four moves.

    def opens_at(self, stand: Stand, lane: Lane) -> int:
        """Return when one of its gates would let the lane's first job through."""
        post = self.posts[stand.gate]
        kept = 0 if post.turn is None else self.turns.kept(post, lane)
        if post.group is not None:
            openings = self.groups.openings(post.group, lane, lane.cost_at(stand), kept)
            return min((at for _, at in openings), default=ON_RELEASE)
        gathered = self.loans.gathered(post, lane) if post.asking else 0
        at = post.gate.opens_at(stand.own, lane.cost_at(stand), self.now, kept, 1 + gathered)
        if at <= self.now and post.turn is not None and self.turns.is_hindered(post, stand, lane):
            return ON_RELEASE
        return at

    def test(self, lane: Lane) -> list[Shut]:
        """Return the gates that refuse the lane's first job; none means it may start."""
        shut = []
        for stand in lane.stands:
            at = self.opens_at(stand, lane)
            if at <= self.now and self.posts[stand.gate].heavy:
                at = self.heavy.held_until(stand, lane)
            if at > self.now:
                shut.append(Shut(stand, at))
        return shut

    def park(self, lane: Lane, shut: list[Shut], *, any_job: bool = False) -> None:
        """Set a lane aside behind the narrowest of the gates that refuse it, and pass its call on.

        *any_job* means that they would refuse any job, so no lane need be called in the line it joins.
        """
        stand, at = shut[0] if len(shut) == 1 else min(shut, key=lambda s: self.posts[s.stand.gate].lanes)
        line = line_of(lane, stand)
        left = lane.line
        if left != line:
            self.leave(lane)
            lane.line = line
            self.post(line.gate).lanes += 1
        lane.ready = 0
        self.touch(lane)
        self.lower_wake(stand.gate, at)
        if left is not None and left != line:
            self.call([left])
        if not any_job:
            self.call([line])

    def call(self, lines: Iterable[Line]) -> None:
        """Promote the first lane of each line: make it ready if its gate is open for it."""
        askable = []
        for line in lines:
            at = self.post(line.gate).gate.opens_at(line.own, 1, self.now)
            if at <= self.now:
                askable.append(line)
            else:
                self.lower_wake(line.gate, at)
        if askable:
            self.flush_lanes()
            self._call_firsts(lane_rows.firsts(self.db, [line.name for line in askable]))
            self.turns.call_holders({line.gate for line in askable})

    def ring(self, gates: Iterable[int], *, woken: bool = False, released: bool = False) -> None:
        """Call every line behind these gates in which a lane waits uncalled; *woken* by the clock.

        Where slots were *released*, a lane that others with larger numbers shut out is called too: a claim refuses
        it and counts that.
        """
        wanted = self.turns.with_neighbours(self.groups.with_groups(set(gates)))
        self.load_gates(wanted)
        crowded = [gate for gate in sorted(wanted) if self.posts[gate].lanes]
        if crowded and not self.db.gated:
            self._call_lanes(self.own.behind(crowded), woken=woken, released=released)
        elif crowded:
            firsts = [row for row in self.dormant_firsts(crowded) if row.behind in wanted]
            self._call_firsts(firsts, woken=woken, released=released)
        self.turns.call_holders(wanted)
        self.turns.look_after(wanted)
        self.loans.serve(gate for gate in wanted if self.posts[gate].asking)

    def ring_pending(self) -> None:
        """Ring the gates of turns that ended, until no turn ends any more; let jobs pass the gates of their types."""
        turns = self.turns
        while turns.ended_at or turns.without_type:
            gates, turns.ended_at = turns.ended_at, set()
            self.ring(gates)
            lanes, turns.without_type = turns.without_type, {}
            for lane, type_gate in lanes.items():
                with_type_now(self, self.lane(lane), type_gate)

    # What else happens to lanes.

    def leave(self, lane: Lane) -> Line | None:
        """Take a lane out of its line; return the line, which the caller must `call`."""
        left, lane.line = lane.line, None
        if left is not None:
            self.post(left.gate).lanes -= 1
            self.touch(lane)
        return left

    def set_ready(self, lane: Lane) -> None:
        """Let claims look at a lane."""
        if not lane.ready:
            lane.ready = 1
            self.newly_ready.append(lane)
            self._called.append(lane)
            if lane.queue == INSTANCES:
                self.to_follow.admissible.append(lane)
        self.touch(lane)

    @property
    def called(self) -> set[int]:
        """Which lanes became ready in this transaction: no other claim could look at them yet."""
        return {lane.id for lane in self._called}

    def empty(self, lane: Lane) -> None:
        """Note that a lane has no job left."""
        lane.head = None
        lane.ready = 0
        left = self.leave(lane)
        self.touch(lane)
        if left is not None:
            self.call([left])

    def touch(self, lane: Lane) -> None:
        """Note that a lane must be written back."""
        self._changed_lanes[lane.id] = lane

    def lower_wake(self, gate: int, at: int) -> None:
        """Wake the gate *at* that moment at the latest, or when its rules change by themselves."""
        post = self.post(gate)
        if post.gate.rules is not None:
            at = min(at, post.gate.rules.next_change(self.now))
        elif post.group is not None:
            at = min(at, post.group.next_change(self.now))
        if at != ON_RELEASE and (post.wake is None or at < post.wake):
            post.wake = max(at, self.now + 1)

    # Writing back.

    def flush_lanes(self, *, last: bool = False) -> None:
        """Write lanes back, so that statements about lines see them as they are; *last* if there are none."""
        self.heads.flush()
        changed, self._changed_lanes = self._changed_lanes, {}
        if changed:
            self._firsts = {}
        fresh = [lane for lane in changed.values() if lane.fresh]
        if fresh:
            lane_rows.add(self.db, [lane_row(x) for x in fresh])
            lane_rows.name(self.db, [(x.id, x.signature) for x in fresh])
            lane_rows.add_gates(self.db, [(s.gate, x.id) for x in fresh for s in x.stands])
        old = [saved_lane(lane) for lane in changed.values() if not lane.fresh]
        if old:
            lane_rows.save(self.db, old, last=last)
        for lane in fresh:
            lane.fresh = False

    def flush(self) -> None:
        """Write everything back."""
        self.ring_pending()
        while self._changed_lanes or self.heads.changed:
            self.flush_lanes(last=True)
        self.blocked.flush()
        self.heads.write_ends()
        posts = self.posts.values()
        changed = [
            (p.gate.running, p.lanes, p.asking, p.gate.id)
            for p in posts
            if (p.gate.running, p.lanes, p.asking) != p.saved
        ]
        if changed:
            gate_rows.save(self.db, changed)
        memories = [memory_row(p) for p in posts if p.memory_changed]
        if memories:
            gate_rows.save_memory(self.db, memories)
        wakes = [(p.gate.id, p.wake) for p in posts if p.wake is not None]
        if wakes:
            gate_rows.lower_wakes(self.db, wakes)
            self.next_wake = min(self.next_wake, *(at for _, at in wakes))
        self.turns.flush()
        self.loans.flush()
        self.groups.flush()
        if any(lane.ready for lane in self._called):
            self.db.tell(Topic.WORK)
        for post in posts:
            post.saved = (post.gate.running, post.lanes, post.asking)
            post.memory_changed, post.wake = False, None

    # Helpers.

    def _call_firsts(self, rows: list[LaneRow], *, woken: bool = False, released: bool = False) -> None:
        self._call_lanes(self.adopt(rows), woken=woken, released=released)

    def _call_lanes(self, lanes: Iterable[Lane], *, woken: bool = False, released: bool = False) -> None:
        heavy = []
        for lane in lanes:
            if lane.ready or lane.line is None:
                continue
            stand = lane.stand_at(lane.line.gate)
            if self.heavy.is_too_heavy(lane, stand):
                heavy.append(lane)
                continue
            at = self.opens_at(stand, lane)
            if at <= self.now:
                self.set_ready(lane)
                continue
            if woken and lane.cost_at(stand) > 1:
                # Lighter ones took what it was gathering: that is a refusal too.
                self.turns.refused(lane)
            elif released and self.turns.is_passed_over(stand, lane):
                self.set_ready(lane)
            self.lower_wake(stand.gate, at)
        for lane in heavy:
            # It would block its line for ever.
            self.heavy.set_apart(lane)

    def post(self, gate: int) -> Post:
        """Return one gate, loading it if need be."""
        if gate not in self.posts:
            self.load_gates([gate])
        return self.posts[gate]
