"""Read the limits that a client sends: what the engine makes of each, and how it is kept for those that ask."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from penstock.clock import MILLISECOND
from penstock.dialects.silo import silo_pb2 as pb
from penstock.errors import InvalidError
from penstock.limits.rules import MAX_NUMBER, Floating, Limit, Numbers, Window
from penstock.names import name_problem

MOST: Final = 100  # limits of one job
MOST_METADATA: Final = 64 * 1024  # bytes of what a floating limit tells its workers
MOST_MS: Final = MAX_NUMBER // MILLISECOND
_HARMLESS: Final = pb.NO_BATCHING | pb.GLOBAL  # flags about how Silo asks its own rate limiter
_NAMED: Final = {
    pb.DURATION_IS_GREGORIAN: "DURATION_IS_GREGORIAN",
    pb.RESET_REMAINING: "RESET_REMAINING",
    pb.DRAIN_OVER_LIMIT: "DRAIN_OVER_LIMIT",
}

_encode: Final = msgspec.json.Encoder(order="sorted").encode


def read_limits(sent: Iterable[pb.Limit]) -> tuple[tuple[Limit, ...], list[dict[str, Any]]]:
    """Return limits as the engine knows them, and as they are kept, in the client's order."""
    limits: dict[str, Limit] = {}
    kept = []
    for place, each in enumerate(sent):
        field = f"limits[{place}]"
        if place >= MOST:
            raise InvalidError("limits", f"a job has at most {MOST}")
        limit, plain = _read(each, field)
        if limit.key in limits:
            raise InvalidError(f"{field}.key", f"{limit.key!r} is given twice; a job passes a key once")
        limits[limit.key] = limit
        kept.append(plain)
    return tuple(limits.values()), kept


def whole(field: str, value: int, least: int, most: int = MAX_NUMBER) -> int:
    """Return *value*, or raise unless it is from *least* to *most*."""
    if not least <= value <= most:
        raise InvalidError(field, f"{value} must be at least {least} and at most {most}")
    return value


def finite(field: str, value: float) -> float:
    """Return *value*, or raise unless it is a number."""
    if not math.isfinite(value):
        raise InvalidError(field, f"{value} must be a number")
    return value


def rate_key(name: str, unique: str) -> str:
    """Return the key of a rate limit: no other name and unique key have the same."""
    return f"rate/{quote(name, safe=' :._-')}/{unique}"


def _read(sent: pb.Limit, field: str) -> tuple[Limit, dict[str, Any]]:
    match sent.WhichOneof("limit"):
        case "concurrency":
            return _concurrency(sent.concurrency, field)
        case "rate_limit":
            return _rate(sent.rate_limit, field)
        case "floating_concurrency":
            return _floating(sent.floating_concurrency, field)
        case _:
            raise InvalidError(field, "must be a concurrency, a floating concurrency or a rate limit")


def _concurrency(sent: pb.ConcurrencyLimit, field: str) -> tuple[Limit, dict[str, Any]]:
    slots = whole(f"{field}.max_concurrency", sent.max_concurrency, 1)
    kept = {"concurrency": {"key": sent.key, "max_concurrency": slots}}
    return Limit(check_name(f"{field}.key", sent.key), Numbers(slots=slots)), kept


def _floating(sent: pb.FloatingConcurrencyLimit, field: str) -> tuple[Limit, dict[str, Any]]:
    slots = whole(f"{field}.default_max_concurrency", sent.default_max_concurrency, 1)
    every = whole(f"{field}.refresh_interval_ms", sent.refresh_interval_ms, 1, MOST_MS)
    metadata = dict(sent.metadata)
    text = _encode(metadata).decode()
    if len(text) > MOST_METADATA:
        raise InvalidError(f"{field}.metadata", f"takes {len(text)} bytes; at most {MOST_METADATA} are kept")
    kept = {"key": sent.key, "default_max_concurrency": slots, "refresh_interval_ms": every}
    floating = Floating("", every * MILLISECOND, text, least=1)
    limit = Limit(check_name(f"{field}.key", sent.key), Numbers(slots=slots), floating=floating)
    return limit, {"floating_concurrency": kept | ({"metadata": metadata} if metadata else {})}


def _rate(sent: pb.GubernatorRateLimit, field: str) -> tuple[Limit, dict[str, Any]]:
    limit = whole(f"{field}.limit", sent.limit, 1)
    duration = whole(f"{field}.duration_ms", sent.duration_ms, 1, MOST_MS)
    hits = sent.hits or 1
    if not 1 <= hits <= limit:
        raise InvalidError(
            f"{field}.hits", f"{hits} must be at least 1 and at most the limit, which is {limit}"
        )
    check_name(f"{field}.name", sent.name)
    check_name(f"{field}.unique_key", sent.unique_key)
    _check_behavior(f"{field}.behavior", sent.behavior)
    window = Window(limit, duration * MILLISECOND)
    match sent.algorithm:
        case pb.TOKEN_BUCKET:
            numbers = Numbers(rate=window)
        case pb.LEAKY_BUCKET:
            numbers = Numbers(throttle=window)
        case unknown:
            raise InvalidError(
                f"{field}.algorithm", f"{unknown} must be 0 (TOKEN_BUCKET) or 1 (LEAKY_BUCKET)"
            )
    kept: dict[str, Any] = {
        "name": sent.name, "unique_key": sent.unique_key, "limit": limit, "duration_ms": duration,
        "hits": sent.hits, "algorithm": sent.algorithm, "behavior": sent.behavior,
    }  # fmt: skip
    if sent.HasField("retry_policy"):
        kept["retry_policy"] = _retry(sent.retry_policy, f"{field}.retry_policy")
    key = check_name(f"{field}.unique_key", rate_key(sent.name, sent.unique_key))
    return Limit(key, numbers, shared=True, cost=hits), {"rate_limit": kept}


def _retry(sent: pb.RateLimitRetryPolicy, field: str) -> Mapping[str, Any]:
    """Return how Silo would ask again; nothing asks again here, so it is only shown."""
    return {
        "initial_backoff_ms": sent.initial_backoff_ms,
        "max_backoff_ms": sent.max_backoff_ms,
        "backoff_multiplier": finite(f"{field}.backoff_multiplier", sent.backoff_multiplier),
        "max_retries": sent.max_retries,
    }


def _check_behavior(field: str, behavior: int) -> None:
    if behavior & ~_HARMLESS:
        named = [name for flag, name in _NAMED.items() if behavior & flag]
        raise InvalidError(field, f"{' and '.join(named) or behavior} is not offered")


def check_name(field: str, name: str) -> str:
    """Return *name*, or raise unless it can name something."""
    if (problem := name_problem(name)) is not None:
        raise InvalidError(field, problem)
    return name
