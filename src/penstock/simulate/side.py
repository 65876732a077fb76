"""What one of several plays comes to, beside the others."""

from dataclasses import dataclass

from penstock.simulate.line import depth, longest
from penstock.simulate.play import Played
from penstock.simulate.report import Use, Waits, report


@dataclass(frozen=True, slots=True)
class Side:
    """What a play comes to, in microseconds; one that is not *whole* was stopped, and *until* is how far it got.

    *line* has the most that waited in each of equal steps of time, *most* of all; *through* is when none did any more.
    """

    until: int
    whole: bool
    waits: Waits
    growing: bool
    most: int
    through: int | None
    uses: tuple[Use, ...]
    line: tuple[int, ...]

    @property
    def p95(self) -> int:
        """How long all but a twentieth of the jobs waited at most; 0 if none started."""
        return self.waits.p95 or 0


def side(played: Played) -> Side:
    """Return what a play comes to."""
    found = report(played)
    most, through = longest(played.everything)
    line = tuple(map(int, depth(played.everything, max(played.until, 1))))
    return Side(played.until, played.whole, found.overall, found.growing, most, through, found.uses, line)
