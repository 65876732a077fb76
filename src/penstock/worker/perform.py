"""Call a handler and say how its attempt ended.  Nothing here raises, whatever the handler does."""

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import Any, Final

from penstock.clock import SECOND
from penstock.errors import LeaseLostError
from penstock.lifecycle.outcomes import Cancelled, Done, Failed, HandedBack, Outcome
from penstock.tracing import span
from penstock.worker.alarm import Alarm
from penstock.worker.attempt import Attempt, AttemptTimeout, HandBack
from penstock.worker.context import CURRENT
from penstock.worker.failure import failure, trimmed
from penstock.worker.handler_outcomes import HandlerOutcome

_DONE: Final = Done()


async def perform_async(attempt: Attempt) -> None:
    """Run *attempt* on the event loop."""
    attempt.entered = True
    CURRENT.set(attempt)
    handler = attempt.handler
    try:
        args, kwargs = handler.convert(attempt.claimed.args)
        with span(attempt.claimed):
            if attempt.timeout is not None:
                outcome = await _perform_timed(attempt, args, kwargs)
            elif attempt.begin():
                outcome = value_outcome(attempt, await handler.call(*args, **kwargs))
            else:
                outcome = attempt.refusal()
    except BaseException as error:  # noqa: BLE001
        outcome = error_outcome(attempt, error)
    attempt.end(outcome)


async def _perform_timed(attempt: Attempt, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Outcome:
    timeout = attempt.timeout or 0
    try:
        async with asyncio.timeout(timeout / SECOND) as limit:
            if not attempt.begin():
                return attempt.refusal()
            value = await attempt.handler.call(*args, **kwargs)
    except TimeoutError as error:
        if not limit.expired():
            raise
        return _timeout_outcome(attempt, timeout, error.__cause__)
    # A handler that will not be cancelled is late all the same.
    return _timeout_outcome(attempt, timeout) if limit.expired() else value_outcome(attempt, value)


def perform(attempt: Attempt, alarm: Alarm) -> None:
    """Run *attempt* in the calling thread."""
    try:
        attempt.expose()
        outcome = copy_context().run(_call, attempt, alarm)
        attempt.shelter()
    except BaseException as error:  # noqa: BLE001
        # A strike may come when the handler has just ended; there is only ever one.
        outcome = error_outcome(attempt, error)
    if attempt.timed_out and attempt.timeout is not None:
        outcome = _timeout_outcome(attempt, attempt.timeout, attempt.error)
    attempt.end(outcome)


def _call(attempt: Attempt, alarm: Alarm) -> Outcome:
    CURRENT.set(attempt)
    handler = attempt.handler
    try:
        args, kwargs = handler.convert(attempt.claimed.args)
        with span(attempt.claimed):
            if attempt.timeout is not None:
                alarm.set(attempt, attempt.timeout)
            if not attempt.begin():
                return attempt.refusal()
            return value_outcome(attempt, handler.call(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001
        return error_outcome(attempt, error)
    finally:
        alarm.clear(attempt)


def value_outcome(attempt: Attempt, value: object) -> Outcome:
    """Return how an attempt ended whose handler returned *value*."""
    if value is None:
        return _DONE
    if isinstance(value, HandlerOutcome):
        return value.outcome(attempt.shift.clock)
    try:
        return Done(attempt.handler.encode(value))
    except Exception as error:  # noqa: BLE001
        attempt.error = trimmed(error)
        message = f"{attempt.claimed.task} returned a {type(value).__name__} that has no JSON form: {error}"
        return Failed("ResultNotJSON", message, ancestry=("ResultNotJSON",))


def error_outcome(attempt: Attempt, error: BaseException) -> Outcome:
    """Return how an attempt ended whose handler raised *error*."""
    attempt.error = trimmed(error)
    if isinstance(error, HandlerOutcome):
        try:
            return error.outcome(attempt.shift.clock)
        except Exception as problem:  # noqa: BLE001
            return failure(problem)
    if isinstance(error, asyncio.CancelledError) and attempt.cancel_asked:
        return Cancelled("cancelled while running")
    return HandedBack(begun=attempt.began > 0) if _gave_up(attempt, error) else failure(error)


def _gave_up(attempt: Attempt, error: BaseException) -> bool:
    """Tell whether the handler was made to leave the job to another attempt."""
    match error:
        case HandBack():
            return True
        case asyncio.CancelledError():
            # Cancelled from outside, as when the loop ends, and not by something the handler awaited.
            cancelled = attempt.task is not None and attempt.task.cancelling() > 0
            return attempt.shift.over or attempt.lost or cancelled
        case LeaseLostError():
            return attempt.lease_lost
        case _:
            return False


def _timeout_outcome(attempt: Attempt, timeout: int, error: BaseException | None = None) -> Outcome:
    """Return how an attempt ended that took too long; *error* shows where its handler was."""
    message = f"the attempt took longer than {timeout / SECOND:g} s"
    where = None if error is None else trimmed(error).__traceback__
    attempt.error = AttemptTimeout(message).with_traceback(where)
    return Failed("AttemptTimeout", message, ancestry=("AttemptTimeout",))
