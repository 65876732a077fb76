"""What one transaction changed, by gate, queue and task: it is written down as one row, and added to minutes later.

What happens once for every job is only appended here; a reader counts it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from penstock.minutes.spread import counted, step_of, to_flat

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode

Task = tuple[str, str, str]  # a tenant, its queue, and a task
Queue = tuple[str, str]
UNKNOWN: Final = -1  # how long a job waited that came before that was kept


class TaskChange:
    """What changed for one task in one queue: how long the jobs that started had waited, and attempts ran that ended.

    *left* jobs left the line and did not start; those that ended so were *dropped*.  Of *undone* attempts no handler
    began.
    """

    __slots__ = ("arrived", "dropped", "ended", "failed", "left", "started", "undone")

    def __init__(self) -> None:
        self.arrived = self.left = self.dropped = self.undone = self.failed = 0
        self.started: list[int] = []
        self.ended: list[int] = []


class GateChange:
    """What happened at one gate that does not happen to every job."""

    __slots__ = ("arrived", "dropped", "failed", "undone")

    def __init__(self) -> None:
        self.arrived = self.dropped = self.failed = self.undone = 0


class Tally:
    """The changes of one transaction.

    *started* has a gate and for how long it kept the job, step by step, of each start; *ended* the same of each end.
    *waiting*, *kept* and *used* are how many more jobs wait at a gate, are kept by it, and slots are in use there.
    *lines* are jobs of a queue that came to be kept by gates, and that so became scheduled or waiting again.
    """

    __slots__ = ("ended", "gates", "kept", "lines", "started", "tasks", "used", "waiting")

    def __init__(self) -> None:
        self.tasks: dict[Task, TaskChange] = {}
        self.started: list[int] = []
        self.ended: list[int] = []
        self.waiting: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        self.used: dict[int, int] = {}
        self.gates: dict[int, GateChange] = {}
        self.lines: dict[Queue, list[int]] = {}

    def gate(self, gate: int) -> GateChange:
        """Return what happened at a gate."""
        change = self.gates.get(gate)
        if change is None:
            change = self.gates[gate] = GateChange()
        return change

    def task(self, task: Task) -> TaskChange:
        """Return what changed for a task in a queue."""
        change = self.tasks.get(task)
        if change is None:
            change = self.tasks[task] = TaskChange()
        return change

    def start_at(self, gate: int, kept: int) -> None:
        """Count a start at a gate that *kept* the job so long."""
        self.started += (gate, step_of(kept))

    def end_at(self, gate: int, held: int) -> None:
        """Count the end of an attempt that *held* a slot of a gate so long."""
        self.ended += (gate, step_of(held))

    def line(self, queue: Queue, kept: int, put_off: int) -> None:
        """Note that so many more jobs of a queue are kept by gates, and put off by them."""
        known = self.lines.get(queue)
        if known is None:
            known = self.lines[queue] = [0, 0]
        known[0] += kept
        known[1] += put_off

    def text(self) -> str:
        """Return the tally as it is stored; nothing if nothing changed."""
        if not (
            self.tasks or self.started or self.ended or self.waiting or self.kept or self.used or self.gates
            or self.lines
        ):  # fmt: skip
            return ""
        tasks = [
            (
                *task, c.arrived, c.left, c.dropped, c.undone, c.failed, len(c.started), to_flat(counted(c.started)),
                to_flat(counted(c.ended)),
            )
            for task, c in self.tasks.items()
        ]  # fmt: skip
        gates = [(gate, c.arrived, c.dropped, c.failed, c.undone) for gate, c in self.gates.items()]
        lines = [(*queue, *change) for queue, change in self.lines.items() if any(change)]
        # Where each job has one gate and starts as soon as that opens, as many are kept as wait.
        kept = None if self.kept == self.waiting else _flat(self.kept)
        numbers = [_flat(self.waiting), kept, _flat(self.used)]
        return _encode((tasks, self.started, self.ended, *numbers, gates, lines)).decode()


def _flat(changes: dict[int, int]) -> list[int]:
    return [number for change in changes.items() if change[1] for number in change]


def pairs(flat: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Go through a list two by two."""
    each = iter(flat)
    return zip(each, each, strict=True)


class Told:
    """A tally that was stored, as a reader goes through it."""

    __slots__ = ("alike", "at", "ended", "gates", "kept", "lines", "started", "tasks", "used", "waiting")

    def __init__(self, at: int, facts: str) -> None:
        self.at = at
        found: Any = _decode(facts)
        if isinstance(found, dict):
            found = _of_started(found)
        self.tasks, self.started, self.ended, self.waiting, kept, self.used, self.gates, self.lines = found
        self.alike = kept is None  # as many more are kept as wait
        self.kept = kept or []


def _of_started(found: dict[str, Any]) -> list[Any]:
    """Read the tally of jobs without limits that one statement started: each with its task and how long it waited."""
    tally = Tally()
    for task, waited in found["started"]:
        tally.task(("", found["queue"], task)).started.append(waited)
    told: list[Any] = _decode(tally.text())
    return told
