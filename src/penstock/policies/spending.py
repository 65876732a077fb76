"""What a start was estimated to cost, and what its call really used."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from penstock.policies.pacing import Pace


class Start(msgspec.Struct, eq=False):
    """A start that *pace* remembers at that moment: it weighs its cost until its call reports what it used."""

    pace: "Pace"
    key: Hashable
    weight: int
    at: int
    generation: object  # of the pace; it has another one after a fork

    @property
    def name(self) -> str:
        """The name of its limit."""
        return self.pace.counters.name

    def spend(self, used: int) -> None:
        """Weigh what was *used* from now on, whatever was reported before."""
        self.pace.spend(self, used)
