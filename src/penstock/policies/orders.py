"""Other orders than first come, first served: by priority, newest first under load, in turns between groups."""

from collections import deque
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from penstock.policies.line import Entry, Line

if TYPE_CHECKING:
    from penstock.policies.limiter import Limiter

_STANDING: Final = 100_000  # microseconds: when the eldest has waited so long, there is a standing queue


class PriorityLine(Line):
    """Higher priority first; a wait of *aging* counts as much as a level, so nobody waits for ever."""

    __slots__ = ("aging", "heap")

    def __init__(self, limiter: "Limiter", key: Hashable, aging: int) -> None:
        super().__init__(limiter, key)
        self.aging = aging
        self.heap: list[tuple[int, int, Entry]] = []

    def add(self, entry: Entry) -> None:
        entry.line = self
        self.waiting += entry.size
        head = entry.head
        # All age alike, so who comes before whom never changes.
        heappush(self.heap, (head.joined - head.priority * self.aging, entry.seq, entry))

    def first(self, now: int) -> Entry | None:  # noqa: ARG002
        while self.heap:
            entry = self.heap[0][2]
            if entry.line is self:
                return entry
            heappop(self.heap)
            self.stale -= 1
        return None

    def pop(self) -> None:
        entry = heappop(self.heap)[2]
        entry.line = None
        self.waiting -= entry.size

    def remove(self, entry: Entry) -> None:
        self.heap = [each for each in self.heap if each[2] is not entry]
        heapify(self.heap)
        entry.line = None
        self.waiting -= entry.size

    def sweep(self) -> None:
        self.heap = [each for each in self.heap if each[2].line is self]
        heapify(self.heap)
        self.stale = 0

    def everyone(self) -> list[Entry]:
        return [entry for _, _, entry in self.heap if entry.line is self]


class AdaptiveLifoLine(Line):
    """First come, first served; newest first while the eldest has waited long already."""

    __slots__ = ("newest",)

    def __init__(self, limiter: "Limiter", key: Hashable) -> None:
        super().__init__(limiter, key)
        self.newest = False

    def first(self, now: int) -> Entry | None:
        eldest = super().first(now)
        if eldest is None:
            return None
        self.newest = now - eldest.head.joined > _STANDING
        if not self.newest:
            return eldest
        while self.entries[-1].line is not self:
            self.entries.pop()
            self.stale -= 1
        return self.entries[-1]

    def pop(self) -> None:
        if not self.newest:
            super().pop()
            return
        entry = self.entries.pop()
        entry.line = None
        self.waiting -= entry.size


class FairLine(Line):
    """Next is whoever belongs to the group with the fewest slots; first come, first served within a group."""

    __slots__ = ("groups", "heap", "next")

    def __init__(self, limiter: "Limiter", key: Hashable) -> None:
        super().__init__(limiter, key)
        self.groups: dict[Hashable, deque[Entry]] = {}
        self.heap: list[tuple[int, int, int, Hashable]] = []
        self.next: Entry | None = None

    def add(self, entry: Entry) -> None:
        entry.line = self
        self.waiting += entry.size
        group = entry.head.group
        self.groups.setdefault(group, deque()).append(entry)
        if len(self.groups[group]) == 1:
            self._offer(group)

    def first(self, now: int) -> Entry | None:  # noqa: ARG002
        while self.heap:
            used, seq, _, group = self.heap[0]
            entry = self._front(group)
            if entry is not None and entry.seq == seq and used == self._used(group):
                self.next = entry
                return entry
            heappop(self.heap)
            # What was said of this group is out of date; say it anew, once.
            if entry is not None and (used, seq) != (self._used(group), entry.seq):
                self._offer(group)
        return None

    def pop(self) -> None:
        entry = self.next
        assert entry is not None  # noqa: S101 - `first` was asked
        group = entry.head.group
        self.groups[group].popleft()
        heappop(self.heap)
        entry.line = None
        self.waiting -= entry.size

    def remove(self, entry: Entry) -> None:
        self.discard(entry)

    def changed(self, group: Hashable) -> None:
        if self._front(group) is not None:
            self._offer(group)

    def sweep(self) -> None:
        self.groups = {
            group: left
            for group, entries in self.groups.items()
            if (left := deque(entry for entry in entries if entry.line is self))
        }
        self.stale = 0

    def everyone(self) -> list[Entry]:
        return [entry for entries in self.groups.values() for entry in entries if entry.line is self]

    def _front(self, group: Hashable) -> Entry | None:
        entries = self.groups.get(group)
        while entries:
            if entries[0].line is self:
                return entries[0]
            entries.popleft()
        self.groups.pop(group, None)
        return None

    def _offer(self, group: Hashable) -> None:
        entry = self.groups[group][0]
        heappush(self.heap, (self._used(group), entry.seq, id(group), group))

    def _used(self, group: Hashable) -> int:
        return self.limiter.group_use(group)


LINES: Final[dict[str, Callable[..., Line]]] = {
    "fifo": Line,
    "priority": PriorityLine,
    "adaptive_lifo": AdaptiveLifoLine,
}
