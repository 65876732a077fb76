"""The calls that wait at one limit for one key, which of them is next, and which are shed.

An entry is one waiter, or several that need the same several limits.  One that left is skipped when its turn comes,
and removed once there are many such.
"""

from collections import deque
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from penstock.policies.call_admission import CallAdmission
    from penstock.policies.waiter import Waiter

INTERVALS: Final = 20  # targets in an interval
SHARE: Final = 20  # a target is a twentieth of the longest wait allowed
_WEIGHT: Final = 8  # how slowly the mean hold time follows
_SWEEP: Final = 64
_STANDING: Final = 100_000  # microseconds: once the eldest has waited so long, there is a standing queue

Shut = tuple["CallAdmission", Hashable, int]  # a limit, a key of it, and when it opens


class Entry(Protocol):
    """What a `Waiter` and `JointWaiters` have in common.

    The *head* is the first of its *size* waiters; `shut_by` names the limit that keeps it, and `take` takes all that it
    needs.  `refused` notes that one limit was open and another was not.  *timed*: a limit remembers its start.
    """

    wait_list: "WaitList | None"
    seq: int

    @property
    def head(self) -> "Waiter": ...
    @property
    def size(self) -> int: ...
    @property
    def timed(self) -> bool: ...
    def needs(self, admission: "CallAdmission") -> bool: ...
    def all_waiting(self) -> "list[Waiter]": ...
    def shut_by(self, now: int) -> Shut | None: ...
    def refused(self) -> None: ...
    def take(self, now: int) -> None: ...


class WaitList:
    """First come, first served."""

    __slots__ = ("admission", "codel", "entries", "key", "stale", "waiting")

    def __init__(self, admission: "CallAdmission", key: Hashable) -> None:
        self.admission = admission
        self.key = key
        self.codel: CoDel | None = None
        self.waiting = 0
        self.stale = 0
        self.entries: deque[Entry] = deque()

    def add(self, entry: Entry) -> None:
        """Add *entry*, by age."""
        entry.wait_list = self
        self.waiting += entry.size
        entries = self.entries
        if not entries or entries[-1].seq < entry.seq:
            entries.append(entry)
            return
        place = len(entries)
        while place and entries[place - 1].seq > entry.seq:
            place -= 1
        entries.insert(place, entry)

    def first(self, now: int) -> Entry | None:  # noqa: ARG002 - other disciplines look at the time
        """Return the next entry."""
        entries = self.entries
        while entries:
            entry = entries[0]
            if entry.wait_list is self:
                return entry
            entries.popleft()
            self.stale -= 1
        return None

    def pop(self) -> None:
        """Remove the entry that `first` returned."""
        self._out(self.entries.popleft())

    def remove(self, entry: Entry) -> None:
        """Remove *entry*, which may be added again."""
        self.entries.remove(entry)
        self._out(entry)

    def discard(self, entry: Entry) -> None:
        """Let *entry* leave from wherever it is."""
        self._out(entry)
        self.stale += 1
        if self.stale > _SWEEP and self.stale > len(self.entries) // 2:
            self.sweep()

    def sweep(self) -> None:
        """Forget the entries that left."""
        self.entries = deque(entry for entry in self.entries if entry.wait_list is self)
        self.stale = 0

    def changed(self, group: Hashable) -> None:
        """Note that a call of *group* got a slot or gave it back."""

    def standing(self) -> list[Entry]:
        """Return all entries that have not left."""
        return [entry for entry in self.entries if entry.wait_list is self]

    def _out(self, entry: Entry) -> None:
        entry.wait_list = None
        self.waiting -= entry.size


class PriorityList(WaitList):
    """Higher priority first; a wait of *aging* counts as much as a level, so no call waits for ever."""

    __slots__ = ("aging", "heap")

    def __init__(self, admission: "CallAdmission", key: Hashable, aging: int) -> None:
        super().__init__(admission, key)
        self.aging = aging
        self.heap: list[tuple[int, int, Entry]] = []

    def add(self, entry: Entry) -> None:
        entry.wait_list = self
        self.waiting += entry.size
        head = entry.head
        # All age alike, so the order of two entries never changes.
        heappush(self.heap, (head.joined - head.priority * self.aging, entry.seq, entry))

    def first(self, now: int) -> Entry | None:  # noqa: ARG002
        while self.heap:
            entry = self.heap[0][2]
            if entry.wait_list is self:
                return entry
            heappop(self.heap)
            self.stale -= 1
        return None

    def pop(self) -> None:
        self._out(heappop(self.heap)[2])

    def remove(self, entry: Entry) -> None:
        self.heap = [each for each in self.heap if each[2] is not entry]
        heapify(self.heap)
        self._out(entry)

    def sweep(self) -> None:
        self.heap = [each for each in self.heap if each[2].wait_list is self]
        heapify(self.heap)
        self.stale = 0

    def standing(self) -> list[Entry]:
        return [entry for _, _, entry in self.heap if entry.wait_list is self]


