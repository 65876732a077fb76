"""`penstock gates`: look at limits at work, and change their numbers while jobs run."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import (
    JsonOption,
    MostOption,
    RateOption,
    ReasonOption,
    SlotsOption,
    StoreOption,
    TenantOption,
    ThrottleOption,
    flag,
    opened,
    option,
    read_numbers,
    read_time,
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
from penstock.errors import InvalidError
from penstock.names import one_line

if TYPE_CHECKING:
    from penstock.app.backend import AnyEngine
    from penstock.job import GateView

app = typer.Typer(no_args_is_help=True)
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key of a gate.", show_default=False)]


class Scope(StrEnum):
    """What configured numbers apply to."""

    KEY = "key"
    QUEUE = "queue"
    TYPE = "type"


@app.command("list", epilog="Example: penstock gates list --prefix account: --limit 20")
def list_gates(
    *,
    store: StoreOption = "",
    prefix: Annotated[str, option("TEXT", "Only keys that begin with this.")] = "",
    offset: Annotated[int, option("N", "Leave out the first N.", least=0)] = 0,
    limit: MostOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List gates: their numbers, what runs and what waits there."""
    with opened(store) as engine:
        found, total = engine.gates(prefix=prefix, offset=offset, limit=limit)
        now = engine.clock.now()
    if as_json:
        print_json({"gates": [plain_gate(view) for view in found], "total": total})
        return
    if not found:
        print("No gates.")
        return
    columns = (
        Column("gate"),
        Column("tenant", 4),
        Column("running", right=True),
        Column("waiting", right=True),
        Column("recent", 5, right=True),
        Column("limit", 1),
        Column("from", 3),
        Column("opens", 2),
    )
    print_table(columns, [_row(view, now) for view in found])
    if offset + len(found) < total:
        print(f"\n{len(found)} of {total}; the next: --offset {offset + len(found)}")


@app.command("show", epilog="Example: penstock gates show account:acme")
def show_gate(
    key: KeyArgument, store: StoreOption = "", tenant: TenantOption = "", as_json: JsonOption = False
) -> None:
    """Show one gate: the numbers in force, where they come from, and when it opens."""
    with opened(store) as engine:
        _print_gate(engine, key, tenant, as_json=as_json)


@app.command("override", epilog="Example: penstock gates override api:stripe --rate 10/1m --for 15m")
def override_gate(
    key: KeyArgument,
    *,
    store: StoreOption = "",
    slots: SlotsOption = None,
    rate: RateOption = "",
    throttle: ThrottleOption = "",
    span: Annotated[str, typer.Option("--for", metavar="TIME", help="Until then only, as in 10m.")] = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let other numbers rule a gate, whatever its jobs or its configuration say."""
    numbers = read_numbers(slots, rate, throttle)
    length = read_time("for", span)
    with opened(store, reason) as engine:
        until = None if length is None else engine.clock.now() + length
        engine.override(key, numbers, until=until, tenant=tenant)
        _print_gate(engine, key, tenant, as_json=as_json)


@app.command("clear", epilog="Example: penstock gates clear api:stripe")
def clear_gate(
    key: KeyArgument,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Take an override away."""
    with opened(store, reason) as engine:
        engine.clear_override(key, tenant=tenant)
        _print_gate(engine, key, tenant, as_json=as_json)


@app.command("configure", epilog="Example: penstock gates configure account:acme --slots 3")
def configure_gate(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A key, a queue or a task, as --scope says.", show_default=False),
    ],
    *,
    store: StoreOption = "",
    scope: Annotated[Scope, typer.Option(help="What NAME is.")] = Scope.KEY,
    slots: SlotsOption = None,
    rate: RateOption = "",
    throttle: ThrottleOption = "",
    off: Annotated[bool, flag("--off", "Take the configured numbers away.")] = False,
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Set numbers for a key, a queue or a type of job; for a key they replace those that jobs carry."""
    if off and (slots is not None or rate or throttle):
        raise InvalidError("--off", "takes no numbers; leave out --slots, --rate and --throttle")
    numbers = None if off else read_numbers(slots, rate, throttle)
    with opened(store, reason) as engine:
        engine.configure(str(scope), name, numbers, tenant=tenant)
    if as_json:
        print_json(
            {"scope": str(scope), "name": name, "tenant": tenant, "configured": numbers_plain(numbers)}
        )
    elif numbers is None:
        print(one_line(f"{scope} {name}: no configured limit"))
    else:
        print(one_line(f"{scope} {name}: {numbers_text(numbers)}"))


def plain_gate(view: "GateView") -> dict[str, object]:
    """Return a gate as plain values for JSON."""
    return {
        "key": view.key,
        "tenant": view.tenant,
        "running": view.running,
        "lent": view.lent,
        "waiting": view.waiting,
        "recent_starts": view.recent,
        "limit": numbers_plain(view.numbers),
        "source": _source(view),
        "configured": numbers_plain(view.configured),
        "floating": view.floating,
        "override": numbers_plain(view.override),
        "override_until": iso(view.override_until),
        "shut_until": iso(view.shut_until),
        "shut_reason": view.shut_reason,
        "opens_at": iso(view.opens_at),
        "next_start": iso(view.next_start),
    }


def _print_gate(engine: "AnyEngine", key: str, tenant: str, *, as_json: bool) -> None:
    view, now = engine.gate(key, tenant), engine.clock.now()
    if as_json:
        print_json(plain_gate(view))
        return
    print_facts(
        [
            ("gate", view.key),
            ("tenant", view.tenant),
            ("limit", numbers_text(view.numbers) or "none"),
            ("from", _source(view)),
            ("configured", numbers_text(view.configured)),
            ("floating", "" if view.floating is None else f"slots {view.floating}"),
            ("override", numbers_text(view.override)),
            ("ends", when(view.override_until, now)),
            ("running", str(view.running)),
            ("of these calls", str(view.lent) if view.lent else ""),
            ("waiting", str(view.waiting)),
            ("recent starts", str(view.recent) if view.numbers.span else ""),
            ("shut until", when(view.shut_until, now)),
            ("shut because", view.shut_reason),
            ("opens", _opens(view, now)),
            ("next start", when(view.next_start, now)),
        ]
    )


def _row(view: "GateView", now: int) -> tuple[str, ...]:
    slots = view.numbers.slots
    return (
        view.key,
        view.tenant,
        # More run than may if the number was lowered since they started; then it stands under limit only.
        str(view.running) if slots is None or view.running > slots else f"{view.running}/{slots}",
        str(view.waiting),
        str(view.recent) if view.numbers.span else "",
        numbers_text(view.numbers),
        _source(view),
        _opens(view, now),
    )


def _source(view: "GateView") -> str:
    """Name where the numbers in force come from."""
    if view.override is not None:
        return "override"
    if view.configured is not None:
        return "configured"
    return "job" if view.floating is None else "floating"


def _opens(view: "GateView", now: int) -> str:
    if view.opens_at is None:
        return "when a job ends"
    return "" if view.opens_at <= now else when(view.opens_at, now)
