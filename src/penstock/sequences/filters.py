"""The filters of templates: `{{data.name | trim | upper}}`.  Pure.

A filter leaves null alone, so that what follows in the chain can stand for it.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from penstock.sequences.values import LARGEST, TemplateError, is_number, to_text

Arguments = Sequence[object]


class Filter(NamedTuple):
    """A filter, and the least and the most arguments that it takes."""

    apply: Callable[[object, Arguments], object]
    least: int = 0
    most: int = 0


def apply_filter(name: str, value: object, arguments: Arguments) -> object:
    """Return *value* after the filter of that *name*."""
    if value is None and name != "default":
        return None
    return FILTERS[name].apply(value, arguments)


def _replace(value: object, arguments: Arguments) -> str:
    text, old, new = to_text(value), to_text(arguments[0]), to_text(arguments[1])
    if not old:
        raise TemplateError("replace needs a text to look for")
    _check_size(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def _truncate(value: object, arguments: Arguments) -> str:
    text, length = to_text(value), _whole("truncate", arguments[0])
    return text if len(text) <= length else text[:length] + "".join(map(to_text, arguments[1:]))


def _join(value: object, arguments: Arguments) -> str:
    if not isinstance(value, list):
        raise TemplateError("join needs a list")
    between, parts = to_text(arguments[0]), [to_text(part) for part in value]
    _check_size(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def _split(value: object, arguments: Arguments) -> list[str]:
    between = to_text(arguments[0])
    if not between:
        raise TemplateError("split needs a text to split at")
    return to_text(value).split(between)


def _hash(value: object, arguments: Arguments) -> str:
    if arguments[0] != "sha256":
        raise TemplateError(f"hash knows 'sha256' only, not {to_text(arguments[0])!r}")
    return hashlib.sha256(_bytes(value)).hexdigest()


def _abs(value: object, _: Arguments) -> object:
    return abs(_number("abs", value))


def _round(value: object, arguments: Arguments) -> object:
    number = _number("round", value)
    return round(number, _whole("round", arguments[0])) if arguments else round(number)


def _decode(value: object, _: Arguments) -> str:
    try:
        return base64.b64decode(_bytes(value), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise TemplateError("base64_decode needs the base64 of a text") from None


def _bytes(value: object) -> bytes:
    return to_text(value).encode("utf-8", "replace")


def _number(name: str, value: object) -> int | float:
    if not is_number(value):
        raise TemplateError(f"{name} needs a number")
    return value  # type: ignore[return-value]


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise TemplateError(f"{name} needs a whole number, not {to_text(value)!r}")
    return value


def _check_size(length: int) -> None:
    # Before the text is made: a few filters in a row could fill any memory.
    if length > LARGEST:
        raise TemplateError(f"the text has {length:,} characters; at most {LARGEST:,} are allowed")


FILTERS: Final[dict[str, Filter]] = {
    "upper": Filter(lambda value, _: to_text(value).upper()),
    "lower": Filter(lambda value, _: to_text(value).lower()),
    "trim": Filter(lambda value, _: to_text(value).strip()),
    "abs": Filter(_abs),
    "round": Filter(_round, 0, 1),
    "url_encode": Filter(lambda value, _: quote(_bytes(value), safe="")),
    "base64": Filter(lambda value, _: base64.b64encode(_bytes(value)).decode()),
    "base64_decode": Filter(_decode),
    "replace": Filter(_replace, 2, 2),
    "default": Filter(lambda value, arguments: arguments[0] if value is None else value, 1, 1),
    "truncate": Filter(_truncate, 1, 2),
    "join": Filter(_join, 1, 1),
    "split": Filter(_split, 1, 1),
    "hash": Filter(_hash, 1, 1),
}
