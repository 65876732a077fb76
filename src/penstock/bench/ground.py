"""Where a run takes place: its stores, its size, and what was found so far."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from penstock.bench.place import Place, place_for
from penstock.engine import Engine, open_engine
from penstock.job import NewJob
from penstock.limits.rules import Limit

BATCH: Final = 5_000


@dataclass(slots=True)
class Ground:
    """A place to run workloads, and a folder on the disk of this machine."""

    quick: bool
    folder: Path
    place: Place
    rates: dict[str, float] = field(default_factory=dict)

    def size(self, full: int, quick: int) -> int:
        """Choose how much to do."""
        return quick if self.quick else full

    def url(self, name: str) -> str:
        """Return where a new store is to be; what was there is removed."""
        self.clear(name)
        return self.place.url(name)

    def clear(self, name: str) -> None:
        """Remove the store *name*, so that the disk holds one big store at a time."""
        self.place.clear(name)

    def say(self, text: str) -> None:
        """Tell whoever waits how far the run is."""
        print(text, file=sys.stderr, flush=True)


@contextmanager
def prepared(store: str, *, quick: bool) -> Iterator[Ground]:
    """Prepare the ground in *store*, or in a folder; whatever happens, all that was made is removed."""
    with TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with closing(place_for(store, folder)) as place:
            yield Ground(quick, folder, place)


def opened(url: str) -> closing[Engine]:
    """Open the store at *url* for the length of a `with` block."""
    return closing(open_engine(url))


def fill(url: str, jobs: Iterable[NewJob]) -> int:
    """Enqueue *jobs* in batches; return how many."""
    with opened(url) as engine:
        return sum(len(engine.enqueue(batch)) for batch in batches(jobs, BATCH))


def job(handler: str, *args: int, limits: tuple[Limit, ...] = ()) -> NewJob:
    """Make a job for one of the handlers in `child`."""
    return NewJob(f"bench.{handler}", f'{{"args":{list(args)},"kwargs":{{}}}}', limits=limits)


def batches(jobs: Iterable[NewJob], size: int) -> Iterator[list[NewJob]]:
    """Cut *jobs* into lists of *size*."""
    rest = iter(jobs)
    while batch := list(islice(rest, size)):
        yield batch
