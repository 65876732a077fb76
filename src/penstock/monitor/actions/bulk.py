"""Bulk actions: retry, cancel or forget jobs that were chosen, or all that fit; and stop one that is under way."""

from typing import Final
from urllib.parse import quote, unquote

from penstock.engine.job_batches import JobChange
from penstock.errors import InvalidError, NotFoundError
from penstock.job import Count, JobQuery
from penstock.lifecycle.states import State
from penstock.monitor.actions.action import Action, Order, no_job
from penstock.monitor.actions.fields import TENANT, Field, as_number, as_text, one_of
from penstock.monitor.operations import Wanted

MOST_CHOSEN: Final = 500
_STATES: Final = tuple(state.value for state in State)


def as_chosen(name: str, written: str) -> tuple[tuple[str, str], ...]:
    """Read which jobs were chosen, as (id, tenant)."""
    found = []
    for each in written.split():
        tenant, slash, id_ = each.partition("/")
        if not slash or not id_:
            raise InvalidError(
                name, f"{each[:40]!r} must be a tenant and an id, percent-encoded, with / between"
            )
        found.append((unquote(id_), unquote(tenant)))
    if len(found) > MOST_CHOSEN:
        raise InvalidError(name, f"at most {MOST_CHOSEN} jobs can be chosen; these are {len(found):,}")
    return tuple(dict.fromkeys(found))


def chosen(id_: str, tenant: str) -> str:
    """Write a job as the field of those that were chosen has it."""
    return f"{quote(tenant, safe='')}/{quote(id_, safe='')}"


_NAMES: Final = (
    Field("job", "Chosen", as_chosen),
    Field("state", "State", one_of(*_STATES)),
    *(
        Field(name, name.capitalize(), as_text)
        for name in ("queue", "task", "key", "worker", "error", "words")
    ),
    Field("since", "Enqueued since", as_number),
    Field("until", "Enqueued before", as_number),
    TENANT,
)


def _query(order: Order) -> JobQuery:
    given = {field.name: order.values[field.name] for field in _NAMES if field.name not in ("job", "state")}
    state = order.values["state"]
    return JobQuery(None if state is None else State(state), **given)


def _wanted(order: Order, change: JobChange) -> Wanted:
    jobs = order.values["job"] or ()
    for id_, tenant in jobs:
        if order.own not in (None, tenant):
            raise NotFoundError("job", id_)
    query = JobQuery() if jobs else _query(order)
    if not jobs and query == JobQuery():
        raise InvalidError("state", "say which jobs are meant: choose some, or give a filter")
    return Wanted(change, query, jobs)


def _touches(order: Order) -> Count:
    wanted = _wanted(order, "retry")
    return Count(len(wanted.chosen)) if wanted.chosen else order.engine.touched_by_query(wanted.query)


def _begin(order: Order, change: JobChange) -> None:
    order.operations.start(order.engine, _wanted(order, change), order.actor, order.own, _touches(order))


def _retry(order: Order) -> None:
    _begin(order, "retry")


def _cancel(order: Order) -> None:
    _begin(order, "cancel")


def _forget(order: Order) -> None:
    _begin(order, "forget")


def _stop(order: Order) -> None:
    order.operations.stop(order.values["number"], order.own)


_GOES_ON: Final = " It goes on in batches when you leave the page, and can be stopped."

ACTIONS: Final = (
    Action(
        "/bulk/retry", "jobs", "Retry", "Retry many jobs",
        "Those that have failed, or were discarded, cancelled or expired, arrive again." + _GOES_ON,
        "The operation is under way.", "/operations", _retry, _NAMES, touches=_touches, leads_away=True,
    ),
    Action(
        "/bulk/cancel", "jobs", "Cancel", "Cancel many jobs",
        "Those that wait are cancelled; of those that run the workers are asked to stop." + _GOES_ON,
        "The operation is under way.", "/operations", _cancel, _NAMES, touches=_touches, grave=True, leads_away=True,
    ),
    Action(
        "/bulk/forget", "jobs", "Forget", "Forget many jobs",
        "Those that have ended are deleted, with all that is known of them." + _GOES_ON,
        "The operation is under way.", "/operations", _forget, _NAMES, touches=_touches, grave=True, leads_away=True,
    ),
    Action(
        "/operations/stop", "operation", "Stop", "Stop a bulk operation",
        "It ends after the batch that is under way; what was done stays done.",
        "The operation is asked to stop.", "/operations", _stop,
        (Field("number", "Operation", as_number, needed=True),), touches=no_job,
    ),
)  # fmt: skip
