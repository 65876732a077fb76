"""Limits inside one process: bulkheads, throttlers and the rest, around functions, blocks and calls."""

from penstock.policies.adaptive import AIMD, Vegas
from penstock.policies.breaker import Breaker
from penstock.policies.bulkhead import Bulkhead
from penstock.policies.clock import deadline_scope
from penstock.policies.errors import (
    AttemptTimeout,
    BulkheadFull,
    CircuitOpen,
    InvalidPolicyError,
    LimitExceeded,
    NestedLimitsWarning,
    RateExceeded,
    ReentryError,
)
from penstock.policies.events import LimitEvent, Stats
from penstock.policies.limits import Limits
from penstock.policies.pacing import RateLimiter, Throttler
from penstock.policies.retrying import Retrying
from penstock.policies.slot import Slot
from penstock.policies.timeout import Timeout

__all__ = [
    "AIMD",
    "AttemptTimeout",
    "Breaker",
    "Bulkhead",
    "BulkheadFull",
    "CircuitOpen",
    "InvalidPolicyError",
    "LimitEvent",
    "LimitExceeded",
    "Limits",
    "NestedLimitsWarning",
    "RateExceeded",
    "RateLimiter",
    "ReentryError",
    "Retrying",
    "Slot",
    "Stats",
    "Throttler",
    "Timeout",
    "Vegas",
    "deadline_scope",
]
