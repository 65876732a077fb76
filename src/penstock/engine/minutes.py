"""How it was: tallies are added to minutes, minutes to what is older; and all of it is read.

Each transaction leaves a tally, a row that says what it changed.  Upkeep, of any process, deletes tallies and adds them
to minutes in one transaction, so each counts once, whichever process dies when.  What is read includes the tallies that
were not added yet.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.minutes.filled import closed, filled
from penstock.minutes.minute import MINUTE, QUARTER, Level, Minute, packed, together, unpacked
from penstock.minutes.spread import Spread
from penstock.minutes.tally import KEPT, SCHEDULED, WAITING, Told
from penstock.store import minutes as rows
from penstock.store.minutes import SeriesKey, SeriesRow
from penstock.store.session import Locks, Session

TAKEN: Final = 200  # tallies that one transaction adds, so that it stays short
SIZE: Final = 50_000  # characters of them
PENDING: Final = 1_000  # tallies that a reader adds by itself; if there are more they count once upkeep has added them
CHUNK: Final = 100  # series whose minutes are put together in one transaction
LATE: Final = MINUTE  # tallies of the quarter before may come so late
HOUR: Final = 4 * QUARTER
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
BUSIEST: Final = 1_000  # series of which quarters of an hour are kept; the others are kept together
_NAME: Final = "minutes"  # of the lock
_OTHERS: Final = "others"
# Spans of rows of the table `past`, in seconds, and what one row covers.
_MINUTES, _QUARTERS = 60, 900
_STORE: Final = SeriesKey("store", "", "")

_Entry = tuple[int, Sequence[int], Spread, Spread]  # a moment and a change


class MinuteVerbs(Transactions):
    def add_tallies(self) -> int:
        """Add a bounded number of tallies to minutes; return how many."""

        def work(board: Board) -> int:
            board.db.lock([_NAME])
            return _add(board.db, rows.take(board.db, _number(rows.sizes(board.db, TAKEN))))

        if not self.store.read(lambda db: rows.pending(db, 1)):
            return 0
        return self._write(work, Locks.NONE, keep=False)

    def pack_minutes(self) -> int:
        """Put minutes of quarters of an hour that are over together, and forget what is old; return how many series."""
        end = (self._time.seen() - LATE) // QUARTER * QUARTER
        if not self.store.read(lambda db: rows.series_before(db, 0, end, 1)):
            return 0
        busiest = self.store.read(lambda db: rows.busiest(db, end, BUSIEST))
        total, after = 0, 0
        while True:

            def work(board: Board, after: int = after) -> list[int]:
                board.db.lock([_NAME])
                return _pack(board.db, after, end, busiest)

            done = self._write(work, Locks.NONE, keep=False)
            if not done:
                break
            total, after = total + len(done), done[-1]
        self._write(lambda board: _forget(board.db, end), Locks.NONE, keep=False)
        return total

    def minutes_of(self, keys: Sequence[SeriesKey], *, last: int = HOUR) -> dict[SeriesKey, list[Minute]]:
        """Return what happened in each minute of the *last* hour; or in each quarter of an hour, if that is longer."""
        now = self._time.seen()
        return self.store.read(lambda db: _Reading(db, keys, now).of(last))

    def levels(self, keys: Sequence[SeriesKey]) -> dict[SeriesKey, Level]:
        """Return what stands in these series."""
        now = self._time.seen()
        return self.store.read(lambda db: _Reading(db, keys, now).levels())


class _Changes:
    """What tallies changed, by series, in the order in which it happened."""

    def __init__(self, db: Session, tallies: Iterable[tuple[int, str]]) -> None:
        self.by_series: dict[SeriesKey, list[_Entry]] = {}
        told = sorted((Told(*tally) for tally in tallies), key=lambda each: each.at)
        gates = {gate for each in told for gate, *_ in each.gates()}
        names = rows.of_gates(db, sorted(gates)) if gates else {}
        for each in told:
            for gate, *change in each.gates():
                if gate in names:
                    self._add(names[gate], each.at, *change)
            for (tenant, queue, task), *change in each.tasks():
                for key in _series_of(tenant, queue, task):
                    self._add(key, each.at, *change)
            for (tenant, queue), kept, put_off in each.lines():
                numbers = [0] * 10
                numbers[KEPT], numbers[WAITING], numbers[SCHEDULED] = kept, -put_off, put_off
                for key in _series_of(tenant, queue, None):
                    self._add(key, each.at, numbers, {}, {})

    def _add(self, key: SeriesKey, at: int, numbers: Sequence[int], waits: Spread, held: Spread) -> None:
        self.by_series.setdefault(key, []).append((at, numbers, waits, held))


def _series_of(tenant: str, queue: str, task: str | None) -> list[SeriesKey]:
    """Return the series in which a job counts."""
    found = [_STORE, SeriesKey("queue", tenant, queue)]
    if task is not None:
        found.append(SeriesKey("task", tenant, task))
    if tenant:
        found.append(SeriesKey("tenant", tenant, ""))
    return found


class _Applied(NamedTuple):
    series: list[SeriesRow]
    minutes: dict[tuple[SeriesKey, int], Minute]


def _apply(known: dict[SeriesKey, SeriesRow], minutes: dict[int, list[Minute]], changes: _Changes) -> _Applied:
    """Add changes to series and their minutes."""
    applied = _Applied([], {})
    for key, entries in changes.by_series.items():
        row = known[key]
        of_series = {minute.at: minute for minute in minutes.get(row.id, ())}
        for at, numbers, waits, held in entries:
            begins = at - at % MINUTE
            minute = of_series.get(begins)
            if minute is None:
                minute = of_series[begins] = Minute.after(begins, row.level)
            minute.count(row.level, at, numbers, waits, held)
            applied.minutes[key, begins] = minute
        applied.series.append(row)
    return applied


def _number(sizes: Sequence[int]) -> int:
    """Return how many tallies, given their sizes, one transaction adds: at least one."""
    return max(bisect_right(list(accumulate(sizes)), SIZE), 1)


def _known(db: Session, keys: Iterable[SeriesKey]) -> dict[SeriesKey, SeriesRow]:
    return {row.key: row for row in rows.known(db, keys)}


def _add(db: Session, tallies: Sequence[tuple[int, str]]) -> int:
    changes = _Changes(db, tallies)
    if changes.by_series:
        known = _with_new(db, changes.by_series)
        begins = [at - at % MINUTE for at, _ in tallies]
        minutes = rows.minutes(db, [row.id for row in known.values()], min(begins), max(begins) + 1)
        applied = _apply(known, minutes, changes)
        rows.save(db, applied.series)
        rows.save_minutes(db, [(known[key].id, minute) for (key, _), minute in applied.minutes.items()])
    return len(tallies)


def _with_new(db: Session, keys: Iterable[SeriesKey]) -> dict[SeriesKey, SeriesRow]:
    """Return series, with numbers for those that are new."""
    wanted = list(keys)
    known = _known(db, wanted)
    missing = [key for key in wanted if key not in known]
    for id_, key in zip(db.numbers(len(missing)) if missing else (), missing, strict=True):
        known[key] = SeriesRow(id_, key, Level())
    return known


def _pack(db: Session, after: int, end: int, busiest: set[int]) -> list[int]:
    """Put the minutes of some series together that began before the *end*; return these series."""
    series = rows.series_before(db, after, end, CHUNK)
    if not series:
        return []
    minutes = rows.minutes(db, series, 0, 2**62)
    hours: list[tuple[int, int, str]] = []
    days: list[tuple[int, int, str]] = []
    others: dict[tuple[str, int], list[Minute]] = {}
    for row in rows.by_id(db, series):
        whole = closed(minutes[row.id], MINUTE, row.level, 2**62)
        for quarter in sorted({at - at % QUARTER for minute in whole if (at := minute.at) < end}):
            past = [minute for minute in whole if quarter <= minute.at < quarter + QUARTER]
            hours.append((row.id, quarter, packed(past)))
            sum_ = together(quarter, filled(whole, MINUTE, row.level, quarter, quarter + QUARTER))
            if row.id in busiest or row.key.kind == _OTHERS:
                days.append((row.id, quarter - quarter % DAY, packed([sum_])))
            else:
                others.setdefault((row.key.kind, quarter), []).append(sum_)
    ids = _with_new(db, {SeriesKey(_OTHERS, "", kind) for kind, _ in others})
    days += [
        (ids[SeriesKey(_OTHERS, "", kind)].id, quarter - quarter % DAY, packed([together(quarter, found)]))
        for (kind, quarter), found in others.items()
    ]
    rows.save(db, [row for row in ids.values()])
    rows.add_past(db, _MINUTES, hours)
    rows.add_past(db, _QUARTERS, _one_row_each(days))
    rows.delete_minutes(db, series, end)
    return series


def _one_row_each(found: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Put texts of the same row together: no statement may change a row twice."""
    texts: dict[tuple[int, int], str] = {}
    for series, at, text in found:
        texts[series, at] = texts.get((series, at), "") + text
    return [(*key, text) for key, text in texts.items()]


