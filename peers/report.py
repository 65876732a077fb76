"""Show what was found: as tables for the terminal, as Markdown for the documentation, as JSON for programs."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

from peers.catalogue import NODE, PEERS, PYTHON
from peers.ours import SLOW_FLUSH
from peers.picture import TITLE, by_processes
from peers.results import OURS, Result, Results
from peers.verdicts import Verdict
from peers.workloads import FLOW_STEPS
from penstock.bench.cluster import AT_ONCE, KEYS, LONG, MANY, SHARED, SHORT
from penstock.bench.machine import Machine
from penstock.bench.pickup import CASES, PERCENTS
from penstock.bench.workers import process_count

_TOGETHER: Final = f"{MANY.processes} processes of {AT_ONCE} at once, {KEYS:,} keys of one slot"
PICTURE: Final = "by-processes.svg"
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
    ("W16", MANY.name): f"{_TOGETHER}, 1 ms handlers",
    ("W16", LONG.name): f"{_TOGETHER}, 20 ms handlers (they could do {LONG.most:,.0f})",
    ("W16", SLOW_FLUSH): f"{_TOGETHER}, 1 ms handlers, a flush takes 2 ms",
    ("W16", SHARED.name): f"{_TOGETHER} and a shared rate of 5,000 a second, 1 ms handlers",
}
DOCUMENT: Final = "Beside its peers"
HOW: Final = """
- Every peer has a fresh database (huey a file, dramatiq an emptied Redis) with statistics gathered once it is filled.
- Penstock's figures are those of `penstock bench` on the same server, which counts in the same way.
- W1: jobs per second handed in when each call has returned; in bulk, 1,000 jobs a call.
- W1, W2, W3, W6, W16: three rounds, in which penstock and its peers take turns; a ratio is the median of the rounds'
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
- W16: worker processes that begin at one word, each with ten jobs at once by the peer's own setting; the jobs of a key
  lie 1,000 apart in the line.  From the first begin of a handler until the last end of one, in whichever process; a
  peer is stopped after 10 s.  Handlers note the key, begin and end by a clock that all processes share, and
  afterwards it is counted how many began before another of their key had ended.  On a flush of 2 ms: another server,
  in which every fdatasync takes that long.
"""
WIDTH: Final = 140  # of a report that goes to a file
PROCESSES: Final = {case.name: process_count(case.processes) for case in SHORT}
TO_THE_RIGHT: Final = {"value", "found", f"{OURS} / it", "limits broken", *PROCESSES.values()}
COLOURS: Final = {"ok": "green", "missed": "yellow"}


class Section(NamedTuple):
    """A table and its title."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    picture: str = ""


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
        for section in (*self._measures(), *self._processes(), self._targets()):
            console.print(f"[bold]{section.title}[/]")
            console.print(_table(section))
            console.print()

    def markdown(self, level: int = 1) -> str:
        """Return everything as a document, or as a part of one whose title is of *level*."""
        mark = "#" * level
        lines = [
            f"{mark} {DOCUMENT}",
            "",
            "Written by `make bench-peers`, all in one run and on one server: every peer in a fresh database,",
            "at its best settings, which are at the end.",
            "",
            f"{self._sentence}.",
        ]
        for section in (self._targets(), *self._measures(), *self._processes(), _settings()):
            lines += ["", f"{mark}# {section.title}", "", *_markdown(section)]
        return "\n".join([*lines, "", f"{mark}# How", HOW])

    @property
    def pictures(self) -> dict[str, str]:
        """The pictures that the document shows, by the names of their files."""
        drawn = by_processes(self._plain["results"])
        return {PICTURE: drawn} if drawn else {}

    @property
    def json(self) -> str:
        return json.dumps(self._plain, indent=2) + "\n"

    @property
    def _plain(self) -> dict[str, Any]:
        settings = {peer.name: peer.settings_for for peer in PEERS}
        results = [
            {**each.plain, "settings": settings[each.who](each.workload) if each.who in settings else {}}
            for each in self.results
        ]
        return {
            "machine": self.machine.plain,
            "server": self.server,
            "versions": {**PYTHON, **NODE},
            "results": results,
            "targets": [verdict.plain for verdict in self.verdicts],
        }

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

    def _processes(self) -> Iterator[Section]:
        names = dict.fromkeys(
            result.who for case in SHORT for result in self.results.of("W16", case.name) if result.runs
        )
        if names:
            header = ("", *PROCESSES.values(), "unit")
            rows = [(who, *(self._rate(who, measure) for measure in PROCESSES), "jobs/s") for who in names]
            yield Section("W16: the same by the number of processes, 1 ms handlers", header, rows, PICTURE)

    def _rate(self, who: str, measure: str) -> str:
        result = self.results.get(who, "W16", measure)
        return _number(result.value if result else None)

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
    table = [f"| {' | '.join(row)} |" for row in (section.header, rules, *section.rows)]
    return [*table, "", f"![{TITLE}]({section.picture})"] if section.picture else table


def _code(settings: object) -> str:
    return f"`{json.dumps(settings)}`"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.2f}"
