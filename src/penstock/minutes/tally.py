"""What one transaction changed, by gate, queue and task: it is written down as one row, and added to minutes later."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from penstock.minutes.spread import Spread, from_flat, step_of, to_flat

# What stands at which place of the numbers of a gate or a task.
ARRIVED, STARTED, UNDONE, ENDED, FAILED, DROPPED, WAITING, KEPT, SCHEDULED, USED = range(10)
_NUMBERS: Final = 10
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode

Task = tuple[str, str, str]  # a tenant, its queue, and a task
Queue = tuple[str, str]


class Change:
    """What changed at one gate, or for one task: numbers, and how long jobs waited and slots were held."""

    __slots__ = ("held", "numbers", "waits")

    def __init__(self) -> None:
        self.numbers = [0] * _NUMBERS
        self.waits: Spread = {}
        self.held: Spread = {}

    def waited(self, span: int) -> None:
        """Count how long a job waited."""
        step = step_of(span)
        self.waits[step] = self.waits.get(step, 0) + 1

    def held_for(self, span: int) -> None:
        """Count how long a slot was held, or an attempt ran."""
        step = step_of(span)
        self.held[step] = self.held.get(step, 0) + 1

    def start(self, now: int, arrived: int | None) -> None:
        """Count the start of a job that waits."""
        self.numbers[STARTED] += 1
        self.numbers[WAITING] -= 1
        self.numbers[USED] += 1
        if arrived is not None:
            self.waited(now - arrived)

    @property
    def is_any(self) -> bool:
        """Whether anything changed."""
        return any(self.numbers) or bool(self.waits) or bool(self.held)


class Tally:
    """The changes of one transaction.

    *lines* are jobs of a queue that came to be kept by gates, and that so became scheduled or waiting again.
    """

    __slots__ = ("gates", "lines", "tasks")

    def __init__(self) -> None:
        self.gates: dict[int, Change] = {}
        self.tasks: dict[Task, Change] = {}
        self.lines: dict[Queue, list[int]] = {}

    def gate(self, gate: int) -> Change:
        """Return what changed at a gate."""
        change = self.gates.get(gate)
        if change is None:
            change = self.gates[gate] = Change()
        return change

    def task(self, task: Task) -> Change:
        """Return what changed for a task in a queue."""
        change = self.tasks.get(task)
        if change is None:
            change = self.tasks[task] = Change()
        return change

    def line(self, queue: Queue, kept: int, put_off: int) -> None:
        """Note that so many more jobs of a queue are kept by gates, and put off by them."""
        known = self.lines.setdefault(queue, [0, 0])
        known[0] += kept
        known[1] += put_off

    def text(self) -> str:
        """Return the tally as it is stored; nothing if nothing changed."""
        gates = [[gate, *_plain(change)] for gate, change in self.gates.items() if change.is_any]
        tasks = [[*task, *_plain(change)] for task, change in self.tasks.items() if change.is_any]
        lines = [[*queue, *change] for queue, change in self.lines.items() if any(change)]
        return _encode((gates, tasks, lines)).decode() if gates or tasks or lines else ""


def _plain(change: Change) -> list[object]:
    return [*change.numbers, to_flat(change.waits), to_flat(change.held)]


class Told:
    """A tally that was stored, as a reader goes through it."""

    __slots__ = ("_gates", "_lines", "_tasks", "at")

    def __init__(self, at: int, facts: str) -> None:
        self.at = at
        found: Any = _decode(facts)
        if isinstance(found, dict):
            # Jobs without limits that one statement started: their queue, each with its task and how long it waited.
            self._gates, self._tasks, self._lines = [], _of_started(found), []
        else:
            self._gates, self._tasks, self._lines = found

    def gates(self) -> Iterator[tuple[int, list[int], Spread, Spread]]:
        """Return what changed at each gate."""
        for gate, *numbers, waits, held in self._gates:
            yield gate, numbers, from_flat(waits), from_flat(held)

    def tasks(self) -> Iterator[tuple[Task, list[int], Spread, Spread]]:
        """Return what changed for each task in a queue."""
        for tenant, queue, task, *numbers, waits, held in self._tasks:
            yield (tenant, queue, task), numbers, from_flat(waits), from_flat(held)

    def lines(self) -> Iterator[tuple[Queue, int, int]]:
        """Return how many more jobs of each queue are kept by gates, and put off by them."""
        for tenant, queue, kept, put_off in self._lines:
            yield (tenant, queue), kept, put_off


def _of_started(found: dict[str, Any]) -> list[list[Any]]:
    tally = Tally()
    for task, waited in found["started"]:
        change = tally.task(("", found["queue"], task))
        change.start(waited, 0)
    return [[*task, *_plain(change)] for task, change in tally.tasks.items()]
