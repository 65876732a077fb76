"""Statements about stored sequences."""

from penstock.job import SequenceView
from penstock.store.session import Row, Session
from penstock.store.statements import chosen

_SHOWN = "number, tenant, namespace, name, version, definition, created, deprecated, id"


def add(db: Session, row: tuple[int, str, str, str, int, str, int, str]) -> None:
    """Add a sequence, as (number, tenant, namespace, name, version, definition, created, id)."""
    db.run(
        """
        INSERT INTO sequence (number, tenant, namespace, name, version, definition, created, id)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """,
        *row,
    )


def definition(db: Session, number: int) -> str | None:
    """Return a sequence as it was written."""
    row = db.one("SELECT definition FROM sequence WHERE number = ?", number)
    return None if row is None else str(row[0])


def of_number(db: Session, number: int) -> SequenceView | None:
    """Return the sequence with this number."""
    row = db.one(f"SELECT {_SHOWN} FROM sequence WHERE number = ?", number)
    return None if row is None else _shown(row)


def of_id(db: Session, id_: str, tenant: str | None) -> list[SequenceView]:
    """Return the sequences that have this id: of a tenant at most one, else at most two."""
    which, values = chosen(id=id_, tenant=tenant)
    rows = db.all(f"SELECT {_SHOWN} FROM sequence {which} ORDER BY tenant LIMIT 2", *values)
    return [_shown(row) for row in rows]


def of_name(db: Session, tenant: str, namespace: str, name: str, version: int | None) -> SequenceView | None:
    """Return a version of a sequence; None means the latest that is not deprecated."""
    which = "version = ?" if version is not None else "deprecated = 0"
    row = db.one(
        f"""
        SELECT {_SHOWN} FROM sequence WHERE tenant = ? AND namespace = ? AND name = ? AND {which}
        ORDER BY version DESC LIMIT 1
        """,
        tenant,
        namespace,
        name,
        *(() if version is None else (version,)),
    )
    return None if row is None else _shown(row)


def latest_version(db: Session, tenant: str, namespace: str, name: str) -> int:
    """Return the highest version of a sequence, 0 if there is none."""
    row = db.one(
        "SELECT coalesce(max(version), 0) FROM sequence WHERE tenant = ? AND namespace = ? AND name = ?",
        tenant,
        namespace,
        name,
    )
    return int(row[0]) if row else 0


def page(
    db: Session, tenant: str | None, namespace: str | None, name: str | None, offset: int, most: int
) -> list[SequenceView]:
    """Return sequences, newest first."""
    which, values = chosen(tenant=tenant, namespace=namespace, name=name)
    rows = db.all(
        f"SELECT {_SHOWN} FROM sequence {which} ORDER BY number DESC LIMIT ? OFFSET ?", *values, most, offset
    )
    return [_shown(row) for row in rows]


def deprecate(db: Session, number: int) -> bool:
    """Mark a sequence as one to be used no more; tell whether it exists."""
    return db.run("UPDATE sequence SET deprecated = 1 WHERE number = ?", number) > 0


def is_in_use(db: Session, number: int) -> bool:
    """Tell whether an instance of a sequence has not ended."""
    row = db.one(
        """
        SELECT 1 FROM instance i WHERE i.sequence = ?
        AND NOT EXISTS (SELECT 1 FROM done d WHERE d.seq = i.seq) LIMIT 1
        """,
        number,
    )
    return row is not None


def delete(db: Session, number: int) -> bool:
    """Delete a sequence; tell whether there was one."""
    return db.run("DELETE FROM sequence WHERE number = ?", number) > 0


def _shown(row: Row) -> SequenceView:
    number, tenant, namespace, name, version, definition_, created, deprecated, id_ = row
    return SequenceView(number, tenant, namespace, name, version, definition_, created, bool(deprecated), id_)
