"""Resource groups: a job that names one takes, when it starts, one of its resources that has room.

A group and its resources belong to a tenant, or to none.  Jobs that name a group which is not there, or has nothing
with room, wait.  A change is one of rules: nothing parked is touched, and the gate of the group is rung.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.gates import gate_of
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidLimitError, NotFoundError
from penstock.job import ResourceGroup, ResourceView
from penstock.lifecycle.checks import check_tenant
from penstock.limits.calendar import Days
from penstock.limits.gate import ON_RELEASE
from penstock.limits.groups import Group, Member, Resource, Strategy
from penstock.limits.rules import check_key
from penstock.store import gates as gate_rows
from penstock.store import resources as resource_rows
from penstock.store.resources import ResourceRow

MAX_RESOURCES: Final = 1_000  # of one group: a claim may look at all of them


class ResourceVerbs(Transactions):
    def put_resource_group(
        self, name: str, strategy: Strategy = Strategy.ROUND_ROBIN, *, tenant: str = ""
    ) -> None:
        """Add a resource group, or change the strategy of the one of this name."""
        check_key(name)
        check_tenant(tenant)

        def work(board: Board) -> None:
            gate = gate_of(board, "group", name, tenant)
            known = resource_rows.strategies(board.db, [gate]).get(gate)
            resource_rows.put_group(board.db, gate, Strategy(strategy).value, board.now)
            _look_again(board, gate)
            before: dict[str, object] = {} if known is None else {"strategy": known[0]}
            after = {"strategy": Strategy(strategy).value}
            audit.note(board, "group.put", "group", name, tenant, before=before, after=after)

        self._write(work)

    def resource_groups(self, tenant: str | None = None) -> list[ResourceGroup]:
        """Return the resource groups of one tenant or of all, by name."""
        return [_shown(row) for row in self.store.read(lambda db: resource_rows.groups(db, tenant))]

    def resource_group(self, name: str, *, tenant: str = "") -> ResourceGroup:
        """Return one resource group."""
        rows = self.store.read(lambda db: resource_rows.groups(db, tenant, name))
        if not rows:
            raise NotFoundError("resource group", name)
        return _shown(rows[0])

    def delete_resource_group(self, name: str, *, tenant: str = "") -> None:
        """Delete a group and its resources; jobs that run go on, and those that name it wait."""

        def work(board: Board) -> None:
            gate, group = _group(board, name, tenant)
            for member in group.members:
                _delete(board, gate, member)
            resource_rows.delete_group(board.db, gate)
            _look_again(board, gate)
            before = {"resources": [member.resource.key for member in group.members]}
            audit.note(board, "group.delete", "group", name, tenant, before=before)

        self._write(work)

    def put_resource(self, group: str, resource: Resource, *, tenant: str = "") -> None:
        """Add a resource to a group, or change the one of its key; jobs that wait are looked at again at once.

        A cap counts the starts since it was set, and all of its day where it took the place of another.
        """
        self._write(lambda board: _put(board, group, *_group(board, group, tenant), resource, tenant))

    def change_resource(
        self, group: str, key: str, change: Callable[[Resource], Resource], *, tenant: str = ""
    ) -> None:
        """Put what *change* makes of the resource of this key, in one transaction."""

        def work(board: Board) -> None:
            gate, found = _group(board, group, tenant)
            _put(board, group, gate, found, change(_member(found, key).resource), tenant)

        self._write(work)

    def resources(self, group: str, *, tenant: str = "") -> list[ResourceView]:
        """Return the resources of a group, by key."""

        def work(board: Board) -> list[ResourceView]:
            _, found = _group(board, group, tenant)
            return [_view(member, board.now) for member in found.members]

        return self._read(work)

    def delete_resource(self, group: str, key: str, *, tenant: str = "") -> None:
        """Take a resource out of a group; jobs that run with it go on."""

        def work(board: Board) -> None:
            gate, found = _group(board, group, tenant)
            member = _member(found, key)
            _delete(board, gate, member)
            _look_again(board, gate)
            audit.note(
                board, "resource.delete", "resource", key, tenant, before=_told(group, member.resource)
            )

        self._write(work)


def _group(board: Board, name: str, tenant: str) -> tuple[int, Group]:
    gate = gate_rows.find(board.db, "group", tenant, [name]).get(name)
    if gate is None or gate not in resource_rows.strategies(board.db, [gate]):
        raise NotFoundError("resource group", name)
    board.load_gates([gate])
    group = board.posts[gate].group
    assert group is not None  # noqa: S101 - the gate is of that kind
    return gate, group


def _member(group: Group, key: str) -> Member:
    member = group.member(key)
    if member is None:
        raise NotFoundError("resource", key)
    return member


def _put(board: Board, name: str, gate: int, group: Group, resource: Resource, tenant: str) -> None:
    member = group.member(resource.key)
    before = {} if member is None else _told(name, member.resource)
    if member is None and len(group.members) >= MAX_RESOURCES:
        raise InvalidLimitError("resource", f"a group has at most {MAX_RESOURCES} resources")
    if member is not None:
        member.renew(resource, board.now)
    days, number, created = (
        (Days(), board.db.numbers(1)[0], board.now)
        if member is None
        else (member.days, member.number, member.created)
    )
    key_gate = gate_of(board, "key", resource.key, tenant)
    config = msgspec.json.encode(resource).decode()
    row = ResourceRow(gate, resource.key, key_gate, number, config, days.text, 0, created, board.now)
    resource_rows.put(board.db, row)
    resource_rows.note_members(board.db, key_gate)
    _look_again(board, gate)
    after = _told(name, resource)
    audit.note(board, "resource.put", "resource", resource.key, tenant, before=before, after=after)


def _delete(board: Board, gate: int, member: Member) -> None:
    resource_rows.delete(board.db, gate, member.resource.key)
    resource_rows.note_members(board.db, member.gate.id)


def _told(group: str, resource: Resource) -> dict[str, object]:
    """Return what the audit tells of a resource."""
    told: dict[str, object] = msgspec.to_builtins(resource)
    return {"group": group, **told}


def _look_again(board: Board, gate: int) -> None:
    """Read a group that was changed, and ring it."""
    board.groups.load([gate])
    board.lower_wake(gate, ON_RELEASE)
    board.ring([gate])


def _view(member: Member, now: int) -> ResourceView:
    daily = member.resource.daily
    day = None if daily is None else daily.day(now)
    opens = member.opens_at(1, now)
    return ResourceView(
        member.resource,
        0 if day is None else member.days.on(day),
        None if daily is None or day is None else daily.on(day),
        member.gate.running,
        None if opens == ON_RELEASE else max(opens, now),
        member.created,
        member.updated,
    )


def _shown(row: tuple[str, str, str, int, int, int]) -> ResourceGroup:
    owner, name, strategy, *facts = row
    return ResourceGroup(name, Strategy(strategy), owner, *facts)
