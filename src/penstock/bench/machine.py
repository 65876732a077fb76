"""What the figures were measured on.

A shared machine swings by a factor of two and more; these numbers say how it did during the run.
"""

import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.bench.store_factory import StoreFactory

_SYNCS: Final = 200


@dataclass(slots=True)
class Machine:
    """The machine before and after the workloads; *stores* say what they run on, if all run on the same."""

    folder: Path
    stores: StoreFactory | None = None
    load: list[float] = field(default_factory=list)
    syncs: list[float] = field(default_factory=list)
    loops: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Measure the machine as it is now."""
        self.load.append(os.getloadavg()[0])
        self.syncs.append(syncs_per_second(self.folder))
        self.loops.append(_loops_per_second())

    @property
    def plain(self) -> dict[str, object]:
        return {
            "python": platform.python_version(),
            **({} if self.stores is None else self.stores.facts),
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
        store = "" if self.stores is None else f"{self.stores.phrase}, "
        return (
            f"Python {platform.python_version()}, {store}{os.cpu_count()} cores, load {load}, {syncs} fdatasync/s, "
            f"{loops} M loops/s"
        )


def syncs_per_second(folder: Path) -> float:
    """Return how often a page can be flushed to the disk under *folder*."""
    path = folder / "sync"
    with path.open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(_SYNCS):
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
        spent = time.perf_counter() - began
    path.unlink()
    return _SYNCS / spent


def _loops_per_second() -> float:
    began = time.perf_counter()
    for _ in range(1_000_000):
        pass
    return 1 / (time.perf_counter() - began)
