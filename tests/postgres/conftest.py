"""What only PostgreSQL has: writers side by side, a server that fails, its own clock and its own signals."""

import psycopg
import pytest
from psycopg import sql

from penstock.engine import open_engine
from tests.postgres.race import Race
from tests.support.clock import FakeClock
from tests.support.postgres import drop_schema, fresh_schema, shared_url, split_schema

SPARE = []


@pytest.fixture
def url():
    """The address of a store that is empty."""
    # Emptying is quicker than making; no test holds on to a schema when it is over.
    url = SPARE.pop() if SPARE else fresh_schema(shared_url())
    yield url
    _empty(url)
    SPARE.append(url)


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


def _empty(url):
    plain, schema = split_schema(url)
    with psycopg.connect(plain) as connection:
        names = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'schema_version'",
            (schema,),
        ).fetchall()
        # To truncate is to make every table and index anew, which takes ten times as long.
        connection.execute(
            sql.SQL("; ").join(
                sql.SQL("DELETE FROM {}").format(sql.Identifier(schema, name)) for (name,) in names
            )
        )
