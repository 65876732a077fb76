"""The attempts at a job, in words and as plain values."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.output import iso, when
from penstock.clock import MILLISECOND
from penstock.limits.durations import format_duration
from penstock.names import one_line

if TYPE_CHECKING:
    from penstock.job import PastAttempt


def history_text(past: "Sequence[PastAttempt]", now: int) -> str:
    """Return the attempts at a job, one in each line, and how many are forgotten."""
    forgotten = past[0].number - 1 if past else 0
    first = [f"{forgotten} earlier ones are forgotten"] if forgotten else []
    return "\n".join([*first, *(_line(attempt, now) for attempt in past)])


def plain_attempt(attempt: "PastAttempt") -> dict[str, object]:
    """Return an attempt as plain values for JSON."""
    return {
        "number": attempt.number,
        "attempt": attempt.attempt,
        "outcome": str(attempt.outcome),
        "started": iso(attempt.started),
        "began": iso(attempt.began),
        "ended": iso(attempt.ended),
        "worker": attempt.worker,
        "held": list(attempt.held),
        "waited_for": attempt.waited_for,
        "reason": attempt.reason,
        "result": parsed(attempt.result),
        "error": attempt.error,
        "retried": iso(attempt.retried),
    }


def problem(error: "Mapping[str, Any] | None") -> str:
    """Return an error in a few words."""
    told = error or {}
    return ": ".join(filter(None, (told.get("kind"), told.get("message"))))


def parsed(text: str | None) -> Any:  # noqa: ANN401 - JSON may hold anything
    """Return what JSON *text* holds; text that is not JSON is returned as it is."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _line(attempt: "PastAttempt", now: int) -> str:
    words = [f"{attempt.number}: {attempt.outcome.replace('_', ' ')}"]
    if attempt.worker:
        words.append(f"on {attempt.worker}")
    if attempt.ended is not None:
        words.append(f"{when(attempt.ended, now)}{_took(attempt, attempt.ended)}")
    if attempt.waited_for:
        words.append(f"stood in line at {attempt.waited_for}")
    if why := problem(attempt.error) or attempt.reason:
        words.append(why.partition("\n")[0])
    if attempt.retried is not None:
        words.append(f"retried by hand {when(attempt.retried, now)}")
    return one_line("; ".join(words))


def _took(attempt: "PastAttempt", ended: int) -> str:
    begun = attempt.started if attempt.began is None else attempt.began
    if begun is None:
        return ""
    return f" after {format_duration(max(0, ended - begun) // MILLISECOND * MILLISECOND)}"
