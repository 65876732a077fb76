"""`penstock queues`: look at queues, pause and resume them."""

from typing import Annotated, Any

import typer

from penstock.cli.options import JsonOption, ReasonOption, StoreOption, TenantOption, opened
from penstock.cli.output import Column, numbers_plain, numbers_text, print_json, print_table
from penstock.names import one_line

app = typer.Typer(no_args_is_help=True)
QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The name of a queue.", show_default=False)
]


@app.command("list", epilog="Example: penstock queues list --json")
def list_queues(*, store: StoreOption = "", as_json: JsonOption = False) -> None:
    """List queues: what waits, what runs, which are paused."""
    with opened(store) as engine:
        found: list[dict[str, Any]] = engine.queues()
    if as_json:
        print_json({"queues": [{**queue, "numbers": numbers_plain(queue["numbers"])} for queue in found]})
        return
    if not found:
        print("No queues.")
        return
    columns = (
        Column("queue"),
        Column("tenant", 3),
        Column("waiting", right=True),
        Column("scheduled", right=True),
        Column("running", right=True),
        Column("paused", 1),
        Column("limit", 2),
    )
    print_table(columns, [_row(queue) for queue in found])


@app.command("pause", epilog="Example: penstock queues pause reports")
def pause_queue(
    queue: QueueArgument,
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start no more jobs of a queue, of one tenant or of all; those that run go on."""
    with opened(store, reason) as engine:
        engine.pause(queue, tenant=tenant)
    _print_paused(queue, paused=True, as_json=as_json)


@app.command("resume", epilog="Example: penstock queues resume reports")
def resume_queue(
    queue: QueueArgument,
    *,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Start jobs of a paused queue again."""
    with opened(store, reason) as engine:
        engine.resume(queue, tenant=tenant)
    _print_paused(queue, paused=False, as_json=as_json)


def _row(queue: dict[str, Any]) -> tuple[str, ...]:
    return (
        queue["name"],
        queue["tenant"],
        str(queue["waiting"]),
        str(queue["scheduled"]),
        str(queue["running"]),
        "paused" if queue["paused"] else "",
        numbers_text(queue["numbers"]),
    )


def _print_paused(queue: str, *, paused: bool, as_json: bool) -> None:
    if as_json:
        print_json({"queue": queue, "paused": paused})
    else:
        print(one_line(f"queue {queue} is {'paused' if paused else 'open'}"))
