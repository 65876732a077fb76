"""A clock that moves only when told to."""

from typing import Final

# 2026-01-01 00:00 UTC: a plausible present, so that nothing passes merely because times are small.
BEGINNING: Final = 1_767_225_600_000_000


class FakeClock:
    """Tells the time it was set to."""

    def __init__(self, now: int = BEGINNING) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, span: int) -> int:
        """Move by *span* microseconds, backwards too, and return the new time."""
        self._now += span
        return self._now
