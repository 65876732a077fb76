"""The machine before and after the run: how often it flushes, and how fast it counts."""

import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.bench.machine import syncs_per_second


@dataclass(slots=True)
class Machine:
    """What the figures were measured on."""

    folder: Path
    load: list[float] = field(default_factory=list)
    syncs: list[float] = field(default_factory=list)
    loops: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Measure the machine as it is now."""
        self.load.append(os.getloadavg()[0])
        self.syncs.append(syncs_per_second(self.folder))
        began = time.perf_counter()
        for _ in range(1_000_000):
            pass
        self.loops.append(1 / (time.perf_counter() - began))

    @property
    def plain(self) -> dict[str, Any]:
        return {
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": [round(load, 2) for load in self.load],
            "fdatasync_per_second": [round(rate) for rate in self.syncs],
            "million_loops_per_second": [round(rate, 1) for rate in self.loops],
        }

    @property
    def sentence(self) -> str:
        load, syncs, loops = (
            " to ".join(f"{value:,.{digits}f}" for value in values)
            for values, digits in ((self.load, 1), (self.syncs, 0), (self.loops, 0))
        )
        return (
            f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load}, {syncs} fdatasync/s, "
            f"{loops} M loops/s"
        )
