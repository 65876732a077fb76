"""A storm over HTTP, with a server that is killed in the middle of it: no limit is ever broken.

Slots are watched by their holders, from the answer to the ack or to the end of the lease, whichever comes first:
a restart may outlast a lease.  Starts are watched by what the server says of them.
"""

import http.client
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest

from tests.support.postgres import fresh_schema, shared_url
from tests.support.server import served
from tests.support.timing import most_at_once, until

FETCHERS = 24
KILLS = (1.5, 3.5)
PATIENCE = 200.0
LEASE = 3.0
BOXED = 4  # running at once in queue "boxed"
SLOTS = {"one": 1, "three": 3, "boxed": BOXED}
STARTS = {"rated": (10, timedelta(seconds=0.5)), "spaced": (1, timedelta(seconds=0.05))}
LIMITS = {
    "one": {"concurrency": 1},
    "three": {"concurrency": 3},
    "rated": {"rate": {"limit": 10, "period": "PT0.5S"}},
    "spaced": {"throttle": {"limit": 20, "period": "PT1S"}},
}


class Held(NamedTuple):
    """An attempt from its answer to its ack, or for as long as its lease lasted for certain."""

    job: str
    key: str
    began: float
    ended: float
    started: datetime


class Storm:
    """Fetchers that hold jobs for a moment, and what they saw."""

    def __init__(self, server):
        self.server = server
        self.seen = []
        self.over = threading.Event()
        self._lock = threading.Lock()

    def fetcher(self, n):
        lot = random.Random(n)
        while not self.over.is_set():
            asked = time.monotonic()
            try:
                jobs = self.server.fetch(
                    "storm", "boxed", count=lot.choice((1, 1, 3, 8)), worker_id=f"w{n}",
                    visibility_timeout_ms=round(1_000 * LEASE),
                )  # fmt: skip
            except (OSError, http.client.HTTPException):
                self.over.wait(0.05)
                continue
            began = time.monotonic()
            if not jobs:
                self.over.wait(0.05)
            lot.shuffle(jobs)
            for job in jobs:
                self.over.wait(lot.random() * 0.03)
                ended = max(began, min(time.monotonic(), asked + LEASE))
                self._settle(job, n)
                started = datetime.fromisoformat(job["started_at"])
                with self._lock:
                    self.seen.append(Held(job["id"], job["args"][0], began, ended, started))

    def _settle(self, job, n):
        body = {"job_id": job["id"], "worker_id": f"w{n}"}
        while True:
            try:
                status = self.server.post("/ojs/v1/workers/ack", body).status
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
                continue
            assert status in (200, 409, 503), status
            if status != 503:
                return


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    return tmp_path / "jobs.db" if request.param == "sqlite" else fresh_schema(shared_url())


def test_no_limit_is_broken_while_the_server_is_killed_and_started_again(store):
    with served(store) as server:
        server.put("/ojs/v1/admin/queues/boxed/rate-limit", {"concurrency": BOXED})
        jobs = enqueued(server)
        storm = Storm(server)
        began = time.monotonic()
        with ThreadPoolExecutor(FETCHERS) as threads:
            fetching = [threads.submit(storm.fetcher, n) for n in range(FETCHERS)]
            try:
                for moment in KILLS:
                    time.sleep(max(0, began + moment - time.monotonic()))
                    server.kill()
                    server.restart()
                until(lambda: not unfinished(server), PATIENCE, every=0.1)
            finally:
                storm.over.set()
        for each in fetching:
            each.result()

        states = {server.get(f"/ojs/v1/jobs/{job}")["job"]["state"] for job in jobs}

    assert {"completed"} == states
    assert [] == crowded(storm.seen)
    assert [] == too_close(storm.seen)


def enqueued(server):
    """Enqueue a mix of jobs; return their ids."""
    lot = random.Random(7)
    keys = ["one"] * 60 + ["three"] * 120 + ["rated"] * 60 + ["spaced"] * 60 + ["boxed"] * 60 + ["free"] * 40
    lot.shuffle(keys)
    options = {key: {"queue": "storm", "rate_limit": {"key": key, **limit}} for key, limit in LIMITS.items()}
    options |= {"boxed": {"queue": "boxed"}, "free": {"queue": "storm"}}
    # A lease that ran out counts: on a slow machine that may happen often.
    retry = {"max_attempts": 50}
    jobs = [{"type": "storm.job", "args": [key], "options": {**options[key], "retry": retry}} for key in keys]
    answer = server.post("/ojs/v1/jobs/batch", {"jobs": jobs})
    assert 201 == answer.status, answer.body
    return [job["id"] for job in answer["jobs"]]


def unfinished(server):
    """Return how many jobs wait or run."""
    stats = [server.get(f"/ojs/v1/queues/{queue}/stats")["queue"] for queue in ("storm", "boxed")]
    return sum(each["depth"] + each["active"] for each in stats)


def by_key(seen, key):
    return [held for held in seen if held.key == key]


def crowded(seen):
    """Return the keys of which more ran at once than there are slots, and how many."""
    most = {key: most_at_once((held.began, held.ended) for held in by_key(seen, key)) for key in SLOTS}
    return [(key, count) for key, count in most.items() if count > SLOTS[key]]


def too_close(seen):
    """Return the starts that are closer than a rate or a throttle allows."""
    found = []
    for key, (limit, period) in STARTS.items():
        starts = sorted(held.started for held in by_key(seen, key))
        pairs = zip(starts, starts[limit:], strict=False)
        found += [(key, later - first) for first, later in pairs if later - first < period]
    return found
