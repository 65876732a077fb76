"""What only PostgreSQL has: writers side by side, a server that fails, its own clock and its own signals."""

import pytest

from penstock.engine import open_engine
from tests.postgres.race import Race
from tests.support.clock import FakeClock
from tests.support.postgres import drop_schema, empty_store, fresh_schema, shared_url


@pytest.fixture
def url():
    """The address of a store that is empty."""
    with empty_store() as url:
        yield url


@pytest.fixture
def new_url():
    """The address of a schema that does not exist yet."""
    url = fresh_schema(shared_url())
    yield url
    drop_schema(url)


@pytest.fixture
def opened():
    """Open stores, as several processes would; they are closed at the end."""
    engines = []

    def start(url, **options):
        engines.append(open_engine(url, **options))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def race(url, clock):
    """Transactions at once on one store, which must be in order afterwards."""
    race = Race(url, clock)
    try:
        yield race
        race.finish()
        assert race.desk.engine.doctor() == []
    finally:
        race.close()
