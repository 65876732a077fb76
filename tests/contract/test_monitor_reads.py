"""Each page of the monitor reads a bounded number of rows, by a bounded number of statements, of a store of any size.

What SQLite reads is counted in steps of its machine.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from penstock.clock import SECOND
from penstock.engine import Engine, open_engine
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Limit, Numbers, Window
from penstock.monitor.page import View
from penstock.monitor.pages.table import PAGES
from penstock.monitor.requests import Query
from penstock.store.session import Session
from tests.support.soak import often

# Jobs.  Where a page stops looking, at 20,000 of a kind, is between the first and the second.
FEW, MANY, MORE = 500, often(50_000, 100_000), often(100_000, 200_000)
BATCH = 5_000
STATEMENTS = 120  # of one page
ROWS = 2_000  # that one page gets
NEEDED = {"/gate": {"key": "hot"}, "/job": {"id": "first"}, "/workflow": {"id": "run"}}
QUERIES = [
    *((page.path, NEEDED.get(page.path, {})) for page in PAGES if page.path != "/workflow"),
    ("/jobs", {"state": "waiting", "task": "no such"}),
    ("/jobs", {"key": "hot", "words": "no such"}),
    ("/jobs", {"state": "done", "error": "no such"}),
    ("/gates", {"order": "name", "prefix": "key:1"}),
    ("/find", {"q": "task"}),
    ("/plan", {"key": "hot"}),
]


def fill(engine: Engine, jobs: int) -> None:
    """Let half of the jobs wait behind one key and many, and most of the others have ended or wait for a worker."""
    hot = Limit("hot", Numbers(rate=Window(5, 3_600 * SECOND)))
    engine.enqueue([NewJob(task="task", limits=(hot,), id="first", queue="limited")])
    for start in range(0, jobs // 2, BATCH):
        engine.enqueue(
            [
                NewJob(
                    task="task",
                    queue="limited",
                    limits=(hot, Limit(f"key:{n % (jobs // 100)}", Numbers(slots=1))),
                )
                for n in range(start, min(start + BATCH, jobs // 2))
            ]
        )
    for start in range(0, jobs // 2, BATCH):
        engine.enqueue(
            [NewJob(task="task", queue="free") for _ in range(start, min(start + BATCH, jobs // 2))]
        )
    engine.claim(["limited"], 5, worker="worker", lease=3_600 * SECOND)
    for _ in range(jobs // 4 // BATCH + 1):
        ended = engine.claim(["free"], min(BATCH, jobs // 4), worker="worker", lease=3_600 * SECOND).jobs
        engine.settle([Settlement(job.seq, job.fence, Done()) for job in ended])


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Engine]]:
    """Give a file with few jobs, one with many, one with more."""
    folder = tmp_path_factory.mktemp("sizes")
    engines = {}
    for jobs in (FEW, MANY, MORE):
        engines[jobs] = open_engine(str(folder / f"{jobs}.db"))
        fill(engines[jobs], jobs)
    yield engines
    for engine in engines.values():
        engine.close()


@contextmanager
def counted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Note how many rows each statement returns."""
    counts: list[int] = []
    read = engine.store.read

    class Counting:
        def __init__(self, db: Session) -> None:
            self._db = db

        def __getattr__(self, name: str) -> Any:
            return getattr(self._db, name)

        def all(self, sql: str, *values: object) -> list[Any]:
            rows = self._db.all(sql, *values)
            counts.append(len(rows))
            return rows

        def one(self, sql: str, *values: object) -> Any:
            counts.append(1)
            return self._db.one(sql, *values)

    def counting(work: Callable[[Any], Any]) -> Any:
        return read(lambda db: work(Counting(db)))

    with monkeypatch.context() as patched:
        patched.setattr(engine.store, "read", counting)
        yield counts


def show(engine: Engine, path: str, query: dict[str, str]) -> None:
    page = next(page for page in PAGES if page.path == path)
    page.show(View(engine, None, engine.clock.now(), operator=True), Query.read(urlencode(query)))


def steps(engine: Engine, path: str, query: dict[str, str]) -> int:
    """Return how many thousand steps SQLite's machine takes for a page."""
    return steps_of(engine, lambda: show(engine, path, query))


def steps_of(engine: Engine, look: Callable[[], object]) -> int:
    """Return how many thousand steps SQLite's machine takes for a look."""
    taken = [0]

    def note() -> int:
        taken[0] += 1
        return 0

    connection = engine.store._reader  # type: ignore[attr-defined]
    connection.set_progress_handler(note, 1_000)
    try:
        look()
    finally:
        connection.set_progress_handler(None, 0)
    return taken[0]


@pytest.mark.parametrize(("path", "query"), QUERIES)
def test_a_page_takes_as_many_statements_for_a_hundred_times_as_many_jobs(path, query, stores, monkeypatch):
    told = {}
    for jobs in (FEW, MANY):
        with counted(stores[jobs], monkeypatch) as rows:
            show(stores[jobs], path, query)
        told[jobs] = len(rows), sum(rows)

    assert told[MANY][0] <= STATEMENTS
    assert told[MANY][0] <= told[FEW][0] + 45  # where a page has more to show, such as lanes of a line
    assert told[MANY][1] <= ROWS


def test_what_stands_beside_the_pages_is_counted_at_a_cost_that_stops_growing(stores, monkeypatch):
    many, more = (steps_of(stores[jobs], stores[jobs].all_counted) for jobs in (MANY, MORE))
    with counted(stores[MORE], monkeypatch) as rows:
        stores[MORE].all_counted()

    assert more <= many * 1.6 + 20
    assert len(rows) <= 20
    assert sum(rows) <= ROWS


@pytest.mark.parametrize(("path", "query"), QUERIES)
def test_what_the_database_reads_for_a_page_stops_growing(path, query, stores):
    many, more = (steps(stores[jobs], path, query) for jobs in (MANY, MORE))

    assert more <= many * 1.6 + 20
