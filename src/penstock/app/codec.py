"""How values become JSON and values again."""

import math
from typing import Any, Final

import msgspec

from penstock.lifecycle.nesting import TOO_DEEP, is_deep

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder()

# What a value that has no JSON form makes the encoder raise: an unknown class, a lone surrogate, a cycle;
# or one that has too many levels.
UNWRITABLE: Final = (TypeError, ValueError, RecursionError)


def encode(value: object) -> str:
    """Return *value* as JSON text.

    Raises one of `UNWRITABLE` if it has no JSON form.
    """
    text = _ENCODER.encode(value).decode()
    if is_deep(text):
        raise ValueError(f"it {TOO_DEEP}")
    # The encoder writes nan and infinity as null, which would be read back as None.
    if "null" in text and not _finite(msgspec.to_builtins(value)):
        raise ValueError("nan and infinity have no JSON form")
    return text


def decode(text: str) -> Any:
    """Return the plain values that JSON *text* holds."""
    return _DECODER.decode(text)


def convert(value: object, kind: Any) -> Any:
    """Return the plain *value* as the annotated *kind*.

    Raises `msgspec.ValidationError` if it does not fit.
    """
    return msgspec.convert(value, kind, str_keys=True)


def convertible(annotation: object) -> bool:
    """Tell whether plain JSON values can be converted to *annotation*."""
    try:
        described = msgspec.inspect.type_info(annotation)
    except (TypeError, NameError):
        return False
    return not isinstance(described, msgspec.inspect.CustomType)


def _finite(plain: object) -> bool:
    match plain:
        case float():
            return math.isfinite(plain)
        case dict():
            return all(map(_finite, plain.values()))
        case list() | tuple() | set() | frozenset():
            return all(map(_finite, plain))
        case _:
            return True
