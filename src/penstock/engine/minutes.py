"""How it was: tallies are added to minutes, and minutes to what is older.

Each transaction leaves a tally, a row that says what it changed.  Upkeep, of any process, deletes tallies and adds them
to minutes in one transaction, so each counts once, whichever process dies when.

Invariant: what stands in a series, with the tallies that were not added yet, is what stands in the store.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.tallies import EVERY, Changes, apply, changes, first_changes
from penstock.engine.transactions import Transactions
from penstock.minutes.filled import filled
from penstock.minutes.minute import MINUTE, QUARTER, Level, Minute, packed, together
from penstock.store import minutes as rows
from penstock.store import settings as setting_rows
from penstock.store import standing as standing_rows
from penstock.store.minutes import STORE, SeriesKey, SeriesRow
from penstock.store.session import Locks, Session

TAKEN: Final = 1_000  # tallies that one transaction adds
SIZE: Final = 400_000  # characters of them
TOGETHER: Final = 300  # gates that one transaction writes, so that it stays short
ROUNDS: Final = 100  # transactions, one after the other
CHUNK: Final = 25  # series whose minutes are put together in one transaction
FORGOTTEN: Final = 500  # rows of each kind that one transaction deletes
LATE: Final = MINUTE  # tallies of the quarter before may come so late
HOUR: Final = 4 * QUARTER
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
BUSIEST: Final = 1_000  # series of which quarters of an hour are kept; the others are kept together
SET_BUSIEST: Final = "minutes:busiest"  # the setting in place of that, and of the days of a week
SET_DAYS: Final = "minutes:days"
KEEPERS: Final = 50  # gates of which it is remembered that they kept most jobs in a quarter of an hour
GATES: Final = "gate."  # how the kinds of their series begin
_NAME: Final = "minutes"  # of the lock
# Spans of rows of the table `past`, in seconds, and what one row covers.
MINUTES, QUARTERS = 60, 900


class MinuteVerbs(Transactions):
    def keep_minutes(self) -> int:
        """Add tallies, a bounded number, and put together what is over; return how many were added."""
        added = 0
        for _ in range(ROUNDS):
            step = self.add_tallies()
            added += step
            if not step:
                break
        quarter = (self._time.seen() - LATE) // QUARTER
        if quarter != self._packed and self.pack_minutes():
            self._packed = quarter
        return added

    def recount(self) -> None:
        """Count once more what stands; what happened is left as it is.

        Takes as long as it takes to read every job that has not ended, and holds the gates meanwhile.
        """

        def work(board: Board) -> None:
            board.db.lock([_NAME])
            standing_rows.set_lanes(board.db)
            # In one view of the store, in which each transaction is there with its tally, or not at all.
            true = self.store.read(standing) if self.far else standing(board.db)
            known = _with_new(board.db, {STORE, *true, *rows.all_levels(board.db)}).values()
            rows.save(board.db, [row.standing_at(true.get(row.key, Level())) for row in known])

        self._write(work)

    def add_tallies(self) -> int:
        """Add a bounded number of tallies to minutes; return how many.

        They are read and counted before the transaction that deletes and adds them, so that it stays short.
        """

        def work(board: Board) -> None:
            board.db.lock([_NAME])
            if rows.take(board.db, [number for number, _, _ in tallies]) != tallies:
                raise _TakenError
            _add(board.db, found)

        tallies, found = self.store.read(_first)
        if not tallies:
            return 0
        if not self.store.read(lambda db: rows.known(db, [STORE])):
            self.recount()  # jobs may have come before minutes were kept
        with suppress(_TakenError):
            self._write(work, Locks.NONE, keep=False)
            return len(tallies)
        return 0

    def pack_minutes(self) -> bool:
        """Put minutes of quarters that are over together, and forget what is old; tell whether all is done."""
        end = (self._time.seen() - LATE) // QUARTER * QUARTER
        if not self.store.read(lambda db: rows.series_before(db, end, 1)):
            return True
        most, span = self.store.read(_kept)
        busiest = self._busiest(end, most)

        def work(board: Board) -> bool:
            board.db.lock([_NAME])
            return _pack(board.db, end, busiest)

        steps = [work, lambda board: _forget(board.db, end, span)]
        for _ in range(ROUNDS):
            if not self._write(steps[0], Locks.NONE, keep=False):
                steps.pop(0)
            if not steps:
                return True
        return False

    def _busiest(self, end: int, most: int) -> set[int]:
        """Return the busiest series of the quarters that are put together; chosen once, by the first process."""
        chosen = self.store.read(lambda db: rows.chosen(db, end))
        if chosen is None:
            found = self.store.read(lambda db: rows.busiest(db, end, most))
            self._write(lambda board: rows.choose(board.db, end, found), Locks.NONE, keep=False)
            chosen = self.store.read(lambda db: rows.chosen(db, end))
        return set(chosen or ())


def standing(db: Session) -> dict[SeriesKey, Level]:
    """Count what stands in each series, without what the tallies changed that were not added yet."""
    found = dict[SeriesKey, Level]()

    def level(key: SeriesKey) -> Level:
        return found.setdefault(key, Level())

    for job, stands in standing_rows.by_task(db).items():
        for key in rows.series_of(*job):
            level(key).waiting += stands.waiting
            level(key).used += stands.used
    for tenant, queue, kept, put_off in standing_rows.kept_by_queue(db):
        for key in rows.series_of(tenant, queue, None):
            level(key).kept += kept
            level(key).scheduled += put_off
            level(key).waiting -= put_off
    gates = standing_rows.by_gate(db)
    names = rows.of_gates(db, list(gates))
    for gate, stands in gates.items():
        found[names[gate]] = stands
    for (key, _), change in changes(db, rows.pending(db, EVERY)).items():
        stands = level(key)
        stands.waiting -= change.waiting
        stands.kept -= change.kept
        stands.scheduled -= change.scheduled
        stands.used -= change.used
    return found


class _TakenError(Exception):
    """Another process has added some of these tallies."""


def _first(db: Session) -> tuple[list[tuple[int, int, str]], Changes]:
    """Return the first tallies, and what they changed."""
    tallies = rows.first(db, TAKEN)
    size = bisect_right(list(accumulate(len(facts) for _, _, facts in tallies)), SIZE)
    tallies = tallies[: max(size, 1)]
    found, read = first_changes(db, [(at, facts) for _, at, facts in tallies], TOGETHER)
    return tallies[:read], found


def _known(db: Session, keys: Iterable[SeriesKey]) -> dict[SeriesKey, SeriesRow]:
    return {row.key: row for row in rows.known(db, keys)}


def _add(db: Session, found: Changes) -> None:
    if not found:
        return
    known = _with_new(db, {key: None for key, _ in found})
    begins = [begins for _, begins in found]
    minutes = rows.minutes(db, [row.id for row in known.values()], min(begins), max(begins) + 1)
    applied = apply(known, minutes, found)
    rows.save(db, known.values())
    rows.save_minutes(db, [(known[key].id, minute) for (key, _), minute in applied.items()])
    _note_keepers(db, {key: row.id for key, row in known.items()}, applied)


def _note_keepers(
    db: Session, ids: Mapping[SeriesKey, int], applied: Mapping[tuple[SeriesKey, int], Minute]
) -> None:
    """Remember for each quarter of an hour which gates kept most jobs in one of its minutes."""
    found: dict[int, dict[int, int]] = {}
    for (key, begins), minute in applied.items():
        if minute.kept_time > 0 and key.kind.startswith(GATES):
            quarter = found.setdefault(begins - begins % QUARTER, {})
            quarter[ids[key]] = max(quarter.get(ids[key], 0), minute.kept_time)
    for begins, kept in found.items():
        for series, time in rows.keepers_of(db, begins):
            kept[series] = max(kept.get(series, 0), time)
        most = sorted(kept.items(), key=lambda each: -each[1])[:KEEPERS]
        rows.set_keepers(db, begins, most)


def _with_new(db: Session, keys: Iterable[SeriesKey]) -> dict[SeriesKey, SeriesRow]:
    """Return series, with numbers for those that are new."""
    wanted = list(keys)
    known = _known(db, wanted)
    missing = [key for key in wanted if key not in known]
    for id_, key in zip(db.numbers(len(missing)) if missing else (), missing, strict=True):
        known[key] = SeriesRow(id_, key, Level())
    return known


def _pack(db: Session, end: int, busiest: set[int]) -> bool:
    """Put the minutes of some series together that began before the *end*; tell whether there may be more."""
    series = rows.series_before(db, end, CHUNK)
    minutes = rows.minutes(db, series, 0, 2**62)
    hours: list[tuple[int, int, Minute]] = []
    days: list[tuple[int, int, Minute]] = []
    others: dict[tuple[str, int], list[Minute]] = {}
    for row in rows.by_id(db, series):
        whole = minutes[row.id]
        for quarter in sorted({at - at % QUARTER for minute in whole if (at := minute.at) < end}):
            hours += [
                (row.id, quarter, minute) for minute in whole if quarter <= minute.at < quarter + QUARTER
            ]
            sum_ = together(quarter, filled(whole, MINUTE, row.level, quarter, quarter + QUARTER))
            if row.id in busiest or row.key.kind == rows.OTHERS:
                days.append((row.id, quarter - quarter % DAY, sum_))
            else:
                others.setdefault((row.key.kind, quarter), []).append(sum_)
    ids = _with_new(db, {SeriesKey(rows.OTHERS, "", kind) for kind, _ in others})
    days += [
        (ids[SeriesKey(rows.OTHERS, "", kind)].id, quarter - quarter % DAY, together(quarter, found))
        for (kind, quarter), found in others.items()
    ]
    rows.save(db, list(ids.values()))
    _add_past(db, MINUTES, hours)
    _add_past(db, QUARTERS, days)
    rows.delete_minutes(db, series, end)
    return len(series) == CHUNK


def _add_past(db: Session, span: int, found: Iterable[tuple[int, int, Minute]]) -> None:
    """Add (series, beginning of a row, what happened) to what is older."""
    texts: dict[tuple[int, int], list[Minute]] = {}
    for series, at, minute in found:
        texts.setdefault((series, at), []).append(minute)
    known = rows.past_at(db, span, sorted({series for series, _ in texts}), sorted({at for _, at in texts}))
    rows.set_past(db, span, [(*key, packed(minutes, known.get(key, ""))) for key, minutes in texts.items()])


def _kept(db: Session) -> tuple[int, int]:
    """Return of how many series quarters of an hour are kept, and for how long."""
    found = setting_rows.of(db, [SET_BUSIEST, SET_DAYS])
    most, days = (found.get(name, "") for name in (SET_BUSIEST, SET_DAYS))
    return int(most) if most.isdecimal() else BUSIEST, int(days) * DAY if days.isdecimal() else WEEK


def _forget(db: Session, end: int, span: int) -> bool:
    """Forget what is older than an hour, or a *span*; tell whether there may be more."""
    rows.forget_swept(db, end - HOUR)
    forgotten = [
        rows.forget_past(db, rows.CHOSEN, end - HOUR, FORGOTTEN),
        rows.forget_past(db, rows.KEPT_MOST, end - span - DAY, FORGOTTEN),
        rows.forget_past(db, MINUTES, end - HOUR - QUARTER, FORGOTTEN),
        rows.forget_past(db, QUARTERS, end - span - DAY, FORGOTTEN),
        rows.forget_idle(db, end - span, FORGOTTEN),
    ]
    return max(forgotten) == FORGOTTEN
