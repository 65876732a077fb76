"""Can a job be written down like this?

Each check raises `InvalidJobError`, which names the field.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeVar

from penstock.errors import InvalidJobError
from penstock.names import name_problem

MAX_TASK: Final = 255
MAX_SCHEDULE: Final = 240  # part of a key
MAX_PRIORITY: Final = 100
MAX_NUMBER: Final = 2**53 - 1

_SCHEDULE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:-]*")

Choice = TypeVar("Choice", bound=StrEnum)


def check_queue(name: object) -> None:
    """Raise unless *name* can name a queue."""
    _check_name("queue", name)


def check_tenant(name: object) -> None:
    """Raise unless *name* can name a tenant; no tenant is the empty text."""
    if name != "":
        _check_name("tenant", name)


def check_task_name(name: object) -> None:
    """Raise unless *name* can name a task."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidJobError("task", f"{name!r} must be printable text, and not empty")
    check_length("task", name, MAX_TASK)


def check_job_id(name: object) -> None:
    """Raise unless *name* can be the id of a job."""
    _check_name("id", name)


def check_schedule_name(name: object) -> None:
    """Raise unless *name* can name a schedule."""
    if not isinstance(name, str) or not _SCHEDULE.fullmatch(name):
        problem = f"{name!r} must be letters, digits and . _ : - and begin with a letter or a digit"
        raise InvalidJobError("name", problem)
    check_length("name", name, MAX_SCHEDULE)


def check_priority(priority: object) -> None:
    """Raise unless *priority* is a whole number from -100 to 100."""
    check_whole("priority", priority, -MAX_PRIORITY, MAX_PRIORITY)


def check_cost(cost: object) -> None:
    """Raise unless *cost* is a whole number, at least 1."""
    check_whole("cost", cost, 1, MAX_NUMBER)


def check_whole(field: str, value: object, least: int, most: int) -> None:
    """Raise unless *value* is a whole number from *least* to *most*."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidJobError(field, f"{value!r} must be a whole number from {least} to {most}")


def check_length(field: str, text: str, most: int) -> None:
    """Raise unless *text* has at most so many characters."""
    if len(text) > most:
        raise InvalidJobError(field, f"{text[:40]!r}… has {len(text)} characters; at most {most} are allowed")


def check_known(field: str, chosen: Iterable[str], parameter_names: Iterable[str]) -> None:
    """Raise unless all *chosen* arguments are among *parameter_names*."""
    known = frozenset(parameter_names)
    for name in chosen:
        if name not in known:
            arguments = ", ".join(sorted(known)) or "none"
            raise InvalidJobError(field, f"there is no argument {name!r}; the arguments are: {arguments}")


def _check_name(field: str, name: object) -> None:
    if (problem := name_problem(name)) is not None:
        raise InvalidJobError(field, problem)


def choose(field: str, choices: type[Choice], value: str) -> Choice:
    """Return the one of *choices* that *value* names."""
    try:
        return choices(value)
    except ValueError:
        raise InvalidJobError(field, f"{value!r} must be one of: {', '.join(choices)}") from None
