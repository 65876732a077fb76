"""A new name for a thing: UUIDv7 text, which sorts by age.

Invariant: within one process every id is greater than all made before it, in every thread and whatever the clock does.
"""

import os
import threading
from random import Random
from typing import Final

from penstock.clock import MILLISECOND, SystemClock

_HIGH_BITS: Final = 26
_LOW_BITS: Final = 48
_STEP_BITS: Final = 24


class _Maker:
    """Counts up by random steps, from a random place in each millisecond.

    An id is a millisecond, 26 high bits and 48 low bits.  Only the low bits move within a millisecond,
    so the rest is written once and kept as text.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = SystemClock().now
        self._bits = Random(os.urandom(64)).getrandbits  # noqa: S311 - an id is a name, not a secret
        self._millisecond = self._high = self._low = 0
        self._front = ""

    def make(self) -> str:
        """Return the next id."""
        with self._lock:
            now = self._now() // MILLISECOND
            if now > self._millisecond:
                # The top bit stays free, so that a carry is rare.
                self._place(now, self._bits(_HIGH_BITS), self._bits(_LOW_BITS - 1))
            else:
                self._low += self._bits(_STEP_BITS) + 1
                if self._low >> _LOW_BITS:
                    self._carry()
            return f"{self._front}{self._low:012x}"

    def _place(self, millisecond: int, high: int, low: int) -> None:
        self._millisecond, self._high, self._low = millisecond, high, low
        time_text = f"{millisecond:012x}"
        # The digit 7 is the version; 0x8000 is the variant.
        self._front = f"{time_text[:8]}-{time_text[8:]}-7{high >> 14:03x}-{high & 0x3FFF | 0x8000:04x}-"

    def _carry(self) -> None:
        above = (self._millisecond << _HIGH_BITS | self._high) + 1
        high = above & (2**_HIGH_BITS - 1)
        self._place(above >> _HIGH_BITS, high, self._low & (2**_LOW_BITS - 1))


_maker = _Maker()


def new_id() -> str:
    """Return a new UUIDv7 as text."""
    return _maker.make()


def _restart() -> None:
    """Forget the parent's state: a forked child would make the same ids, or find the lock held."""
    global _maker  # noqa: PLW0603 - one maker per process is the point
    _maker = _Maker()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows cannot fork
    os.register_at_fork(after_in_child=_restart)
