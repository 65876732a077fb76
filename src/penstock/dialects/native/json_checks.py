"""Check texts that are stored as they come: they must be JSON that workers and other clients can read."""

from typing import Any, Final

import msgspec
from msgspec.json import Decoder

from penstock.errors import InvalidJobError
from penstock.job import NewJob, Settlement
from penstock.lifecycle.nesting import TOO_DEEP, is_deep
from penstock.lifecycle.outcomes import Done, Failed
from penstock.worker.handler import Payload

_CALL: Final[Decoder[Any]] = Decoder(Payload)
_OBJECT: Final[Decoder[Any]] = Decoder(dict[str, Any])
_VALUE: Final[Decoder[Any]] = Decoder()


def check_job(job: NewJob) -> None:
    """Raise unless a worker can read what a job brings."""
    _check("args", job.args, _CALL)
    _check("meta", job.meta, _OBJECT)


def check_settlement(settlement: Settlement) -> None:
    """Raise unless other clients can read how an attempt ended."""
    match settlement.outcome:
        case Done(result=result):
            _check("result", result, _VALUE)
        case Failed(details=details) if details:
            _check("details", details, _OBJECT)
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
