"""`penstock floating`: look at limits that workers compute, and change them while jobs run."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import (
    JsonOption,
    MostOption,
    ReasonOption,
    StoreOption,
    TenantOption,
    opened,
    option,
    read_time,
)
from penstock.cli.output import Column, iso, print_facts, print_json, print_table, rough, when
from penstock.errors import InvalidError

if TYPE_CHECKING:
    from penstock.app.backend import AnyEngine
    from penstock.job import FloatingView

app = typer.Typer(no_args_is_help=True)
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The key of a floating limit.", show_default=False)
]


@app.command("list", epilog="Example: penstock floating list --prefix account: --limit 20")
def list_limits(
    *,
    store: StoreOption = "",
    prefix: Annotated[str, option("TEXT", "Only keys that begin with this.")] = "",
    tenant: Annotated[str | None, option("NAME", "Only those of this tenant.")] = None,
    offset: Annotated[int, option("N", "Leave out the first N.", least=0)] = 0,
    limit: MostOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List floating limits: their values, how old those are, and whether they are in use."""
    with opened(store) as engine:
        found, total = engine.floating_limits(tenant=tenant, prefix=prefix, offset=offset, limit=limit)
        now = engine.clock.now()
    if as_json:
        print_json({"floating": [plain_limit(view) for view in found], "total": total})
        return
    if not found:
        print("No floating limits.")
        return
    columns = (
        Column("key"),
        Column("tenant", 4),
        Column("value", right=True),
        Column("age", 1, right=True),
        Column("handler", 3),
        Column("in use", 2),
        Column("failures", 2, right=True),
        Column("last error", 5),
    )
    print_table(columns, [_row(view, now) for view in found])
    if offset + len(found) < total:
        print(f"\n{len(found)} of {total}; the next: --offset {offset + len(found)}")


@app.command("show", epilog="Example: penstock floating show warehouse")
def show_limit(
    key: KeyArgument, store: StoreOption = "", tenant: TenantOption = "", as_json: JsonOption = False
) -> None:
    """Show one floating limit: its value and bounds, when it was computed and when it is next."""
    with opened(store) as engine:
        _print_limit(engine, key, tenant, as_json=as_json)


@app.command("set", epilog="Example: penstock floating set warehouse --value 8 --most 20")
def set_limit(
    key: KeyArgument,
    *,
    store: StoreOption = "",
    value: Annotated[int | None, option("N", "So many at once, until the next refresh.", least=0)] = None,
    every: Annotated[str, option("TIME", "How often it is refreshed, as in 30s.")] = "",
    least: Annotated[int | None, option("N", "The value is never less.", least=0)] = None,
    most: Annotated[int | None, option("N", "The value is never more.", least=0)] = None,
    metadata: Annotated[str, option("JSON", "What its handler is told, as a JSON object.")] = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Change the value, the interval, the bounds or the metadata of a floating limit."""
    if value is None and least is None and most is None and not every and not metadata:
        raise InvalidError(
            "floating", "give at least one of --value, --every, --least, --most and --metadata"
        )
    if metadata:
        _check_metadata(metadata)
    with opened(store, reason) as engine:
        engine.set_floating(
            key,
            value=value,
            every=read_time("every", every),
            metadata=metadata or None,
            least=least,
            most=most,
            tenant=tenant,
        )
        _print_limit(engine, key, tenant, as_json=as_json)


@app.command("refresh", epilog="Example: penstock floating refresh warehouse")
def refresh_limit(
    key: KeyArgument,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Have a worker compute a floating limit at once, in use or not."""
    with opened(store, reason) as engine:
        engine.refresh_floating(key, tenant=tenant)
        _print_limit(engine, key, tenant, as_json=as_json)


@app.command("delete", epilog="Example: penstock floating delete warehouse")
def delete_limit(
    key: KeyArgument,
    store: StoreOption = "",
    tenant: TenantOption = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let a key float no longer: its jobs obey their own numbers until another one begins it again."""
    with opened(store, reason) as engine:
        engine.delete_floating(key, tenant=tenant)
    if as_json:
        print_json({"key": key, "tenant": tenant, "deleted": True})
    else:
        print(f"{key} floats no longer")


def plain_limit(view: "FloatingView") -> dict[str, object]:
    """Return a floating limit as plain values for JSON."""
    from penstock.limits.durations import format_duration

    return {
        "key": view.key,
        "tenant": view.tenant,
        "value": view.value,
        "default": view.default,
        "least": view.least,
        "most": view.most,
        "handler": view.handler,
        "every": format_duration(view.every),
        "metadata": json.loads(view.metadata),
        "in_use": view.in_use,
        "refreshed": iso(view.refreshed),
        "next_refresh": iso(view.next_at),
        "worker": view.worker or None,
        "failures": view.failures,
        "last_error": view.last_error,
    }


def _print_limit(engine: "AnyEngine", key: str, tenant: str, *, as_json: bool) -> None:
    from penstock.limits.durations import format_duration

    view, now = engine.floating(key, tenant), engine.clock.now()
    if as_json:
        print_json(plain_limit(view))
        return
    print_facts(
        [
            ("key", view.key),
            ("tenant", view.tenant),
            ("value", str(view.value)),
            ("default", str(view.default)),
            ("least", str(view.least) if view.least else ""),
            ("most", "" if view.most is None else str(view.most)),
            ("handler", view.handler),
            ("every", format_duration(view.every)),
            ("metadata", "" if view.metadata == "{}" else view.metadata),
            ("in use", "yes" if view.in_use else "no"),
            ("refreshed", when(view.refreshed, now) or "not yet"),
            ("next refresh", _next(view, now)),
            ("failures", str(view.failures) if view.failures else ""),
            ("last error", view.last_error),
        ]
    )


def _row(view: "FloatingView", now: int) -> tuple[str, ...]:
    return (
        view.key,
        view.tenant,
        str(view.value),
        "" if view.refreshed is None else rough(max(now - view.refreshed, 0)),
        view.handler,
        "yes" if view.in_use else "no",
        str(view.failures) if view.failures else "",
        view.last_error,
    )


def _next(view: "FloatingView", now: int) -> str:
    if view.worker and view.next_at > now:
        return f"under way at {view.worker}"
    if view.next_at > now:
        return when(view.next_at, now)
    return "as soon as a worker can" if view.in_use else "when it is in use again"


def _check_metadata(text: str) -> None:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise InvalidError("--metadata", f"{text!r} is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise InvalidError("--metadata", f"{text!r} must be a JSON object")
