"""Who waits in vain?  CoDel, in the variant of Facebook's folly, and an estimate of how long a wait will be."""

from typing import Final

INTERVALS: Final = 20  # targets in an interval
SHARE: Final = 20  # a target is a twentieth of the longest wait allowed
_WEIGHT: Final = 8  # how slowly the mean hold follows


class CoDel:
    """Sheds whoever waited longer than twice the target, once nobody waited less than it for an interval."""

    __slots__ = ("_ends", "_interval", "_least", "_overloaded", "_target")

    def __init__(self, target: int) -> None:
        self._target = max(target, 1)
        self._interval = self._target * INTERVALS
        self._ends = -1
        self._least = 0
        self._overloaded = False

    def sheds(self, delay: int, now: int) -> bool:
        """Tell whether one who is next after a *delay* is to be sent away."""
        if self._ends < 0:
            self._ends = now + self._interval
            self._least = delay
        elif now > self._ends:
            self._ends = now + self._interval
            self._overloaded = self._least > self._target
            self._least = delay
            # More than one must come in an interval before anybody is shed.
            return False
        self._least = min(self._least, delay)
        return self._overloaded and delay > 2 * self._target


class Holds:
    """How long slots are held on average, in microseconds, lately."""

    __slots__ = ("mean",)

    def __init__(self) -> None:
        self.mean = 0

    def add(self, held: int) -> None:
        """Take in that a slot was *held* so long."""
        self.mean = self.mean + (held - self.mean) // _WEIGHT if self.mean else held
