"""Check texts that are stored as they come: they must be JSON that workers and other clients can read."""

from typing import Any, Final

import msgspec
from msgspec.json import Decoder

from penstock.errors import InvalidJobError
from penstock.job import (
    Child,
    Finish,
    NewInstance,
    NewJob,
    Note,
    Restart,
    Save,
    SetContext,
    Settlement,
    Start,
)
from penstock.lifecycle.nesting import TOO_DEEP, is_deep
from penstock.lifecycle.outcomes import Conducted, Done, Failed
from penstock.worker.handler import Payload

_CALL: Final[Decoder[Any]] = Decoder(Payload)
_OBJECT: Final[Decoder[Any]] = Decoder(dict[str, Any])
_VALUE: Final[Decoder[Any]] = Decoder()


def check_job(job: NewJob) -> None:
    """Raise unless a worker can read what a job brings."""
    _check("args", job.args, _CALL)
    _check("meta", job.meta, _OBJECT)


def check_instance(new: NewInstance) -> None:
    """Raise unless a worker can read what a workflow is started with."""
    _check("args", new.args, _CALL if new.sequence is None else _OBJECT)
    _check("meta", new.meta, _OBJECT)


def check_settlement(settlement: Settlement) -> None:
    """Raise unless other clients can read how an attempt ended."""
    match settlement.outcome:
        case Done(result=result):
            _check("result", result, _VALUE)
        case Failed(details=details) if details:
            _check("details", details, _OBJECT)
        case Conducted(commands=commands):
            for command in commands:
                _check_command(command)
        case _:
            pass


def _check_command(command: object) -> None:
    match command:
        case Start(job=job):
            check_job(job)
        case Child(instance=new):
            check_instance(new)
        case Note(value=value):
            _check("note", value, _VALUE)
        case Restart(args=args):
            _check("args", args, _CALL)
        case Finish(result=result, error=error):
            _check("result", result or "null", _VALUE)
            _check("error", error or "{}", _OBJECT)
        case Save() | SetContext():
            raise InvalidJobError("commands", "a pass may neither save entries nor set the context")
        case _:
            pass


def check_value(field: str, text: str) -> None:
    """Raise unless *text* is a JSON value."""
    _check(field, text, _VALUE)


def _check(field: str, text: str, decoder: "Decoder[Any]") -> None:
    if is_deep(text):
        raise InvalidJobError(field, TOO_DEEP)
    try:
        decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidJobError(field, f"must be JSON of the right kind: {error}") from None