def _forget(db: Session, end: int) -> None:
    """Forget what is older than an hour, or a week, and series of which nothing is known any more."""
    rows.forget_past(db, _MINUTES, end - HOUR - QUARTER, 20 * CHUNK)
    rows.forget_past(db, _QUARTERS, end - WEEK - DAY, 20 * CHUNK)
    rows.forget_idle(db, end - WEEK, CHUNK)


class _Reading:
    """Reads series, with the tallies that were not added yet."""

    def __init__(self, db: Session, keys: Sequence[SeriesKey], now: int) -> None:
        self._db = db
        self._keys = keys
        self._now = now
        self._known = _known(db, keys)
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
            key: filled(found.get(key, ()), span, self._level(key), since, self._now) for key in self._keys
        }

    def _level(self, key: SeriesKey) -> Level:
        return self._known[key].level if key in self._known else Level()

    def _of_minutes(self, since: int) -> dict[SeriesKey, list[Minute]]:
        self._read(since)
        ids = {row.id: key for key, row in self._known.items()}
        found = {
            ids[id_]: [minute for text in texts for minute in unpacked(text)]
            for id_, texts in rows.past(self._db, _MINUTES, list(ids), since).items()
        }
        for id_, key in ids.items():
            whole = closed(self._minutes.get(id_, []), MINUTE, self._level(key), self._now)
            found.setdefault(key, []).extend(whole)
        return found

    def _of_quarters(self, since: int) -> dict[SeriesKey, list[Minute]]:
        ids = {row.id: key for key, row in self._known.items()}
        found = {
            ids[id_]: [quarter for text in texts for quarter in unpacked(text) if quarter.at >= since]
            for id_, texts in rows.past(self._db, _QUARTERS, list(ids), since - since % DAY).items()
        }
        self._read(0)
        for id_, key in ids.items():
            whole = closed(self._minutes.get(id_, []), MINUTE, self._level(key), self._now)
            for begins in sorted({minute.at - minute.at % QUARTER for minute in whole}):
                until = min(begins + QUARTER, self._now)
                parts = filled(whole, MINUTE, self._level(key), begins, until)
                found.setdefault(key, []).append(together(begins, parts))
        return found

    def _read(self, since: int) -> None:
        """Read the minutes that were not put together yet, and add what is pending to them."""
        tallies = rows.pending(self._db, PENDING + 1)
        self._minutes = rows.minutes(self._db, [row.id for row in self._known.values()], since, 2**62)
        if len(tallies) > PENDING:
            return
        changes = _Changes(self._db, tallies)
        changes.by_series = {key: entries for key, entries in changes.by_series.items() if key in self._keys}
        for number, key in enumerate(changes.by_series, 1):
            self._known.setdefault(key, SeriesRow(-number, key, Level()))
        applied = _apply(self._known, self._minutes, changes)
        for (key, _), minute in applied.minutes.items():
            of_series = self._minutes.setdefault(self._known[key].id, [])
            if all(each.at != minute.at for each in of_series):
                of_series.append(minute)
        for of_series in self._minutes.values():
            of_series.sort(key=lambda each: each.at)
