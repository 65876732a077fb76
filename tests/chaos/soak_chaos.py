"""Long storms: see `test_chaos.py`."""

import pytest

from tests.chaos.play import play
from tests.chaos.rules import LEASE


@pytest.mark.timeout(240)
def test_a_long_storm_breaks_no_limit_and_loses_no_job(server, tmp_path):
    complaints, gentle, figures = play(
        server.url,
        tmp_path,
        120.0,
        server=server,
        freezes=4,
        # The second time the server stays away for longer than leases last.
        restarts=[("immediate", 0.0), ("fast", 1.5 * LEASE)],
    )

    assert [] == complaints
    assert [] == gentle
    assert figures["refused"] > 0  # a report came too late


def test_a_storm_over_a_file_breaks_no_limit_and_loses_no_job(tmp_path):
    complaints, gentle, _ = play(str(tmp_path / "jobs.db"), tmp_path, 30.0, freezes=2)

    assert [] == complaints
    assert [] == gentle
