"""`penstock jobs`: look at jobs, run them once more, cancel them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli import complain, exit_status
from penstock.cli.attempts import history_text, parsed, plain_attempt, problem
from penstock.cli.importing import read_jobs
from penstock.cli.options import (
    JsonOption,
    MostOption,
    ReasonOption,
    StoreOption,
    TenantOption,
    bulk,
    opened,
    option,
)
from penstock.cli.output import (
    Column,
    iso,
    numbers_plain,
    numbers_text,
    print_facts,
    print_json,
    print_table,
    when,
)
from penstock.errors import InvalidError, NotFoundError, PenstockError
from penstock.lifecycle.states import State
from penstock.names import one_line

if TYPE_CHECKING:
    from penstock.app.backend import AnyEngine
    from penstock.job import JobView
    from penstock.limits.rules import Limit

app = typer.Typer(no_args_is_help=True)
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The id of a job, or its beginning.", show_default=False)
]
JobsArgument = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="Ids of jobs, or their beginnings.", show_default=False)
]
_BEGINNING: Final = 4  # characters that an id must at least begin with
_SHORTEST: Final = 13  # characters of an id where there is little room: the moment at which it was made
_SHOWN: Final = 4  # ids that begin alike


@app.command("list", epilog="Example: penstock jobs list --state failed --limit 20")
def list_jobs(
    *,
    store: StoreOption = "",
    state: Annotated[
        State | None, typer.Option(help="Only jobs that are in this state.", show_default=False)
    ] = None,
    queue: Annotated[str | None, option("NAME", "Only jobs of this queue.")] = None,
    task: Annotated[str | None, option("NAME", "Only jobs of this task.")] = None,
    tenant: TenantOption = "",
    key: Annotated[str | None, option("KEY", "Only jobs with a limit on this key.")] = None,
    limit: MostOption = 50,
    before: Annotated[int | None, option("N", "Only jobs older than that with this number.", least=1)] = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs, the newest first."""
    with opened(store) as engine:
        found = engine.jobs(
            state=state, queue=queue, task=task, tenant=tenant or None, key=key, before=before, limit=limit
        )
        now = engine.clock.now()
    more = found[-1].seq if len(found) == limit else None
    if as_json:
        print_json({"jobs": [plain_job(view) for view in found], "before": more})
        return
    if not found:
        print("No jobs.")
        return
    columns = (
        Column("job", least=_distinct([view.id for view in found])),
        Column("state"),
        Column("task", 1),
        Column("queue", 5),
        Column("tenant", 7),
        Column("priority", 6, right=True),
        Column("attempt", 2, right=True),
        Column("enqueued", 4),
        Column("reason", 3, least=24),
    )
    print_table(columns, [_row(view, now) for view in found])
    if more:
        print(f"\nOlder ones: --before {more}")


@app.command("show", epilog="Example: penstock jobs show 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def show_job(
    job: JobArgument, *, store: StoreOption = "", tenant: TenantOption = "", as_json: JsonOption = False
) -> None:
    """Show everything about one job."""
    with opened(store) as engine:
        view = meant(engine, job, tenant)
        past = engine.history(view.id, view.tenant)
        waits = view.state in (State.SCHEDULED, State.WAITING)
        why = engine.why(view.id, view.tenant).sentence if waits else ""
        now = engine.clock.now()
    if as_json:
        told = [plain_attempt(attempt) for attempt in past]
        print_json(plain_job(view) | {"why": why or None, "attempts": told})
        return
    print_facts(
        [
            ("job", view.id),
            ("state", str(view.state)),
            ("reason", why or view.reason),
            ("task", view.task),
            ("arguments", view.args),
            ("queue", view.queue),
            ("tenant", view.tenant),
            ("priority", str(view.priority) if view.priority else ""),
            ("attempts", _attempts(view, " of ")),
            ("limits", "\n".join(map(_limit_text, view.limits))),
            ("enqueued", when(view.enqueued, now)),
            ("due", when(view.due, now)),
            ("started", when(view.started, now)),
            ("finished", when(view.finished, now)),
            ("expires", when(view.expires, now)),
            ("worker", view.worker or ""),
            ("lease ends", when(view.lease, now)),
            ("cancel", "asked for" if view.cancel_asked else ""),
            ("progress", view.progress or ""),
            ("result", view.result or ""),
            ("history", history_text(past, now)),
            ("error", _error_text(view)),
            ("traceback", (view.error or {}).get("traceback", "").rstrip()),
            ("meta", view.meta if view.meta != "{}" else ""),
        ]
    )


