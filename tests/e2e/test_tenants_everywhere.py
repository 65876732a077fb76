"""Tenants' limits and maintenance hold over all processes: two servers and Python workers on one PostgreSQL."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.clock import SECOND
from penstock.errors import TenantLimitError
from penstock.job import NewJob, TenantLimits
from penstock.limits.rules import Window
from tests.e2e.test_worker_processes import Workplace
from tests.support.postgres import drop_schema, fresh_schema, shared_url
from tests.support.server import served
from tests.support.timing import most_at_once, until

ACME = {"X_OJS_Tenant": "acme"}


class Place(Workplace):
    """One store; two servers, a Python engine here, and worker processes that do not outlive the test."""

    def __init__(self, url, servers, folder):
        super().__init__(folder, url)
        self.servers = servers

    def add(self, way, seconds=0.0, queue="default"):
        """Add a job of the tenant in one of three ways; tell whether it was let in."""
        if way < len(self.servers):
            job = {"type": "wait", "args": ["k", seconds], "options": {"queue": queue}}
            return 201 == self.servers[way].post("/ojs/v1/jobs", job, **ACME).status
        try:
            args = json.dumps({"args": ["k", seconds]})
            return bool(self.engine.enqueue([NewJob("wait", args, queue, "acme")]))
        except TenantLimitError:
            return False

    def add_from_everywhere(self, count):
        """Have *count* producers of each kind add a job at once; return how many were let in."""
        with ThreadPoolExecutor(3 * count) as threads:
            return sum(threads.map(self.add, [0, 1, 2] * count))


@pytest.fixture
def place(tmp_path):
    url = fresh_schema(shared_url())
    with served(url) as one, served(url) as other:
        place = Place(url, [one, other], tmp_path)
        yield place
        try:
            assert [] == place.engine.doctor()
        finally:
            place.close()
    drop_schema(url)


def test_a_tenant_has_no_more_waiting_than_it_may_from_all_producers_together(place):
    place.servers[0].put("/ojs/v1/admin/tenants/acme/limits", {"max_queue_depth": 10})

    assert 10 == place.add_from_everywhere(8)
    assert 10 == sum(of.counts.get("waiting", 0) for of in place.engine.tally())
    assert 1 == len(place.servers[1].fetch("default"))
    assert 1 == place.add_from_everywhere(3)


def test_a_tenant_adds_no_faster_than_it_may_from_all_producers_together(place):
    place.engine.set_tenant_limits("acme", TenantLimits(rate=Window(7, SECOND)))
    added = 0

    def more():
        nonlocal added
        added += place.add_from_everywhere(2)
        return added >= 21

    until(more)
    came = sorted(view.enqueued for view in place.engine.jobs(limit=1_000))
    assert len(came) == added
    assert all(later - earlier >= SECOND for earlier, later in zip(came, came[7:], strict=False))


def test_no_more_of_a_tenant_run_at_once_than_may_on_all_workers_together(place):
    place.servers[0].put("/ojs/v1/admin/tenants/acme/limits", {"max_concurrency": 2})
    for _ in range(2):
        place.hire(concurrency=5)
    spans, stop = [], threading.Event()

    def fetch(server):
        while not stop.is_set():
            for job in server.fetch("web", wait_ms=100):
                began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                time.sleep(0.02)
                spans.append((began, time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
                server.ack(job)

    with ThreadPoolExecutor(2) as threads:
        fetching = [threads.submit(fetch, server) for server in place.servers]
        for n in range(30):
            assert place.add(n % 3, 0.02, ["default", "web"][n % 2])
        place.until(lambda: sum(of.counts.get("done", 0) for of in place.engine.tally()) == 30)
        stop.set()
        for one in fetching:
            one.result(40)

    ends = {line["job"]: line["at"] for line in place.lines("ended")}
    by_python = [(line["at"], ends[line["job"]]) for line in place.lines("began")]
    assert 15 == len(by_python) == len(spans)
    assert 2 == most_at_once(by_python + spans)


def test_maintenance_stops_python_workers_and_servers_and_ends_for_both(place):
    place.hire()
    assert place.add(0)
    place.until(lambda: place.lines("ended"))

    place.servers[0].post("/ojs/v1/admin/system/maintenance", {"enabled": True})
    for n in range(30):
        assert place.add(n % 3)
    assert [] == place.servers[1].fetch("default", count=9)
    ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert 1 == len(place.lines("began"))
    place.servers[1].post("/ojs/v1/admin/system/maintenance", {"enabled": False})
    place.until(lambda: len(place.lines("ended")) == 31)

    assert all(line["at"] > ended for line in place.lines("began")[1:])
