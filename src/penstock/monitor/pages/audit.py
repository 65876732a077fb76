"""The audit: what was changed, by whom, through what, from what to what, and why."""

from typing import Final

from msgspec import Struct

from penstock.job import AuditEntry, AuditFilter
from penstock.limits.durations import parse_duration
from penstock.monitor.page import View
from penstock.monitor.requests import Query

MOST: Final = 50
FIELDS: Final = ("who", "subject", "kind", "verb", "through", "tenant")


class Audit(Struct):
    """Changes that fit, newest first, of the *last* span of time; the next page begins *before* a number."""

    wanted: AuditFilter
    last: str | None
    entries: list[AuditEntry]
    before: int | None


def show(view: View, query: Query) -> Audit:
    """Return changes that fit the query; a visitor of one tenant sees its own."""
    given = {name: query.text(name) for name in FIELDS}
    if view.tenant is not None:
        given["tenant"] = view.tenant
    last, since = query.text("last"), query.number("since")
    if last is not None:
        since = view.now - parse_duration(last, "last", how="write a time such as 15m, 24h or 7d")
    wanted = AuditFilter(**given, since=since, until=query.number("until"))
    found = view.engine.audit(wanted, before=query.number("before"), limit=MOST + 1)
    return Audit(wanted, last, found[:MOST], found[MOST - 1].number if len(found) > MOST else None)
