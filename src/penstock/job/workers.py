"""Workers, as they tell of themselves."""

from typing import Final

from msgspec import Struct

TELLS_EVERY: Final = 10_000_000  # microseconds between two reports of a worker
SILENT_AFTER: Final = 3 * TELLS_EVERY  # a worker that was not heard from for so long may be gone
ENDED: Final = "ended"


class WorkerReport(Struct, frozen=True):
    """What a worker tells of itself: where it is, what it claims, and how many jobs it runs with how many *hands*.

    Its *state* is "running", "quiet" (it claims nothing), "stopping", or "ended", after which it is forgotten.
    Those of other protocols may leave out what they do not know.
    """

    name: str
    host: str = ""
    pid: int | None = None
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    hands: int | None = None
    running: int = 0
    version: str = ""
    began: int = 0
    state: str = "running"
    tenant: str = ""


class WorkerView(Struct, frozen=True):
    """A worker, and when it was last *heard* from."""

    report: WorkerReport
    heard: int
