"""Run workloads and report: `penstock bench`."""

import sys
import time
from collections.abc import Callable
from typing import Final

from penstock.bench import blocked, drain, enqueue, memory, pickup, rate
from penstock.bench.figures import Figure, broken
from penstock.bench.ground import Ground
from penstock.bench.machine import Machine
from penstock.bench.report import show_json, show_table

WORKLOADS: Final[dict[str, Callable[[Ground], list[Figure]]]] = {
    "W1": enqueue.run,
    "W2": drain.run_free,
    "W3": drain.run_keyed,
    "W4": blocked.run,
    "W5": rate.run,
    "W6": pickup.run,
    "W7": drain.run_many_keys,
    "MEM": memory.run,
}
# Draining a million jobs takes minutes, so it is run by name only.
DEFAULT: Final = tuple(name for name in WORKLOADS if name != "MEM")


def main(workloads: list[str], as_json: bool, quick: bool, store: str = "") -> int:
    """Run the named *workloads*; return 1 if a limit was broken, 2 if a name is unknown, else 0."""
    names = [name.upper() for name in workloads] or list(DEFAULT)
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        print(f"no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}", file=sys.stderr)
        return 2
    began = time.perf_counter()
    figures: list[Figure] = []
    with Ground(quick, store) as ground:
        machine = Machine(ground.folder, ground.place.facts)
        machine.look()
        for name in names:
            figures += WORKLOADS[name](ground)
        machine.look()
    if as_json:
        show_json(figures, machine, seconds=time.perf_counter() - began)
    else:
        show_table(figures, machine)
    return int(broken(figures))
