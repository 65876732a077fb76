"""Each page of the monitor reads a bounded number of rows, by a bounded number of statements, of a store of any size.

What SQLite reads is counted in steps of its machine.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from penstock.clock import SECOND
from penstock.engine import Engine, open_engine
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Limit, Numbers, Window
from penstock.minutes.minute import MINUTE, Minute
from penstock.monitor.lookback import Remembered
from penstock.monitor.page import View
from penstock.monitor.pages.table import PAGES
from penstock.monitor.requests import Query
from penstock.store import minutes as minute_rows
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
    ("/", {"last": "week"}),
    ("/gate", {"key": "hot", "last": "week"}),
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


def show(engine: Engine, path: str, query: dict[str, str], remembered: Remembered | None = None) -> None:
    page = next(page for page in PAGES if page.path == path)
    view = View(engine, None, engine.clock.now(), operator=True, remembered=remembered or Remembered())
    page.show(view, Query.read(urlencode(query)))


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
        remembered = Remembered()
        if "last" in query:  # a page that is followed reads a day or a week only twice a minute
            show(stores[jobs], path, query, remembered)
        with counted(stores[jobs], monkeypatch) as rows:
            show(stores[jobs], path, query, remembered)
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


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Give a store of 120 gates, queues and tasks, in each of which something happened in every minute."""
    with closing(open_engine(str(tmp_path_factory.mktemp("busy") / "jobs.db"))) as engine:
        engine.enqueue(
            [
                NewJob(task=f"task {n}", queue=f"queue {n}", limits=(Limit(f"key {n}", Numbers(slots=1)),))
                for n in range(120)
                for _ in range(2)
            ]
        )
        for n in range(120):
            engine.claim([f"queue {n}"], 2, worker="worker", lease=3_600 * SECOND)
        engine.keep_minutes()
        begins = engine.clock.now() // MINUTE * MINUTE

        def work(db: Session) -> None:
            ids = [id_ for (id_,) in db.all("SELECT id FROM series")]
            minutes = [Minute(begins - n * MINUTE, started=n, waits={9: n}) for n in range(1, 31)]
            minute_rows.save_minutes(db, [(id_, minute) for id_ in ids for minute in minutes])

        engine.store.write(work)
        yield engine


@pytest.mark.parametrize("path", ["/", "/gates", "/queues"])
def test_of_an_hour_in_which_much_happened_everywhere_a_page_reads_a_part(path, busy, monkeypatch):
    with counted(busy, monkeypatch) as rows:
        show(busy, path, {})

    assert len(rows) <= STATEMENTS
    assert 200 < sum(rows) <= ROWS
