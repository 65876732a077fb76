"""Read series of minutes, with the tallies that were not added yet."""

from collections.abc import Sequence
from typing import Final

from penstock.engine.minutes import DAY, GATES, HOUR, MINUTES, QUARTERS
from penstock.engine.tallies import apply, changes
from penstock.minutes.filled import filled
from penstock.minutes.minute import MINUTE, QUARTER, Level, Minute, together, unpacked
from penstock.store import minutes as rows
from penstock.store.minutes import STORE, SeriesKey, SeriesRow
from penstock.store.session import Session

LOOKED_AT: Final = 1_000  # series among which those of a tenant are looked for
PENDING: Final = 200  # tallies that a reader adds itself; more of them count once upkeep has added them


def queues(db: Session, tenant: str | None, most: int) -> dict[SeriesKey, Level] | None:
    """Return what stands in queues, as `known` does."""
    return _known(db, rows.of_kind(db, "queue", tenant, most), "queue", tenant)


def keepers(db: Session, tenant: str | None, most: int) -> dict[SeriesKey, Level] | None:
    """Return what stands at the gates that keep most jobs, as `known` does."""
    found = _known(db, rows.that_keep(db, GATES, tenant, LOOKED_AT, most), GATES, tenant)
    if found is None:
        return None
    order = sorted(
        (key for key, level in found.items() if level.kept > 0), key=lambda key: (-found[key].kept, key)
    )
    return {key: found[key] for key in order[:most]}


def _known(
    db: Session, found: Sequence[SeriesRow], kind: str, tenant: str | None
) -> dict[SeriesKey, Level] | None:
    """Return what stands in series, and in others of their kind that changed since; None if that is not known yet.

    That is so while upkeep has too much to add, or before it added anything.
    """
    tallies = rows.pending(db, PENDING + 1)
    if len(tallies) > PENDING or not rows.known(db, [STORE]):
        return None
    since = changes(db, tallies)
    levels = {row.key: row.level for row in found}
    changed = {key for key, _ in since if key.kind.startswith(kind) and tenant in (None, key.tenant)}
    levels |= {row.key: row.level for row in rows.known(db, changed - levels.keys())}
    for (key, _), change in since.items():
        if key in changed:
            level = levels.setdefault(key, Level())
            level.waiting += change.waiting
            level.kept += change.kept
            level.scheduled += change.scheduled
            level.used += change.used
    return levels


class Reading:
    """Reads series, with the tallies that were not added yet."""

    def __init__(self, db: Session, keys: Sequence[SeriesKey], now: int, most: int = PENDING) -> None:
        self._db = db
        self._keys = keys
        self._now = now
        self._most = most
        self._known = {row.key: row for row in rows.known(db, keys)}
        self._pending: dict[tuple[SeriesKey, int], Minute] = {}
        self._minutes: dict[int, list[Minute]] = {}

    def levels(self) -> dict[SeriesKey, Level]:
        """Return what stands in each."""
        self._read(self._now - self._now % MINUTE)
        return {key: self._known[key].level if key in self._known else Level() for key in self._keys}

    def of(self, last: int) -> dict[SeriesKey, list[Minute]]:
        """Return what happened in each minute, or quarter of an hour."""
        if last <= HOUR:
            since = self._now - self._now % MINUTE - last + MINUTE
            return self._filled(MINUTE, since, self._of_minutes(since - since % QUARTER))
        since = self._now - self._now % QUARTER - last + QUARTER
        return self._filled(QUARTER, since, self._of_quarters(since))

    def _filled(
        self, span: int, since: int, found: dict[SeriesKey, list[Minute]]
    ) -> dict[SeriesKey, list[Minute]]:
        return {
            key: filled(found.get(key, ()), span, self._level(key), since, self._now + 1)
            for key in self._keys
        }

    def _level(self, key: SeriesKey) -> Level:
        return self._known[key].level if key in self._known else Level()

    def _of_minutes(self, since: int) -> dict[SeriesKey, list[Minute]]:
        self._read(since)
        ids = {row.id: key for key, row in self._known.items()}
        found = {
            ids[id_]: [minute for text in texts for minute in unpacked(text)]
            for id_, texts in rows.past(self._db, MINUTES, list(ids), since).items()
        }
        for id_, key in ids.items():
            found.setdefault(key, []).extend(self._minutes.get(id_, []))
        return found

    def _of_quarters(self, since: int) -> dict[SeriesKey, list[Minute]]:
        ids = {row.id: key for key, row in self._known.items()}
        found = {
            ids[id_]: [quarter for text in texts for quarter in unpacked(text) if quarter.at >= since]
            for id_, texts in rows.past(self._db, QUARTERS, list(ids), since - since % DAY).items()
        }
        self._read(0)
        for id_, key in ids.items():
            whole = self._minutes.get(id_, [])
            for begins in sorted({minute.at - minute.at % QUARTER for minute in whole}):
                until = min(begins + QUARTER, self._now)
                parts = filled(whole, MINUTE, self._level(key), begins, until)
                found.setdefault(key, []).append(together(begins, parts))
        return found

    def _read(self, since: int) -> None:
        """Read the minutes that were not put together yet, and add what is pending to them."""
        tallies = rows.pending(self._db, self._most + 1)
        self._minutes = rows.minutes(self._db, [row.id for row in self._known.values()], since, 2**62)
        if len(tallies) <= self._most:
            self._add(tallies)
        self._until_now()

    def _add(self, tallies: Sequence[tuple[int, str]]) -> None:
        """Add what is pending."""
        found = {key: change for key, change in changes(self._db, tallies).items() if key[0] in self._keys}
        for number, (key, _) in enumerate(found, 1):
            self._known.setdefault(key, SeriesRow(-number, key, Level()))
        applied = apply(self._known, self._minutes, found)
        for (key, _), minute in applied.items():
            of_series = self._minutes.setdefault(self._known[key].id, [])
            if all(each.at != minute.at for each in of_series):
                of_series.append(minute)
        for of_series in self._minutes.values():
            of_series.sort(key=lambda each: each.at)

    def _until_now(self) -> None:
        """Leave out what lies ahead in minutes that are not over."""
        for row in self._known.values():
            for minute in self._minutes.get(row.id, ()):
                minute.until(self._now, row.level)
