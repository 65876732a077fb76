"""One job: its life, why it waits, what it was given and what came of it."""

from msgspec import Struct

from penstock.job import JobView, PastAttempt, Why
from penstock.lifecycle.outcomes import Ending
from penstock.lifecycle.states import LIVE, State
from penstock.monitor import hidden
from penstock.monitor.page import View
from penstock.monitor.pages.jobs import Job, line
from penstock.monitor.requests import Query


class Part(Struct):
    """A part of a job's life: *what* it did then, and where or for what."""

    what: str  # wait, run, bad (an attempt that failed), rest (until a retry, or until it is due)
    begin: int
    end: int
    note: str = ""


class JobDetail(Struct):
    """One job.  Arguments, result and progress are None where they are *secret*, and errors have no texts."""

    job: Job
    secret: bool
    args: str | None
    result: str | None
    meta: str
    progress: str | None
    priority: int
    cost: int
    timeout: int | None
    expires: int | None
    lease: int | None
    cancel_asked: bool
    why: Why | None
    life: list[Part]
    attempts: list[PastAttempt]


def show(view: View, query: Query) -> JobDetail:
    """Return the job that has an id."""
    tenant = view.tenant if view.tenant is not None else query.text("tenant")
    id_ = query.needed("id")
    job = view.engine.job(id_, tenant)
    attempts = view.engine.history(id_, job.tenant)
    secret = hidden.is_hidden(view, job.meta)
    why = view.engine.why(id_, job.tenant) if job.state in (State.WAITING, State.SCHEDULED) else None
    if secret:
        attempts = [hidden.attempt(attempt) for attempt in attempts]
    shown = hidden.job(view, job)
    return JobDetail(
        line(view, job), secret, None if secret else job.args, shown.result, shown.meta,
        shown.progress, job.priority, job.cost, job.timeout, job.expires, job.lease,
        job.cancel_asked, why, life(job, attempts, view.now), attempts,
    )  # fmt: skip


def life(job: JobView, attempts: list[PastAttempt], now: int) -> list[Part]:
    """Return the parts of a job's life, from its enqueue until now or its end."""
    parts, at = list[Part](), job.enqueued
    for attempt in attempts:
        if attempt.started is None:
            continue
        if at < attempt.started:
            behind = f"for {attempt.waited_for}" if attempt.waited_for else "for a worker"
            parts.append(Part("wait", at, attempt.started, behind))
        end = now if attempt.ended is None else attempt.ended
        well = attempt.outcome in (Ending.DONE, Ending.RUNNING)
        parts.append(Part("run" if well else "bad", attempt.started, end, f"on {attempt.worker}"))
        at = end
        delay = (attempt.error or {}).get("delay")
        if isinstance(delay, int) and delay > 0:
            end = at + delay if job.state not in LIVE or at + delay < now else now
            parts.append(Part("rest", at, end, "until its retry"))
            at = end
    if job.state in LIVE and job.state is not State.RUNNING and at < now:
        parts.append(Part("rest" if job.state is State.SCHEDULED else "wait", at, now))
    return parts
