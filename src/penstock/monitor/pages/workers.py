"""Workers: those of which attempts run, as far as these tell."""

from typing import Final

from msgspec import Struct

from penstock.clock import SECOND
from penstock.job import WorkerLook, WorkerView
from penstock.monitor.page import View
from penstock.monitor.requests import Query

LATE: Final = 5 * SECOND  # a lease that ends so soon has not been renewed for a while
KNOWN: Final = 500


class Worker(Struct):
    """A worker.  One that is *silent* has not renewed the leases of its attempts for most of their length."""

    worker: WorkerLook
    silent: bool


class Workers(Struct):
    """The workers of which attempts run, and those *known* by what they tell of themselves."""

    workers: list[Worker]
    jobs: int
    known: list[WorkerView]


def show(view: View, _: Query) -> Workers:
    """Return the workers."""
    found = view.engine.worker_looks(tenant=view.tenant)
    return Workers(
        [silence(each, view.now) for each in found],
        sum(each.jobs for each in found),
        view.engine.workers(view.tenant)[:KNOWN],
    )


def silence(worker: WorkerLook, now: int) -> Worker:
    """Return a worker, and whether it has been silent."""
    return Worker(worker, worker.lease < now + LATE)
