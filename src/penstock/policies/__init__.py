"""Limits inside one process: bulkheads, throttles and the rest, around functions, blocks and calls."""

from penstock.policies.adaptive import AIMD, Vegas
from penstock.policies.breaker import Breaker
from penstock.policies.bulkhead import Bulkhead
from penstock.policies.deadline import deadline_scope
from penstock.policies.errors import (
    AttemptTimeout,
    BulkheadFull,
    CircuitOpen,
    InvalidPolicyError,
    LimitExceeded,
    NestedLimitsWarning,
    RateLimited,
    ReentryError,
)
from penstock.policies.events import LimitEvent
from penstock.policies.ledger import Stats
from penstock.policies.limits import Limits
from penstock.policies.ports import Jobs, http
from penstock.policies.retry import Retry
from penstock.policies.route import Route
from penstock.policies.slot import Slot
from penstock.policies.throttle import Rate, Throttle
from penstock.policies.timeout import Timeout

__all__ = [
    "AIMD",
    "AttemptTimeout",
    "Breaker",
    "Bulkhead",
    "BulkheadFull",
    "CircuitOpen",
    "InvalidPolicyError",
    "Jobs",
    "LimitEvent",
    "LimitExceeded",
    "Limits",
    "NestedLimitsWarning",
    "Rate",
    "RateLimited",
    "ReentryError",
    "Retry",
    "Route",
    "Slot",
    "Stats",
    "Throttle",
    "Timeout",
    "Vegas",
    "deadline_scope",
    "http",
]
