"""Settings for every test."""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from penstock.store.sqlite.store import SqliteStore
from tests.support.soak import often
from tests.support.stores import copy_in_memory

# No deadlines: a slow machine is not a failing test.
settings.register_profile(
    "dev",
    deadline=None,
    max_examples=often(40, 200),
    suppress_health_check=[HealthCheck.too_slow],
)
# The same examples every time, so that a failure is the change's and not the draw's.
settings.register_profile(
    "ci",
    settings.get_profile("dev"),
    derandomize=True,
    database=None,
    print_blob=True,
)
LONGEST = (
    "conformance/", "chaos/", "unit/test_docs", "simulation/", "browser/", "policies/", "e2e/", "postgres/",
    "unit/test_worker_faults",
)  # fmt: skip
# Where there are no suites, `.ci/run` leaves them out, and says so.
collect_ignore = ["conformance"] if os.environ.get("PENSTOCK_OJS") == "none" else []
CI = bool(os.environ.get("CI"))
settings.load_profile("ci" if CI else "dev")

# Stores in memory wait for no disk.  Where nothing can be run from there, examples of the docs could not be.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir():
    there = os.statvfs(MEMORY)
    if there.f_bavail * there.f_frsize >= 8 * 2**30 and not there.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# A shell starts background commands with SIGINT ignored, and children inherit that.  A handler they do not
# inherit: whatever the tests start begins with the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda *_: None)


SqliteStore.migrate = copy_in_memory


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest, so that no worker is left alone with one of them at the end."""
    items.sort(
        key=lambda item: next((n for n, name in enumerate(LONGEST) if name in item.nodeid), len(LONGEST))
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail skipped tests where CI is set: every tool must be there."""
    report = yield
    if CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where CI is set: {report.longrepr[2]}"
    return report
