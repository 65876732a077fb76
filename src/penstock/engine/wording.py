"""What is written down about how attempts ended: errors as JSON, reasons in a few words."""

import json
from collections.abc import Sequence
from typing import Final

from penstock.lifecycle.outcomes import Again, Failed
from penstock.limits.durations import format_duration

LONGEST: Final = 300  # characters of a reason


def storable(text: str) -> str:
    """Return *text* without what no database can keep."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def in_short(text: str) -> str:
    """Return the first line of *text*, cut to what fits a table."""
    line = storable(text).strip().partition("\n")[0].rstrip()
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def error_text(outcome: Failed | Again, delay: int | None = None) -> str:
    """Return how an attempt failed as JSON; *delay* is until the next."""
    if isinstance(outcome, Again):
        told: dict[str, object] = {
            "kind": "Retry",
            "message": storable(outcome.reason) or "the handler asked to run again",
        }
    else:
        told = {"kind": outcome.kind, "message": storable(outcome.message), "traceback": outcome.traceback}
        if outcome.details:
            told["details"] = outcome.details
    if delay is not None:
        told["delay"] = delay
    return json.dumps(told)


def between_attempts(outcome: Failed | Again, used: int, attempts: int) -> str:
    """Return why a job waits for its next attempt."""
    if isinstance(outcome, Again):
        how, why = "asked to run again", outcome.reason
    else:
        how, why = "failed", ": ".join(filter(None, (outcome.kind, outcome.message)))
    return in_short(f"attempt {used} of {attempts} {how}" + (f": {why}" if why else ""))


def rate_limited(reason: str) -> str:
    """Return why a job waits whose handler was told "too many"."""
    return in_short("rate limited" + (f": {reason}" if reason else ""))


def not_carried(key: str, keys: Sequence[str]) -> str:
    """Return what is wrong with the *key* of a job that has others."""
    has = f"the keys of this job are {', '.join(map(repr, keys))}" if keys else "this job has no keys"
    return f"key: {key!r} is none of its keys, so nothing was shut; {has}"


def too_long(timeout: int) -> Failed:
    """Return how an attempt ends that outlived its timeout."""
    return Failed("timeout", f"the attempt took longer than {format_duration(timeout)}")
