"""What all limits have in common: lines, and how they move on.

A limit answers one question, `opens_at`: when would you let one more start through?  Whoever changes something calls
`advance` for the line it changed, which grants, calls, moves or reminds whoever is next.  Everything here runs under
the guard.

Invariant: behind an open limit nobody waits, but one who was called and is about to look.
Invariant: whoever waits holds nothing, unless it was refused so often that it has the turn.
"""

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar

from penstock.limits.gate import ON_RELEASE
from penstock.policies import moment
from penstock.policies.guard import Resets, everyone, guard
from penstock.policies.line import Entry, Line
from penstock.policies.waiter import CALLED, GONE, GRANTED, REFUSED, WAITING, Waiter

Shut = tuple["Limiter", Hashable, int]


class Limiter(Resets):
    """One limit over all its keys.  *timed*: it remembers starts, so they are noted when they begin."""

    timed: ClassVar[bool] = False
    made: ClassVar[int] = 0

    def __init__(self) -> None:
        Limiter.made += 1
        self.number = Limiter.made
        self.lines: dict[Hashable, Line] = {}
        everyone.add(self)

    @abstractmethod
    def opens_at(self, key: Hashable, weight: int, now: int) -> int:
        """Return when a start of *weight* fits: at most *now* if it fits now."""

    @abstractmethod
    def take(self, key: Hashable, weight: int, now: int, owner: object) -> None:
        """Note a start."""

    def give(self, key: Hashable, weight: int, owner: object) -> None:
        """Note the end of a start."""

    def undo(self, key: Hashable, weight: int, at: int, owner: object) -> None:  # noqa: ARG002
        """Forget a start that did not happen."""
        self.give(key, weight, owner)

    def new_line(self, key: Hashable) -> Line:
        """Return an empty line for *key*."""
        return Line(self, key)

    def left(self, waiter: Waiter) -> None:
        """Take note that one who waited went away."""

    def group_use(self, group: Hashable) -> int:  # noqa: ARG002 - most know no groups
        """Return how many slots a group has."""
        return 0

    def join(self, entry: Entry, key: Hashable) -> Line:
        """Let *entry* stand in line for *key*."""
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = self.new_line(key)
        line.add(entry)
        return line

    def queued(self, key: Hashable) -> int:
        """Return how many wait for *key*."""
        line = self.lines.get(key)
        return 0 if line is None else line.waiting

    def reset(self) -> None:
        self.lines = {}


def advance(line: Line | None, now: int) -> None:
    """Grant, call, move or remind whoever is next in *line*, and in the lines that this touches."""
    agenda = [line]
    while agenda:
        line = agenda.pop()
        while line is not None:
            entry = line.first(now)
            if entry is None:
                if line.limiter.lines.get(line.key) is line:
                    del line.limiter.lines[line.key]
                break
            shut = entry.shut_by(now)
            if shut is None:
                if not _admit(entry, line, now, agenda):
                    break
            elif shut[0] is line.limiter and shut[1] == line.key:
                if shut[2] < ON_RELEASE:
                    entry.head.remind(shut[2], ring)
                break
            else:
                line.pop()
                entry.refused()
                agenda.append(shut[0].join(entry, shut[1]))


def _admit(entry: Entry, line: Line, now: int, agenda: list[Line | None]) -> bool:
    """Let *entry* start; tell whether whoever is behind it may be looked at."""
    head: Waiter = entry.head
    if head.until <= now:
        refuse(head, head.why, now, agenda)
        return True
    if line.codel is not None and head.bounded and line.codel.sheds(now - head.joined, now):
        refuse(head, "shed", now, agenda)
        return True
    if entry.timed:
        if head.state == WAITING:
            head.state = CALLED
            if not head.wake():
                leave(head, now, agenda)
                return True
        return False
    line.pop()
    entry.take(now)
    if not head.wake():
        head.state = GONE
        agenda += head.give_back()
    if entry is not head:
        place(entry, now, agenda)
    return True


def place(entry: Entry, now: int, agenda: list[Line | None]) -> None:
    """Let a lane stand where its first waiter is kept."""
    if entry.size:
        limiter, key, _ = entry.shut_by(now) or (*entry.last, 0)
        agenda.append(limiter.join(entry, key))


def refuse(waiter: Waiter, reason: str, now: int, agenda: list[Line | None]) -> None:
    """Send *waiter* away."""
    waiter.reason = reason
    if waiter.entry is not None and waiter.entry.line is not None:
        waiter.limiter, waiter.key = waiter.entry.line.limiter, waiter.entry.line.key
    _take_out(waiter, now, agenda)
    waiter.state = REFUSED
    waiter.wake()


def leave(waiter: Waiter, now: int, agenda: list[Line | None]) -> None:
    """Let *waiter* go, whatever it was given meanwhile."""
    if waiter.state == GRANTED:
        waiter.state = GONE
        agenda += waiter.give_back()
    elif waiter.state in (WAITING, CALLED):
        _take_out(waiter, now, agenda)
        waiter.state = GONE


def _take_out(waiter: Waiter, now: int, agenda: list[Line | None]) -> None:
    entry: Any = waiter if waiter.entry is None else waiter.entry
    line: Line | None = entry.line
    if entry is not waiter:
        agenda += entry.remove(waiter, now)
        if line is not None and not entry.size:
            line.discard(entry)
    elif line is not None:
        line.discard(waiter)
        waiter.limiter.left(waiter)
    waiter.forget()
    agenda.append(line)


def leave_and_advance(waiter: Waiter) -> None:
    """Let *waiter* go, and the next be served."""
    now = moment.now()
    agenda: list[Line | None] = []
    leave(waiter, now, agenda)
    for line in agenda:
        advance(line, now)


def resume(waiter: Waiter) -> None:
    """Let one who was called take what is there, at this very moment."""
    entry: Any = waiter if waiter.entry is None else waiter.entry
    now = moment.now()
    line: Line = entry.line
    waiter.state = WAITING
    waiter.alarm = 2**63 - 1
    shut = entry.shut_by(now)
    agenda: list[Line | None] = [line]
    if shut is None:
        line.remove(entry)
        entry.take(now)
        if entry is not waiter:
            place(entry, now, agenda)
    for each in agenda:
        advance(each, now)


def ring(waiter: Waiter) -> None:
    """Look at a line again, since the time has come."""
    with guard, guard.lock:
        waiter.alarm = 2**63 - 1
        entry = waiter if waiter.entry is None else waiter.entry
        if waiter.state == WAITING and entry.line is not None:
            advance(entry.line, moment.now())


def expire(waiter: Waiter) -> None:
    """Send *waiter* away if it waits still."""
    with guard, guard.lock:
        if waiter.state in (WAITING, CALLED):
            now = moment.now()
            agenda: list[Line | None] = []
            refuse(waiter, waiter.why, now, agenda)
            for line in agenda:
                advance(line, now)
