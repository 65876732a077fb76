"""Drive a body over a memo as far as it gets, and return the commands that follow."""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from penstock.job import Command, Entry
from penstock.replay.awaited import Branch, Error, Value
from penstock.replay.recorder import CURRENT, Recorder


@dataclass(frozen=True, slots=True)
class Returned:
    """The body returned."""

    value: object


@dataclass(frozen=True, slots=True)
class Raised:
    """The body raised."""

    error: BaseException


Ended = Returned | Raised


def replay(
    body: Callable[[], Coroutine[Any, Any, object]],
    entries: Iterable[Entry],
    end: Callable[[Ended], Command],
) -> tuple[Command, ...]:
    """Replay *body* over the *entries* of its memo and return the commands that follow; *end* makes the last one.

    Pure as far as the body is: the same memo gives the same commands.  Raises `DivergedError` if the memo has a step
    that the body does not ask for.
    """
    recorder = Recorder(entries)
    token = CURRENT.set(recorder)
    try:
        main = Branch(recorder, body(), recorder.scope)
        # A branch may wait for what another gave up after it was looked at.
        ended = main.look() if recorder.any_cancelled else main.ended
        if ended is None:
            return tuple(recorder.commands())
        last = end(_ended(recorder, ended))
        recorder.start_nothing()
        return (*recorder.commands(), last)
    finally:
        recorder.close()
        CURRENT.reset(token)


def _ended(recorder: Recorder, ended: Value[object] | Error) -> Ended:
    if isinstance(ended, Error):
        return Raised(ended.error)
    try:
        recorder.check_awaited()
    except Exception as error:  # noqa: BLE001 - the body's own mistake
        return Raised(error)
    return Returned(ended.value)
