"""Schedules: when each fires next, and the job it made last."""

from msgspec import Struct

from penstock.job import Place, Schedule
from penstock.lifecycle.overlap import Overlap
from penstock.monitor.page import View
from penstock.monitor.requests import Query


class Line(Struct):
    """One schedule."""

    tenant: str
    name: str
    expression: str
    timezone: str
    task: str
    queue: str
    enabled: bool
    overlap: Overlap
    next_at: int | None
    last_at: int | None
    last_job: str | None
    fired: int


class Schedules(Struct):
    """Schedules by tenant and name; *after* is where the list goes on."""

    schedules: list[Line]
    after: Place | None


def show(view: View, query: Query) -> Schedules:
    """Return schedules."""
    page = view.engine.schedule_page(tenant=view.tenant, after=place(view, query))
    return Schedules([_line(each) for each in page.schedules], page.after)


def place(view: View, query: Query) -> Place | None:
    """Return where a list by tenant and name goes on."""
    after = query.text("after")
    if after is None:
        return None if view.tenant is None else Place(view.tenant, "")
    return Place(query.text("after_tenant") or "" if view.tenant is None else view.tenant, after)


def _line(schedule: Schedule) -> Line:
    return Line(
        schedule.tenant, schedule.name, schedule.expression, schedule.timezone, schedule.job.task, schedule.job.queue,
        schedule.enabled, schedule.overlap, schedule.next_at, schedule.last_at, schedule.last_job, schedule.fired,
    )  # fmt: skip
