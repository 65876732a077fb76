"""What time is it?

Times are whole microseconds since the epoch, as integers, everywhere in penstock.
Nothing else in the package may read the clock of the machine, but for what times things: `bench` and `demo`.
"""

import time
from pathlib import Path
from typing import Final, Protocol

MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
# Two clocks that are kept right drift apart by no more than one part in so many.
STEADY: Final = 1_000
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Something that tells the time."""

    def now(self) -> int:
        """Return the present moment in microseconds since the epoch."""
        ...


class SystemClock:
    """The time of this machine, as it was set."""

    def now(self) -> int:
        return time.time_ns() // 1_000


class SteadyClock:
    """The time of this machine, counted from its start, so that setting its clock changes no span.

    *offset* turns time since the start into time since the epoch.  Every process of the machine
    takes it from the store, so that all agree.  If the store has a clock of its own, *offset* is the most by which
    that can be ahead, and *least* the least.
    """

    def __init__(self, offset: int = 0) -> None:
        self.offset = self.least = offset

    def set(self, offset: int, least: int) -> None:
        """Go by another offset, which is at least so large."""
        self.offset, self.least = offset, least

    def now(self) -> int:
        return since_boot() + self.offset

    def surely(self) -> int:
        """Return a moment that has come for certain, and as late a one as is known."""
        return since_boot() + self.least


def since_boot() -> int:
    """Return microseconds since this machine was started; the same in all its processes."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if boottime is None else time.clock_gettime_ns(boottime)) // 1_000


def boot_name() -> str:
    """Return a name for the present run of this machine."""
    if _BOOT.exists():
        return _BOOT.read_text().strip()
    # Elsewhere the minute of the start has to do; setting the clock then looks like a restart.
    return f"started-{(time.time_ns() // 1_000 - since_boot()) // (60 * SECOND)}"


def monotonic() -> int:
    """Return microseconds that only ever move forward, for measuring spans inside one process."""
    return time.monotonic_ns() // 1_000


def pause(seconds: float) -> None:
    """Do nothing for a while."""
    time.sleep(seconds)
