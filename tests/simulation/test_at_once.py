"""The same histories by threads and processes on PostgreSQL, with the interleavings left to chance."""

import pytest

from tests.simulation.crowd import play_at_once
from tests.support.postgres import drop_schema, fresh_schema, shared_url
from tests.support.soak import often


@pytest.fixture
def url():
    url = fresh_schema(shared_url())
    yield url
    drop_schema(url)


@pytest.mark.parametrize("seed", range(1, often(1, 5) + 1))
def test_a_crowd_breaks_no_promise_either(url, seed):
    complaints, referee = play_at_once(url, seed, 60)

    assert [] == complaints
    assert len(referee.attempts) > 30
