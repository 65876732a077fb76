"""What the database needs to stay quick and safe, for `doctor`; and whether anything changed in it."""

from typing import Final

from penstock.store import migrations
from penstock.store.session import Session

OLD: Final = 300  # seconds a transaction may be open before it is in the way of cleaning up
MANY_DEAD: Final = 50_000  # rows
MUCH_DEAD: Final = 4  # times as many dead rows as live ones
WRAPAROUND: Final = 1_000_000_000  # transactions without a clean-up of old ones
_UNSAFE: Final = {
    "fsync": "after a power cut the whole database may be lost",
    "synchronous_commit": "after a power cut jobs may be lost that were reported as enqueued",
    "full_page_writes": "after a power cut the database may be damaged",
}


def advice(db: Session) -> list[str]:
    """Return one sentence for each thing that an operator should look after."""
    return [*_indexes(db), *_old(db), *_dead(db), *_settings(db)]


def changes(db: Session) -> str:
    """Return which transactions have ended: a text that is another one whenever any has."""
    row = db.one("SELECT CAST(pg_current_snapshot() AS TEXT)")
    assert row is not None  # noqa: S101 - it always answers
    return str(row[0])


def _indexes(db: Session) -> list[str]:
    rows = db.all(
        """
        SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = current_schema()::regnamespace
        """
    )
    valid: dict[str, bool] = dict(rows)
    missing = [
        f"the index {name} is missing; every look at its table reads all of it. Make it again as in "
        f"penstock/store/migrations/{step}"
        for name, step in migrations.schema().indexes.items()
        if name not in valid
    ]
    broken = [f"the index {name} is not valid; REINDEX it" for name, sound in rows if not sound]
    return missing + broken


def _old(db: Session) -> list[str]:
    rows = db.all(
        """
        SELECT pid, application_name, coalesce(state, 'unknown'), CAST(extract(epoch FROM now() - xact_start) AS BIGINT)
        FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < now() - ? * interval '1 s'
        AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) ORDER BY xact_start LIMIT 5
        """,
        OLD,
    )
    found = [
        f"process {pid} ({name or 'no name'}, {state}) has had a transaction open for {seconds // 60} minutes; until "
        "it ends dead rows cannot be cleaned up, and claims grow slower"
        for pid, name, state, seconds in rows
    ]
    slots = db.all("SELECT slot_name FROM pg_replication_slots WHERE NOT active AND xmin IS NOT NULL")
    return found + [
        f"the replication slot {name} is not in use and keeps dead rows from being cleaned up"
        for (name,) in slots
    ]


def _dead(db: Session) -> list[str]:
    rows = db.all(
        """
        SELECT s.relname, s.n_live_tup, s.n_dead_tup, pg_size_pretty(pg_total_relation_size(s.relid)),
               c.reloptions::text, age(c.relfrozenxid)
        FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid WHERE s.schemaname = current_schema()
        """
    )
    found = []
    for table, live, dead, size, options, age in rows:
        if dead > MANY_DEAD and dead > MUCH_DEAD * live:
            found.append(
                f"table {table} has {dead:,} dead rows beside {live:,} live ones ({size}); is autovacuum running?"
            )
        if "autovacuum_enabled=false" in (options or ""):
            found.append(f"autovacuum is turned off for table {table}; turn it on")
        if age > WRAPAROUND:
            found.append(f"table {table} has not been frozen for {age:,} transactions; VACUUM (FREEZE) it")
    return found


def _settings(db: Session) -> list[str]:
    found = []
    for name, danger in _UNSAFE.items():
        row = db.one("SELECT current_setting(?)", name)
        if row is not None and row[0] == "off":
            found.append(f"{name} is off: {danger}")
    row = db.one("SELECT current_setting('autovacuum')")
    if row is not None and row[0] == "off":
        found.append("autovacuum is off: tables will grow and claims become slow; turn it on")
    return found
