"""Statements about what happened when: tallies, the series they are added to, minutes and what is older."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from typing import Final, NamedTuple

import msgspec

from penstock.minutes.minute import Level, Minute
from penstock.store.session import Row, Session

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_MINUTE: Final = """
    arrived, started, undone, ended, failed, dropped, waiting, kept, used, most, waiting_time, kept_time, used_time,
    waits, held
"""
_SERIES: Final = "id, signature, at, waiting, kept, scheduled, used"
_COLUMNS: Final = [name.strip() for name in _MINUTE.split(",")]


class SeriesKey(NamedTuple):
    """What a series is of."""

    kind: str
    tenant: str
    name: str

    @property
    def signature(self) -> str:
        """What tells it from all others; names have no control characters."""
        return "\x1f".join(self)


OTHERS: Final = "others"  # the kind of series in which those are put together that are not kept each
KEPT_MOST: Final = 0  # the span of rows of `past` that tell which gates kept most jobs
CHOSEN: Final = 1  # and which series were busiest
STORE: Final = SeriesKey("store", "", "")


class SeriesRow(NamedTuple):
    """A series, and what stands there."""

    id: int
    key: SeriesKey
    level: Level

    def standing_at(self, level: Level) -> "SeriesRow":
        """Return this series with another level."""
        return self._replace(level=replace(level, at=self.level.at))


def series_of(tenant: str, queue: str, task: str | None) -> list[SeriesKey]:
    """Return the series in which a job of a queue counts."""
    found = [STORE, SeriesKey("queue", tenant, queue)]
    if task is not None:
        found.append(SeriesKey("task", tenant, task))
    if tenant:
        found.append(SeriesKey("tenant", tenant, ""))
    return found


# Tallies.


def add(db: Session, at: int, facts: str) -> None:
    """Write down what this transaction changed, when it ends."""
    db.last("INSERT INTO tally (at, facts) VALUES (?, ?)", [(at, facts)])


def first(db: Session, most: int) -> list[tuple[int, int, str]]:
    """Return the (number, at, facts) of the first tallies."""
    return db.all("SELECT number, at, facts FROM tally ORDER BY number LIMIT ?", most)


def take(db: Session, numbers: Sequence[int]) -> list[tuple[int, int, str]]:
    """Delete tallies, and return those that there were: a number may be that of another one by now."""
    return sorted(
        db.all(
            "DELETE FROM tally WHERE number IN (SELECT value FROM each(?)) RETURNING number, at, facts",
            list(numbers),
        )
    )


def pending(db: Session, most: int) -> list[tuple[int, str]]:
    """Return the (at, facts) of the first tallies that were not added yet."""
    return db.all("SELECT at, facts FROM tally ORDER BY number LIMIT ?", most)


# Series.


def of_gates(db: Session, gates: Sequence[int]) -> dict[int, SeriesKey]:
    """Return what the series of these gates are called, also of those that were swept since."""
    rows = db.all(
        """
        SELECT id, kind, tenant, name FROM gate WHERE id IN (SELECT value FROM each(?))
        UNION ALL SELECT id, kind, tenant, name FROM gate_swept WHERE id IN (SELECT value FROM each(?))
        """,
        list(gates),
        list(gates),
    )
    return {gate: SeriesKey(f"gate.{kind}", tenant, name) for gate, kind, tenant, name in rows}


def forget_swept(db: Session, before: int) -> None:
    """Forget the names of gates that were swept before then and before the first tally that was not added yet."""
    db.run(
        "DELETE FROM gate_swept WHERE at < ? AND at < (SELECT coalesce(min(t.at), ?) FROM tally t)",
        before,
        before,
    )


def known(db: Session, keys: Iterable[SeriesKey]) -> list[SeriesRow]:
    """Return those of these series that exist."""
    signatures = [key.signature for key in keys]
    if not signatures:
        return []
    rows = db.all(
        f"SELECT {_SERIES} FROM series WHERE signature IN (SELECT value FROM each(?))",
        signatures,
    )
    return [_series(row) for row in rows]


def all_levels(db: Session) -> dict[SeriesKey, Level]:
    """Return what stands in every series, as far as tallies were added."""
    return {row.key: row.level for row in map(_series, db.all(f"SELECT {_SERIES} FROM series"))}


def of_kind(db: Session, kind: str, tenant: str | None, most: int) -> list[SeriesRow]:
    """Return the series of a kind, of one tenant or all."""
    rows = db.all(
        f"""
        SELECT {_SERIES} FROM series
        WHERE kind = ? AND (tenant = ? OR ? = 0) ORDER BY tenant, signature LIMIT ?
        """,
        kind,
        tenant or "",
        int(tenant is not None),
        most,
    )
    return [_series(row) for row in rows]


def busiest_of_kind(db: Session, kind: str, tenant: str | None, looked_at: int, most: int) -> list[SeriesRow]:
    """Return the series of a kind in which most stands, and then those that changed last, among the first so many."""
    rows = db.all(
        f"""
        SELECT {_SERIES} FROM (
            SELECT * FROM series WHERE kind = ? AND (tenant = ? OR ? = 0) ORDER BY tenant LIMIT ?
        ) AS s ORDER BY waiting + used DESC, at DESC, signature LIMIT ?
        """,
        kind,
        tenant or "",
        int(tenant is not None),
        looked_at,
        most,
    )
    return [_series(row) for row in rows]


def that_keep(db: Session, kind: str, tenant: str | None, looked_at: int, most: int) -> list[SeriesRow]:
    """Return the series of kinds that begin so that keep most jobs, of one tenant or all, among the first so many."""
    rows = db.all(
        f"""
        SELECT {_SERIES} FROM (
            SELECT * FROM series WHERE kept > 0 ORDER BY kept DESC LIMIT ?
        ) AS s WHERE kind LIKE ? AND (tenant = ? OR ? = 0) ORDER BY kept DESC, tenant, signature LIMIT ?
        """,
        looked_at,
        f"{kind}%",
        tenant or "",
        int(tenant is not None),
        most,
    )
    return [_series(row) for row in rows]


def by_id(db: Session, ids: Sequence[int]) -> list[SeriesRow]:
    """Return series."""
    rows = db.all(f"SELECT {_SERIES} FROM series WHERE id IN (SELECT value FROM each(?))", list(ids))
    return [_series(row) for row in rows]


def save(db: Session, rows: Iterable[SeriesRow]) -> None:
    """Keep series."""
    db.many(
        """
        INSERT INTO series (id, kind, tenant, signature, at, waiting, kept, scheduled, used)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET at = excluded.at, waiting = excluded.waiting, kept = excluded.kept,
            scheduled = excluded.scheduled, used = excluded.used
        """,
        [(id_, key.kind, key.tenant, key.signature, *astuple(level)) for id_, key, level in rows],
    )


def forget_idle(db: Session, before: int, most: int) -> int:
    """Delete series in which nothing stands and of which nothing is remembered; return how many."""
    return db.run(
        """
        DELETE FROM series WHERE id IN EVERY (
            SELECT s.id FROM series s WHERE s.at < ? AND s.waiting = 0 AND s.kept = 0 AND s.scheduled = 0
            AND s.used = 0 AND NOT EXISTS (SELECT 1 FROM minute m WHERE m.series = s.id)
            AND NOT EXISTS (SELECT 1 FROM past p WHERE p.span = 60 AND p.series = s.id)
            AND NOT EXISTS (SELECT 1 FROM past p WHERE p.span = 900 AND p.series = s.id) LIMIT ?)
        """,
        before,
        most,
    )


# Minutes.


def first_minute(db: Session, key: SeriesKey) -> int | None:
    """Return when the first minute began that is kept of a series."""
    row = db.one(
        """
        SELECT min(at) FROM (
            SELECT m.at FROM minute m JOIN series s ON s.id = m.series WHERE s.signature = ?
            UNION ALL SELECT p.at FROM past p JOIN series s ON s.id = p.series WHERE s.signature = ? AND p.span = 60
        ) AS minutes
        """,
        key.signature,
        key.signature,
    )
    return None if row is None else row[0]


def minutes(db: Session, series: Sequence[int], since: int, until: int) -> dict[int, list[Minute]]:
    """Return the minutes of series that began in a span of time, in order."""
    rows = db.all(
        f"""
        SELECT series, at, {_MINUTE} FROM minute WHERE series IN (SELECT value FROM each(?)) AND at >= ? AND at < ?
        ORDER BY series, at
        """,
        list(series),
        since,
        until,
    )
    found: dict[int, list[Minute]] = {}
    for each, at, *values in rows:
        found.setdefault(each, []).append(Minute.of(at, *values))
    return found


def save_minutes(db: Session, rows: Iterable[tuple[int, Minute]]) -> None:
    """Keep (series, minute)."""
    marks = ", ".join("?" * (2 + len(_COLUMNS)))
    db.many(
        f"""
        INSERT INTO minute (series, at, {_MINUTE}) VALUES ({marks}) ON CONFLICT (series, at) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
        """,
        [(series, minute.at, *minute.values()) for series, minute in rows],
    )


def series_before(db: Session, before: int, most: int) -> list[int]:
    """Return series that have minutes which began *before* a moment."""
    rows = db.all("SELECT DISTINCT series FROM minute WHERE at < ? ORDER BY series LIMIT ?", before, most)
    return [series for (series,) in rows]


def busiest(db: Session, before: int, most: int) -> set[int]:
    """Return the series in which most happened, or most jobs were kept, in the minutes that began *before* then."""
    rows = db.all(
        """
        SELECT series FROM minute WHERE at < ? GROUP BY series
        ORDER BY sum(arrived + started + ended) + sum(kept_time) / 1000000 DESC, series LIMIT ?
        """,
        before,
        most,
    )
    return {series for (series,) in rows}


def chosen(db: Session, at: int) -> list[int] | None:
    """Return the series that were chosen to be kept of the quarters before then."""
    row = db.one("SELECT facts FROM past WHERE span = 1 AND series = 0 AND at = ?", at)
    return None if row is None else _decode(row[0])


def choose(db: Session, at: int, series: Iterable[int]) -> None:
    """Choose them, unless others were chosen."""
    db.many(
        """
        INSERT INTO past (span, series, at, facts) VALUES (1, 0, ?, ?) ON CONFLICT (span, series, at) DO NOTHING
        """,
        [(at, _encode(sorted(series)).decode())],
    )


def delete_minutes(db: Session, series: Sequence[int], before: int) -> None:
    """Delete the minutes of series that began before then."""
    db.run("DELETE FROM minute WHERE series IN (SELECT value FROM each(?)) AND at < ?", list(series), before)


# What is older.


def past_at(
    db: Session, span: int, series: Sequence[int], moments: Sequence[int]
) -> dict[tuple[int, int], str]:
    """Return the facts of series, by (series, at), of the rows that begin at these moments."""
    found = db.all(
        """
        SELECT series, at, facts FROM past WHERE span = ? AND series IN (SELECT value FROM each(?))
        AND at IN (SELECT value FROM each(?))
        """,
        span,
        list(series),
        list(moments),
    )
    return {(each, at): facts for each, at, facts in found}


def set_past(db: Session, span: int, rows: Iterable[tuple[int, int, str]]) -> None:
    """Keep (series, at, facts) of a span of seconds."""
    db.many(
        """
        INSERT INTO past (span, series, at, facts) VALUES (?, ?, ?, ?)
        ON CONFLICT (span, series, at) DO UPDATE SET facts = excluded.facts
        """,
        [(span, *row) for row in rows],
    )


def past(db: Session, span: int, series: Sequence[int], since: int) -> dict[int, list[str]]:
    """Return the facts of series since then, in order."""
    rows = db.all(
        """
        SELECT series, facts FROM past WHERE span = ? AND series IN (SELECT value FROM each(?)) AND at >= ?
        ORDER BY series, at
        """,
        span,
        list(series),
        since,
    )
    found: dict[int, list[str]] = {}
    for each, facts in rows:
        found.setdefault(each, []).append(facts)
    return found


def keepers_of(db: Session, at: int) -> list[tuple[int, int]]:
    """Return (series, time) of the gates that kept most jobs in the quarter of an hour that began then."""
    row = db.one("SELECT facts FROM past WHERE span = 0 AND series = 0 AND at = ?", at)
    return [] if row is None else _decode(row[0])


def set_keepers(db: Session, at: int, kept: Sequence[tuple[int, int]]) -> None:
    """Keep them."""
    db.many(
        """
        INSERT INTO past (span, series, at, facts) VALUES (0, 0, ?, ?)
        ON CONFLICT (span, series, at) DO UPDATE SET facts = excluded.facts
        """,
        [(at, _encode(kept).decode())],
    )


def keepers_since(db: Session, since: int) -> dict[int, int]:
    """Return the gates that kept most jobs since then, and for how long they did in the worst of their minutes."""
    found: dict[int, int] = {}
    for (text,) in db.all("SELECT facts FROM past WHERE span = 0 AND series = 0 AND at >= ?", since):
        for series, time in _decode(text):
            found[series] = max(found.get(series, 0), time)
    return found


def forget_past(db: Session, span: int, before: int, most: int) -> int:
    """Delete rows of a span of seconds that begin before then; return how many."""
    rows: list[tuple[int, int]] = db.all(
        "SELECT series, at FROM past WHERE span = ? AND at < ? ORDER BY at LIMIT ?", span, before, most
    )
    db.many("DELETE FROM past WHERE span = ? AND series = ? AND at = ?", [(span, *row) for row in rows])
    return len(rows)


def _series(row: Row) -> SeriesRow:
    id_, signature, *level = row
    return SeriesRow(id_, SeriesKey(*signature.split("\x1f")), Level(*level))
