"""The suites' own verdict on a real server, one mode on each store; the rest is left to `make conformance`."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

import pytest

from tests.conformance.suites import RUNNER, parts, run, unexpected
from tests.support.postgres import empty_store, shared_url
from tests.support.server import served

SLOW = 10  # seconds that a test may wait for something
PARTS = 6  # at once, each with a server of its own: most of the time they wait


def judged(store, files, *, extended):
    """Return how many tests of *files* pass, and what is wrong."""
    with store as address, served(address, "--test-mode") as server:
        report = run(server.url, files=files, extended=extended, skip_slow=SLOW)
        wrong = unexpected(report, extended=extended)
        if wrong:
            # They measure time: what a busy machine delays passes when it is tried again.
            tests = (line.partition(" ")[0] for line in wrong)
            wrong = unexpected(run(server.url, *tests, files=files, extended=extended), extended=extended)
    return report["results"]["passed"], wrong


pytestmark = pytest.mark.skipif(
    not RUNNER.exists(), reason=f"needs the suites of the Open Job Spec at {RUNNER.parent}, or PENSTOCK_OJS"
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "extended"), [("sqlite", False), ("postgres", True)], ids=["official", "extended"]
)
def test_every_test_passes_that_can_be_passed(kind, extended, tmp_path):
    if kind == "sqlite":
        stores = [nullcontext(tmp_path / f"{n}.db") for n in range(PARTS)]
    else:
        shared_url()  # starts the server, once
        stores = [empty_store() for _ in range(PARTS)]
    with ThreadPoolExecutor(PARTS) as threads:
        verdicts = list(threads.map(partial(judged, extended=extended), stores, parts(PARTS)))

    assert [] == [line for _, wrong in verdicts for line in wrong]
    assert sum(passed for passed, _ in verdicts) > 120
