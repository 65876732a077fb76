"""A worker inside the server for steps that the server itself runs.

It begins with the first sequence of the store, so a server without sequences has none.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.dialects.orch8.handlers.http_request import http_request
from penstock.dialects.orch8.handlers.outcomes import StepFailed
from penstock.dialects.orch8.handlers.signalling import emit_event, send_signal
from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.http.engine_service import EngineService
from penstock.sequences.gate_keys import resource_name
from penstock.sequences.handlers import SERVER_QUEUE, TAKE_START
from penstock.sequences.steps import REQUEST
from penstock.worker import Handler, Worker, current_job

CONCURRENCY: Final = 100  # requests at once
LOOK: Final = 1.0  # seconds after which a sequence of another server is seen
DRAIN: Final = 5  # seconds for requests that are under way when the server stops

log = logging.getLogger("penstock.server")


class ServerWorker:
    """Runs the steps of the server's queue, of all tenants."""

    def __init__(self, service: EngineService) -> None:
        self._service = service
        self._worker: Worker | None = None
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        service.at_start.append(self._look_out)
        service.at_end.append(self._end)
        service.keep(self)

    def begin(self) -> None:
        """Start to work, unless that was done."""
        if self._worker is not None:
            return
        handlers = {
            "http_request": Handler(self._http_request, is_async=True),
            "send_signal": Handler(self._of_engine(send_signal), is_async=True),
            "emit_event": Handler(self._of_engine(emit_event), is_async=True),
            TAKE_START: Handler(take_start, is_async=True),
        }
        self._worker = Worker(
            self._service.engine,
            handlers,
            queues=[SERVER_QUEUE],
            concurrency=CONCURRENCY,
            threads=1,
            drain_timeout=DRAIN,
            keep=None,
        )
        self._thread = threading.Thread(target=self._run, args=(self._worker,), name="server worker")
        self._thread.start()

    def _run(self, worker: Worker) -> None:
        try:
            worker.run()
        except PenstockError as error:
            log.error("steps are no longer run here: %s", error)  # noqa: TRY400 - the store is broken

    def _look_out(self) -> None:
        self._task = asyncio.ensure_future(self._until_needed())

    async def _until_needed(self) -> None:
        while self._worker is None:
            try:
                if await self._service.run(lambda engine: engine.sequences(limit=1)):
                    self.begin()
                    return
            except PenstockError:
                pass  # the store cannot be reached now
            await asyncio.sleep(LOOK)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._worker is not None and self._thread is not None:
            self._worker.stop()
            self._thread.join(2 * DRAIN)

    async def _http_request(self, **params: Any) -> dict[str, Any] | StepFailed:  # noqa: ANN401 - whatever the step says
        key = str(current_job().meta.get(REQUEST) or current_job().id)
        now, loopback = self._service.engine.clock.now(), self._service.loopback
        try:
            return await http_request(params, key, now, loopback=loopback)
        except StepFailed as failed:
            return failed  # nothing is wrong here: a traceback in the log would say so

    def _of_engine(
        self, work: Callable[[Engine, Mapping[str, Any], str], dict[str, Any]]
    ) -> Callable[..., Any]:
        async def handle(**params: Any) -> dict[str, Any] | StepFailed:  # noqa: ANN401 - whatever the step says
            try:
                return await asyncio.to_thread(work, self._service.engine, params, current_job().tenant)
            except StepFailed as failed:
                return failed

        return handle


async def take_start() -> str | None:
    """Return the resource that was taken with this start, if the step names a pool."""
    taken = current_job().resource
    return None if taken is None else resource_name(taken)
