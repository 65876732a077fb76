"""Compare what minutes say with jobs and attempts, for `doctor`."""

from collections.abc import Iterator

from penstock.engine.admission.board import Board
from penstock.engine.minutes import HOUR, standing
from penstock.engine.reading import Reading
from penstock.engine.tallies import EVERY
from penstock.minutes.minute import MINUTE, Level
from penstock.store import minutes as rows
from penstock.store import standing as standing_rows
from penstock.store.minutes import STORE, SeriesKey


def miscounted(board: Board) -> Iterator[str]:
    """Return a sentence for each difference."""
    for lane, stored, true in standing_rows.miscounted_lanes(board.db):
        yield f"lane {lane} counts {stored} jobs, but {true} stand in it"
    stored_levels = rows.all_levels(board.db)
    if STORE not in stored_levels:
        return  # nothing was added yet
    true_levels = standing(board.db)
    for key in sorted({*stored_levels, *true_levels}):
        if key.kind != rows.OTHERS:
            yield from _levels(key, stored_levels.get(key, Level()), true_levels.get(key, Level()))
    yield from _attempts(board)


def _levels(key: SeriesKey, stored: Level, true: Level) -> Iterator[str]:
    for what in ("waiting", "kept", "scheduled", "used"):
        one, other = getattr(stored, what), getattr(true, what)
        if one != other:
            yield f"minutes count {one} {what} for {_named(key)}, but {other} are"


def _attempts(board: Board) -> Iterator[str]:
    """Look whether minutes have every attempt that ended: of the last hour, but for the minute in which they begin.

    They may have more: jobs are deleted, and of one that was tried often the first attempts are forgotten.
    """
    first = rows.first_minute(board.db, STORE)
    if first is None:
        return
    minutes = Reading(board.db, [STORE], board.now, EVERY).of(HOUR)[STORE]
    since = max(minutes[0].at, first + MINUTE)
    counted = [minute for minute in minutes if minute.at >= since]
    for what, stored, true in (
        ("ended", sum(m.ended - m.undone for m in counted), standing_rows.ended(board.db, since, board.now)),
        ("failed", sum(m.failed for m in counted), standing_rows.failed(board.db, since, board.now)),
    ):
        if stored < true:
            yield f"minutes count {stored} attempts that {what} in the last hour, but {true} did"


def _named(key: SeriesKey) -> str:
    named = f"{key.kind} {key.name!r}" if key.name else key.kind
    return f"{named} of tenant {key.tenant!r}" if key.tenant else named
