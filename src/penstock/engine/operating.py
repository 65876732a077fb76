"""What operators ask for and decide: which jobs fit, how many are where, and settings."""

from collections.abc import Iterable

from penstock.engine.board import Board
from penstock.engine.look import job_view
from penstock.errors import InvalidError
from penstock.job import JobFilter, JobView, QueueCounts
from penstock.store import counts, queues, settings
from penstock.store import search as found
from penstock.store.session import Row, Session

MAX_NAME = 512


def search(board: Board, wanted: JobFilter, offset: int, limit: int) -> tuple[list[JobView], int]:
    """Return a page of the jobs that fit, newest first, and how many there are."""
    rows = found.search(board.db, board.now, wanted, offset, limit)
    return [job_view(row, board.now) for row in rows], found.total(board.db, board.now, wanted)


def matching(board: Board, wanted: JobFilter, limit: int) -> tuple[list[str], int]:
    """Return the ids of the jobs that fit, oldest first, and how many there are."""
    return found.ids(board.db, board.now, wanted, limit), found.total(board.db, board.now, wanted)


def tally(board: Board) -> list[QueueCounts]:
    """Count the jobs of each queue."""
    return _tallies(counts.tally(board.db, board.now))


def ended_since(db: Session, since: int) -> list[QueueCounts]:
    """Count the jobs of each queue that ended after then."""
    return _tallies(counts.ended_since(db, since))


def pause(board: Board, queue: str) -> None:
    """Let nothing start from a queue."""
    queues.pause(board.db, queue, board.now)
    board.events.tell("queue.paused", queue=queue)


def resume(board: Board, queue: str) -> None:
    """Let jobs start from a queue again."""
    queues.resume(board.db, queue)
    board.events.tell("queue.resumed", queue=queue)


def set_setting(board: Board, name: str, value: str | None) -> None:
    """Keep what was decided; None forgets it."""
    if not name or len(name) > MAX_NAME or "\0" in name or "\0" in (value or ""):
        raise InvalidError("name", f"must be 1 to {MAX_NAME} characters without NUL")
    if value is None:
        settings.delete(board.db, name)
    else:
        settings.put(board.db, name, value, board.now)


def _tallies(rows: Iterable[Row]) -> list[QueueCounts]:
    found: dict[tuple[str, str], QueueCounts] = {}
    for tenant, queue, state, number in rows:
        of_queue = found.setdefault((tenant, queue), QueueCounts(tenant, queue, {}))
        of_queue.counts[state] = of_queue.counts.get(state, 0) + number
    return list(found.values())
