"""Where a run takes place: its stores, its size, and what was found so far."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from penstock.bench.store_factory import StoreFactory, factory_for
from penstock.engine import Engine, open_engine
from penstock.job import NewJob
from penstock.limits.rules import Limit

BATCH: Final = 5_000


@dataclass(slots=True)
class RunContext:
    """The stores of a run, its size, and a folder on the disk of this machine."""

    quick: bool
    folder: Path
    stores: StoreFactory
    rates: dict[str, float] = field(default_factory=dict)

    def size(self, full: int, quick: int) -> int:
        """Choose how much to do."""
        return quick if self.quick else full

    def url(self, name: str) -> str:
        """Return the address of a new store; what was there is removed."""
        self.clear(name)
        return self.stores.url(name)

    def clear(self, name: str) -> None:
        """Remove the store *name*, so that the disk holds one big store at a time."""
        self.stores.clear(name)

    def say(self, text: str) -> None:
        """Show how far the run is."""
        print(text, file=sys.stderr, flush=True)


@contextmanager
def prepared(store: str, *, quick: bool) -> Iterator[RunContext]:
    """Prepare the context in *store*, or in a folder; whatever happens, all that was made is removed."""
    with TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with closing(factory_for(store, folder)) as stores:
            yield RunContext(quick, folder, stores)


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
