"""What may name a key, a queue, a tenant or a job: any text without control characters, within a length.

So a control character may stand between names that are written down as one.  What a terminal or a log shows of them
goes through `one_line`.
"""

import re
from typing import Final

MAX_NAME: Final = 1_024  # bytes in UTF-8
_LONGEST: Final = 4  # bytes of a character
# A lone surrogate cannot be stored as UTF-8.
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def name_problem(name: object, most: int = MAX_NAME) -> str | None:
    """Say why *name* can name nothing, in *most* bytes; None if it can."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        shown = repr(name) if not isinstance(name, str) or len(name) <= most else f"{name[:40]!r}…"
        return f"{shown} must be text without control characters, and not empty"
    if len(name) * _LONGEST > most and (size := len(name.encode())) > most:
        return f"{name[:40]!r}… has {size:,} bytes in UTF-8; at most {most:,} are allowed"
    return None


def one_line(text: str) -> str:
    """Return *text* with whatever could begin a new line, or act on a terminal, escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
