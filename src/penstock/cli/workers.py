"""`penstock workers`: which workers there are, and when each was last heard from."""

from typing import TYPE_CHECKING, Annotated

from penstock.cli.options import JsonOption, StoreOption, opened, option
from penstock.cli.output import Column, iso, print_json, print_table, relative, when

if TYPE_CHECKING:
    from penstock.job import WorkerView


def workers(
    *,
    store: StoreOption = "",
    tenant: Annotated[str | None, option("NAME", "Only those of this tenant.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List workers: what they claim and run, and when each was last heard from.

    Each tells of itself every 10 seconds; one is silent after 30, and forgotten after an hour.
    """
    with opened(store) as engine:
        found, now = engine.workers(tenant), engine.clock.now()
    if as_json:
        print_json({"workers": [plain_worker(view, now) for view in found]})
        return
    if not found:
        print("No workers.")
        return
    columns = (
        Column("worker"),
        Column("state"),
        Column("running", right=True),
        Column("queues", 1),
        Column("tasks", 4, right=True),
        Column("host", 3),
        Column("pid", 5, right=True),
        Column("version", 6),
        Column("tenant", 4),
        Column("began", 2),
        Column("heard"),
    )
    print_table(columns, [_row(view, now) for view in found])


def plain_worker(view: "WorkerView", now: int) -> dict[str, object]:
    """Return a worker as plain values for JSON."""
    report = view.report
    return {
        "name": report.name,
        "tenant": report.tenant,
        "state": _state(view, now),
        "host": report.host,
        "pid": report.pid,
        "queues": list(report.queues),
        "tasks": list(report.tasks),
        "hands": report.hands,
        "running": report.running,
        "version": report.version,
        "began": iso(report.began),
        "heard": iso(view.heard),
    }


def _row(view: "WorkerView", now: int) -> tuple[str, ...]:
    report = view.report
    return (
        report.name,
        _state(view, now),
        str(report.running) if report.hands is None else f"{report.running}/{report.hands}",
        ", ".join(report.queues),
        str(len(report.tasks)),
        report.host,
        "" if report.pid is None else str(report.pid),
        report.version,
        report.tenant,
        when(report.began, now) if report.began else "",
        relative(view.heard, now),
    )


def _state(view: "WorkerView", now: int) -> str:
    from penstock.job import SILENT_AFTER

    return "silent" if now - view.heard > SILENT_AFTER else view.report.state
