"""After a failure: again, and when; or never?

Pure: chance is an argument.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final, Self, assert_never

import msgspec

from penstock.errors import InvalidJobError
from penstock.lifecycle.checks import MAX_NUMBER, check_whole, choose
from penstock.limits.durations import Duration, parse_duration

MAX_ATTEMPTS: Final = 2**31 - 1
MAX_FACTOR: Final = 1_000


class Backoff(StrEnum):
    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


class Exhausted(StrEnum):
    """What becomes of a job whose attempts are used up."""

    KEEP = "keep"  # the dead letter: state `failed`, can be retried by hand
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and when a failed attempt is followed by another. Delays in microseconds.

    *never* names errors that are final; a name without a dot stands for every error called so.  With *lost_counts*
    an attempt whose worker was lost is a failed one, of kind `LeaseLost`; else it is made once more, in its old place.
    """

    attempts: int = 1
    backoff: Backoff = Backoff.EXPONENTIAL
    delay: int = 1_000_000
    cap: int = 3_600_000_000
    factor: float = 2.0
    jitter: bool = True
    never: tuple[str, ...] = ()
    exhausted: Exhausted = Exhausted.KEEP
    lost_counts: bool = False
    # Written once, because a policy is made per task and stored per job.
    text: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_whole("attempts", self.attempts, 1, MAX_ATTEMPTS)
        spans: dict[str, object] = {"delay": self.delay, "cap": self.cap}
        for name, span in spans.items():
            if isinstance(span, str | timedelta):
                raise InvalidJobError(
                    name, f"is in microseconds here; RetryPolicy.of({name}=...) takes {span!r}"
                )
            check_whole(name, span, 0, MAX_NUMBER)
        _check_choice("jitter", self.jitter)
        _check_choice("lost_counts", self.lost_counts)
        _check_never(self.never)
        # A frozen dataclass is filled in this way.
        object.__setattr__(self, "factor", _factor(self.factor))
        object.__setattr__(self, "backoff", choose("backoff", Backoff, self.backoff))
        object.__setattr__(self, "exhausted", choose("exhausted", Exhausted, self.exhausted))
        object.__setattr__(self, "text", _written(self))

    @classmethod
    def of(
        cls,
        attempts: int = 3,
        *,
        backoff: Backoff | str = "exponential",
        delay: Duration = "1s",
        cap: Duration = "1h",
        factor: float = 2,
        jitter: bool = True,
        never: Iterable[type[BaseException] | str] | type[BaseException] = (),
        exhausted: Exhausted | str = "keep",
        lost_counts: bool = False,
    ) -> Self:
        """Return a policy from what users write: durations as in "1s", errors as classes or names."""
        return cls(
            attempts,
            choose("backoff", Backoff, backoff),
            parse_duration(delay, "delay", zero=True, error=InvalidJobError),
            parse_duration(cap, "cap", zero=True, error=InvalidJobError),
            factor,
            jitter,
            tuple(_name(error) for error in _listed(never)),
            choose("exhausted", Exhausted, exhausted),
            lost_counts,
        )


def verdict(policy: RetryPolicy, failures: int, ancestry: Sequence[str], chance: float) -> int | Exhausted:
    """Return how long to wait before the next attempt, or what becomes of a job that gets none.

    *failures* counts the failed attempts, the last one included; *ancestry* are the names of its error.
    """
    if failures >= policy.attempts or _final(policy.never, ancestry):
        return policy.exhausted
    return delay_before(policy, failures, chance)


def delay_before(policy: RetryPolicy, failures: int, chance: float) -> int:
    """Return the delay after *failures* (at least 1) failed attempts.

    *chance*, from 0 up to but not including 1, places a jittered delay between half and all of it.
    """
    full = min(policy.cap, _grown(policy, failures))
    half = full // 2
    return half + int((full - half) * chance) if policy.jitter else full


def error_names(kind: type[BaseException]) -> tuple[str, ...]:
    """Return the names of an error's class and its bases, by which *never* knows them.

    Built-in errors go by their plain name, others by "module.Name".
    """
    return tuple(_name(base) for base in kind.__mro__ if issubclass(base, BaseException))


def policy_to_json(policy: RetryPolicy) -> str:
    """Return *policy* as compact, canonical JSON; the default policy is empty text."""
    return policy.text


@lru_cache(maxsize=1024)
def policy_from_json(text: str) -> RetryPolicy:
    """Read back what `policy_to_json` wrote."""
    if not text:
        return RetryPolicy()
    plain = msgspec.json.decode(text)
    return RetryPolicy(**{**plain, "never": tuple(plain.get("never", ()))})


def _written(policy: RetryPolicy) -> str:
    """Return the JSON of what differs from the default."""
    changed = {
        each.name: getattr(policy, each.name)
        for each in fields(policy)
        if each.init and getattr(policy, each.name) != each.default
    }
    return msgspec.json.encode(changed).decode() if changed else ""


def _grown(policy: RetryPolicy, failures: int) -> int:
    match policy.backoff:
        case Backoff.FIXED:
            return policy.delay
        case Backoff.LINEAR:
            return policy.delay * failures
        case Backoff.EXPONENTIAL:
            try:
                return int(policy.delay * policy.factor ** (failures - 1))
            except OverflowError:
                return policy.cap if policy.delay else 0
        case _:
            assert_never(policy.backoff)


def _final(never: Sequence[str], ancestry: Sequence[str]) -> bool:
    return any(name in never or name.rpartition(".")[2] in never for name in ancestry) if never else False


def _factor(factor: object) -> float:
    # A whole number to a high power would take for ever, a float stops at once.
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= MAX_FACTOR:
        raise InvalidJobError("factor", f"{factor!r} must be a number from 1 to {MAX_FACTOR}")
    return float(factor)


def _check_choice(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidJobError(name, f"{value!r} must be true or false")


def _check_never(never: object) -> None:
    if not isinstance(never, tuple) or not all(isinstance(name, str) and name for name in never):
        raise InvalidJobError("never", f"{never!r} must be the names of errors")


def _listed(never: object) -> Iterable[object]:
    """Return *never* as many, also when it is one."""
    if isinstance(never, str | type):
        return (never,)
    if isinstance(never, Iterable):
        return never
    raise InvalidJobError("never", f"{never!r} must be errors' classes or names")


def _name(error: object) -> str:
    if isinstance(error, str):
        return error
    if not (isinstance(error, type) and issubclass(error, BaseException)):
        raise InvalidJobError("never", f"{error!r} must be an error's class or its name")
    return (
        error.__qualname__ if error.__module__ == "builtins" else f"{error.__module__}.{error.__qualname__}"
    )
