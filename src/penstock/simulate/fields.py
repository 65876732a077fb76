"""Read the tables of a plan; whatever is wrong is told by the name of its field and its line."""

import difflib
import re
from collections.abc import Mapping
from typing import Final

from penstock.errors import InvalidError
from penstock.limits.durations import parse_duration

_HEADER: Final = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]")
_ENTRY: Final = re.compile(r"\s*([\w.\"'-]+)\s*=")
_MISSING: Final = object()


class Table:
    """One table of a plan: each field is taken once; any that is left over is refused."""

    def __init__(self, content: object, path: str) -> None:
        if not isinstance(content, Mapping):
            raise InvalidError(path, f"{content!r} must be a table")
        self._left = dict(content)
        self._known: list[str] = []
        self.path = path

    def __contains__(self, name: str) -> bool:
        self._known.append(name)
        return name in self._left

    def field(self, name: str) -> str:
        """Return the full name of a field."""
        return f"{self.path}.{name}" if self.path else name

    def wrong(self, name: str, problem: str) -> InvalidError:
        """Return the error that says what is wrong with a field."""
        return InvalidError(self.field(name), problem)

    def take(self, name: str, default: object = _MISSING) -> object:
        """Return a field, whatever it is."""
        self._known.append(name)
        value = self._left.pop(name, default)
        if value is _MISSING:
            raise self.wrong(name, "is missing")
        return value

    def text(self, name: str, default: object = _MISSING) -> str:
        value = self.take(name, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(name, f"{value!r} must be text")
        return value

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.take(name, default)
        if value not in choices:
            raise self.wrong(name, f"{value!r} must be one of: {', '.join(choices)}")
        return str(value)

    def whole(self, name: str, default: object = _MISSING, *, least: int = 1, most: int = 2**31) -> int:
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(name, f"{value!r} must be a whole number from {least} to {most}")
        return value

    def span(self, name: str, default: object = _MISSING, *, zero: bool = False) -> int:
        """Return a span of time, in microseconds."""
        return parse_duration(self.take(name, default), self.field(name), zero=zero)  # type: ignore[arg-type]

    def rate(self, name: str) -> tuple[float, int]:
        """Return how many, and in how many microseconds: `"30/1d"`."""
        text = self.text(name)
        number, slash, period = (part.strip() for part in text.partition("/"))
        try:
            many = float(number)
        except ValueError:
            many = -1
        if not slash or not period or not 0 <= many < 2**53:
            raise self.wrong(name, f'{text!r} must be a number and a time, as in "30/1d" or "100/1m"')
        return many, parse_duration(f"1{period}" if period.isalpha() else period, self.field(name))

    def table(self, name: str, default: object = _MISSING) -> "Table":
        return Table(self.take(name, default), self.field(name))

    def items(self) -> list[tuple[str, object]]:
        """Take all that is left."""
        found = list(self._left.items())
        self._left.clear()
        return found

    def done(self) -> None:
        """Raise if there is a field that the plan does not know."""
        for name in self._left:
            close = difflib.get_close_matches(name, self._known, 1)
            guess = f"; did you mean {close[0]!r}?" if close else ""
            raise self.wrong(name, f"there is no such field{guess or '; known are: ' + self._all_known()}")

    def _all_known(self) -> str:
        return ", ".join(dict.fromkeys(self._known))


def line_of(text: str, field: str) -> int | None:
    """Return the line of a TOML *text* where a field such as `jobs[2].arrivals.rate` stands, or else its table."""
    wanted = field.split(".")
    counts: dict[str, int] = {}
    best, line, table = 0, None, ""
    for number, row in enumerate(text.splitlines(), start=1):
        path = table
        if header := _HEADER.match(row):
            path = table = _numbered(header[2], counts, new=header[1] == "[[")
        elif entry := _ENTRY.match(row):
            path = ".".join(filter(None, (table, _plain(entry[1]))))
        else:
            continue
        parts = path.split(".")
        if wanted[: len(parts)] == parts and len(parts) > best:
            best, line = len(parts), number
    return line


def _numbered(name: str, counts: dict[str, int], *, new: bool) -> str:
    """Return the name of a table as errors have it: with the number of its place in a list."""
    first, dot, rest = _plain(name).partition(".")
    if new:
        counts[first] = counts.get(first, 0) + 1
    return f"{first}[{counts[first]}]{dot}{rest}" if first in counts else f"{first}{dot}{rest}"


def _plain(name: str) -> str:
    return re.sub(r"[\s\"']", "", name)
