"""`penstock audit`: who changed what, through what and why."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.attempts import parsed
from penstock.cli.options import JsonOption, MostOption, StoreOption, opened, option, read_time
from penstock.cli.output import Column, iso, print_json, print_table, when
from penstock.errors import InvalidError

if TYPE_CHECKING:
    from penstock.job import AuditEntry


def audit(
    subject: Annotated[
        str, typer.Argument(metavar="[SUBJECT]", help="Only changes of this.", show_default=False)
    ] = "",
    *,
    store: StoreOption = "",
    kind: Annotated[str, option("KIND", "Only changes of gates, queues, jobs, ...: gate, queue, job.")] = "",
    verb: Annotated[str, option("VERB", "Only these changes, as in gate.override.")] = "",
    who: Annotated[str, option("NAME", "Only changes that NAME made.")] = "",
    through: Annotated[str, option("TEXT", "Only those made through python, cli, http or monitor.")] = "",
    tenant: Annotated[str | None, option("NAME", "Only those of this tenant.")] = None,
    last: Annotated[str, option("TIME", "Only those of the last so much time, as in 24h.")] = "",
    before: Annotated[int | None, option("N", "Go on after the change of this number.", least=0)] = None,
    limit: MostOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List changes that operators made, newest first; they are kept for 90 days."""
    from penstock.job import AuditFilter

    if "\0" in "".join((subject, kind, verb, who, through, tenant or "")):
        raise InvalidError("audit", "no name has the character NUL")
    span = read_time("last", last)
    with opened(store) as engine:
        now = engine.clock.now()
        wanted = AuditFilter(
            kind or None, subject or None, verb or None, who or None, through or None, tenant,
            None if span is None else max(now - span, 0),
        )  # fmt: skip
        found = engine.audit(wanted, before=before, limit=limit)
    if as_json:
        print_json({"changes": [plain_entry(entry) for entry in found]})
        return
    if not found:
        print("No changes.")
        return
    columns = (
        Column("number", 6, right=True),
        Column("when"),
        Column("who"),
        Column("through", 5),
        Column("change"),
        Column("tenant", 4),
        Column("subject"),
        Column("before", 3),
        Column("after", 2),
        Column("reason", 1),
    )
    print_table(columns, [_row(entry, now) for entry in found])
    if len(found) == limit:
        print(f"\nThe next: --before {found[-1].number}")


def plain_entry(entry: "AuditEntry") -> dict[str, object]:
    """Return a change as plain values for JSON."""
    return {
        "number": entry.number,
        "at": iso(entry.at),
        "who": entry.who,
        "through": entry.through,
        "verb": entry.verb,
        "kind": entry.kind,
        "tenant": entry.tenant,
        "subject": entry.subject,
        "before": parsed(entry.before),
        "after": parsed(entry.after),
        "reason": entry.reason,
        "touched": entry.touched,
    }


def _row(entry: "AuditEntry", now: int) -> tuple[str, ...]:
    bulk = entry.kind in {"jobs", "instances"}
    return (
        str(entry.number),
        when(entry.at, now),
        entry.who,
        entry.through,
        entry.verb,
        entry.tenant,
        f"{entry.touched} {entry.kind}" if bulk else entry.subject,
        entry.before or "",
        entry.after or "",
        entry.reason,
    )
