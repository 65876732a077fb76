"""What a worker needs to know of a task to run its jobs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from penstock.lifecycle.nesting import TOO_DEEP, is_deep

Arguments = tuple[Sequence[Any], Mapping[str, Any]]


class Payload(msgspec.Struct):
    """The arguments of a job, as its text holds them."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}


decode_payload: Final = msgspec.json.Decoder(Payload).decode
_ENCODER: Final = msgspec.json.Encoder()


class Converts(Protocol):
    """Turns the JSON text of a job's arguments into what to call the function with."""

    def __call__(self, args: str, /) -> Arguments: ...


def plain_arguments(args: str) -> Arguments:
    """Return the arguments in *args* as plain JSON values."""
    payload = decode_payload(args)
    return payload.args, payload.kwargs


def plain_result(value: object) -> str:
    """Return *value* as JSON text."""
    text = _ENCODER.encode(value).decode()
    if is_deep(text):
        raise ValueError(f"it {TOO_DEEP}")
    return text


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that runs the jobs of one task: on the event loop if it *is_async*, else in a thread.

    *convert* makes the call's arguments of the job's; *encode* makes JSON text of what it returned and
    raises if it cannot; *timeout* (microseconds) holds for jobs that carry none.  One that is *built_in* is no task
    of the app's.
    """

    call: Callable[..., Any]
    is_async: bool = False
    convert: Converts = plain_arguments
    encode: Callable[[object], str] = plain_result
    timeout: int | None = None
    built_in: bool = False
