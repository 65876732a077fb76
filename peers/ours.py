"""Penstock's own workloads, run by its own command on a fresh database of the same server."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from peers.environments import NotInstalledError
from peers.results import OURS, Result
from peers.slow_flush import MILLISECONDS
from peers.stores import SLOW, Stores
from penstock.bench import cluster
from penstock.bench.figures import Figure, at_least
from penstock.bench.report import plain
from penstock.bench.run_context import prepared
from penstock.bench.worker_processes import WorkerLostError

BOUND: Final = 900.0

# Penstock's names for what peers are measured by too, and for what only penstock is asked.
_NAMES: Final = {
    "one by one, one caller": "one by one",
    "in bulk of 1,000, one caller": "in bulk",
    "one by one, 16 threads": "16 callers",
    "drain, async handlers": "drain",
    "1 ms jobs, 100 keys of one slot": "keyed",
    "worker, 0 blocked": "0 blocked",
    "worker, 10,000 blocked": "10,000 blocked",
    "worker, 100,000 blocked": "100,000 blocked",
    "worker, 1,000,000 blocked": "1,000,000 blocked",
    "worst second, 1 process": "worst second",
    "use of the limit over 10 s, 1 process": "use of the limit",
}
# Figures that count broken limits, and the measure they belong to.
_BROKEN: Final = {
    "overlaps seen by handlers": "keyed",
    "blocked jobs that ran": "0 blocked",
    "overlaps in one key": cluster.MANY.name,
}
SLOW_FLUSH: Final = f"{cluster.MANY.name}, a flush takes {MILLISECONDS} ms"
_KEPT: Final = 0.6  # of the rate, on a slow flush


class NotMeasuredError(Exception):
    """Penstock's own command gave no figures."""


def measure_ours(stores: Stores, workloads: Sequence[str]) -> list[Result]:
    """Run *workloads* once."""
    with stores.fresh("postgres") as url:
        return _results(_figures(workloads, "--store", url))


def measure_on_sqlite() -> list[Result]:
    """Run what W3 promises of SQLite, a share of W2, once."""
    found = _results(_figures(("W2", "W3")))
    for result in found:
        result.measure, result.own_name = f"{result.measure}, on SQLite", f"{result.own_name}, on SQLite"
    return [result for result in found if result.workload == "W3"]


def measure_together(stores: Stores, *, quick: bool) -> list[Result]:
    """Run one turn of W16, and its greatest number of processes on a slow flush."""
    try:
        return _together(stores, quick=quick)
    except (TimeoutError, WorkerLostError) as error:
        raise NotMeasuredError(str(error)) from error


def _together(stores: Stores, *, quick: bool) -> list[Result]:
    with stores.fresh("postgres") as url, prepared(url, quick=quick) as context:
        turn = cluster.turn(context, cluster.CASES)
    found = _results([plain(figure) for figure in cluster.figures([turn])])
    try:
        with stores.fresh(SLOW) as url, prepared(url, quick=quick) as context:
            slow = cluster.turn(context, [cluster.MANY])
    except NotInstalledError as error:
        return [*found, Result(OURS, "W16", SLOW_FLUSH, "jobs/s", note=f"not run: {error}")]
    rate = slow.rates[cluster.MANY]
    kept = rate / turn.rates[cluster.MANY]
    figures = [
        Figure("W16", SLOW_FLUSH, rate, "jobs/s"),
        Figure("W16", f"{SLOW_FLUSH} / without", kept, "x", at_least(kept, _KEPT)),
    ]
    ours = _results([plain(figure) for figure in figures])
    ours[0].broken = slow.overlaps
    return found + ours


def _figures(workloads: Sequence[str], *options: str) -> list[dict[str, Any]]:
    command = [Path(sys.executable).with_name("penstock"), "bench", "--json", *options, *workloads]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotMeasuredError(f"did not end within {BOUND:.0f} s") from error
    try:
        return json.loads(done.stdout)["figures"]
    except ValueError as error:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        raise NotMeasuredError(f"ended with status {done.returncode}: {last}") from error


def _results(figures: list[dict[str, Any]]) -> list[Result]:
    broken = {
        (figure["workload"], _BROKEN[figure["name"]]): int(figure["value"])
        for figure in figures
        if figure["name"] in _BROKEN
    }
    found = []
    for figure in figures:
        value, unit, workload = figure["value"], figure["unit"], figure["workload"]
        measure = _NAMES.get(figure["name"], figure["name"])
        if workload == "W4" and unit == "ms":
            value, unit = value / 1_000, "s"
        result = Result(OURS, workload, measure, unit, [value], own_name=figure["name"])
        result.broken = broken.get((workload, measure))
        if "target" in figure:
            result.wanted, result.met, result.promise = figure["target"], [figure["met"]], figure["promise"]
        found.append(result)
    return found
