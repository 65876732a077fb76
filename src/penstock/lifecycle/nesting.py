"""How deeply may JSON be nested?

Readers and writers of JSON call themselves for each level, and how many levels they bear depends on their caller
them.  A bound that is far below that, tested wherever JSON comes in, holds for all of them.
"""

from itertools import accumulate
from typing import Final

DEEPEST: Final = 64
TOO_DEEP: Final = f"is nested deeper than {DEEPEST} levels"
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # one level down, one level up
_OTHERS: Final = bytes(set(range(256)) - set(b'[]{}"'))


def is_deep(text: str | bytes) -> bool:
    """Tell whether JSON *text* has more than `DEEPEST` levels.  What is not JSON may pass; its reader refuses it.

    Time grows with the length only; nothing here calls itself.
    """
    if len(text) <= DEEPEST:
        return False
    if isinstance(text, str):
        # So few brackets cannot nest deeper, wherever they stand.
        if text.count("[") + text.count("{") <= DEEPEST:
            return False
        text = text.encode("utf-8", "surrogatepass")
    elif text.count(b"[") + text.count(b"{") <= DEEPEST:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # What is between two quotes that are left stands in a string.
    steps = text.translate(_STEPS, _OTHERS).replace(b'""', b"")
    steps = b"".join(steps.split(b'"')[::2])
    return max(accumulate(memoryview(steps).cast("b")), default=0) > DEEPEST