@app.command("retry", epilog="Example: penstock jobs retry 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def retry_jobs(
    jobs: JobsArgument,
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Put ended jobs back in line, with all their attempts again; they pass their gates like any job."""

    def retry(engine: "AnyEngine", job: "JobView") -> State:
        engine.retry(job.id, job.tenant)
        return engine.job(job.id, job.tenant).state

    _each(store, reason, jobs, tenant, "retry", retry, as_json=as_json)


@app.command("cancel", epilog="Example: penstock jobs cancel 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def cancel_jobs(
    jobs: JobsArgument,
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Cancel jobs: at once if they wait; a running one is asked to stop."""
    _each(
        store,
        reason,
        jobs,
        tenant,
        "cancel",
        lambda engine, job: engine.cancel(job.id, tenant=job.tenant),
        as_json=as_json,
    )


@app.command("expedite", epilog="Example: penstock jobs expedite 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def expedite_jobs(
    jobs: JobsArgument,
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let scheduled jobs be due now, also between attempts; they stand in line like any that arrive."""
    _each(
        store,
        reason,
        jobs,
        tenant,
        "expedite",
        lambda engine, job: engine.expedite(job.id, job.tenant),
        as_json=as_json,
    )


@app.command("import", epilog="Example: penstock jobs import old.jsonl")
def import_file(
    file: Annotated[
        typer.FileBinaryRead, typer.Argument(help="Jobs, each a line of JSON; - for standard input.")
    ],
    *,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> None:
    """Bring in jobs with the attempts that they made elsewhere, all or none."""
    jobs = read_jobs(file)
    with opened(store) as engine:
        added = engine.import_jobs(jobs)
    if as_json:
        print_json({"jobs": [{"id": each.id, "reused": each.reused} for each in added]})
    else:
        print(f"{len(added)} jobs were brought in.")


def meant(engine: "AnyEngine", text: str, tenant: str) -> "JobView":
    """Return the job whose id *text* is, or the only one whose id begins with it; of one *tenant*, if there is one."""
    try:
        return engine.job(text, tenant or None)
    except NotFoundError:
        views = []
        if len(text) >= _BEGINNING:
            views = engine.jobs(begins=text, tenant=tenant or None, limit=_SHOWN)
        found = [view for view in views if view.id.startswith(text)]
        if not found:
            raise
    if len(found) > 1:
        ids = ", ".join(view.id for view in found)
        raise InvalidError(
            "job", f"{text!r} begins several ids, as {ids}; write more of it, or name a --tenant"
        )
    return found[0]


def plain_job(view: "JobView") -> dict[str, object]:
    """Return a job as plain values for JSON."""
    return {
        "id": view.id,
        "number": view.seq,
        "task": view.task,
        "queue": view.queue,
        "tenant": view.tenant,
        "state": str(view.state),
        "reason": view.reason,
        "priority": view.priority,
        "cost": view.cost,
        "attempt": view.used,
        "max_attempts": view.max_attempts,
        "lost": view.lost,
        "args": parsed(view.args),
        "meta": parsed(view.meta),
        "limits": [_plain_limit(limit) for limit in view.limits],
        "enqueued": iso(view.enqueued),
        "due": iso(view.due),
        "expires": iso(view.expires),
        "started": iso(view.started),
        "finished": iso(view.finished),
        "worker": view.worker,
        "lease_ends": iso(view.lease),
        "cancel_asked": view.cancel_asked,
        "progress": parsed(view.progress),
        "result": parsed(view.result),
        "error": view.error,
    }


def _each(
    store: str,
    reason: str,
    jobs: Sequence[str],
    tenant: str,
    name: str,
    verb: "Callable[[AnyEngine, JobView], State]",
    *,
    as_json: bool,
) -> None:
    """Apply *verb* to every one of *jobs*, also after one that fails; exit as the last failure says."""
    answers: list[dict[str, object]] = []
    status = 0
    chosen = list(dict.fromkeys(jobs))
    with opened(store, reason) as engine, bulk(engine, f"job.{name}", "jobs", chosen, tenant):
        for job in chosen:
            try:
                view = meant(engine, job, tenant)
                answers.append({"id": view.id, "state": str(verb(engine, view))})
            except PenstockError as error:
                complain(str(error))
                status = exit_status(error)
                answers.append({"id": job, "error": {"code": error.code, "message": str(error)}})
    if as_json:
        print_json({"jobs": answers})
    else:
        for answer in answers:
            if "state" in answer:
                print(one_line(f"{answer['id']} is {answer['state']}"))
    raise typer.Exit(status)


def _row(view: "JobView", now: int) -> tuple[str, ...]:
    return (
        view.id,
        str(view.state),
        view.task,
        view.queue,
        view.tenant,
        str(view.priority) if view.priority else "",
        _attempts(view, "/"),
        when(view.enqueued, now),
        _error_text(view).partition("\n")[0] or view.reason,
    )


def _distinct(ids: Sequence[str]) -> int:
    """Return how many characters tell *ids* apart; jobs of two tenants may have the same one."""
    length, different = _SHORTEST, len(set(ids))
    while len({id_[:length] for id_ in ids}) < different:
        length += 1
    return length


def _attempts(view: "JobView", of: str) -> str:
    """Return how many attempts count of those it has, and how many were lost with their workers."""
    return f"{view.used}{of}{view.max_attempts}" + (f", {view.lost} lost" if view.lost else "")


def _error_text(view: "JobView") -> str:
    return problem(view.error)


def _limit_text(limit: "Limit") -> str:
    return f"{limit.key}: {numbers_text(limit.numbers)}; {limit.on_limit} when shut"


def _plain_limit(limit: "Limit") -> dict[str, object]:
    return {"key": limit.key, **(numbers_plain(limit.numbers) or {}), "on_limit": str(limit.on_limit)}
