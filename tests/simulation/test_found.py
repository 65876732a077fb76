"""What the simulation found does not happen any more."""

import pytest

from tests.simulation.found import FOUND
from tests.simulation.world import replay


@pytest.mark.parametrize("name", FOUND)
def test_it_does_not_happen_any_more(name):
    replay(*FOUND[name])
