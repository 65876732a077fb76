"""`make conformance`: every suite, in both modes, on both stores, minutes of waiting included."""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.suites import RUNNER, run, unexpected
from tests.support.postgres import drop_schema, fresh_schema, shared_url
from tests.support.server import served


def main():
    """Print what was found; return 1 if anything failed that can be passed."""
    if not RUNNER.exists():
        print(
            f"the suites of the Open Job Spec are not at {RUNNER.parent}; name them with PENSTOCK_OJS",
            file=sys.stderr,
        )
        return 2
    url = fresh_schema(shared_url())
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as threads:
        stores = {"SQLite": Path(folder) / "official.db", "PostgreSQL": url}
        runs = {
            (name, extended): threads.submit(_judged, store, extended)
            for name, store in stores.items()
            for extended in (False, True)
            if not (name == "PostgreSQL" and extended)
        }
        # The two modes empty the store between tests, so on one store they take turns.
        runs["PostgreSQL", True] = threads.submit(
            lambda: (runs["PostgreSQL", False].result(), _judged(url, True))[1]
        )
        failed = [_told(name, extended, verdict.result()) for (name, extended), verdict in runs.items()]
    drop_schema(url)
    return int(any(failed))


def _judged(store, extended):
    store = store if isinstance(store, str) else store.with_stem(f"{store.stem}-{extended}")
    with served(store, "--test-mode") as server:
        return run(server.url, extended=extended)


def _told(name, extended, report):
    mode = "extended" if extended else "official"
    results = report["results"]
    wrong = unexpected(report, extended=extended)
    excused = results["failed"] - len(wrong)
    print(
        f"{name}, {mode}: {results['passed']} passed, {len(wrong)} failed, {excused} that no server can pass"
    )
    for line in wrong:
        print(f"  {line}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
