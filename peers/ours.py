"""Penstock's own workloads, run by its own command on a fresh database of the same server."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from peers.results import OURS, Result
from peers.stores import Stores

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
_BROKEN: Final = {"overlaps seen by handlers": "keyed", "blocked jobs that ran": "0 blocked"}


class NotMeasuredError(Exception):
    """Penstock's own command gave no figures."""


def measure_ours(stores: Stores, workloads: Sequence[str]) -> list[Result]:
    """Run *workloads* once."""
    with stores.fresh("postgres") as url:
        command = [Path(sys.executable).with_name("penstock"), "bench", "--store", url, "--json", *workloads]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
        except subprocess.TimeoutExpired as error:
            raise NotMeasuredError(f"did not end within {BOUND:.0f} s") from error
    try:
        figures = json.loads(done.stdout)["figures"]
    except ValueError as error:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        raise NotMeasuredError(f"ended with status {done.returncode}: {last}") from error
    return _results(figures)


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
