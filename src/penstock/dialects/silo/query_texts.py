"""The longer texts of a job as columns: its payload, its metadata and its limits."""

from typing import Final

import msgspec

from penstock.dialects.silo.stored import bytes_of, kept_in

_decode: Final = msgspec.msgpack.Decoder(ext_hook=lambda _code, _data: None).decode
_encode: Final = msgspec.json.Encoder().encode


def payload_of(args: str | None) -> str | None:
    """Return a payload as JSON; None if it is too long to be read, or is nothing that JSON can say."""
    try:
        return None if args is None else _encode(_decode(bytes_of(args))).decode()
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return None


def metadata_of(meta: str | None) -> dict[str, str] | None:
    """Return the metadata of a job; None if it is too long to be read."""
    return None if meta is None else kept_in(meta).metadata


def limits_of(meta: str | None) -> str | None:
    """Return the limits that a job was given, in the order of its client, as JSON."""
    if meta is None:
        return None
    shown = []
    for limit in kept_in(meta).limits:
        for kind, facts in limit.items():
            key = facts.get("key", f"{facts.get('name', '')}_{facts.get('unique_key', '')}")
            value = facts.get("max_concurrency", facts.get("default_max_concurrency", facts.get("limit")))
            shown.append({"limit_type": kind, "key": key, "value": value})
    return _encode(shown).decode()
