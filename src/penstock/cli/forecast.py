"""How the answer of `penstock simulate` looks to people."""

from typing import Final

from penstock.cli.output import Column, print_facts, print_table
from penstock.simulate.play import Played
from penstock.simulate.report import Report, Waits, verdict
from penstock.simulate.words import per_unit, percent, span

KEYS: Final = 12  # shown to people; programs get all


def show(played: Played, found: Report, plot: str) -> None:
    """Show people what came of a plan."""
    print("\n".join(_answer(played, found)), end="\n\n")
    print_facts(
        [
            ("played", f"{span(found.until)}, seed {played.seed}"),
            ("jobs", _counts(found)),
            ("throughput", f"{per_unit(found.throughput)}"),
            ("last start", f"after {span(found.last_start)}" if found.started else ""),
            ("picture", plot),
        ]
    )
    print("\nLimits")
    _show_limits(found)
    print("\nWaiting times")
    _show_waits(found)


def _show_limits(found: Report) -> None:
    columns = (
        Column("limit"),
        Column("rule"),
        Column("keys", 3, right=True),
        Column("used", right=True),
        Column("busiest", 2, right=True),
        Column("at", 4),
        Column("waited for", right=True),
    )
    print_table(
        columns,
        [
            (
                use.limit,
                use.rule,
                str(use.keys),
                percent(use.used),
                percent(use.busiest) if use.keys > 1 else "",
                use.busiest_key if use.keys > 1 else "",
                percent(use.held),
            )
            for use in found.uses
        ],
    )


def _show_waits(found: Report) -> None:
    shown = found.keys[:KEYS]
    rows = [_row("", found.overall)]
    rows += [_row("", waits) for waits in found.kinds] if len(found.kinds) > 1 else []
    rows += [_row(limit, waits) for limit, waits in shown]
    titles = ("mean", "p50", "p90", "p99", "longest")
    counts = (
        Column("jobs", right=True),
        Column("dropped", 5, right=True),
        Column("still waiting", 1, right=True),
    )
    print_table(
        (Column("key"), Column("limit", 6), *counts, *(Column(title, right=True) for title in titles)), rows
    )
    if len(found.keys) > len(shown):
        print(f"\n{len(shown)} of {len(found.keys):,} keys, the longest waits first; --json has all")


def _answer(played: Played, found: Report) -> list[str]:
    """Return what most people want to know."""
    said = []
    if not played.whole:
        said.append(f"Interrupted; this is what was seen in the first {span(found.until)}.")
    if found.growing:
        said.append("Not enough: jobs come faster than they can start, and the line grows.")
    elif found.waiting:
        said.append(f"{found.waiting:,} of {found.arrived:,} jobs were still waiting at the end.")
    elif found.dropped:
        said.append(
            f"{found.dropped:,} of {found.arrived:,} jobs came when a gate was shut, and were dropped."
        )
    elif found.started:
        said.append(f"All {found.started:,} jobs were started, the last one after {span(found.last_start)}.")
    return [*said, verdict(found)]


def _counts(found: Report) -> str:
    parts = {"running": found.running, "waiting": found.waiting, "dropped": found.dropped}
    rest = [f"{number:,} {name}" for name, number in parts.items() if number]
    return ", ".join([f"{found.arrived:,} arrived", f"{found.done:,} done", *rest])


def _row(limit: str, waits: Waits) -> tuple[str, ...]:
    times = (waits.mean, waits.p50, waits.p90, waits.p99, waits.longest)
    counts = (f"{waits.arrived:,}", str(waits.dropped or ""), str(waits.still or ""))
    return (waits.name, limit, *counts, *(span(time) for time in times))
