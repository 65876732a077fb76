"""Tell how attempts end: each is one record of the logger `penstock.jobs`, whose fields name the job.

Done at INFO, to be tried again or put off at WARNING, failed for good at ERROR with the handler's own error.
Arguments and results are left out unless they are asked for.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from penstock.clock import MILLISECOND, SECOND
from penstock.engine.wording import not_carried
from penstock.job import Claimed, Finish, Sequel, Settled
from penstock.lifecycle.outcomes import Again, Cancelled, Conducted, Done, Failed, HandedBack, Limited
from penstock.lifecycle.states import State
from penstock.limits.durations import format_duration
from penstock.limits.spec import limits_from_json
from penstock.names import one_line
from penstock.worker.attempt import Attempt
from penstock.worker.failure import shortened

Fields = dict[str, object]
# Takes a level, messages, and what makes the fields that belong to them.
WriteMany = Callable[[int, Sequence[str], Callable[[], Iterable[Fields]]], None]

MAX_REASON: Final = 500
MAX_VALUE: Final = 2_000  # characters of arguments or a result, where they are asked for

log = logging.getLogger("penstock.jobs")


def fields(job: Claimed) -> Fields:
    """Return what records about *job* carry."""
    found: Fields = {
        "job_id": job.id,
        "task": job.task,
        "queue": job.queue,
        "attempt": job.attempt,
        "keys": keys(job),
    }
    if job.tenant:
        found["tenant"] = job.tenant
    return found


def keys(job: Claimed) -> tuple[str, ...]:
    """Return the keys of the limits that *job* carries."""
    return tuple(limit.key for limit in limits_from_json(job.limits)) if job.limits else ()


def named(job: Claimed) -> str:
    """Return how *job* is called in a message."""
    return one_line(f"{job.task} {job.id}")


def span(microseconds: int) -> str:
    """Return a span of time as people read it."""
    if microseconds < 10 * MILLISECOND:
        return _tenths(microseconds // 100, "ms")
    if microseconds < SECOND:
        return f"{microseconds // MILLISECOND} ms"
    if microseconds < 60 * SECOND:
        return _tenths(microseconds // 100_000, "s")
    return format_duration(microseconds // SECOND * SECOND)


@lru_cache(maxsize=1024)
def _tenths(count: int, unit: str) -> str:
    return f"{max(0, count) / 10:.1f} {unit}"


def warn(attempt: Attempt | None, text: str, *args: object, stack: str | None = None) -> None:
    """Tell what happened to *attempt* while it ran, or to one that is not known; *stack* is where its handler is."""
    if log.isEnabledFor(logging.WARNING):
        who = "a handler" if attempt is None else named(attempt.claimed)
        extra = None if attempt is None else fields(attempt.claimed)
        # `Logger.warning` would take the stack of its caller.
        told = (f"%s {text}", (who, *args), None, None, extra, stack)
        log.handle(log.makeRecord(log.name, logging.WARNING, "", 0, *told))


class JobLog:
    """Tells how attempts ended; with *arguments* what jobs were called with, and what they returned, too."""

    def __init__(self, *, arguments: bool = False) -> None:
        self._arguments = arguments

    def tell(self, attempts: Sequence[Attempt], answers: Sequence[Settled]) -> None:
        """Write a record of each of *attempts*, which the store has answered like that."""
        wanted = log.isEnabledFor(logging.INFO)
        done = []
        for attempt, answer in zip(attempts, answers, strict=True):
            if answer is True and type(attempt.outcome) is Done:
                if wanted:
                    done.append(attempt)
            else:
                self._tell(attempt, answer)
        if not done:
            return
        messages = [self._done(attempt) for attempt in done]
        if write_many := _direct():
            write_many(logging.INFO, messages, lambda: map(self._done_fields, done))
        else:
            for attempt, message in zip(done, messages, strict=True):
                log.info("%s", message, extra=self._done_fields(attempt))

    def _done(self, attempt: Attempt) -> str:
        job, began = attempt.claimed, attempt.began
        text = f"{named(job)} done in {span(attempt.finished - began)}, "
        # Of a later attempt it also counts what came before, so it is left to the field.
        if job.attempt == 1:
            text += f"waited {span(began - attempt.offset - job.enqueued)}"
        else:
            text += f"attempt {job.attempt - job.lost}"
        return text + _called(attempt, {}) if self._arguments else text

    def _done_fields(self, attempt: Attempt) -> Fields:
        told = fields(attempt.claimed)
        told["outcome"] = "done"
        _add_times(attempt, told)
        if self._arguments:
            _called(attempt, told)
        return told

    def _tell(self, attempt: Attempt, answer: Settled) -> None:
        """Tell of an end that is not plain success."""
        outcome = attempt.outcome
        match outcome:
            case _ if not answer:
                self._lost(attempt)
            case Failed() | Again():
                self._failed(attempt, outcome, answer if isinstance(answer, Sequel) else Sequel(State.FAILED))
            case Limited():
                self._limited(attempt, outcome)
            case Cancelled(reason):
                self._log(attempt, logging.INFO, "cancelled", "%s cancelled%s%s", _because(reason))
            case HandedBack(begun, _, reason):
                level = logging.INFO if begun else logging.DEBUG
                why = reason or ("its worker stops" if attempt.shift.stopping else "")
                self._log(attempt, level, "handed_back", "%s handed back%s%s", _because(why))
            case Conducted(commands) if attempt.error is not None:
                self._workflow_failed(attempt, commands)
            case Conducted():
                self._log(attempt, logging.DEBUG, "conducted", "%s moved on%s")
            case _:
                pass

    def _lost(self, attempt: Attempt) -> None:
        attempt.lost = True
        text = "%s ended%s as %s, but its lease was lost: that counts for nothing"
        self._log(attempt, logging.WARNING, "lost", text, _WORDS[type(attempt.outcome)])

    def _failed(self, attempt: Attempt, outcome: Failed | Again, sequel: Sequel) -> None:
        kind, why = _why(outcome)
        used, error = attempt.claimed.attempt - attempt.claimed.lost, attempt.error
        told: Fields = {"error": kind, "attempts": sequel.attempts}
        of = f", attempt {used} of {sequel.attempts}" if sequel.attempts > 1 else ""
        if sequel.state is State.CANCELLED:
            self._log(attempt, logging.INFO, "cancelled", "%s cancelled%s; it failed: %s", why, told=told)
        elif sequel.after is not None:
            told["retry_in"] = sequel.after / SECOND
            when = f"in {span(sequel.after)}" if sequel.after else "at once"
            where = error if log.isEnabledFor(logging.DEBUG) else None
            text = "%s failed%s%s, again %s: %s"
            self._log(attempt, logging.WARNING, "retry", text, of, when, why, told=told, error=where)
        else:
            if used < sequel.attempts:
                of = f"{of}, an error that is not retried"
            if sequel.state is State.DISCARDED:
                of = f"{of}, and is discarded"
            state = sequel.state.value
            self._log(attempt, logging.ERROR, state, "%s failed%s%s: %s", of, why, told=told, error=error)

    def _workflow_failed(self, attempt: Attempt, commands: Sequence[object]) -> None:
        told = next((each.error for each in commands if isinstance(each, Finish)), None)
        error = json.loads(told or "{}")
        why = ": ".join(filter(None, (error.get("kind"), error.get("message"))))
        text = "%s failed%s, and its run has ended: %s"
        facts: Fields = {"error": error.get("kind", "")}
        short = one_line(shortened(why, MAX_REASON))
        self._log(attempt, logging.ERROR, "failed", text, short, told=facts, error=attempt.error)

    def _limited(self, attempt: Attempt, outcome: Limited) -> None:
        left = outcome.until - (attempt.finished - attempt.offset)
        reason = outcome.reason
        if outcome.key is not None and outcome.key not in (carried := keys(attempt.claimed)):
            reason = f"{reason}; {not_carried(outcome.key, carried)}".removeprefix("; ")
        told: Fields = {"retry_in": max(0, left) / SECOND}
        text = "%s rate limited%s, put off for %s%s"
        self._log(attempt, logging.WARNING, "limited", text, span(left), _because(reason), told=told)

    def _log(
        self,
        attempt: Attempt,
        level: int,
        outcome: str,
        text: str,
        *args: object,
        told: Fields | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Write a record; the first places in *text* are for the job and for how long its handler ran."""
        if not log.isEnabledFor(level):
            return
        extra = fields(attempt.claimed) | {"outcome": outcome} | (told or {})
        after = " before it began"
        if attempt.began:
            _add_times(attempt, extra)
            after = f" after {span(attempt.finished - attempt.began)}"
        called = _called(attempt, extra) if self._arguments else ""
        log.log(level, f"{text}%s", named(attempt.claimed), after, *args, called, extra=extra, exc_info=error)  # noqa: G004


