"""Every test here runs on every store."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.engine import Engine, open_engine
from tests.support.clock import FakeClock
from tests.support.desk import Desk

OPENERS: dict[str, Callable[..., Engine]] = {
    "sqlite": lambda folder, **options: open_engine(str(folder / "jobs.db"), **options),
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=OPENERS)
def store(request: pytest.FixtureRequest) -> str:
    """The kind of store under test."""
    return str(request.param)


@pytest.fixture
def opened(store: str, tmp_path: Path, clock: FakeClock) -> Iterator[Callable[[], Engine]]:
    """Open the same store as often as asked, as several processes would."""
    engines: list[Engine] = []

    def start() -> Engine:
        engines.append(OPENERS[store](tmp_path, clock=clock))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture
def desk(opened: Callable[[], Engine], clock: FakeClock) -> Desk:
    return Desk(opened(), clock)
