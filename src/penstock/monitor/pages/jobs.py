"""Jobs: by what they have in common, newest first; by how an id begins, or by words in their arguments."""

from typing import Final

from msgspec import Struct

from penstock.errors import InvalidError
from penstock.job import SECRET, JobQuery, JobView
from penstock.lifecycle.states import State
from penstock.monitor import hidden
from penstock.monitor.page import View
from penstock.monitor.requests import Query

STATES: Final = tuple(state.value for state in State)
SHOWN: Final = 500  # characters of arguments in a list
FIELDS: Final = ("queue", "task", "key", "tenant", "worker", "words", "error")


class Job(Struct):
    """One job in a list.  *for_* is how long it has been in its state, or how long it ran if it has ended."""

    id: str
    tenant: str
    task: str
    queue: str
    state: State
    attempt: int
    max_attempts: int
    args: str
    enqueued: int
    due: int | None
    started: int | None
    finished: int | None
    worker: str | None
    error: str | None
    reason: str
    needs: list[str]  # the keys of its limits
    workflow: str | None


class Jobs(Struct):
    """Jobs that were found among the *looked* at; *before* is where the list goes on.

    How many were looked at is told to those who see the jobs of all tenants: they were jobs of all.
    """

    wanted: JobQuery
    id: str | None
    jobs: list[Job]
    looked: int | None
    before: int | None


def show(view: View, query: Query) -> Jobs:
    """Return jobs that fit the query."""
    wanted = _wanted(view, query)
    begins = query.text("id")
    if begins is not None:
        found = view.engine.jobs_called(begins, tenant=wanted.tenant)
        return Jobs(wanted, begins, [line(view, job) for job in found], len(found), None)
    page = view.engine.job_page(wanted, before=query.number("before"))
    jobs = [line(view, job) for job in page.jobs]
    looked = None if page.looked and view.tenant is not None else page.looked
    return Jobs(wanted, None, jobs, looked, page.before)


def line(view: View, job: JobView) -> Job:
    """Return a job as a list shows it."""
    job = hidden.job(view, job)
    error = None if job.error is None else f"{job.error.get('kind', '')}: {job.error.get('message', '')}"
    return Job(
        job.id, job.tenant, job.task, job.queue, job.state, job.attempt, job.max_attempts, job.args[:SHOWN],
        job.enqueued, job.due, job.started, job.finished, job.worker,
        None if error is None else error[:SHOWN], job.reason, [limit.key for limit in job.limits], job.workflow,
    )  # fmt: skip


def _wanted(view: View, query: Query) -> JobQuery:
    state = query.choice("state", STATES)
    given = {name: query.text(name) for name in FIELDS}
    if view.tenant is not None:
        given["tenant"] = view.tenant
    if given["words"] is not None and not view.operator:
        raise InvalidError(
            "words", "only an operator may look for words in arguments, some of which are hidden"
        )
    # Who may not read what secret jobs failed with may not search it either.
    unmarked = SECRET if given["error"] is not None and not view.operator else None
    since, until = query.number("since"), query.number("until")
    wanted = None if state is None else State(state)
    return JobQuery(wanted, **given, unmarked=unmarked, since=since, until=until)
