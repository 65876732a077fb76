"""`penstock simulate`: how long would jobs wait?"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.options import JsonOption, read_time
from penstock.cli.output import Column, print_facts, print_json, print_table
from penstock.errors import InvalidError

if TYPE_CHECKING:
    from penstock.simulate.play import KeepOn, Played
    from penstock.simulate.report import Report, Waits

KEYS: Final = 12  # shown to people; programs get all
INTERRUPTED: Final = 130
PATIENCE: Final = 1_000_000  # microseconds before there is a word of progress


def simulate(
    plan: Annotated[
        str,
        typer.Argument(metavar="[PLAN]", help="A TOML file; see --example.", show_default=False),
    ] = "",
    *,
    plot: Annotated[
        str, typer.Option("--plot", metavar="FILE", help="Draw the lines over time: an SVG picture.")
    ] = "",
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", min=0, help="Draw chance anew.", show_default="the plan's, or 1"),
    ] = None,
    until: Annotated[
        str,
        typer.Option("--until", metavar="TIME", help="Stop then, as in 30d.", show_default="the plan's"),
    ] = "",
    example: Annotated[bool, typer.Option("--example", help="Print a plan to begin with.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Play a plan through the real engine in virtual time: how long would jobs wait, and for what?

    A plan names limits, when jobs arrive and how long they take.  Nothing is stored and nothing is run.
    """
    if example:
        from penstock.simulate.example import EXAMPLE

        sys.stdout.write(EXAMPLE)
        return
    from penstock.simulate.document import document
    from penstock.simulate.plan import read_plan
    from penstock.simulate.play import play
    from penstock.simulate.report import report

    length = read_time("until", until)
    _check_picture(plot)
    wanted = read_plan(_text(plan), plan)
    with _progress(wanted.expected(length or wanted.until)) as keep_on:
        played = play(wanted, seed=seed, until=length, keep_on=keep_on)
    found = report(played)
    if plot:
        from penstock.simulate.plot import draw

        _write(plot, draw(played, found))
    if as_json:
        print_json(document(played, found))
    else:
        _show(played, found, plot)
    if not played.whole:
        raise typer.Exit(INTERRUPTED)


def _text(plan: str) -> str:
    if not plan:
        raise InvalidError("plan", "name a file, or see --example and --help")
    try:
        return Path(plan).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidError("plan", f"cannot read {plan!r}: {reason}") from None


def _check_picture(file: str) -> None:
    """Refuse what cannot be drawn before anybody has waited for it."""
    if file and not file.lower().endswith(".svg"):
        raise InvalidError("--plot", f"{file!r} must end in .svg, which is what is drawn")
    if file and not Path(file).parent.is_dir():
        raise InvalidError("--plot", f"cannot write {file!r}: there is no such folder")


def _write(file: str, picture: str) -> None:
    try:
        Path(file).write_text(picture, encoding="utf-8")
    except OSError as error:
        raise InvalidError("--plot", f"cannot write {file!r}: {error.strerror}") from None


@contextmanager
def _progress(expected: float) -> "Iterator[KeepOn]":
    """Say how far it is, to somebody who looks; an interrupt ends the play and what was seen is shown."""
    from rich.console import Console

    from penstock.clock import monotonic
    from penstock.simulate.words import span

    console = Console(stderr=True, highlight=False)
    status = console.status("playing")
    begin = monotonic()
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(signal.SIGINT, before)

    def keep_on(now: int, arrived: int) -> bool:
        if console.is_terminal and monotonic() - begin > PATIENCE:
            status.start()
            part = f" of about {expected:,.0f}" if expected < float("inf") else ""
            status.update(f"{arrived:,}{part} jobs, {span(now)} played; Ctrl-C to stop here")
        return not stopped

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield keep_on
    finally:
        status.stop()
        signal.signal(signal.SIGINT, before)


def _show(played: "Played", found: "Report", plot: str) -> None:
    from penstock.simulate.words import per_unit, percent, span

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
    print("\nWaiting times")
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


def _answer(played: "Played", found: "Report") -> list[str]:
    """Return what most people want to know."""
    from penstock.simulate.report import verdict
    from penstock.simulate.words import span

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


def _counts(found: "Report") -> str:
    parts = {"running": found.running, "waiting": found.waiting, "dropped": found.dropped}
    rest = [f"{number:,} {name}" for name, number in parts.items() if number]
    return ", ".join([f"{found.arrived:,} arrived", f"{found.done:,} done", *rest])


def _row(limit: str, waits: "Waits") -> tuple[str, ...]:
    from penstock.simulate.words import span

    times = (waits.mean, waits.p50, waits.p90, waits.p99, waits.longest)
    counts = (f"{waits.arrived:,}", str(waits.dropped or ""), str(waits.still or ""))
    return (waits.name, limit, *counts, *(span(time) for time in times))
