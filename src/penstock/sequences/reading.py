"""Read a definition field by field; every error names the field by its path: `blocks[2].retry.max_attempts`.  Pure."""

import re
from collections.abc import Callable
from typing import Final, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.errors import InvalidError
from penstock.lifecycle.checks import check_task_name
from penstock.limits.durations import parse_duration
from penstock.limits.rules import MAX_NUMBER
from penstock.names import name_problem
from penstock.sequences.blocks import Condition, Tree
from penstock.sequences.expression_parser import read_expression
from penstock.sequences.templates import Template, read_template

DEEPEST: Final = 64
_HOW: Final = 'write whole milliseconds, or text such as "30s" or "2d"'
_NAME: Final = re.compile(r"[^\W\d]\w*")

T = TypeVar("T")
D = TypeVar("D")


class Fields:
    """The fields of one object of a definition; those that are not asked for are refused at the end."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise InvalidError(path or "sequence", "must be an object")
        self.path = path
        self._values: dict[str, object] = value
        self._asked: set[str] = set()

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Tell whether a field is given; null is as good as none."""
        self._asked.add(name)
        return self._values.get(name) is not None

    def raw(self, name: str) -> object:
        """Return a field as it is; null if there is none."""
        self._asked.add(name)
        return self._values.get(name)

    def read(self, name: str, read: Callable[[object, str], T], default: D) -> T | D:
        """Return a field as *read* understands its value and path, or *default*."""
        return read(self._values[name], self.at(name)) if self.has(name) else default

    def need(self, name: str, read: Callable[[object, str], T]) -> T:
        """Return a field that must be given."""
        if not self.has(name):
            raise InvalidError(self.at(name), "is missing")
        return read(self._values[name], self.at(name))

    def end(self, *ignored: str) -> list[str]:
        """Refuse fields that were not asked for; return the paths of those that are *ignored*."""
        unknown = self._values.keys() - self._asked - set(ignored)
        if unknown:
            raise InvalidError(self.at(min(unknown)), "is not known")
        return [self.at(name) for name in ignored if self.has(name)]


def text(value: object, path: str) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidError(path, "must be text, and not empty")
    return value


def name(value: object, path: str) -> str:
    """Read what may name a queue, a pool or a sequence."""
    problem = name_problem(value)
    if problem is not None:
        raise InvalidError(path, problem)
    return str(value)


def handler(value: object, path: str) -> str:
    """Read the name of a handler."""
    try:
        check_task_name(value)
    except InvalidError as error:
        raise InvalidError(path, error.problem) from None
    return str(value)


def identifier(value: object, path: str) -> str:
    """Read a name that templates can use."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidError(path, "must be letters, digits and _, and not begin with a digit")
    return value


def flag(value: object, path: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise InvalidError(path, "must be true or false")
    return value


def whole(least: int, most: int) -> Callable[[object, str], int]:
    """Return what reads a whole number within these bounds."""

    def read(value: object, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidError(path, f"must be a whole number from {least:,} to {most:,}")
        return value

    return read


def number(value: object, path: str) -> float:
    """Read a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidError(path, "must be a number")
    return float(value)


def span(value: object, path: str) -> int:
    """Read a duration, in microseconds, that may be none."""
    return _duration(value, path, zero=True)


def some_time(value: object, path: str) -> int:
    """Read a duration, in microseconds, that is not none."""
    return _duration(value, path, zero=False)


def each(
    read: Callable[[object, str], T], most: int | None = None, *, some: bool = False
) -> Callable[[object, str], list[T]]:
    """Return what reads a list of at most so many, and of *some* if there must be one."""

    def read_all(value: object, path: str) -> list[T]:
        if not isinstance(value, list):
            raise InvalidError(path, "must be a list")
        if some and not value:
            raise InvalidError(path, "must not be empty")
        if most is not None and len(value) > most:
            raise InvalidError(path, f"has {len(value):,} items; at most {most:,} are allowed")
        return [read(item, f"{path}[{index}]") for index, item in enumerate(value)]

    return read_all


def zone(value: object, path: str) -> str:
    """Read the name of a time zone."""
    name = text(value, path)
    if not is_zone(name):
        raise InvalidError(path, f"there is no time zone {name!r}")
    return name


def is_zone(name: str) -> bool:
    """Tell whether there is a time zone of that *name*."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def condition(value: object, path: str) -> Condition:
    """Read an expression; true and false stand for themselves."""
    if isinstance(value, bool):
        return value
    return read_expression(text(value, path), path)


def template(value: object, path: str) -> str | Template:
    """Read a text that may be a template."""
    return read_template(text(value, path), path)


def tree(value: object, path: str, depth: int = 0) -> Tree:
    """Read JSON whose texts may be templates."""
    if depth > DEEPEST:
        raise InvalidError(path, f"is nested deeper than {DEEPEST} levels")
    match value:
        case str():
            return read_template(value, path)
        case list():
            return [tree(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        case dict():
            return {name: tree(item, f"{path}.{name}", depth + 1) for name, item in value.items()}
        case _:
            return value


def params(value: object, path: str) -> Tree:
    """Read what a handler is given: an object, or a template that comes to one."""
    read = tree(value, path)
    if not isinstance(read, dict | Template):
        raise InvalidError(path, "must be an object")
    return read


def _duration(value: object, path: str, *, zero: bool) -> int:
    if isinstance(value, str):
        return parse_duration(value, path, zero=zero, how=_HOW)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidError(path, f"is no duration; {_HOW}")
    if not (0 if zero else 1) <= value <= MAX_NUMBER // 1000:
        raise InvalidError(path, f"{value} is {'too long' if value > 0 else 'too short'}; {_HOW}")
    return value * 1000
