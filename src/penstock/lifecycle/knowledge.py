"""Which tasks a worker knows: all, those that it names, or those that its patterns match."""

import hashlib
from functools import lru_cache
from typing import Final

from penstock.errors import InvalidError
from penstock.lifecycle.checks import MAX_TASK

MAX_TASKS: Final = 1_000
MAX_PART: Final = 60
ANY_TEXT: Final = "*"


def part_of(task: str) -> str:
    """Return what the part of a task is called: its name, or a digest where that is too long for an index."""
    return task if len(task) <= MAX_PART else f"#{hashlib.sha256(task.encode()).hexdigest()}"


class Knowledge:
    """What a claim knows.  A name with a `*`, which stands for any text, is a pattern; None is all tasks."""

    __slots__ = ("_names", "_patterns", "is_all")

    def __init__(self, tasks: tuple[str, ...] | None) -> None:
        given = tasks or ()
        self.is_all = tasks is None or ANY_TEXT in given
        self._names = frozenset(task for task in given if ANY_TEXT not in task)
        self._patterns = [task.partition(ANY_TEXT)[::2] for task in given if ANY_TEXT in task]

    def __contains__(self, task: str) -> bool:
        return self.is_all or task in self._names or self._matches(task)

    def names(self) -> list[str] | None:
        """Return the tasks that a store may compare by itself; None if there are patterns, or all are known."""
        return None if self.is_all or self._patterns else sorted(self._names)

    def _matches(self, task: str) -> bool:
        return any(
            len(task) >= len(begin) + len(end) and task.startswith(begin) and task.endswith(end)
            for begin, end in self._patterns
        )


@lru_cache(maxsize=1_024)
def knowledge_of(tasks: tuple[str, ...] | None) -> Knowledge:
    """Return what a claim knows that names *tasks*; raise unless it can name them."""
    for task in tasks or ():
        _check(task)
    if tasks is not None and len(tasks) > MAX_TASKS:
        raise InvalidError("tasks", f"{len(tasks)} are named; at most {MAX_TASKS} are allowed")
    return Knowledge(tasks)


def _check(task: object) -> None:
    if not isinstance(task, str) or not task or len(task) > MAX_TASK or not task.isprintable():
        problem = f"{task!r} must be printable text of at most {MAX_TASK} characters, and not empty"
        raise InvalidError("tasks", problem)
    if task.count(ANY_TEXT) > 1:
        raise InvalidError("tasks", f"{task!r} has more than one *; a pattern has one")
