"""Workers are killed and frozen, a server is restarted; a provider outside watches what handlers do."""

from tests.chaos.play import play


def test_a_storm_breaks_no_limit_and_loses_no_job(server, tmp_path):
    complaints, gentle, _ = play(
        server.url, tmp_path, 20.0, server=server, freezes=1, restarts=[("immediate", 0.0), ("fast", 0.5)]
    )

    assert [] == complaints
    assert [] == gentle
