"""Show what was found: as tables for the terminal, as Markdown for the documentation, as JSON for programs."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

from peers.catalogue import NODE, PEERS, PYTHON
from peers.results import OURS, Result, Results
from peers.verdicts import Verdict
from peers.workloads import FLOW_STEPS
from penstock.bench.machine import Machine
from penstock.bench.pickup import CASES, PERCENTS

TITLES: Final = {
    ("W1", "one by one"): "enqueue one by one, one caller",
    ("W1", "in bulk"): "enqueue in bulk, one caller",
    ("W1", "16 callers"): "enqueue one by one, 16 callers at once",
    ("W2", "drain"): "drain 20,000 no-op jobs, one worker process",
    ("W3", "keyed"): "5,000 jobs of 1 ms, one at a time for each of 100 keys",
    ("W4", "0 blocked"): "1,000 free jobs, none blocked",
    ("W4", "10,000 blocked"): "1,000 free jobs behind 10,000 blocked ones",
    ("W4", "100,000 blocked"): "1,000 free jobs behind 100,000 blocked ones",
    ("W4", "1,000,000 blocked"): "1,000 free jobs behind 1,000,000 blocked ones",
    ("W5", "worst second"): "200 starts a second allowed: most seen in any second",
    ("W5", "use of the limit"): "200 starts a second allowed: how much of it was used in 10 s",
    ("W15", FLOW_STEPS[1]): "durable workflows of one step that does nothing, one process",
    ("W15", FLOW_STEPS[5]): "the same, of five steps",
    **{
        ("W6", f"p{percent}, {case.name}"): f"from enqueue to handler, p{percent} of jobs {case.name}"
        for case in CASES
        for percent in PERCENTS
    },
}
HOW: Final = """
- Every peer has a fresh database (huey a file, dramatiq an emptied Redis) with statistics gathered once it is filled.
- Penstock's figures are those of `penstock bench` on the same server, which counts in the same way.
- W1: jobs per second handed in when each call has returned; in bulk, 1,000 jobs a call.
- W1, W2, W3, W6: three rounds, in which penstock and its peers take turns; a ratio is the median of the rounds'
  ratios.  Those that are slow, and not the best of their kind, are in fewer rounds.
- W2, W3: from the first start until the store has no unfinished job; huey, which keeps no account of running jobs,
  until the last start.  A peer is stopped after 20 s (W2) or 15 s (W3).
- W3, W4: handlers count how often they ran beside another of the same key.
- W4: from the beginning of the worker's work until 1,000 free jobs are done, behind jobs that wait for a busy key.
- W5: starts as the handlers saw them, with 4,000 jobs waiting.
- W6: from just before the call until the handler's first line, the caller in another process, the workers idle.
  Jobs come at random moments, 20 ms, 100 ms or 1 s apart on average (150, 40 and 10 of them, so p99 is nearly the
  slowest), for one and for four worker processes.
- W15: from the first step until all workflows have ended; penstock's were started before, DBOS's are started meanwhile.
"""
WIDTH: Final = 140  # of a report that goes to a file
TO_THE_RIGHT: Final = {"value", "found", f"{OURS} / it", "limits broken"}
COLOURS: Final = {"ok": "green", "missed": "yellow"}


class Section(NamedTuple):
    """A table and its title."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Report:
    """All that there is to show."""

    results: Results
    verdicts: Sequence[Verdict]
    machine: Machine
    server: dict[str, str]

    def show(self) -> None:
        """Print everything but the settings, which do not change from run to run."""
        console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
        console.print(f"{self._sentence}\n", style="dim")
        for section in (*self._measures(), self._targets()):
            console.print(f"[bold]{section.title}[/]")
            console.print(_table(section))
            console.print()

    @property
    def markdown(self) -> str:
        lines = [
            "# Beside its peers",
            "",
            "Written by `make bench-peers`, all in one run and on one server: every peer in a fresh database,",
            "at its best settings, which are at the end.",
            "",
            f"{self._sentence}.",
        ]
        for section in (self._targets(), *self._measures(), _settings()):
            lines += ["", f"## {section.title}", "", *_markdown(section)]
        return "\n".join([*lines, "", "## How", HOW])

    @property
    def json(self) -> str:
        settings = {peer.name: peer.settings_for for peer in PEERS}
        results = [
            {**each.plain, "settings": settings[each.who](each.workload) if each.who in settings else {}}
            for each in self.results
        ]
        plain: dict[str, Any] = {
            "machine": self.machine.plain,
            "server": self.server,
            "versions": {**PYTHON, **NODE},
            "results": results,
            "targets": [verdict.plain for verdict in self.verdicts],
        }
        return json.dumps(plain, indent=2) + "\n"

    @property
    def _sentence(self) -> str:
        settings = {**self.server}
        version = settings.pop("server_version")
        set_to = ", ".join(f"{name} {value}" for name, value in settings.items())
        return f"PostgreSQL {version} ({set_to}); {self.machine.sentence}"

    def _measures(self) -> Iterator[Section]:
        for (workload, measure), title in TITLES.items():
            rows = [self._row(result) for result in self.results.of(workload, measure)]
            if rows:
                header = ("", "value", "unit", f"{OURS} / it", "limits broken", "")
                yield Section(f"{workload}: {title}", header, rows)

    def _row(self, result: Result) -> Sequence[str]:
        ratio = self.results.ratio(result.workload, result.measure, result.who)
        return (
            result.who,
            _number(result.value),
            result.unit if result.runs else "",
            "" if ratio is None or result.who == OURS else f"{ratio:.2f}",
            "" if result.broken is None else f"{result.broken:,}",
            _note(result),
        )

    def _targets(self) -> Section:
        rows = [
            (each.workload, each.text, each.wanted, _number(each.found), each.word) for each in self.verdicts
        ]
        return Section("Targets", ("", "target", "wanted", "found", ""), rows)


def _settings() -> Section:
    rows = []
    for peer in PEERS:
        own = [f"{workload} {_code(settings)}" for workload, settings in peer.own.items()]
        rows.append((peer.name, peer.version, "; ".join([_code(peer.settings), *own]), peer.note))
    rows += [(name, PYTHON[name][0].replace("==", " "), "as it comes", "") for name in ("node", "redis")]
    return Section("Settings", ("", "version", "settings", ""), rows)


def _note(result: Result) -> str:
    if len(result.runs) <= 1:
        return result.note
    spread = f"median of {len(result.runs)}, {_number(min(result.runs))} to {_number(max(result.runs))}"
    return f"{spread}; {result.note}" if result.note else spread


def _table(section: Section) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in section.header:
        table.add_column(name, justify="right" if name in TO_THE_RIGHT else "left")
    for row in section.rows:
        colour = COLOURS.get(row[-1])
        table.add_row(*row[:-1], f"[{colour}]{row[-1]}[/]" if colour else row[-1])
    return table


def _markdown(section: Section) -> list[str]:
    rules = ["--:" if name in TO_THE_RIGHT else "---" for name in section.header]
    return [f"| {' | '.join(row)} |" for row in (section.header, rules, *section.rows)]


def _code(settings: object) -> str:
    return f"`{json.dumps(settings)}`"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.2f}"
