"""What a body asks for one at a time: steps, sleeps, signals and notes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from inspect import iscoroutinefunction
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from penstock.errors import InvalidWorkflowError, SignalTimeoutError, StepCancelledError, StepFailedError
from penstock.job import Await, Command, Entry, EntryState, Timer
from penstock.limits.durations import Duration, parse_duration
from penstock.replay.awaited import Awaited, Error, Result, Value
from penstock.replay.recorder import Recorder, current

P = ParamSpec("P")
T = TypeVar("T")

MOST_NOTE: Final = 64 * 1024
SIGNAL_TIMEOUT: Final = "SignalTimeout"
NOTED_ERROR: Final = "penstock.error"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_decode: Final = msgspec.json.Decoder().decode


class Step(Awaited[T]):
    """Something that was asked for under a *key*; *read* makes a value of the JSON text of its result.

    It may wait for a *signal*.
    """

    def __init__(
        self, recorder: Recorder, key: str, read: Callable[[str], T], signal: str | None = None
    ) -> None:
        self._recorder = recorder
        self._read = read
        self._signal = signal
        self.key = key

    def __repr__(self) -> str:
        return f"<Step {self.key}>"

    def look(self) -> Result[T] | None:
        self._recorder.awaited(self.key)
        entry = self._recorder.entry(self.key)
        if entry is None or entry.state is EntryState.LIVE:
            return None
        if entry.state is EntryState.CANCELLED:
            return Error(StepCancelledError(self.key, _told(entry).get("job")))
        if entry.state is EntryState.FAILED:
            return Error(_failure(entry))
        try:
            return Value(self._read(entry.result or "null"))
        except Exception as error:  # noqa: BLE001 - the body's to see, where it waits
            return Error(error)

    def cancel(self) -> None:
        self._recorder.cancel(self.key, self._signal)


def ask(what: str, name: str, command: Callable[[str], Command], read: Callable[[str], T]) -> Step[T]:
    """Ask for a step called *name*; *what* is how an error calls it outside a body."""
    recorder = current(what)
    return Step(recorder, recorder.ask(name, command), read)


def sleep(span: Duration | datetime) -> Step[None]:
    """Wait for so long, or until a moment; no worker and no thread waits meanwhile."""
    if isinstance(span, datetime):
        if span.tzinfo is None:
            problem = (
                f"{span.isoformat()} has no time zone; write one, as in datetime(2026, 1, 1, tzinfo=UTC)"
            )
            raise InvalidWorkflowError("sleep", problem)
        at = max(0, (span - _EPOCH) // _MICROSECOND)
        return ask("sleep()", "sleep", lambda key: Timer(key, at=at), _decode)
    after = parse_duration(span, "sleep", zero=True, error=InvalidWorkflowError)
    return ask("sleep()", "sleep", lambda key: Timer(key, after=after), _decode)


def signal(name: str, *, timeout: Duration | None = None) -> Step[Any]:
    """Wait for a signal of that *name* and return what came with it; one that came earlier counts too.

    Raises `SignalTimeoutError`, a `TimeoutError`, if none has come within *timeout*.
    """
    after = (
        None if timeout is None else parse_duration(timeout, "timeout", zero=True, error=InvalidWorkflowError)
    )
    recorder = current("signal()")
    key = recorder.ask(f"signal:{name}", lambda key: Await(key, name, after))
    return Step(recorder, key, _decode, signal=name)


def note(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaited[T]:
    """Call *function* and remember what it returns, so that it is the same whenever the body is replayed.

    For what is cheap and differs from call to call: a date, a random number.  It may be called more than once until
    the pass is recorded.  What it returns must fit JSON, in 64 KiB, and comes back as plain values.
    """
    name = getattr(function, "__name__", "value")
    if iscoroutinefunction(function):
        raise InvalidWorkflowError("note", f"{name} is async; make a task of it and await its step")
    recorder = current("note()")
    key = recorder.count(f"note:{name}")
    text = recorder.noted(key)
    if text is None:
        if recorder.scope.shut:
            return Step(recorder, key, _decode)
        text = _noted(key, lambda: function(*args, **kwargs))
        recorder.note(key, text)
    return Noted(key, text)


class Noted(Awaited[Any]):
    """A value that is known as soon as it was asked for."""

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        self._text = text

    def look(self) -> Result[Any]:
        match _decode(self._text):
            case {"penstock.error": {"kind": kind, "message": message}, **others} if not others:
                return Error(StepFailedError(self.key, f"failed: {kind}: {message}", kind))
            case value:
                return Value(value)

    def cancel(self) -> None:
        """Do nothing: it is done."""


def _noted(key: str, compute: Callable[[], object]) -> str:
    try:
        text = msgspec.json.encode(compute()).decode()
    except Exception as error:  # noqa: BLE001 - remembered, so that the body sees the same again
        told = {"kind": type(error).__name__, "message": str(error)[:1_000]}
        text = msgspec.json.encode({NOTED_ERROR: told}).decode()
    if len(text) > MOST_NOTE:
        raise InvalidWorkflowError(
            "note",
            f"{key} has {len(text):,} characters as JSON, and at most {MOST_NOTE:,} may be noted; make a task of it",
        )
    return text


def _failure(entry: Entry) -> StepFailedError:
    error = _told(entry)
    kind, message = error.get("kind") or error.get("type") or "", error.get("message") or ""
    if kind == SIGNAL_TIMEOUT:
        return SignalTimeoutError(entry.key)
    told = ": ".join(filter(None, (kind, message)))
    return StepFailedError(entry.key, f"failed: {told}" if told else "failed", kind, error.get("job"))


def _told(entry: Entry) -> dict[str, Any]:
    return _decode(entry.error) if entry.error else {}
