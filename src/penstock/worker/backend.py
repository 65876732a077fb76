"""What a worker asks of an engine, and nothing more."""

from collections.abc import Collection, Sequence
from typing import Protocol

from penstock.clock import Clock
from penstock.job import Ahead, Beat, Claim, Refresh, Settled, Settlement, Spending, UnknownTask, WorkerReport
from penstock.lifecycle.states import State


class Backend(Protocol):
    """The verbs of an engine that a worker uses; each blocks, and any thread may call it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def overlaps(self) -> bool: ...

    def claim(
        self,
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int,
        grace: int,
        tenant: str | None = None,
        tasks: Sequence[str] | None = None,
        ahead: Ahead | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> Claim: ...

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]: ...

    def exchange(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int,
        grace: int,
        tenant: str | None = None,
        tasks: Sequence[str] | None = None,
        ahead: Ahead | None = None,
        relay: Sequence[tuple[str, int]] = (),
        standby: int = 0,
    ) -> tuple[list[Settled], Claim]: ...

    def begun(self, reports: Sequence[tuple[int, int, int]]) -> None: ...

    def heartbeat(self, attempts: Sequence[tuple[int, int]], *, lease: int) -> list[Beat]: ...

    def progress(self, seq: int, fence: int, value: str, /) -> bool: ...

    def spend(self, reports: Sequence[Spending]) -> list[bool]: ...

    def count(
        self, *, queue: str | None = None, tenant: str | None = None, tasks: Sequence[str] | None = None
    ) -> dict[State, int]: ...

    def timers(self, queues: Sequence[str], tenant: str | None = None, /) -> int: ...

    def unknown_tasks(self, queues: Sequence[str] | None = None, /) -> list[UnknownTask]: ...

    def hear(self, reports: Sequence[WorkerReport]) -> list[str]: ...

    def upkeep(self) -> dict[str, int]: ...

    def prune(self, older_than: int, most: int | None = None, /) -> int: ...

    def refreshes(
        self, handlers: Collection[str], count: int, *, worker: str, lease: int
    ) -> list[Refresh]: ...

    def renew_refreshes(self, lent: Sequence[tuple[int, int]], *, lease: int) -> list[bool]: ...

    def refreshed(self, refresh: Refresh, *, value: int | None = None, error: str = "") -> bool: ...

    def revision(self) -> int: ...

    def wait(self, revision: int, timeout: float) -> int: ...
