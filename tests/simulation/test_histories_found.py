"""What random histories found does not happen any more, and would be noticed if it did."""

import pytest

from tests.simulation.found import FOUND
from tests.simulation.history import failure_of
from tests.simulation.world import replay
from tests.simulation.wounds import wounded


@pytest.mark.parametrize("name", FOUND)
def test_it_does_not_happen_any_more(name):
    mode, _, history = FOUND[name]

    replay(mode, history)


@pytest.mark.parametrize("name", FOUND)
def test_it_would_be_noticed(name):
    mode, wound, history = FOUND[name]

    with wounded(wound):
        assert failure_of(mode, history) is not None
