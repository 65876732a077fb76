"""The spec's rate limit policies, and the engine's limits."""

from collections.abc import Sequence
from typing import Final

from penstock.clock import SECOND
from penstock.dialects.ojs.format.names import check_key, span
from penstock.dialects.ojs.format.requests import RateLimitBody, ThrottleBody, WindowBody
from penstock.errors import InvalidError
from penstock.job import GateView
from penstock.limits.durations import to_iso
from penstock.limits.rules import Limit, Numbers, OnLimit, Window

MOST: Final = 16  # limits of one job
_PERIODS: Final = {"second": SECOND, "minute": 60 * SECOND, "hour": 3_600 * SECOND, "day": 86_400 * SECOND}


def limits_of(bodies: Sequence[tuple[str, RateLimitBody]], queue: str) -> tuple[Limit, ...]:
    """Return the limits that a job of *queue* carries; each body comes with the name of its field."""
    if len(bodies) > MOST:
        raise InvalidError(bodies[0][0], f"at most {MOST} limits are allowed for one job, not {len(bodies)}")
    limits = tuple(_limit(body, queue, field) for field, body in bodies)
    keys = [limit.key for limit in limits]
    for (field, _), key in zip(bodies, keys, strict=True):
        if keys.count(key) > 1:
            raise InvalidError(f"{field}.key", f"{key!r} is named twice")
    return limits


def _limit(body: RateLimitBody, queue: str, field: str) -> Limit:
    if body.key is not None:
        key = check_key(body.key, f"{field}.key")
    elif body.max_per_second is not None:
        key = f"queue:{queue}"  # without a key the queue is what is limited
    else:
        raise InvalidError(f"{field}.key", "is missing: it names what is limited")
    numbers, shared = numbers_of(body, field), body.scope == "global"
    return Limit(key, numbers, OnLimit(body.on_limit), shared=shared, cost=body.cost)


def numbers_of(body: RateLimitBody, field: str) -> Numbers:
    """Return the numbers of a policy, in any of the ways they are written."""
    throttle = window_of(body.throttle, f"{field}.throttle")
    if body.max_per_second is not None:
        if throttle is not None:
            raise InvalidError(
                f"{field}.max_per_second", "goes with no throttle: both say how far starts are apart"
            )
        throttle = Window(1, max(1, round(SECOND / body.max_per_second)))
    return Numbers(body.concurrency, _rate(body, field), throttle)


def _rate(body: RateLimitBody, field: str) -> Window | None:
    if isinstance(body.rate, WindowBody):
        return window_of(body.rate, f"{field}.rate")
    if body.rate is None:
        return None
    return Window(body.rate, period_of(body.period or "second", f"{field}.period"))


def window_of(body: WindowBody | None, field: str) -> Window | None:
    """Return a window."""
    if body is None:
        return None
    burst = body.burst if isinstance(body, ThrottleBody) else 1
    return Window(body.limit, period_of(body.period, f"{field}.period"), burst)


def period_of(text: str, field: str) -> int:
    """Return a period, written as a duration or as the name of a unit, in microseconds."""
    return _PERIODS.get(text) or span(text, field)


def policy(limits: Sequence[Limit]) -> object:
    """Return limits the way the spec writes them: one as an object, several as a list."""
    shown = [_policy(limit) for limit in limits]
    return shown[0] if len(shown) == 1 else shown


def _policy(limit: Limit) -> dict[str, object]:
    shown = {"key": limit.key, **shown_numbers(limit.numbers), "on_limit": limit.on_limit.value}
    if limit.shared:
        shown["scope"] = "global"
    if limit.cost is not None and limit.cost > 1:
        shown["cost"] = limit.cost
    return shown


def shown_numbers(numbers: Numbers) -> dict[str, object]:
    """Return numbers the way the spec writes them."""
    shown: dict[str, object] = {}
    if numbers.slots is not None:
        shown["concurrency"] = numbers.slots
    for name, window in (("rate", numbers.rate), ("throttle", numbers.throttle)):
        if window is not None:
            shown[name] = shown_window(window)
    return shown


def shown_window(window: Window) -> dict[str, object]:
    """Return a window the way the spec writes it."""
    shown: dict[str, object] = {"limit": window.limit, "period": to_iso(window.period)}
    return {**shown, "burst": window.burst} if window.burst > 1 else shown


def limit_headers(gate: GateView) -> dict[str, str]:
    """Return the headers that tell of a job's limit."""
    numbers = gate.numbers
    if numbers.rate is not None:
        most, used = numbers.rate.limit, gate.recent
    elif numbers.slots is not None:
        most, used = numbers.slots, gate.running
    elif numbers.throttle is not None:
        most = numbers.throttle.limit
        used = most if gate.next_start is not None and gate.next_start == gate.opens_at else 0
    else:
        return {}
    headers = {"X-RateLimit-Limit": str(most), "X-RateLimit-Remaining": str(max(0, most - used))}
    if gate.opens_at is not None:
        headers["X-RateLimit-Reset"] = str(-(-gate.opens_at // SECOND))
    return headers
