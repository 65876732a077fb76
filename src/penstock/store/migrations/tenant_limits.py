"""The part of step 0014 that reads JSON: what tenants may use moves from the settings to a table."""

import json

from penstock.clock import SECOND
from penstock.limits.durations import parse_duration
from penstock.store.session import Session

_UNITS = {"second": SECOND, "minute": 60 * SECOND, "hour": 3_600 * SECOND, "day": 86_400 * SECOND}


def move(db: Session) -> None:
    """Move the limits; how they were written, and what else was said of a tenant, stays in its setting."""
    for name, text in db.all("SELECT name, value FROM setting WHERE name LIKE 'ojs:tenant:_%'"):
        kept = json.loads(text)
        limits = kept.pop("limits", None) or {}
        rate = limits.get("max_enqueue_rate")
        if isinstance(rate, int):
            rate = {"limit": rate, "period": "second"}
        db.run(
            """
            INSERT INTO tenant (name, max_waiting, max_scheduled, rate_limit, rate_period) VALUES (?, ?, ?, ?, ?)
            """,
            name.removeprefix("ojs:tenant:"),
            limits.get("max_queue_depth"),
            limits.get("max_scheduled"),
            None if rate is None else rate["limit"],
            None if rate is None else _UNITS.get(rate["period"]) or parse_duration(rate["period"], "period"),
        )
        value = json.dumps({**kept, "shown": limits})
        db.run("UPDATE setting SET name = ?, value = ? WHERE name = ?", f"http{name[3:]}", value, name)
