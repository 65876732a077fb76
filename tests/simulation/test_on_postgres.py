"""The same histories on PostgreSQL: one after the other beside the model, and by threads and processes at once."""

import pytest

from tests.simulation.crowd import play_at_once
from tests.simulation.history import Failure, play
from tests.support.postgres import drop_schema, fresh_schema, shared_url
from tests.support.soak import often

SEEDS = {"A": 0, "B": 6, "C": 1}


@pytest.fixture
def url():
    url = fresh_schema(shared_url())
    yield url
    drop_schema(url)


@pytest.mark.parametrize("by_door", [False, True], ids=["gates free", "gates taken"])
@pytest.mark.parametrize("mode", SEEDS)
def test_nothing_breaks_a_promise(url, mode, by_door):
    """Where enqueues find the gates taken, all jobs come by the door."""
    played = play(SEEDS[mode], often(100, 300), url, by_door=by_door)

    assert not isinstance(played, Failure), played.error
    assert played.counts["let in at the door"] > 5 or not by_door


@pytest.mark.parametrize("seed", range(1, often(1, 5) + 1))
def test_a_crowd_breaks_no_promise_either(url, seed):
    complaints, referee = play_at_once(url, seed, 60)

    assert [] == complaints
    assert len(referee.attempts) > 30
