"""A bucket of starts: a throttle that lets a burst through, and is filled again at an even pace.

A bucket that was emptied long ago and is kept busy stays empty, so a list of the starts of late is not enough.  What
leaves the list is folded into one moment: when the bucket would be full again if nothing else started.

Pure.
"""

from dataclasses import dataclass

from penstock.limits.rules import Window


@dataclass(slots=True)
class Bucket:
    """What is left of the starts that are listed no more: the bucket, filled by one in each *gap*, is full at *due*.

    The last of those starts was *at* that moment; 0 if there was none.
    """

    gap: int
    at: int = 0
    due: int = 0

    def fold(self, at: int, weight: int) -> None:
        """Remember a start that leaves the list; those before it have left already."""
        self.due = max(self.due, at) + weight * self.gap
        self.at = max(self.at, at)

    def slow_down(self, throttle: Window) -> None:
        """Remember by the pace of *throttle* from now on, if that is slower."""
        if throttle.gap > self.gap:
            self.due, self.gap = self.due_by(throttle), throttle.gap

    def due_by(self, throttle: Window) -> int:
        """Return when a bucket that *throttle* fills would be full: if its pace is another one, never too early."""
        if throttle.gap == self.gap or not self.due:
            return self.due
        lacked = -(-(self.due - self.at) // self.gap)  # at the last of those starts
        slower = throttle.gap > self.gap
        # By a slower pace it may have been empty; by a faster one it lacked no more, and never more than it holds.
        lacks = max(lacked, throttle.burst) if slower else min(lacked, throttle.burst)
        return self.at + lacks * throttle.gap
