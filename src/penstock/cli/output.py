"""How answers look: tables and lines for people, one JSON document for programs."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from penstock.clock import SECOND
from penstock.names import one_line

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod, OverflowMethod

    from penstock.limits.rules import Numbers

GAP: Final = 2
# Not a terminal: the program that reads the pipe wants every column.
PIPE_WIDTH: Final = 200
UNITS: Final = (("d", 86_400 * SECOND), ("h", 3_600 * SECOND), ("min", 60 * SECOND), ("s", SECOND))
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
STATE_COLOURS: Final = {
    "waiting": "yellow",
    "scheduled": "blue",
    "running": "cyan",
    "done": "green",
    "failed": "red",
    "discarded": "magenta",
    "cancelled": "magenta",
    "expired": "magenta",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; those of the highest *rank* go first when it is too wide, rank 0 stays.

    Before that, one that has a *least* width is cut down to it.
    """

    title: str
    rank: int = 0
    right: bool = False
    least: int | None = None
    cells: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        from rich.cells import cell_len

        return max(map(cell_len, [self.title, *self.cells]))

    @property
    def need(self) -> int:
        return self.width if self.least is None else min(self.width, self.least)


def print_json(document: object) -> None:
    """Print *document* as JSON."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print *rows* under *columns*, as many of them as fit."""
    from rich.table import Table
    from rich.text import Text

    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            column.cells.append(one_line(cell))
    console = make_console()
    shown = fitting([column for column in columns if any(column.cells) or not column.rank], console.width)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for column, room in zip(shown, widths(shown, console.width), strict=True):
        justify: JustifyMethod = "right" if column.right else "left"
        # The beginning of an id is a name too, and must stay one that can be copied.
        overflow: OverflowMethod = "crop" if column.least and not column.rank else "ellipsis"
        table.add_column(column.title, justify=justify, no_wrap=True, overflow=overflow, max_width=room)
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*(Text(cell, STATE_COLOURS.get(cell, "")) for cell in cells))
    console.print(table)


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Leave out the least important *columns* until the others fit into *width*."""
    shown = list(columns)
    while sum(column.need + GAP for column in shown) - GAP > width and any(column.rank for column in shown):
        shown.remove(max(shown, key=lambda column: column.rank))
    return shown


def widths(columns: Sequence[Column], width: int) -> list[int]:
    """Return how wide each of *columns* is shown, so that all fit into *width*; the first ones are cut first."""
    over = sum(column.width + GAP for column in columns) - GAP - width
    rooms = []
    for column in columns:
        cut = min(max(over, 0), column.width - column.need)
        over -= cut
        rooms.append(column.width - cut)
    return rooms


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values, a pair on each line; those without a value are left out."""
    from rich.text import Text

    told = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in told), default=0) + GAP
    console = make_console()
    for name, value in told:
        text = Text(name.ljust(width), "dim")
        text.append(value.replace("\n", "\n" + " " * width), STATE_COLOURS.get(value, ""))
        console.print(text, soft_wrap=True)


def make_console() -> "Console":
    """Return a console as wide as the terminal; a pipe is as wide as anyone could want."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, PIPE_WIDTH))


def iso(moment: int | None) -> str | None:
    """Return *moment* as programs like it."""
    return None if moment is None else _datetime(moment).isoformat().replace("+00:00", "Z")


def when(moment: int | None, now: int) -> str:
    """Return *moment* as people like it: how long ago or how soon, and by the clock on the wall."""
    return "" if moment is None else f"{relative(moment, now)} ({absolute(moment, now)})"


def relative(moment: int, now: int) -> str:
    """Return how long ago or how soon *moment* is."""
    return f"{rough(now - moment)} ago" if moment <= now else f"in {rough(moment - now)}"


def absolute(moment: int, now: int) -> str:
    """Return *moment* by the clock on the wall, with its date unless that is today."""
    local, today = _datetime(moment).astimezone(), _datetime(now).astimezone().date()
    return f"{local:%H:%M:%S}" if local.date() == today else f"{local:%Y-%m-%d %H:%M:%S}"


def rough(span: int) -> str:
    """Return *span* in its largest unit, rounded."""
    for unit, size in UNITS:
        if span >= size:
            return f"{round(span / size)} {unit}"
    return f"{round(span / 1000)} ms"


def numbers_text(numbers: "Numbers | None") -> str:
    """Return *numbers* for people, in the words of the options."""
    return ", ".join(f"{name} {value}" for name, value in (numbers_plain(numbers) or {}).items())


def numbers_plain(numbers: "Numbers | None") -> dict[str, object] | None:
    """Return *numbers* for programs, as the options take them."""
    from penstock.engine import wording

    return None if numbers is None else wording.numbers_plain(numbers)


def _datetime(moment: int) -> datetime:
    return EPOCH + timedelta(microseconds=moment)
