"""The limits of whole queues and of job types, and how much a queue may hold: set by operators."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.dialects.ojs.format.limits import shown_numbers, window_of
from penstock.dialects.ojs.format.names import check_queue, check_type
from penstock.dialects.ojs.format.requests import ThrottleBody, WindowBody
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.http.access import OPERATORS
from penstock.http.backpressure import Bounds
from penstock.http.routes import Reply, Request, Route
from penstock.job import Bound, OnFull
from penstock.limits.rules import MAX_NUMBER, Numbers

Whole = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
WARNING: Final = 0.8


class LimitBody(Struct, forbid_unknown_fields=True):
    """The numbers of a queue or a type; *limit* with *period* is another way to write a rate."""

    concurrency: Whole | None = None
    rate: WindowBody | None = None
    throttle: ThrottleBody | None = None
    limit: Whole | None = None
    period: str | None = None


class PressureBody(Struct, forbid_unknown_fields=True):
    """How many jobs may wait in a queue, and what becomes of one too many."""

    max_depth: Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
    strategy: Literal["reject", "block", "drop_oldest", "drop-oldest"] = "reject"
    warning_threshold: Annotated[float, Meta(gt=0, le=1)] = WARNING


class ConfigBody(Struct):
    """What is set of a queue: what is left out stays as it is, null removes it."""

    concurrency: Whole | UnsetType | None = UNSET
    rate_limit: LimitBody | UnsetType | None = UNSET
    backpressure: PressureBody | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET


async def limit(request: Request) -> Reply:
    """Return the numbers that all jobs of a queue or a type share."""
    meant = _meant(request)
    return Reply(await request.service.run(lambda engine: _shown_limit(engine, *meant)))


async def set_limit(request: Request) -> Reply:
    """Set these numbers."""
    numbers = _numbers(request.read(LimitBody), "")
    if numbers == Numbers():
        raise InvalidError("body", "names no number; give concurrency, rate or throttle, or DELETE the limit")
    return await _configured(request, numbers)


async def clear_limit(request: Request) -> Reply:
    """Remove these numbers."""
    return await _configured(request, None)


async def config(request: Request) -> Reply:
    """Return what is set of a queue."""
    tenant, name = _queue(request)
    return Reply(await request.service.run(lambda engine: _shown_config(engine, tenant, name)))


async def set_config(request: Request) -> Reply:
    """Set the numbers and the bound of a queue, which need not exist yet."""
    body = request.read(ConfigBody)
    tenant, name = _queue(request)
    wanted = None if body.rate_limit in (None, UNSET) else _numbers(body.rate_limit, "rate_limit.")

    def work(engine: Engine) -> dict[str, Any]:
        if body.concurrency is not UNSET or body.rate_limit is not UNSET:
            present = engine.configured("queue", name, tenant=tenant) or Numbers()
            numbers = _merged(present, body, wanted)
            engine.configure("queue", name, None if numbers == Numbers() else numbers, tenant=tenant)
        if body.backpressure is not UNSET:
            engine.bound(name, _bound(body.backpressure), tenant=tenant)
        if body.paused is not UNSET:
            (engine.pause if body.paused else engine.resume)(name, tenant=tenant)
        return _shown_config(engine, tenant, name)

    answer = await request.service.run(work)
    request.service.part(Bounds).forget()
    return Reply(answer)


def _shown_config(engine: Engine, tenant: str, name: str) -> dict[str, Any]:
    """Return what is set of a queue."""
    numbers = engine.configured("queue", name, tenant=tenant) or Numbers()
    answer: dict[str, Any] = {"name": name, **shown_numbers(numbers)}
    if numbers.rate is not None:
        answer["rate_limit"] = answer["rate"]
    bound = engine.bounds().get((tenant, name))
    if bound is not None:
        answer["backpressure"] = {
            "max_depth": bound.max_depth,
            "strategy": bound.strategy.value,
            "warning_threshold": WARNING if bound.warning is None else bound.warning,
        }
    return {**answer, "queue": name, "config": dict(answer)}


def _merged(present: Numbers, body: ConfigBody, wanted: Numbers | None) -> Numbers:
    slots, rate, throttle = present.slots, present.rate, present.throttle
    if body.rate_limit is not UNSET:
        rate, throttle = (None, None) if wanted is None else (wanted.rate, wanted.throttle)
        if wanted is not None and wanted.slots is not None:
            slots = wanted.slots
    if body.concurrency is not UNSET:
        slots = body.concurrency
    return Numbers(slots, rate, throttle)


def _numbers(body: LimitBody, at: str) -> Numbers:
    rate = window_of(body.rate, f"{at}rate")
    if body.limit is not None or body.period is not None:
        if body.rate is not None:
            raise InvalidError(f"{at}limit", "says the same as rate; give one of them")
        if body.limit is None or body.period is None:
            missing = "limit" if body.limit is None else "period"
            raise InvalidError(f"{at}{missing}", "is missing: a rate is a limit and its period")
        rate = window_of(WindowBody(body.limit, body.period), at.rstrip(".") or "rate")
    return Numbers(body.concurrency, rate, window_of(body.throttle, f"{at}throttle"))


def _bound(body: PressureBody | None) -> Bound | None:
    if body is None:
        return None
    return Bound(body.max_depth, OnFull(body.strategy.replace("-", "_")), body.warning_threshold)


async def _configured(request: Request, numbers: Numbers | None) -> Reply:
    scope, tenant, name = _meant(request)

    def work(engine: Engine) -> dict[str, Any]:
        engine.configure(scope, name, numbers, tenant=tenant)
        return _shown_limit(engine, scope, tenant, name)

    return Reply(await request.service.run(work))


def _shown_limit(engine: Engine, scope: str, tenant: str, name: str) -> dict[str, Any]:
    numbers = engine.configured(scope, name, tenant=tenant)
    answer = {} if numbers is None else shown_numbers(numbers)
    return {scope: name, **answer, "rate_limit": dict(answer)}


def _queue(request: Request) -> tuple[str, str]:
    return request.owner, check_queue(request.params["name"], "name")


def _meant(request: Request) -> tuple[str, str, str]:
    """Return what a limit of the path is for: a queue or a type, of which tenant, and its name."""
    if "type" not in request.params:
        return "queue", *_queue(request)
    if request.tenant is not None:
        raise InvalidError(
            "X-OJS-Tenant", "a type is shared by all tenants; its limit belongs to none of them"
        )
    return "type", "", check_type(request.params["type"])


_QUEUE_LIMIT: Final = "/admin/queues/{name}/rate-limit"
_TYPE_LIMIT: Final = "/admin/types/{type}/rate-limit"
ROUTES = (
    Route("GET", _QUEUE_LIMIT, limit, OPERATORS, "Look at the limit of a queue"),
    Route("PUT", _QUEUE_LIMIT, set_limit, OPERATORS, "Limit a whole queue", body=LimitBody),
    Route("DELETE", _QUEUE_LIMIT, clear_limit, OPERATORS, "Limit a queue no longer"),
    Route("GET", _TYPE_LIMIT, limit, OPERATORS, "Look at the limit of a job type"),
    Route("PUT", _TYPE_LIMIT, set_limit, OPERATORS, "Limit a job type", body=LimitBody),
    Route("DELETE", _TYPE_LIMIT, clear_limit, OPERATORS, "Limit a job type no longer"),
    *(
        Route(method, path, handler, OPERATORS, summary, body=body)
        for path in ("/admin/queues/{name}/config", "/queues/{name}/config")
        for method, handler, summary, body in (
            ("GET", config, "Look at what is set of a queue", None),
            ("PUT", set_config, "Set the limits and the bound of a queue", ConfigBody),
        )
    ),
)
