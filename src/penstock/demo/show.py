"""Show scenarios to people, at whatever width they have, and to programs as JSON."""

import re
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.clock import SECOND
from penstock.demo.checks import Verdict
from penstock.demo.measure import handovers
from penstock.demo.run import Played
from penstock.demo.scenarios import THREADS, Scenario, Setting
from penstock.demo.timeline import Row, draw

WIDEST: Final = 112
NARROW: Final = 90
MARGIN: Final = 3
COUNTED: Final = ("jobs", "calls", "dropped", "re-used", "time", "ideal")
COLUMNS: Final = ("", "jobs", "calls", "dropped", "re-used", "measured", "time", "ideal", " ")
COLOURS: Final = ("cyan", "green", "magenta", "yellow")
_BAR: Final = re.compile("▐[^▌]*▌")
_CLASH: Final = re.compile("▐▒[^▌]*▌")


def opening(console: Console, setting: Setting, *, drawn: bool) -> None:
    """Say what is on stage and, if scenarios will be *drawn*, how to read them."""
    many = "1 worker process" if setting.workers == 1 else f"{setting.workers} worker processes"
    text = f"A provider that takes 0.4 s for a call; {many} of {THREADS} threads; one SQLite file. "
    if drawn:
        text += (
            "Bars are calls in flight as the provider saw them, numbered in the order they were enqueued; "
            "light bars collided with a call of the same account. "
        )
    text += (
        "Starts are judged by when handlers begin; “at the door” is when their calls reached the provider."
    )
    console.print(text, style="dim", width=_width(console))


def watched(console: Console, page: str, *, over: bool = False) -> None:
    """Say where the monitor is, at the beginning and when all is *over*."""
    told = "The monitor goes on until Ctrl-C:" if over else "Watch it:"
    console.print()
    console.print(Text.assemble((told, "bold"), " ", (page, "cyan")), soft_wrap=True)


def heading(console: Console, scenario: Scenario) -> None:
    """Name a scenario and its rule."""
    console.print()
    console.print(Text.assemble((scenario.letter, "bold reverse"), "  ", (scenario.title, "bold")))
    console.print(Padding(Text(scenario.rule, "dim"), (0, 0, 0, MARGIN), expand=False))


def detail(console: Console, played: Played) -> None:
    """Draw one scenario and tell what was promised and kept."""
    console.print()
    label = max(len(account) for account in played.seen.accounts) + 2
    colours = dict(zip(played.seen.accounts, COLOURS, strict=False))
    for row in draw(played.seen, _width(console) - MARGIN - label):
        console.print(Text(" " * MARGIN) + _line(row, label, colours.get(row.account, "dim")), no_wrap=True)
    console.print()
    console.print(Padding(_totals(played), (0, 0, 0, MARGIN), expand=False))
    for verdict in played.verdicts:
        console.print(Padding(_judged(verdict), (0, 0, 0, MARGIN), expand=False))


def brief(console: Console, played: Played) -> None:
    """Tell the outcome of one scenario of many rounds in one line."""
    figures = ", ".join(verdict.figure for verdict in played.verdicts if verdict.severity is not None)
    line = f"{played.round:>3}  {played.scenario.letter} {played.scenario.name:<7} {_seconds(played.seen.elapsed):>7}"
    console.print(Text.assemble(_mark(kept=played.kept), f"{line}  {figures}"), no_wrap=True)
    for verdict in played.verdicts:
        if not verdict.kept:
            console.print(Padding(_judged(verdict), (0, 0, 0, MARGIN), expand=False))


def summary(console: Console, results: Sequence[Played]) -> None:
    """Sum everything up in one table."""
    table = Table(
        box=None, header_style="dim", pad_edge=False, padding=(0, 2 if console.width > NARROW else 1, 0, 0)
    )
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in COUNTED else "left", no_wrap=True)
    for rounds in _by_scenario(results):
        table.add_row(*_summary_row(rounds))
    console.print()
    console.print(table)
    console.print()
    broken = [played for played in results if not played.kept]
    told = "Every limit was kept and every count is right."
    if broken:
        named = ", ".join(dict.fromkeys(played.scenario.letter for played in broken))
        told = f"BROKEN: {len(broken)} of {len(results)} did not come out as promised ({named})."
    console.print(Text(told, "bold red" if broken else "bold green"))