class AdaptiveLifoList(WaitList):
    """First come, first served; newest first while the eldest has waited long already."""

    __slots__ = ("newest",)

    def __init__(self, admission: "CallAdmission", key: Hashable) -> None:
        super().__init__(admission, key)
        self.newest = False

    def first(self, now: int) -> Entry | None:
        eldest = super().first(now)
        if eldest is None:
            return None
        self.newest = now - eldest.head.joined > _STANDING
        if not self.newest:
            return eldest
        while self.entries[-1].wait_list is not self:
            self.entries.pop()
            self.stale -= 1
        return self.entries[-1]

    def pop(self) -> None:
        self._out(self.entries.pop() if self.newest else self.entries.popleft())


class FairList(WaitList):
    """The group with the fewest slots is next; first come, first served within a group."""

    __slots__ = ("groups", "heap", "next")

    def __init__(self, admission: "CallAdmission", key: Hashable) -> None:
        super().__init__(admission, key)
        self.groups: dict[Hashable, deque[Entry]] = {}
        self.heap: list[tuple[int, int, int, Hashable]] = []
        self.next: Entry | None = None

    def add(self, entry: Entry) -> None:
        entry.wait_list = self
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
            # What the heap says of this group is out of date; say it again, once.
            if entry is not None and (used, seq) != (self._used(group), entry.seq):
                self._offer(group)
        return None

    def pop(self) -> None:
        entry = self.next
        assert entry is not None  # noqa: S101 - `first` was asked
        self.groups[entry.head.group].popleft()
        heappop(self.heap)
        self._out(entry)

    def remove(self, entry: Entry) -> None:
        self.discard(entry)

    def changed(self, group: Hashable) -> None:
        if self._front(group) is not None:
            self._offer(group)

    def sweep(self) -> None:
        self.groups = {
            group: left
            for group, entries in self.groups.items()
            if (left := deque(entry for entry in entries if entry.wait_list is self))
        }
        self.stale = 0

    def standing(self) -> list[Entry]:
        return [entry for entries in self.groups.values() for entry in entries if entry.wait_list is self]

    def _front(self, group: Hashable) -> Entry | None:
        entries = self.groups.get(group)
        while entries:
            if entries[0].wait_list is self:
                return entries[0]
            entries.popleft()
        self.groups.pop(group, None)
        return None

    def _offer(self, group: Hashable) -> None:
        entry = self.groups[group][0]
        heappush(self.heap, (self._used(group), entry.seq, id(group), group))

    def _used(self, group: Hashable) -> int:
        return self.admission.group_use(group)


DISCIPLINES: Final[dict[str, Callable[..., WaitList]]] = {
    "fifo": WaitList,
    "priority": PriorityList,
    "adaptive_lifo": AdaptiveLifoList,
}


class CoDel:
    """Sheds calls that waited longer than twice the target, once no call waited less than it for an interval.

    This is CoDel in the variant of Facebook's folly.
    """

    __slots__ = ("_ends", "_interval", "_least", "_overloaded", "_target")

    def __init__(self, target: int) -> None:
        self._target = max(target, 1)
        self._interval = self._target * INTERVALS
        self._ends = -1
        self._least = 0
        self._overloaded = False

    def sheds(self, delay: int, now: int) -> bool:
        """Tell whether to shed a call that is next after a *delay*."""
        if self._ends < 0:
            self._ends = now + self._interval
            self._least = delay
        elif now > self._ends:
            self._ends = now + self._interval
            self._overloaded = self._least > self._target
            self._least = delay
            # More than one call must come in an interval before any is shed.
            return False
        self._least = min(self._least, delay)
        return self._overloaded and delay > 2 * self._target


class HoldTimes:
    """The recent mean of how long slots are held, in microseconds."""

    __slots__ = ("mean",)

    def __init__(self) -> None:
        self.mean = 0

    def add(self, held: int) -> None:
        """Note that a slot was *held* so long."""
        self.mean = self.mean + (held - self.mean) // _WEIGHT if self.mean else held
