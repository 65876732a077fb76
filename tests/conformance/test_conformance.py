"""The suites' own verdict on a real server, on both stores; what waits for minutes is left to `make conformance`."""

import pytest

from tests.conformance.suites import RUNNER, run, unexpected
from tests.support.postgres import drop_schema, fresh_schema, shared_url
from tests.support.server import served

SLOW = 10  # seconds that a test may wait for something


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "sqlite":
        yield tmp_path / "jobs.db"
        return
    url = fresh_schema(shared_url())
    yield url
    drop_schema(url)


# Absent on a user's machine.  Where checks are run for everybody it is said aloud, at the end of the run.
ABSENT = f"NOT CHECKED: the suites of the Open Job Spec are not at {RUNNER.parent}"
pytestmark = pytest.mark.skipif(not RUNNER.exists(), reason=ABSENT)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("extended", [False, True], ids=["official", "extended"])
def test_every_test_passes_that_can_be_passed(store, extended):
    if extended and "postgresql" not in str(store):
        pytest.skip("on one store is enough for every day; `make conformance` runs both")
    with served(store, "--test-mode") as server:
        report = run(server.url, extended=extended, skip_slow=SLOW)

    assert [] == unexpected(report, extended=extended)
    assert report["results"]["passed"] > 120
