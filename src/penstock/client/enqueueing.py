"""Enqueue once, however often the question must be sent: jobs are named by whoever enqueues them."""

from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from penstock.errors import NotFoundError
from penstock.ids import new_id
from penstock.job import Enqueued, JobView, NewJob
from penstock.lifecycle.unique import OnDuplicate


class _Jobs(Protocol):
    def enqueue(self, jobs: Sequence[NewJob], *, connection: object = None) -> list[Enqueued]: ...

    def job(self, job_id: str) -> JobView: ...


def named(jobs: Sequence[NewJob]) -> tuple[list[NewJob], set[str]]:
    """Return *jobs*, each with an id, and the ids that were made."""
    made: set[str] = set()
    sent = []
    for job in jobs:
        if job.id is None:
            id_ = new_id()
            made.add(id_)
            job = replace(job, id=id_)  # noqa: PLW2901 - the same job, named
        sent.append(job)
    return sent, made


def enqueued_before(engine: _Jobs, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Return what became of named *jobs* that were enqueued though the answer was lost: all of them, or none."""
    return [_found(engine, job) for job in jobs]


def _found(engine: _Jobs, job: NewJob) -> Enqueued:
    id_ = job.id or ""
    if job.unique is None or job.unique.on_duplicate is not OnDuplicate.REUSE:
        return Enqueued(id_)
    try:
        return Enqueued(engine.job(id_).id)
    except NotFoundError:
        # An earlier job stood for this one, and is asked for once more.
        return engine.enqueue([job])[0]