_WORDS: Final[dict[type, str]] = {
    Done: "done",
    Failed: "failed",
    Again: "to be run again",
    Limited: "rate limited",
    Cancelled: "cancelled",
    HandedBack: "handed back",
    Conducted: "moved on",
}


def _add_times(attempt: Attempt, told: Fields) -> None:
    told["ran"] = (attempt.finished - attempt.began) / SECOND
    told["waited"] = (attempt.began - attempt.offset - attempt.claimed.enqueued) / SECOND


def _called(attempt: Attempt, told: Fields) -> str:
    """Add to a record, and return for its message, what a job was called with and what it returned."""
    told["arguments"] = shortened(attempt.claimed.args, MAX_VALUE)
    text = f"; called with {told['arguments']}"
    if isinstance(attempt.outcome, Done):
        told["result"] = shortened(attempt.outcome.result, MAX_VALUE)
        text += f", returned {told['result']}"
    return one_line(text)


def _why(outcome: Failed | Again) -> tuple[str, str]:
    """Return the kind of an error, and all of it on one line."""
    if isinstance(outcome, Again):
        return "Retry", one_line(shortened(outcome.reason or "the handler asked to run again", MAX_REASON))
    told = ": ".join(filter(None, (outcome.kind, outcome.message)))
    return outcome.kind, one_line(shortened(told, MAX_REASON))


def _because(reason: str) -> str:
    return f": {one_line(shortened(reason, MAX_REASON))}" if reason else ""


def _direct() -> WriteMany | None:
    """Return what writes many done jobs at once, if nothing else would see a record of them.

    A record for each costs several times as much as the line that is made of it.
    """
    if log.filters or logging.getLogRecordFactory() is not logging.LogRecord:
        return None
    handlers: list[logging.Handler] = []
    logger: logging.Logger | None = log
    while logger is not None:
        handlers += logger.handlers
        logger = logger.parent if logger.propagate else None
    if len(handlers) != 1 or handlers[0].filters or handlers[0].level > logging.INFO:
        return None
    return getattr(handlers[0], "write_many", None)
