"""Statements about resource groups: their strategies, their resources, and what was taken of them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.job import Topic
from penstock.store.session import Session


class ResourceRow(NamedTuple):
    """A resource as it is stored."""

    group_gate: int
    key: str
    gate: int
    number: int
    config: str
    days: str
    place: int
    created: int
    updated: int


def strategies(db: Session, groups: Sequence[int]) -> dict[int, tuple[str, int]]:
    """Return (strategy, place) of those of these gates that are groups which were put."""
    rows = db.all(
        "SELECT gate, strategy, place FROM resource_group WHERE gate IN (SELECT value FROM each(?))", groups
    )
    return {gate: (strategy, place) for gate, strategy, place in rows}


def of(db: Session, groups: Sequence[int]) -> list[ResourceRow]:
    """Return the resources of these groups, by key."""
    rows = db.all(
        """
        SELECT group_gate, key, gate, number, config, days, place, created, updated FROM resource
        WHERE group_gate IN (SELECT value FROM each(?)) ORDER BY group_gate, key
        """,
        groups,
    )
    return list(map(ResourceRow._make, rows))


def groups(
    db: Session, tenant: str | None, name: str | None = None
) -> list[tuple[str, str, str, int, int, int]]:
    """Return (tenant, name, strategy, created, updated, size) of the groups that were put.

    Of one tenant or of all, and of one name or of all.
    """
    asked = {"g.tenant": tenant, "g.name": name}
    told = {column: value for column, value in asked.items() if value is not None}
    where = f"WHERE {' AND '.join(f'{column} = ?' for column in told)}" if told else ""
    return db.all(
        f"""
        SELECT g.tenant, g.name, r.strategy, r.created, r.updated,
            (SELECT count(*) FROM resource m WHERE m.group_gate = r.gate)
        FROM resource_group r JOIN gate g ON g.id = r.gate {where}
        ORDER BY g.tenant, g.name
        """,
        *told.values(),
    )


def put_group(db: Session, gate: int, strategy: str, now: int) -> None:
    """Add a group, or change its strategy."""
    db.tell(Topic.WORK)
    db.run(
        """
        INSERT INTO resource_group (gate, strategy, place, created, updated) VALUES (?, ?, 0, ?, ?)
        ON CONFLICT (gate) DO UPDATE SET strategy = excluded.strategy, updated = excluded.updated
        """,
        gate,
        strategy,
        now,
        now,
    )


def delete_group(db: Session, gate: int) -> bool:
    """Delete a group without resources; tell whether there was one."""
    return db.run("DELETE FROM resource_group WHERE gate = ?", gate) > 0


def put(db: Session, row: ResourceRow) -> None:
    """Add a resource, or replace the one of its key."""
    db.tell(Topic.WORK)
    db.run(
        """
        INSERT INTO resource (group_gate, key, gate, number, config, days, place, created, updated)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (group_gate, key)
        DO UPDATE SET config = excluded.config, days = excluded.days, updated = excluded.updated
        """,
        *row,
    )


def delete(db: Session, group: int, key: str) -> bool:
    """Delete a resource; tell whether there was one."""
    return db.run("DELETE FROM resource WHERE group_gate = ? AND key = ?", group, key) > 0


def note_members(db: Session, gate: int) -> None:
    """Have the gate of a key name the groups whose resource it is."""
    rows: list[tuple[int]] = db.all(
        "SELECT group_gate FROM resource WHERE gate = ? ORDER BY group_gate", gate
    )
    named = ",".join(str(group) for (group,) in rows) or None
    db.run("UPDATE gate SET member_of = ? WHERE id = ?", named, gate)


def save_groups(db: Session, rows: Iterable[tuple[int, int]]) -> None:
    """Keep (place, gate) of groups."""
    db.last("UPDATE resource_group SET place = ? WHERE gate = ?", rows)


def save(db: Session, rows: Iterable[tuple[str, int, int, str]]) -> None:
    """Keep (days, place, group, key) of resources."""
    db.last("UPDATE resource SET days = ?, place = ? WHERE group_gate = ? AND key = ?", rows)


def misnamed(db: Session) -> list[tuple[str, str, str]]:
    """Return (name, stored, true) of the gates that do not name the groups whose resources their keys are."""
    known: dict[int, list[str]] = {}
    for gate, group in db.all("SELECT gate, group_gate FROM resource ORDER BY gate, group_gate"):
        known.setdefault(gate, []).append(str(group))
    stored: dict[int, str] = dict(db.all("SELECT id, member_of FROM gate WHERE member_of IS NOT NULL"))
    found = []
    for gate in sorted(known.keys() | stored.keys()):
        named, true = stored.get(gate, ""), ",".join(known.get(gate, []))
        if named != true:
            row = db.one("SELECT name FROM gate WHERE id = ?", gate)
            found.append((str(row[0]) if row else f"number {gate}", named, true))
    return found


def orphans(db: Session) -> list[tuple[str, int]]:
    """Return (key, group) of the resources whose group or whose gate does not exist."""
    return db.all(
        """
        SELECT r.key, r.group_gate FROM resource r
        WHERE NOT EXISTS (SELECT 1 FROM resource_group g WHERE g.gate = r.group_gate)
           OR NOT EXISTS (SELECT 1 FROM gate g WHERE g.id = r.gate)
           OR NOT EXISTS (SELECT 1 FROM gate g WHERE g.id = r.group_gate AND g.kind = 'group')
        LIMIT 100
        """
    )


def untaken(db: Session) -> list[tuple[str, str]]:
    """Return (job, resource) of the attempts that hold no slot in the gate of the resource they took."""
    return db.all(
        """
        SELECT j.id, r.resource FROM running r JOIN job j ON j.seq = r.seq
        WHERE r.resource IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM gate g WHERE g.kind = 'key' AND g.name = r.resource
            AND ',' || r.gates || ',' LIKE '%,' || g.id || ',%')
        LIMIT 100
        """
    )
