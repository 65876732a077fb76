"""Show figures to people as a table, and to programs as JSON."""

import json
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from penstock.bench.figures import Figure
from penstock.bench.machine import Machine

WIDE: Final = 110  # columns; notes are left out of a narrower table


def show_table(figures: Sequence[Figure], machine: Machine) -> None:
    """Print *figures* with their targets, one line each."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("figure")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("target", no_wrap=True)
    table.add_column("", no_wrap=True)
    if console.width >= WIDE:
        table.add_column("note", style="dim")
    before = ""
    for figure in figures:
        if before and figure.workload != before:
            table.add_section()
        mark = figure.workload if figure.workload != before else ""
        cells = [
            mark,
            figure.name,
            _number(figure),
            figure.unit,
            _wanted(figure),
            _verdict(figure),
            figure.note,
        ]
        table.add_row(*cells[: len(table.columns)])
        before = figure.workload
    console.print(machine.sentence, style="dim")
    console.print(table)


def show_json(figures: Sequence[Figure], machine: Machine, *, seconds: float) -> None:
    """Print everything as one JSON document."""
    lines = [plain(figure) for figure in figures]
    print(json.dumps({"machine": machine.plain, "seconds": round(seconds, 1), "figures": lines}, indent=2))


def plain(figure: Figure) -> dict[str, object]:
    """Return *figure* as programs read it."""
    facts: dict[str, object] = {
        "workload": figure.workload,
        "name": figure.name,
        "value": round(figure.value, 4),
        "unit": figure.unit,
    }
    if figure.target:
        facts |= {"target": figure.target.text, "met": figure.target.met, "promise": figure.target.promise}
    if figure.note:
        facts["note"] = figure.note
    return facts


def _number(figure: Figure) -> str:
    if float(figure.value).is_integer() or abs(figure.value) >= 100:  # noqa: PLR2004
        return f"{figure.value:,.0f}"
    return f"{figure.value:,.2f}"


def _wanted(figure: Figure) -> str:
    return figure.target.text if figure.target else ""


def _verdict(figure: Figure) -> str:
    if figure.target is None:
        return ""
    if figure.target.met:
        return "[green]ok[/]"
    return "[bold red]BROKEN[/]" if figure.target.promise else "[yellow]missed[/]"
