"""The way to a value: `context.data.items[0]["first name"]`.  Pure."""

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

ROOTS: Final = frozenset(
    {
        *("context", "data", "config", "runtime", "input"),
        *("outputs", "steps", "instance_id", "state", "error", "pool"),
    }
)
_PATH: Final = re.compile(
    r"""(?P<root>[^\W\d]\w*)(?P<steps>(?:\.[\w-]+|\[\d{1,9}\]|\["[^"]*"\]|\['[^']*'\])*)"""
)
_STEP: Final = re.compile(r"""\.([\w-]+)|\[(\d+)\]|\["([^"]*)"\]|\['([^']*)'\]""")


class Path(NamedTuple):
    """A *root*, and the names and numbers of what to take from it, one after the other."""

    root: str
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.root, *self.steps))


Lookup = Callable[[Path], object]


def read_path(text: str) -> Path | None:
    """Read *text* as a path; None if it is none."""
    match = _PATH.fullmatch(text)
    if match is None:
        return None
    # Of the groups of a step one has matched.
    return Path(match["root"], tuple("".join(groups) for groups in _STEP.findall(match["steps"])))


def dig(value: object, steps: Iterable[str]) -> object:
    """Return what *steps* lead to from *value*; null if there is nothing."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
