"""The spec's retry policies, and the engine's."""

import re
from typing import Final

from penstock.clock import MILLISECOND, SECOND
from penstock.dialects.ojs.format.names import span
from penstock.dialects.ojs.format.requests import ErrorBody, RetryBody
from penstock.errors import InvalidError, InvalidJobError
from penstock.lifecycle.retry import MAX_FACTOR, Backoff, Exhausted, RetryPolicy

DEFAULT_ATTEMPTS: Final = 3
_MOST_ATTEMPTS: Final = 10_000
_MINUTE: Final = 60_000_000
_BACKOFF: Final = {"linear": Backoff.LINEAR, "constant": Backoff.FIXED, "none": Backoff.FIXED}


class RetryPolicyError(InvalidJobError):
    """A retry policy that cannot be followed."""

    code = "validation_error"


_DEFAULT: Final = RetryPolicy(
    DEFAULT_ATTEMPTS, delay=SECOND, cap=5 * _MINUTE, jitter=True, exhausted=Exhausted.DISCARD
)


def policy_of(body: RetryBody | None) -> RetryPolicy:
    """Return the engine's policy for the one that came with a job."""
    if body is None:
        return _DEFAULT
    at = "options.retry"
    if not 0 <= body.max_attempts <= _MOST_ATTEMPTS:
        raise RetryPolicyError(
            f"{at}.max_attempts", f"{body.max_attempts} must be from 0 to {_MOST_ATTEMPTS}"
        )
    if not 1 <= body.backoff_coefficient <= MAX_FACTOR:
        raise RetryPolicyError(
            f"{at}.backoff_coefficient", f"{body.backoff_coefficient} must be from 1 to {MAX_FACTOR}"
        )
    for n, pattern in enumerate(body.non_retryable_errors):
        if len(pattern) > 255:  # noqa: PLR2004 - as long as a name
            raise RetryPolicyError(f"{at}.non_retryable_errors[{n}]", "is too long")
    return RetryPolicy(
        max(1, body.max_attempts),
        _BACKOFF.get(body.backoff_strategy or "", Backoff.EXPONENTIAL),
        _span(body.initial_interval, body.initial_interval_ms, f"{at}.initial_interval", SECOND),
        _span(body.max_interval, body.max_interval_ms, f"{at}.max_interval", 5 * _MINUTE),
        body.backoff_coefficient,
        body.jitter,
        exhausted=Exhausted.KEEP if body.on_exhaustion == "dead_letter" else Exhausted.DISCARD,
    )


def _span(text: str | None, milliseconds: int | None, field: str, otherwise: int) -> int:
    if text is not None:
        return span(text, field, zero=True, error=RetryPolicyError)
    if milliseconds is not None:
        if not 0 <= milliseconds <= 10**12:
            raise RetryPolicyError(f"{field}_ms", f"{milliseconds} must be from 0 to 10^12")
        return milliseconds * MILLISECOND
    return otherwise


def is_final(error: ErrorBody, patterns: list[str]) -> bool:
    """Tell whether an error must not be retried: it says so, or one of the *patterns* fits its names."""
    if error.retryable is False:
        return True
    names = [error.code, error.type or ""]
    if isinstance(error.details, dict):
        names.append(str(error.details.get("error_class", "")))
    return any(_fits(pattern, name) for pattern in patterns for name in names if name)


def _fits(pattern: str, name: str) -> bool:
    """Tell whether *name* is *pattern*, or begins with it if that ends in a star."""
    if pattern.endswith("*"):
        return name.startswith((pattern[:-1], re.sub(r"\.\*$", "", pattern)))
    return pattern == name


def check_error(error: ErrorBody) -> None:
    """Raise unless an error can be kept."""
    for name, text in (("code", error.code), ("message", error.message), ("type", error.type or "")):
        if "\0" in text:
            raise InvalidError(f"error.{name}", "must not contain the character NUL")
