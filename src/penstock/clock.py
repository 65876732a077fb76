"""What time is it?

Times are whole microseconds since the epoch, as integers, everywhere in penstock.
Nothing else in the package may read a clock or sleep.
"""

import time
from typing import Final, Protocol

MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000


class Clock(Protocol):
    """Something that tells the time."""

    def now(self) -> int:
        """Return the present moment in microseconds since the epoch."""
        ...


class SystemClock:
    """The time of this machine."""

    def now(self) -> int:
        return time.time_ns() // 1_000


def monotonic() -> int:
    """Return microseconds that only ever move forward, for measuring spans inside one process."""
    return time.monotonic_ns() // 1_000


def pause(seconds: float) -> None:
    """Do nothing for a while."""
    time.sleep(seconds)
