"""The scenarios: what is asked of the provider, under which limit, and what must come of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.clock import MILLISECOND, SECOND
from penstock.demo import NAP
from penstock.demo.checks import (
    Check,
    Request,
    alone,
    apart,
    at_once,
    clashes,
    counts,
    first_only,
    in_parallel,
    ordered,
    per_second,
)
from penstock.demo.provider import HOLD
from penstock.limits.durations import parse_duration

ACCOUNTS: Final = ("acme", "globex", "initech")
OPS: Final = (
    "fetch_profile",
    "list_invoices",
    "update_metadata",
    "refresh_usage",
    "sync_contacts",
    "export_report",
)
THREADS: Final = 8
EVENTS: Final = 8
# Events of an account must come while its first call is in flight, or a second call would be right.
MAX_SPACING: Final = 50 * MILLISECOND


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run may vary: how many workers there are, and how far apart requests for D are sent."""

    workers: int = 1
    spacing: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One limit, the requests made under it, the time they need at best, and what must hold."""

    letter: str
    name: str
    title: str
    rule: str
    task: str
    requests: tuple[Request, ...]
    ideal: Callable[[Setting], int]
    checks: tuple[Check, ...]
    may_overlap: bool = False
    spaced: bool = False

    def gap(self, setting: Setting) -> int:
        """Return how long to wait between two requests."""
        return setting.spacing if self.spaced else 0


def _requests(accounts: int, ops: int) -> tuple[Request, ...]:
    return tuple(Request(account, op) for account in ACCOUNTS[:accounts] for op in OPS[:ops])


def _always(span: int) -> Callable[[Setting], int]:
    return lambda _: span


def _by_threads(setting: Setting) -> int:
    rounds = -(-len(TWELVE) // (THREADS * setting.workers))
    return rounds * HOLD


def _last_event_answered(setting: Setting) -> int:
    return EVENTS * (len(ACCOUNTS) - 1) * setting.spacing + HOLD


TWELVE: Final = _requests(accounts=3, ops=4)

SCENARIOS: Final = (
    Scenario(
        "A",
        "unsafe",
        "no limit: calls of an account collide",
        "no limits",
        "call_unsafe",
        TWELVE,
        _by_threads,
        (counts(calls=12), clashes),
    ),
    Scenario(
        "B",
        "keyed",
        "one call at a time per account, the others wait",
        'Concurrency(1, key="B keyed:{account_id}")',
        "call_keyed",
        TWELVE,
        _always(4 * HOLD),
        (counts(calls=12), alone, in_parallel(3), ordered),
    ),
    Scenario(
        "C",
        "drop",
        "one call at a time per account, the others are dropped",
        'Concurrency(1, key="C drop:{account_id}", on_limit="drop")',
        "call_or_drop",
        TWELVE,
        _always(HOLD),
        (counts(calls=3, dropped=9), alone, first_only),
    ),
    Scenario(
        "D",
        "dedupe",
        "24 refresh events, one call per account",
        'unique=["account_id"], Concurrency(1, key="D refresh:{account_id}")',
        "refresh_once",
        tuple(Request(account, "refresh") for account in ACCOUNTS for _ in range(EVENTS)),
        _last_event_answered,
        (counts(calls=3, reused=21), alone),
        spaced=True,
    ),
    Scenario(
        "E",
        "slots",
        "up to three calls in flight per account",
        'Concurrency(3, key="E three:{account_id}")',
        "call_three",
        _requests(accounts=2, ops=6),
        _always(2 * HOLD),
        (counts(calls=12), at_once(3)),
        may_overlap=True,
    ),
    Scenario(
        "F",
        "rate",
        "at most five calls in any second",
        'Rate(5, per="1s", key="F rate")',
        "call_rated",
        TWELVE,
        _always(2 * SECOND + HOLD),
        (counts(calls=12), per_second(5)),
        may_overlap=True,
    ),
    Scenario(
        "G",
        "spaced",
        "five calls a second, evenly spaced",
        'Throttle(5, per="1s", key="G spaced")',
        "call_spaced",
        TWELVE,
        _always(11 * SECOND // 5 + HOLD),
        (counts(calls=12), apart(SECOND // 5)),
        may_overlap=True,
    ),
    Scenario(
        "H",
        "both",
        "two limits at once: one per account, four in any second",
        'Concurrency(1, key="H both:{account_id}"), Rate(4, per="1s", key="H both")',
        "call_both",
        TWELVE,
        # Each second lets three go at once, and one more when the first of them is over.
        _always(2 * SECOND + 2 * HOLD),
        (counts(calls=12), alone, per_second(4)),
    ),
    Scenario(
        "I",
        "workflow",
        "two calls with a nap between them, one workflow at a time per account",
        'workflow with Concurrency(1, key="I flow:{account_id}")',
        "call_twice",
        _requests(accounts=3, ops=2),
        _always(2 * (2 * HOLD + parse_duration(NAP))),
        # A slot that is given up during the nap lets the second workflow in between the calls of the first.
        (counts(calls=12), alone, ordered),
    ),
)
