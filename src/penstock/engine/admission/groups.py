"""Resource groups on a board: gates that are any of several keys.

A lane passes the gate of a group; a start takes one of its resources and with it the gate of that resource's key, in
the same decision.  Lanes wait behind the group.  Whatever changes at the gate of a resource may open the group, so
the group is rung with it.
"""

import random
from typing import TYPE_CHECKING

import msgspec

from penstock.engine.admission.lane import Lane, Stand
from penstock.limits.calendar import Days
from penstock.limits.groups import Group, Member, Resource, Strategy
from penstock.limits.rules import UNLIMITED, OnLimit
from penstock.store import resources as resource_rows
from penstock.store.attempts import AttemptRow

if TYPE_CHECKING:
    from penstock.engine.admission.board import Board


class Groups:
    """The resource groups among the gates of a board."""

    def __init__(self, board: "Board") -> None:
        self._board = board
        self._saved: dict[Member, tuple[int, str, int]] = {}  # group, days and place as they are in the store
        self._places: dict[int, int] = {}  # of the groups, as they are in the store
        # Whether a gate on the board is a group or belongs to one: where none is, nothing is asked before.
        self.present = False

    def load(self, groups: list[int]) -> None:
        """Read the resources of groups that are on the board, and bring their gates onto it."""
        board = self._board
        rows, known = resource_rows.of(board.db, groups), resource_rows.strategies(board.db, groups)
        board.load_gates(row.gate for row in rows)
        self._saved = {member: saved for member, saved in self._saved.items() if saved[0] not in groups}
        for gate in groups:
            group = board.posts[gate].group
            assert group is not None  # noqa: S101 - the caller looked
            strategy, group.place = known.get(gate, (Strategy.ROUND_ROBIN, 0))
            group.strategy, group.members = Strategy(strategy), []
            self._places[gate] = group.place
        for row in rows:
            resource = msgspec.json.decode(row.config, type=Resource)
            gate_, days = board.posts[row.gate].gate, Days.from_text(row.days)
            member = Member(resource, gate_, days, row.place, row.number, row.created, row.updated)
            group = board.posts[row.group_gate].group
            assert group is not None  # noqa: S101 - the caller looked
            group.members.append(member)
            self._saved[member] = (row.group_gate, row.days, row.place)

    def openings(self, group: Group, lane: Lane, cost: int, kept: int) -> list[tuple[Member, int]]:
        """Return when each resource has room for the lane's first job: what is kept at its own gate counts too."""
        board, found = self._board, []
        for member, opens in group.openings(cost, board.now, kept):
            post, at = board.posts[member.gate.id], opens
            if at <= board.now and (post.turn is not None or post.asking):
                at = max(at, board.opens_at(Stand(member.gate.id, UNLIMITED, OnLimit.WAIT, _LAST), lane))
            found.append((member, at))
        return found

    def choose(self, lane: Lane) -> Member | None:
        """Choose a resource for the start of the lane's first job, whose gates are all open; None if it needs none."""
        board = self._board
        for stand in lane.stands:
            post = board.posts[stand.gate]
            if post.group is not None:
                openings = self.openings(post.group, lane, lane.cost_at(stand), board.turns.kept(post, lane))
                having_room = [member for member, at in openings if at <= board.now]
                chance = random.random()  # noqa: S311 - spreads starts, keeps no secret
                return post.group.choose(having_room, chance)
        return None

    def take_back(self, attempt: AttemptRow) -> None:
        """Forget the start of an attempt that was handed back before it began, on its day."""
        for gate in attempt.gate_ids:
            group = self._board.posts[gate].group
            member = None if group is None or attempt.resource is None else group.member(attempt.resource)
            if member is not None and attempt.counted is not None:
                member.take_back(attempt.counted)

    def with_groups(self, gates: set[int]) -> set[int]:
        """Add, to gates that changed, the groups whose resources have them: those may be open now."""
        self._board.load_gates(gates)
        if not self.present:
            return gates
        return gates.union(*(self._board.posts[gate].member_of for gate in gates))

    def flush(self) -> None:
        """Write back what was taken."""
        if not self.present:
            return
        rows = []
        for member, (gate, days, place) in self._saved.items():
            if (now := (gate, member.days.text, member.place)) != (gate, days, place):
                rows.append((now[1], now[2], gate, member.resource.key))
                self._saved[member] = now
        if rows:
            resource_rows.save(self._board.db, rows)
        posts, moved = self._board.posts, []
        for gate, place in self._places.items():
            group = posts[gate].group
            if group is not None and group.place != place:
                moved.append((group.place, gate))
                self._places[gate] = group.place
        if moved:
            resource_rows.save_groups(self._board.db, moved)


_LAST = 2**31  # a place among the gates of a lane that is that of no limit
