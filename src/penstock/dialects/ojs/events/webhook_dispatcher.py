"""Deliver events to all webhooks, none in the way of another.

Each server delivers what was done through it.
"""

import asyncio
import logging
from typing import Final

from penstock.dialects.ojs.events.event_format import shown
from penstock.dialects.ojs.events.webhook_delivery import WebhookDelivery
from penstock.errors import PenstockError
from penstock.http.engine_service import EngineService
from penstock.http.feed import FeedEntry

REFRESH: Final = 2.0  # seconds after which another server's changes are seen

log = logging.getLogger("penstock.webhooks")


class WebhookDispatcher:
    """The deliveries to all active webhooks of the store."""

    def __init__(self, service: EngineService) -> None:
        self._service = service
        self._subscribers: dict[str, WebhookDelivery] = {}
        self._task: asyncio.Task[None] | None = None
        self._read = 0
        service.feed.follow(self._offer)
        service.at_start.append(self._begin)
        service.at_end.append(self._end)
        service.keep(self)

    def of(self, tenant: str | None) -> list[WebhookDelivery]:
        """Return the deliveries to the webhooks of a tenant, or to all."""
        return [
            each for each in self._subscribers.values() if tenant is None or each.webhook.tenant == tenant
        ]

    async def refresh(self) -> None:
        """Read the webhooks from the store again."""
        self._read += 1
        number = self._read
        webhooks = await self._service.run(lambda engine: engine.webhooks())
        if number < self._read:
            return  # a later call reads newer rows
        active = {webhook.id: webhook for webhook in webhooks if webhook.active}
        for id_ in self._subscribers.keys() - active.keys():
            self._subscribers.pop(id_).close()
        for id_, webhook in active.items():
            known = self._subscribers.get(id_)
            if known is None:
                self._subscribers[id_] = WebhookDelivery(self._service, webhook)
            elif known.webhook != webhook:
                known.become(webhook)

    def _offer(self, entry: FeedEntry) -> None:
        if self._subscribers:
            for event in shown(entry):
                if not event.live:
                    for subscriber in self._subscribers.values():
                        if subscriber.wanted.takes(event):
                            subscriber.offer(event)

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._follow())

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for subscriber in self._subscribers.values():
            subscriber.close()

    async def _follow(self) -> None:
        while True:
            try:
                await self.refresh()
            except PenstockError:
                pass  # the store cannot be reached: the known webhooks stay
            except Exception:
                log.exception("the webhooks cannot be read, trying again")
            await asyncio.sleep(REFRESH)
