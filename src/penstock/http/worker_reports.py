"""Tell the store, every ten seconds, of the workers that were heard from over other protocols."""

import asyncio
import logging
from typing import Any, Final

from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.http.engine_service import EngineService
from penstock.http.worker_registry import KnownWorker, WorkerRegistry
from penstock.job import TELLS_EVERY, WorkerReport

MOST: Final = 1_000  # workers told of in one transaction
_QUIET: Final = {"quiet", "terminate", "draining"}

log = logging.getLogger("penstock.server")


class WorkerReports:
    """Writes down who was heard from since the last time."""

    def __init__(self, service: EngineService) -> None:
        self._service = service
        self._told_at = 0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def end(self) -> None:
        """Tell no more."""
        if self._task is not None:
            self._task.cancel()

    async def tell(self) -> None:
        """Tell of the workers that were heard from since this was called last."""
        since, self._told_at = self._told_at, self._service.engine.clock.now()
        members = [one for one in self._service.part(WorkerRegistry).of(None) if one.seen >= since]
        for begin in range(0, len(members), MOST):
            reports = [_report(member) for member in members[begin : begin + MOST]]
            await self._service.run(lambda engine, reports=reports: engine.hear(reports))  # type: ignore[misc]

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TELLS_EVERY / SECOND)
            try:
                await self.tell()
            except PenstockError as error:
                log.warning("workers could not be written down: %s", error)
            except Exception:
                log.exception("workers could not be written down")


def _report(member: KnownWorker) -> WorkerReport:
    facts = member.facts
    hands, pid = (_whole(facts.get(name)) for name in ("concurrency", "pid"))
    queues = facts.get("queues")
    return WorkerReport(
        member.id,
        str(facts.get("hostname") or ""),
        pid,
        tuple(map(str, queues)) if isinstance(queues, list) else (),
        (),
        hands,
        member.active,
        "",
        member.began,
        "quiet" if member.resting or member.state in _QUIET else "running",
        member.tenant,
    )


def _whole(value: Any) -> int | None:  # noqa: ANN401 - anything may have been said
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None
