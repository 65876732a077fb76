"""Where a run takes place: its stores, its size, and what was found so far."""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.bench.place import Place, place_for
from penstock.engine import Engine, open_engine
from penstock.job import NewJob
from penstock.limits.rules import Limit

BATCH: Final = 5_000


@dataclass(slots=True)
class Ground:
    """A place to run workloads, in *store* or in a folder; all that was made is removed at the end."""

    quick: bool
    store: str = ""
    folder: Path = field(init=False)
    place: Place = field(init=False)
    rates: dict[str, float] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        self.place = place_for(self.store, self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.place.close()

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
