"""Look at the limits of keys, and let other numbers rule them for a while."""

from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta, Struct

from penstock.dialects.ojs.format.limits import (
    limit_headers,
    period_of,
    shown_numbers,
    shown_window,
    window_of,
)
from penstock.dialects.ojs.format.names import check_key, moment, written
from penstock.dialects.ojs.format.paging import QUERY, page_of
from penstock.dialects.ojs.format.requests import ThrottleBody, WindowBody
from penstock.dialects.ojs.format.responses import KeysAnswer, KeyShape
from penstock.engine import Engine
from penstock.errors import InvalidError, NotFoundError
from penstock.http.access import JOBS, OPERATORS
from penstock.http.routes import Reply, Request, Route
from penstock.job import GateView
from penstock.limits.durations import to_iso
from penstock.limits.rules import MAX_NUMBER, Numbers, Window

Whole = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]


class OverrideBody(Struct, forbid_unknown_fields=True):
    """Numbers that rule a key until then.  *limit* alone or with *period* means the one that the key shows flat."""

    concurrency: Whole | None = None
    rate: WindowBody | None = None
    throttle: ThrottleBody | None = None
    expires_at: str | None = None
    limit: Whole | None = None
    period: str | None = None
    key: str | None = None


async def look(request: Request) -> Reply:
    """Return what is remembered for a key."""
    gate = await _gate(request)
    return Reply(shown(gate, request.now), headers=limit_headers(gate))


async def listed(request: Request) -> Reply:
    """Return a page of keys."""
    page = page_of(request)
    gates, total = await request.service.run(
        # Names that no client can give are the server's own.
        lambda engine: engine.gates(tenant=request.tenant, offset=page.offset, limit=page.limit)
    )
    now = request.now
    return Reply({"items": [shown(gate, now) for gate in gates], "pagination": page.shown(total)})


async def override(request: Request) -> Reply:
    """Let other numbers rule a key, until then or until the override is removed."""
    body = request.read(OverrideBody)
    key, tenant = check_key(request.params["key"]), request.owner
    if body.key not in (None, key):
        raise InvalidError("key", f"{body.key!r} is not the key of the path, {key!r}")
    now = request.now
    until = None if body.expires_at is None else moment(body.expires_at, "expires_at", now)
    numbers = Numbers(body.concurrency, window_of(body.rate, "rate"), window_of(body.throttle, "throttle"))
    period = None if body.period is None else period_of(body.period, "period")
    if body.limit is None and numbers == Numbers():
        raise InvalidError("body", "names no number; give concurrency, rate, throttle or limit")

    def work(engine: Engine) -> GateView:
        wanted = numbers if body.limit is None else _flat(engine, key, tenant, numbers, body.limit, period)
        engine.override(key, wanted, until=until, tenant=tenant)
        return engine.gate(key, tenant)

    gate = await request.service.run(work)
    return Reply(shown(gate, now), headers=limit_headers(gate))


async def end_override(request: Request) -> Reply:
    """End an override, and a time for which a worker's report shut the key."""
    key = check_key(request.params["key"])

    def work(engine: Engine) -> GateView:
        engine.clear_override(key, tenant=request.owner)
        return engine.gate(key, request.owner)

    gate = await request.service.run(work)
    return Reply(shown(gate, request.now), headers=limit_headers(gate))


def shown(gate: GateView, now: int) -> dict[str, Any]:
    """Return a key as the spec shows it, with the flat fields that the admin pages read."""
    numbers = gate.numbers
    answer: dict[str, Any] = {"key": gate.key}
    if gate.tenant:
        answer["tenant_id"] = gate.tenant
    if numbers.slots is not None:
        free = max(numbers.slots - gate.running, 0)
        answer["concurrency"] = {"limit": numbers.slots, "active": gate.running, "available": free}
    if numbers.rate is not None:
        resets = gate.window_resets_at or now
        answer["rate"] = {
            **_window(numbers.rate),
            "current_count": gate.recent,
            "window_resets_at": written(resets),
        }
    if numbers.throttle is not None:
        allowed = max(gate.next_start or now, now)
        answer["throttle"] = {**shown_window(numbers.throttle), "next_allowed_at": written(allowed)}
    answer |= {"waiting_count": gate.waiting, "active": gate.running, "waiting": gate.waiting}
    flat = numbers.rate or numbers.throttle
    if flat is not None:
        answer |= _window(flat)
    elif numbers.slots is not None:
        answer["limit"] = numbers.slots
    if gate.override is not None:
        answer["override"] = _override(gate.override, gate.override_until)
    if gate.configured is not None:
        answer["configured"] = shown_numbers(gate.configured)
    if gate.shut_until is not None:
        answer["rate_limit_until"] = written(gate.shut_until)
    return answer


def _override(numbers: Numbers, until: int | None) -> dict[str, Any]:
    answer = shown_numbers(numbers)
    flat = numbers.rate or numbers.throttle
    answer |= _window(flat) if flat is not None else {"limit": numbers.slots}
    if until is not None:
        answer["expires_at"] = written(until)
    return answer


def _window(window: Window) -> dict[str, Any]:
    return {"limit": window.limit, "period": to_iso(window.period)}


def _flat(engine: Engine, key: str, tenant: str, numbers: Numbers, limit: int, period: int | None) -> Numbers:
    """Return *numbers* with one more, of the kind that the key shows in its flat fields."""
    try:
        present = engine.gate(key, tenant).numbers
    except NotFoundError:
        present = Numbers()
    if present.rate is None and present.throttle is not None:
        window = replace(present.throttle, limit=limit, period=period or present.throttle.period)
        return Numbers(numbers.slots, numbers.rate, window)
    if period is None and present.rate is None:
        return Numbers(limit, numbers.rate, numbers.throttle)
    window = Window(limit, period or (present.rate.period if present.rate else 1))
    return Numbers(numbers.slots, window, numbers.throttle)


async def _gate(request: Request) -> GateView:
    key = check_key(request.params["key"])
    return await request.service.run(lambda engine: engine.gate(key, request.owner))


ROUTES = (
    Route("GET", "/rate-limits", listed, JOBS, "List limits by key", KeysAnswer, query=QUERY),
    Route("GET", "/rate-limits/{key}", look, JOBS, "Look at the limits of a key", KeyShape),
    Route(
        "PUT",
        "/rate-limits/{key}",
        override,
        OPERATORS,
        "Override the limits of a key",
        KeyShape,
        OverrideBody,
    ),
    Route("DELETE", "/rate-limits/{key}", end_override, OPERATORS, "End an override", KeyShape),
    Route("DELETE", "/rate-limits/{key}/override", end_override, OPERATORS, "End an override", KeyShape),
)
