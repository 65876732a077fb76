"""Those who wait behind one limit for one key, and who of them is next.

An entry is one waiter, or a lane of them that must pass the same several limits.  One that left is skipped when its
turn comes, and swept away when there are too many such.
"""

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.policies.limiter import Limiter
    from penstock.policies.overload import CoDel

Entry = Any  # a Waiter or a Lane; both have seq, line, head, size, timed, shut_by, take

_SWEEP: Final = 64


class Line:
    """First come, first served."""

    __slots__ = ("codel", "entries", "key", "limiter", "stale", "waiting")

    def __init__(self, limiter: "Limiter", key: Hashable, codel: "CoDel | None" = None) -> None:
        self.limiter = limiter
        self.key = key
        self.codel = codel
        self.waiting = 0
        self.stale = 0
        self.entries: deque[Entry] = deque()

    def add(self, entry: Entry) -> None:
        """Let *entry* stand in line, by age."""
        entry.line = self
        self.waiting += entry.size
        entries = self.entries
        if not entries or entries[-1].seq < entry.seq:
            entries.append(entry)
            return
        place = len(entries)
        while place and entries[place - 1].seq > entry.seq:
            place -= 1
        entries.insert(place, entry)

    def first(self, now: int) -> Entry | None:  # noqa: ARG002 - other orders look at the time
        """Return who is next."""
        entries = self.entries
        while entries:
            entry = entries[0]
            if entry.line is self:
                return entry
            entries.popleft()
            self.stale -= 1
        return None

    def pop(self) -> None:
        """Take away who was said to be next."""
        entry = self.entries.popleft()
        entry.line = None
        self.waiting -= entry.size

    def remove(self, entry: Entry) -> None:
        """Take *entry* away, which may come back."""
        self.entries.remove(entry)
        entry.line = None
        self.waiting -= entry.size

    def discard(self, entry: Entry) -> None:
        """Let *entry* leave from wherever it stands."""
        entry.line = None
        self.waiting -= entry.size
        self.stale += 1
        if self.stale > _SWEEP and self.stale > len(self.entries) // 2:
            self.sweep()

    def sweep(self) -> None:
        """Forget those who left."""
        self.entries = deque(entry for entry in self.entries if entry.line is self)
        self.stale = 0

    def changed(self, group: Hashable) -> None:
        """Take note that one of *group* got a slot or gave it back."""

    def everyone(self) -> list[Entry]:
        """Return all who stand here."""
        return [entry for entry in self.entries if entry.line is self]
