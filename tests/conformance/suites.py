"""The conformance suites of the Open Job Spec, and which of their tests no server can pass.

They lie beside the project, or where `PENSTOCK_OJS` says; they are not part of it.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ.get("PENSTOCK_OJS", Path(__file__).parents[3] / "shared" / "ojs"))
RUNNER = HOME / "ojs_runner.py"
SUITES = HOME / "suites"
# Demands what is never sent; and sends a placeholder literally, but for the extended mode, which fills it in.
UNPASSABLE = {"L1-RTR-014", "EXT-RL-003"}
UNPASSABLE_EXTENDED = {"L1-RTR-014"}
BOUND = 900  # seconds


def parts(count):
    """Return the files of all suites in *count* parts that take about as long as each other."""
    files = sorted(SUITES.rglob("*.json"), key=_waits)
    return [files[n::count] for n in range(count)]


def run(url, *tests, files=(SUITES,), extended=False, skip_slow=None):
    """Run every suite, or *tests* or *files* of them, against the server at *url*; return the report."""
    command = [
        sys.executable,
        str(RUNNER),
        "--json",
        "--url",
        url,
        "--reset-url",
        f"{url}/ojs/v1/admin/reset",
    ]
    for file in files:
        command += ["--suites", str(file)]
    for test in tests:
        command += ["--test", test]
    if extended:
        command.append("--extended")
    if skip_slow is not None:
        command += ["--skip-slow", str(skip_slow)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"the runner failed: {done.stderr}")
    return json.loads(done.stdout)


def _waits(file):
    """Return how many milliseconds the test in *file* waits."""
    return sum(map(int, re.findall(r'"(?:delay|duration)_ms": *(\d+)', file.read_text())))


def unexpected(report, *, extended=False):
    """Return what went wrong that should not have, a line for each."""
    excused = UNPASSABLE_EXTENDED if extended else UNPASSABLE
    return [
        f"{test['test_id']} ({test['name']}): {'; '.join(test['failures'])}"
        for test in report["tests"]
        if test["status"] not in ("pass", "skip") and test["test_id"] not in excused
    ]
