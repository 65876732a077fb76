"""`penstock workflows`: look at runs of workflows and sequences, send them signals, stop them and let them go on."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import complain, exit_status
from penstock.cli.attempts import parsed, problem
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
from penstock.cli.output import Column, iso, print_facts, print_json, print_table, when
from penstock.errors import InvalidError, PenstockError
from penstock.job import InstanceState
from penstock.names import one_line

if TYPE_CHECKING:
    from penstock.app.backend import AnyEngine
    from penstock.job import EntryView, InstanceView

app = typer.Typer(no_args_is_help=True)
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run.", show_default=False)]
RunsArgument = Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs.", show_default=False)]


@app.command("list", epilog="Example: penstock workflows list --state deferred")
def list_runs(
    *,
    store: StoreOption = "",
    state: Annotated[
        InstanceState | None, typer.Option(help="Only runs that are in this state.", show_default=False)
    ] = None,
    workflow: Annotated[str | None, option("NAME", "Only runs of this workflow or sequence.")] = None,
    tenant: TenantOption = "",
    limit: MostOption = 50,
    offset: Annotated[int, option("N", "Leave out so many of the newest.", least=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """List runs, the newest first."""
    with opened(store) as engine:
        found, total = engine.instances(tenant or None, offset, limit, workflow=workflow, state=state)
        now = engine.clock.now()
    if as_json:
        print_json({"workflows": [_plain(view) for view in found], "total": total})
        return
    if not found:
        print("No runs.")
        return
    columns = (
        Column("run"),
        Column("state"),
        Column("workflow", 1),
        Column("version", 5, right=True),
        Column("tenant", 6),
        Column("created", 4),
        Column("started", 3),
        Column("reason", 2, least=24),
    )
    print_table(columns, [_row(view, now) for view in found])
    if offset + len(found) < total:
        print(f"\n{total} in all; older ones: --offset {offset + len(found)}")


@app.command("show", epilog="Example: penstock workflows show 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def show_run(
    run: RunArgument, *, store: StoreOption = "", tenant: TenantOption = "", as_json: JsonOption = False
) -> None:
    """Show everything about one run, its steps too."""
    with opened(store) as engine:
        view = engine.instance(run, tenant or None)
        why = engine.why(view.id, view.tenant).sentence if view.ended is None else ""
        now = engine.clock.now()
    if as_json:
        print_json(_plain(view) | {"why": why or None, "steps": [_plain_step(step) for step in view.steps]})
        return
    print_facts(
        [
            ("run", view.id),
            ("state", view.state.value),
            ("reason", why or view.reason),
            ("workflow", view.workflow),
            ("version", str(view.version or "")),
            ("tenant", view.tenant),
            ("limits", "\n".join(limit.key for limit in view.limits)),
            ("arguments", view.args),
            ("created", when(view.created, now)),
            ("due", when(view.due, now)),
            ("started", when(view.started, now)),
            ("ended", when(view.ended, now)),
            ("parent", view.parent or ""),
            ("steps", "\n".join(_step_line(step, now) for step in view.steps if step.kind != "frame")),
            ("result", view.result or ""),
            ("error", problem(view.error)),
        ]
    )


@app.command("signal", epilog="""Example: penstock workflows signal 019a3c5e reply '{"parts": []}'""")
def signal_run(
    run: RunArgument,
    name: Annotated[str, typer.Argument(help="The name that the run waits for.", show_default=False)],
    payload: Annotated[str, typer.Argument(help="What to tell it, as JSON.")] = "null",
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Send a signal to a run; one that comes before the run waits for it is kept."""
    with opened(store) as engine:
        if parsed(payload) == payload:
            raise InvalidError("payload", f"{payload[:40]!r} is not JSON; put a text in double quotes")
        sent = engine.signal(run, name, payload, tenant or None)
    if as_json:
        print_json({"signal": sent})
    else:
        print(one_line(f"{run} was sent {name}"))


