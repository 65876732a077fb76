"""How a job of Silo's clients is kept: its bytes as JSON, its priority, and what only its clients understand."""

import json
import re
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import Any, Final

import msgspec

from penstock.clock import MILLISECOND, SECOND
from penstock.engine.enqueue import MAX_ARGS
from penstock.errors import InvalidError

TASK: Final = "silo"  # the task of every such job: a claim for its workers names no other
GROUP: Final = "default"  # the task group of a job that names none
NO_TENANT: Final = "-"  # what its clients call the jobs of no tenant
SHARD: Final = "70656e73-746f-636b-8000-000000000000"  # there is one, and every server owns it
LEASE: Final = 10 * SECOND
LEASE_MS: Final = LEASE // MILLISECOND
CRASHED: Final = "WORKER_CRASHED"  # the code of an attempt whose worker was lost
_LOST: Final = "LeaseLost"  # what the engine calls it

USUAL: Final = 50  # the priority of a job that names none
_LEAST_URGENT: Final = 99
_BEFORE: Final = '{"msgpack":"'
_AFTER: Final = '"}'
# So many bytes are as much JSON text as the engine takes.
MOST_BYTES: Final = MAX_ARGS // 4 * 3 - 64
# So many digits that every store can hold the number.
_TASK_ID: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_REFRESH_ID: Final = re.compile(r"refresh-([0-9]{1,18})-([0-9]{1,18})")


class Kept(msgspec.Struct, omit_defaults=True):
    """What a job keeps in its meta, as its client sent it: fields by their names in `silo.proto`."""

    priority: int = USUAL
    metadata: dict[str, str] = {}
    limits: list[dict[str, dict[str, Any]]] = []
    retry_policy: dict[str, Any] | None = None


class Meta(msgspec.Struct, omit_defaults=True):
    """The meta of a job; one that came another way has none of this."""

    silo: Kept = msgspec.field(default_factory=Kept)


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Meta).decode


def text_of(content: bytes, field: str) -> str:
    """Return *content* as JSON text, from which the same bytes come back; raise if that *field* is too long."""
    if len(content) > MOST_BYTES:
        raise InvalidError(field, f"has {len(content)} bytes; at most {MOST_BYTES} are kept")
    return f"{_BEFORE}{b64encode(content).decode()}{_AFTER}"


def bytes_of(text: str | None) -> bytes:
    """Return the bytes that `text_of` wrote; of other JSON, such as that of another client's job, its msgpack."""
    if text is None:
        return b""
    if text.startswith(_BEFORE) and text.endswith(_AFTER):
        with suppress(ValueError):  # other JSON may look like it
            return b64decode(text[len(_BEFORE) : -len(_AFTER)], validate=True)
    try:
        return msgspec.msgpack.encode(msgspec.json.decode(text))
    except OverflowError:
        return msgspec.msgpack.encode(json.loads(text, parse_int=_number))


def _number(digits: str) -> int | float:
    """Return a whole number; one that msgpack cannot say is not exact, as its clients read it in JSON."""
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else float(digits)


def meta_of(kept: Kept) -> str:
    """Return the meta of a job."""
    return _encode(Meta(kept)).decode()


def kept_in(meta: str) -> Kept:
    """Return what a job keeps in its *meta*."""
    try:
        return _decode(meta).silo
    except msgspec.DecodeError:  # written by another client
        return Kept()


def stored_priority(priority: int) -> int:
    """Return the engine's priority: the smaller number of Silo's goes first."""
    return USUAL - priority


def shown_priority(priority: int) -> int:
    """Return Silo's priority; those of other clients' jobs may lie outside of its range."""
    return min(max(USUAL - priority, 0), _LEAST_URGENT)


def stored_tenant(tenant: str) -> str:
    """Return the engine's name of a tenant."""
    return "" if tenant == NO_TENANT else tenant


def error_code(error: dict[str, Any]) -> str:
    """Return the code of an attempt's error."""
    kind = str(error.get("kind", ""))
    return CRASHED if kind == _LOST else kind


def task_id(seq: int, fence: int) -> str:
    """Return the id of a task: that of one attempt, and of no other."""
    return f"{seq}-{fence}"


def refresh_id(gate: int, fence: int) -> str:
    """Return the id of a task that computes a floating limit."""
    return f"refresh-{gate}-{fence}"


def task_numbers(text: str) -> tuple[int, int] | None:
    """Return (seq, fence) of a task's id; None if it is none."""
    return _numbers(_TASK_ID.fullmatch(text))


def refresh_numbers(text: str) -> tuple[int, int] | None:
    """Return (gate, fence) of the id of a refresh; None if it is none."""
    return _numbers(_REFRESH_ID.fullmatch(text))


def _numbers(found: re.Match[str] | None) -> tuple[int, int] | None:
    return None if found is None else (int(found[1]), int(found[2]))
