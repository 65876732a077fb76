"""`penstock jobs`: look at jobs, run them once more, cancel them."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli import complain, exit_status
from penstock.cli.options import JsonOption, StoreOption, TenantOption, opened
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
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this queue.")] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this task.")] = None,
    tenant: TenantOption = "",
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only jobs with a limit on this key.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="At most so many.")] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only jobs older than that with this number.")
    ] = None,
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
        Column("priority", 6, right=True),
        Column("attempt", 2, right=True),
        Column("enqueued", 4),
        Column("reason", 3, least=24),
    )
    print_table(columns, [_row(view, now) for view in found])
    if more:
        print(f"\nOlder ones: --before {more}")


@app.command("show", epilog="Example: penstock jobs show 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def show_job(job: JobArgument, *, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Show everything about one job."""
    with opened(store) as engine:
        view = engine.job(meant(engine, job))
        failures = engine.failures(view.id)
        why = engine.why(view.id).sentence if view.state in (State.SCHEDULED, State.WAITING) else ""
        now = engine.clock.now()
    if as_json:
        told = [
            {"attempt": f.attempt, "at": iso(f.at), "kind": f.kind, "message": f.message} for f in failures
        ]
        print_json(plain_job(view) | {"why": why or None, "failures": told})
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
            (
                "failures",
                "\n".join(f"{f.attempt}: {f.kind}: {f.message} {when(f.at, now)}" for f in failures),
            ),
            ("error", _error_text(view)),
            ("traceback", (view.error or {}).get("traceback", "").rstrip()),
            ("meta", view.meta if view.meta != "{}" else ""),
        ]
    )


@app.command("retry", epilog="Example: penstock jobs retry 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def retry_jobs(jobs: JobsArgument, *, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Put ended jobs back in line, with all their attempts again; they pass their gates like any job."""

    def retry(engine: "AnyEngine", job: str) -> State:
        engine.retry(job)
        return engine.job(job).state

    _each(store, jobs, retry, as_json=as_json)


@app.command("cancel", epilog="Example: penstock jobs cancel 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def cancel_jobs(jobs: JobsArgument, *, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """Cancel jobs: at once if they wait; a running one is asked to stop."""
    _each(store, jobs, lambda engine, job: engine.cancel(job), as_json=as_json)


def meant(engine: "AnyEngine", text: str) -> str:
    """Return the id that *text* is, or the only one that begins with it."""
    try:
        return engine.job(text).id
    except NotFoundError:
        views = engine.jobs(begins=text, limit=_SHOWN) if len(text) >= _BEGINNING else []
        found = [view.id for view in views if view.id.startswith(text)]
        if not found:
            raise
    if len(found) > 1:
        raise InvalidError("job", f"{text!r} begins several ids, as {', '.join(found)}; write more of it")
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
        "args": _parsed(view.args),
        "meta": _parsed(view.meta),
        "limits": [_plain_limit(limit) for limit in view.limits],
        "enqueued": iso(view.enqueued),
        "due": iso(view.due),
        "expires": iso(view.expires),
        "started": iso(view.started),
        "finished": iso(view.finished),
        "worker": view.worker,
        "lease_ends": iso(view.lease),
        "cancel_asked": view.cancel_asked,
        "progress": _parsed(view.progress),
        "result": _parsed(view.result),
        "error": view.error,
    }


def _each(
    store: str, jobs: Sequence[str], verb: "Callable[[AnyEngine, str], State]", *, as_json: bool
) -> None:
    """Apply *verb* to every one of *jobs*, also after one that fails; exit as the last failure says."""
    answers: list[dict[str, object]] = []
    status = 0
    with opened(store) as engine:
        for job in dict.fromkeys(jobs):
            try:
                id_ = meant(engine, job)
                answers.append({"id": id_, "state": str(verb(engine, id_))})
            except PenstockError as error:
                complain(str(error))
                status = exit_status(error)
                answers.append({"id": job, "error": {"code": error.code, "message": str(error)}})
    if as_json:
        print_json({"jobs": answers})
    else:
        for answer in answers:
            if "state" in answer:
                print(f"{answer['id']} is {answer['state']}")
    raise typer.Exit(status)


def _row(view: "JobView", now: int) -> tuple[str, ...]:
    return (
        view.id,
        str(view.state),
        view.task,
        view.queue,
        str(view.priority) if view.priority else "",
        _attempts(view, "/"),
        when(view.enqueued, now),
        _error_text(view).partition("\n")[0] or view.reason,
    )


def _distinct(ids: Sequence[str]) -> int:
    """Return how many characters tell *ids* apart."""
    length = _SHORTEST
    while len({id_[:length] for id_ in ids}) < len(ids):
        length += 1
    return length


def _attempts(view: "JobView", of: str) -> str:
    """Return how many attempts count of those it has, and how many were lost with their workers."""
    return f"{view.used}{of}{view.max_attempts}" + (f", {view.lost} lost" if view.lost else "")


def _error_text(view: "JobView") -> str:
    error = view.error or {}
    return ": ".join(filter(None, (error.get("kind"), error.get("message"))))


def _limit_text(limit: "Limit") -> str:
    return f"{limit.key}: {numbers_text(limit.numbers)}; {limit.on_limit} when shut"


def _plain_limit(limit: "Limit") -> dict[str, object]:
    return {"key": limit.key, **(numbers_plain(limit.numbers) or {}), "on_limit": str(limit.on_limit)}


def _parsed(text: str | None) -> Any:  # noqa: ANN401 - JSON may hold anything
    """Return what JSON *text* holds; text that is not JSON is returned as it is."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