def document(setting: Setting, results: Iterable[Played]) -> dict[str, object]:
    """Return everything as plain values for JSON."""
    played = list(results)
    return {
        "ok": all(each.kept for each in played),
        "workers": setting.workers,
        "spacing_ms": setting.spacing / 1000,
        "scenarios": [_plain(each) for each in played],
    }


def _width(console: Console) -> int:
    return min(console.width, WIDEST)


def _line(row: Row, label: int, colour: str) -> Text:
    name = row.account if row.first else ""
    line = Text(name.ljust(label), colour)
    bars = Text(row.bars, "dim" if not row.account else "")
    bars.highlight_regex(_BAR, colour)
    bars.highlight_regex(_CLASH, "red")
    line.append_text(bars)
    if row.remark:
        line.append(f"  {row.remark}", "dim")
    return line


def _totals(played: Played) -> Text:
    seen = played.seen
    over = (seen.elapsed - played.ideal) * 100 / played.ideal
    times = f"{_seconds(seen.elapsed)}, ideal {_seconds(played.ideal)} ({over:+.0f} %)"
    return Text(f"{len(seen.requests)} enqueued; all ended after {times}")


def _judged(verdict: Verdict) -> Text:
    line = Text.assemble(_mark(kept=verdict.kept), verdict.promise)
    # Where nothing is measured, the promise says it all if it was kept.
    if verdict.severity is not None or not verdict.kept:
        line.append(f": {verdict.figure}", "bold")
    if verdict.remark:
        line.append(f" ({verdict.remark})", "dim")
    return line


def _mark(*, kept: bool) -> tuple[str, str]:
    return ("ok      ", "green") if kept else ("BROKEN  ", "bold red")


def _by_scenario(results: Iterable[Played]) -> Iterable[list[Played]]:
    groups: dict[str, list[Played]] = {}
    for played in results:
        groups.setdefault(played.scenario.letter, []).append(played)
    return groups.values()


def _summary_row(rounds: Sequence[Played]) -> Iterable[str | Text]:
    first = rounds[0]
    kept = sum(played.kept for played in rounds)
    times = [played.seen.elapsed for played in rounds]
    counted = (
        [len(played.seen.requests) for played in rounds],
        [len(played.seen.calls) for played in rounds],
        [played.seen.dropped.total() for played in rounds],
        [played.seen.reused.total() for played in rounds],
    )
    well = "ok" if len(rounds) == 1 else f"{kept} ok"
    verdict = Text(well, "green") if kept == len(rounds) else Text("BROKEN", "bold red")
    yield f"{first.scenario.letter} {first.scenario.name}"
    yield from map(_spread, counted)
    yield ", ".join(_worst(rounds))
    yield _seconds(int(median(times)))
    yield _seconds(first.ideal)
    yield verdict


def _spread(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return (str(most) if most else "") if least == most else f"{least}-{most}"


def _worst(rounds: Sequence[Played]) -> Iterable[str]:
    for verdicts in zip(*(played.verdicts for played in rounds), strict=True):
        severe = [(verdict.severity, verdict.figure) for verdict in verdicts if verdict.severity is not None]
        if severe:
            yield max(severe)[1]


def _seconds(span: int) -> str:
    return f"{span / SECOND:.2f} s"


def _plain(played: Played) -> dict[str, object]:
    seen, first = played.seen, min((call.arrived for call in played.seen.calls), default=0)
    return {
        "round": played.round,
        "scenario": played.scenario.letter,
        "name": played.scenario.name,
        "rule": played.scenario.rule,
        "ok": played.kept,
        "enqueued": len(seen.requests),
        "calls": len(seen.calls),
        "dropped": seen.dropped.total(),
        "reused": seen.reused.total(),
        "errors": list(seen.errors),
        "seconds": seen.elapsed / SECOND,
        "ideal_seconds": played.ideal / SECOND,
        "handover_ms": [span / 1000 for span in handovers(seen.calls)],
        "checks": [
            {
                "ok": verdict.kept,
                "promise": verdict.promise,
                "measured": verdict.figure,
                "remark": verdict.remark,
            }
            for verdict in played.verdicts
        ],
        "timeline": [
            {
                "account": call.account,
                "op": call.op,
                "began": (call.began - first) / SECOND,
                "arrived": (call.arrived - first) / SECOND,
                "ended": (call.ended - first) / SECOND,
                "collided": call.collided,
            }
            for call in seen.calls
        ],
    }
