"""Every test here runs on every store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.engine import Engine, open_engine
from tests.support.clock import FakeClock
from tests.support.desk import Desk
from tests.support.postgres import empty_schema, fresh_schema, shared_url


@contextmanager
def a_file(folder: Path) -> Iterator[str]:
    yield str(folder / "jobs.db")


@contextmanager
def a_schema(folder: Path) -> Iterator[str]:
    # Emptying is quicker than making; no test holds on to a schema when it is over.
    url = SPARE.pop() if SPARE else fresh_schema(shared_url())
    yield url
    empty_schema(url)
    SPARE.append(url)


SPARE: list[str] = []


STORES = {"sqlite": a_file, "postgres": a_schema}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    """The kind of store under test."""
    return str(request.param)


@pytest.fixture
def url(store: str, tmp_path: Path) -> Iterator[str]:
    """The address of a store that is new."""
    with STORES[store](tmp_path) as address:
        yield address


@pytest.fixture
def opened(url: str, clock: FakeClock) -> Iterator[Callable[[], Engine]]:
    """Open the same store as often as asked, as several processes would."""
    engines: list[Engine] = []

    def start() -> Engine:
        engines.append(open_engine(url, clock=clock))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture
def desk(opened: Callable[[], Engine], clock: FakeClock) -> Desk:
    return Desk(opened(), clock)