@app.command("cancel", epilog="Example: penstock workflows cancel 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def cancel_runs(
    runs: RunsArgument,
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Cancel runs: steps that wait are cancelled, those that run are asked to stop."""
    _each(
        store,
        reason,
        runs,
        tenant,
        "cancel",
        lambda engine, run, of: engine.cancel_instance(run, tenant=of),
        as_json=as_json,
    )


@app.command("pause", epilog="Example: penstock workflows pause 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def pause_runs(
    runs: RunsArgument,
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let no step of runs begin until they are resumed; they keep their slots."""
    _each(
        store,
        reason,
        runs,
        tenant,
        "pause",
        lambda engine, run, of: engine.pause_instance(run, of),
        as_json=as_json,
    )


@app.command("resume", epilog="Example: penstock workflows resume 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def resume_runs(
    runs: RunsArgument,
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let paused runs go on."""
    _each(
        store,
        reason,
        runs,
        tenant,
        "resume",
        lambda engine, run, of: engine.resume_instance(run, of),
        as_json=as_json,
    )


@app.command("retry", epilog="Example: penstock workflows retry 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")
def retry_runs(
    runs: RunsArgument,
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let runs that failed, or were cancelled, go on from the step that failed; they pass their gates again."""
    _each(
        store,
        reason,
        runs,
        tenant,
        "retry",
        lambda engine, run, of: engine.retry_instance(run, of),
        as_json=as_json,
    )


def _each(
    store: str,
    reason: str,
    runs: Sequence[str],
    tenant: str,
    name: str,
    verb: "Callable[[AnyEngine, str, str | None], object]",
    *,
    as_json: bool,
) -> None:
    """Apply *verb* to every one of *runs*, also after one that fails; exit as the last failure says."""
    answers: list[dict[str, object]] = []
    status = 0
    chosen = list(dict.fromkeys(runs))
    with opened(store, reason) as engine, bulk(engine, f"instance.{name}", "instances", chosen, tenant):
        for run in chosen:
            try:
                verb(engine, run, tenant or None)
                state = engine.instance(run, tenant or None, steps=False).state
                answers.append({"id": run, "state": state.value})
            except PenstockError as error:
                complain(str(error))
                status = exit_status(error)
                answers.append({"id": run, "error": {"code": error.code, "message": str(error)}})
    if as_json:
        print_json({"workflows": answers})
    else:
        for answer in answers:
            if "state" in answer:
                print(one_line(f"{answer['id']} is {answer['state']}"))
    raise typer.Exit(status)


def _row(view: "InstanceView", now: int) -> tuple[str, ...]:
    return (
        view.id,
        view.state.value,
        view.workflow,
        str(view.version or ""),
        view.tenant,
        when(view.created, now),
        when(view.started, now),
        problem(view.error).partition("\n")[0] or view.reason,
    )


def _step_line(step: "EntryView", now: int) -> str:
    told = f"{step.key}: {step.kind} {step.state.value}, {when(step.ended or step.began, now)}"
    told += f", {'run' if step.kind == 'child' else 'job'} {step.job_id}" if step.job_id else ""
    return one_line(f"{told}; {problem(step.error)}" if step.error else told)


def _plain(view: "InstanceView") -> dict[str, object]:
    return {
        "id": view.id,
        "number": view.seq,
        "workflow": view.workflow,
        "version": view.version,
        "tenant": view.tenant,
        "queue": view.queue,
        "state": view.state.value,
        "reason": view.reason,
        "priority": view.priority,
        "args": parsed(view.args),
        "meta": parsed(view.meta),
        "limits": [limit.key for limit in view.limits],
        "created": iso(view.created),
        "due": iso(view.due),
        "started": iso(view.started),
        "ended": iso(view.ended),
        "parent": view.parent,
        "result": parsed(view.result),
        "error": view.error,
    }


def _plain_step(step: "EntryView") -> dict[str, object]:
    return {
        "key": step.key,
        "kind": step.kind,
        "state": step.state.value,
        "job": step.job_id,
        "began": iso(step.began),
        "ended": iso(step.ended),
        "result": parsed(step.result),
        "error": step.error,
    }
