"""Which key does this call name?

A key is written as a format string over a task's arguments: "account:{account_id}", "{order.id}", "{data[user]}".
It is read once, and filled in for every job.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter, itemgetter
from string import Formatter
from typing import Any, Final

from penstock.errors import InvalidLimitError

_FIELD: Final = re.compile(r"(?P<name>[^\W\d]\w*)(?P<steps>(?:\.[^\W\d]\w*|\[[^\[\]]+\])*)")
_STEP: Final = re.compile(r"\.(\w+)|\[([^\[\]]+)\]")
_CONVERSIONS: Final[dict[str | None, Callable[[object], object] | None]] = {
    None: None,
    "s": str,
    "r": repr,
    "a": ascii,
}
_FUNCTION: Final = "write a function in its place that says what stands for None"


class _NoValueError(Exception):
    """What stands at a place is None."""


@dataclass(frozen=True, slots=True)
class Field:
    """A place in a template: an argument, the way into it, and how to show what is found there."""

    name: str
    steps: tuple[Callable[[Any], object], ...] = ()
    convert: Callable[[object], object] | None = None
    layout: str = ""
    path: str = dataclasses.field(default="", compare=False)  # as it is written

    def show(self, arguments: Mapping[str, object]) -> str:
        """Return the text that stands at this place for *arguments*."""
        value = arguments[self.name]
        for step in self.steps:
            value = step(value)
        if value is None:
            raise _NoValueError(self.path)
        if self.convert is not None:
            value = self.convert(value)
        # Not format(): that shows some enums by another name than str() does.
        return format(value, self.layout) if self.layout else str(value)


@dataclass(frozen=True, slots=True)
class Template:
    """A key to be filled in.  *simple* is (before, argument, after) when there is one plain argument."""

    text: str
    parts: tuple[str | Field, ...]
    simple: tuple[str, str, str] | None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The places to fill in."""
        return tuple(part for part in self.parts if isinstance(part, Field))

    @property
    def literals(self) -> str:
        """The text that stands in every key."""
        return "".join(part for part in self.parts if isinstance(part, str))

    def fill(self, arguments: Mapping[str, object], *, instead: str = _FUNCTION) -> str:
        """Return the key for *arguments*; one that is None is refused, and *instead* says what else to do."""
        try:
            return self._filled(arguments)
        except _NoValueError as error:
            # All calls without a value would share one gate, by accident.
            problem = f"{self.text!r} cannot be filled in: {error} is None; pass a value, or {instead}"
            raise InvalidLimitError("key", problem) from None
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            problem = f"{self.text!r} cannot be filled in from the arguments: {type(error).__name__}: {error}"
            raise InvalidLimitError("key", problem) from error

    def _filled(self, arguments: Mapping[str, object]) -> str:
        if self.simple is None:
            return "".join([part if isinstance(part, str) else part.show(arguments) for part in self.parts])
        before, name, after = self.simple
        value = arguments[name]
        if value is None:
            raise _NoValueError(name)
        return f"{before}{value!s}{after}"


@lru_cache(maxsize=1024)
def parse_template(text: str) -> Template:
    """Read *text* as a template, or raise `InvalidLimitError`."""
    parts: list[str | Field] = []
    try:
        for literal, name, layout, conversion in Formatter().parse(text):
            if literal:
                parts.append(literal)
            if name is not None:
                parts.append(_field(text, name, layout or "", conversion))
    except ValueError as error:
        raise InvalidLimitError("key", f"{text!r} is not a format string: {error}") from None
    return Template(text, tuple(parts), _simple(parts))


def check_template(text: str, parameter_names: Collection[str]) -> None:
    """Raise unless every place in *text* can be filled in from *parameter_names*."""
    for field in parse_template(text).fields:
        if field.name not in parameter_names:
            known = ", ".join(sorted(parameter_names))
            arguments = f"the arguments are: {known}" if known else "the task takes no arguments"
            raise InvalidLimitError("key", f"{text!r} names an unknown argument {field.name!r}; {arguments}")


def _field(text: str, name: str, layout: str, conversion: str | None) -> Field:
    if not name or name[0].isdigit():
        raise InvalidLimitError("key", f"{text!r} counts its arguments; name them, as in {{account_id}}")
    match = _FIELD.fullmatch(name)
    if match is None or "{" in layout or conversion not in _CONVERSIONS:
        raise InvalidLimitError("key", f"{text!r} has a place {name!r} that cannot be read; write {{name}}")
    steps = tuple(
        attrgetter(attribute) if attribute else itemgetter(int(index) if index.isdecimal() else index)
        for attribute, index in _STEP.findall(match["steps"])
    )
    return Field(match["name"], steps, _CONVERSIONS[conversion], layout, name)


def _simple(parts: list[str | Field]) -> tuple[str, str, str] | None:
    match parts:
        case [Field() as field]:
            before, after = "", ""
        case [str(before), Field() as field]:
            after = ""
        case [Field() as field, str(after)]:
            before = ""
        case [str(before), Field() as field, str(after)]:
            pass
        case _:
            return None
    return (before, field.name, after) if field == Field(field.name) else None
