"""Draw calls as bars on lanes, one lane for each account.  Pure: calls in, lines of text out.

A bar is a call in flight, with its number in the order of enqueueing.  A call that overlaps an
earlier one of its account goes on a row below it; one that collided is drawn lighter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.clock import SECOND
from penstock.demo.checks import Seen
from penstock.demo.measure import Call, by_account

SPAN: Final = 29 * SECOND // 10  # the longest scenario, so that all are drawn to one scale
GOOD, CLASH = "█", "▒"
TICKS: Final = (SECOND // 2, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND)
ROOM_FOR_TICK: Final = 8


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps moments to columns."""

    origin: int
    span: int
    columns: int

    def column(self, moment: int) -> int:
        """Return the column in which *moment* lies."""
        return (moment - self.origin) * self.columns // self.span


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the drawing: its account (none: the line of times), its bars and a remark."""

    account: str
    bars: str
    remark: str = ""
    first: bool = True


def draw(seen: Seen, columns: int) -> list[Row]:
    """Draw the calls in *seen*, a lane for each account, *columns* wide, and a line of times below."""
    scale = _scale(seen.calls, columns)
    lanes = by_account(seen.calls)
    rows: list[Row] = []
    for account in seen.accounts:
        drawn = [_bars(seen, row, scale) for row in _stacked(lanes.get(account, []))] or [""]
        rows.append(Row(account, drawn[0], _remark(seen, account)))
        rows.extend(Row(account, bars, first=False) for bars in drawn[1:])
    return [*rows, Row("", axis(scale))]


def axis(scale: Scale) -> str:
    """Write the seconds under the bars, as many as fit."""
    step = next((tick for tick in TICKS if tick * scale.columns // scale.span >= ROOM_FOR_TICK), TICKS[-1])
    line = ""
    for at in range(0, scale.span + 1, step):
        text = f"╵{at / SECOND:g} s" if at == 0 else f"╵{at / SECOND:g}"
        place = scale.column(scale.origin + at)
        if place + len(text) <= scale.columns:
            line = line.ljust(place) + text
    return line


def _scale(calls: Sequence[Call], columns: int) -> Scale:
    origin = min((call.arrived for call in calls), default=0)
    end = max((call.ended for call in calls), default=0)
    return Scale(origin, max(SPAN, end - origin + 1), columns)


def _stacked(lane: Sequence[Call]) -> list[list[Call]]:
    rows: list[list[Call]] = []
    for call in lane:
        free = next((row for row in rows if row[-1].ended <= call.arrived), None)
        if free is None:
            rows.append([call])
        else:
            free.append(call)
    return rows


def _remark(seen: Seen, account: str) -> str:
    told = {"dropped": seen.dropped[account], "re-used": seen.reused[account]}
    return ", ".join(f"{count} {word}" for word, count in told.items() if count)


def _bars(seen: Seen, row: Sequence[Call], scale: Scale) -> str:
    line = ""
    for call in row:
        first = max(scale.column(call.arrived), len(line))
        last = max(scale.column(call.ended), first + 2)
        line = line.ljust(first) + _bar(
            str(seen.number(call)), last - first, CLASH if call.collided and not seen.may_overlap else GOOD
        )
    return line


def _bar(number: str, width: int, fill: str) -> str:
    inside = fill * max(width - 2, 0)
    if len(inside) < len(number) + 2:
        return f"▐{inside}▌"
    middle = (len(inside) - len(number)) // 2
    return f"▐{inside[:middle]}{number}{inside[middle + len(number) :]}▌"
