"""Find a job, a key or a task by what was typed into the search field."""

from typing import Final

from msgspec import Struct

from penstock.errors import NotFoundError
from penstock.job import JobQuery
from penstock.monitor.page import View
from penstock.monitor.pages.gates import GateRow, row
from penstock.monitor.pages.jobs import Job, line
from penstock.monitor.pages.workflows import Run, run
from penstock.monitor.requests import Query
from penstock.names import MAX_NAME

MOST: Final = 10  # of each kind


class Found(Struct):
    """What was found for some words; *task* are the newest jobs of a task of that name."""

    words: str
    jobs: list[Job]
    gates: list[GateRow]
    task: list[Job]
    run: Run | None = None  # the instance of that very id


def show(view: View, query: Query) -> Found:
    """Return jobs whose ids begin so, keys that begin so, and jobs of the task of that name."""
    words = (query.text("q") or "").strip()[:MAX_NAME]
    if not words:
        return Found("", [], [], [])
    engine, tenant = view.engine, view.tenant
    jobs = engine.jobs_called(words, tenant=tenant, most=MOST)
    gates = engine.gate_page(tenant=tenant, prefix=words, most=MOST).gates
    task = engine.job_page(JobQuery(task=words, tenant=tenant), most=MOST).jobs
    return Found(
        words,
        [line(view, job) for job in jobs],
        [row(gate, view.now) for gate in gates],
        [line(view, job) for job in task],
        _instance(view, words),
    )


def _instance(view: View, id_: str) -> Run | None:
    try:
        return run(view.engine.instance(id_, view.tenant, steps=False))
    except NotFoundError:
        return None
