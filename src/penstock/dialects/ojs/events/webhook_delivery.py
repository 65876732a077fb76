"""Deliver events to one webhook: signed, and tried again when it fails.

What is yet to be delivered is kept in memory, so much for each subscriber; the oldest goes when there is more.
"""

import asyncio
import hashlib
import hmac
import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from penstock import __version__
from penstock.clock import SECOND, monotonic
from penstock.dialects.ojs.events.event_filter import Wanted
from penstock.dialects.ojs.events.event_format import SOURCE, Shown
from penstock.dialects.ojs.format.names import VERSION, written
from penstock.errors import InvalidError
from penstock.http.engine_service import EngineService
from penstock.http.outbound_http import Answer, post
from penstock.ids import new_id
from penstock.job import Webhook

DELAYS: Final = (1, 5, 30, 120, 600, 3_600, 14_400)  # seconds before each further attempt
WAITING: Final = 1_000  # deliveries of one subscriber
AT_ONCE: Final = 4  # to one subscriber that answers well
REMEMBERED: Final = 100  # past deliveries of one subscriber
_LONGEST: Final = 3_600
_AGAIN: Final = (408, 425, 429)  # statuses of 4xx that are tried again
OK: Final = range(200, 300)
_BAD: Final = range(300, 500)

log = logging.getLogger("penstock.webhooks")


@dataclass(slots=True)
class Delivery:
    """One event on its way to one subscriber."""

    id: str
    event: Shown
    body: bytes
    due: int = 0
    attempts: int = 0
    busy: bool = False
    state: str = "pending"
    status: int | None = None
    error: str = ""

    def shown(self, webhook: Webhook) -> dict[str, Any]:
        """Return it as operators see it."""
        seen = {
            "id": self.id,
            "subscription_id": webhook.id,
            "event_type": self.event.name,
            "event_id": self.event.id,
        }
        return {
            **seen,
            "state": self.state,
            "attempts": self.attempts,
            "status_code": self.status,
            "error": self.error,
        }


def signed(webhook: Webhook, body: bytes, timestamp: int, now: int) -> str:
    """Return the signature of a delivery; two, if the secret was changed lately."""
    secrets = [
        webhook.secret,
        *([webhook.previous] if webhook.previous and now < webhook.previous_until else []),
    ]
    content = b"%d." % timestamp + body
    digests = (hmac.new(secret.encode(), content, hashlib.sha256).hexdigest() for secret in secrets)
    return ",".join(f"sha256={digest}" for digest in digests)


async def deliver(service: EngineService, webhook: Webhook, delivery: Delivery) -> Answer:
    """Send a delivery once."""
    now = service.engine.clock.now()
    timestamp = now // SECOND
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"OJS-Webhook/1.0 penstock/{__version__}",
        "X-OJS-Event-Type": delivery.event.name,
        "X-OJS-Delivery-ID": delivery.id,
        "X-OJS-Subscription-ID": webhook.id,
        "X-OJS-Timestamp": str(timestamp),
        "X-OJS-Signature": signed(webhook, delivery.body, timestamp, now),
    }
    return await post(webhook.url, delivery.body, headers, loopback=service.loopback)


class WebhookDelivery:
    """The deliveries to one webhook, and the tasks that send them."""

    def __init__(self, service: EngineService, webhook: Webhook) -> None:
        self.webhook = webhook
        self.past: deque[Delivery] = deque(maxlen=REMEMBERED)
        self._service = service
        self._waiting: deque[Delivery] = deque()
        self._failing = False
        self._changed = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self._task = asyncio.ensure_future(self._work())
        self.wanted = wanted_by(webhook)

    def become(self, webhook: Webhook) -> None:
        """Go on with changed settings."""
        self.webhook, self.wanted = webhook, wanted_by(webhook)

    def offer(self, event: Shown) -> None:
        """Have an event delivered."""
        if len(self._waiting) >= WAITING:
            oldest = next((each for each in self._waiting if not each.busy), self._waiting[0])
            self._waiting.remove(oldest)
            self._over(oldest, "dropped", "too many wait for this subscriber")
        self._waiting.append(Delivery(f"del_{new_id()}", event, event.text))
        self._changed.set()

    def deliveries(self) -> list[dict[str, Any]]:
        """Return what is under way and what is over, the oldest first."""
        return [each.shown(self.webhook) for each in (*self.past, *self._waiting)]

    def close(self) -> None:
        """Send no more."""
        for task in (self._task, *self._sending):
            task.cancel()

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            now = monotonic()
            idle = [each for each in self._waiting if not each.busy]
            due = next((each for each in idle if each.due <= now), None)
            room = len(self._sending) < (1 if self._failing else AT_ONCE)
            if due is not None and room:
                due.busy = True
                task = asyncio.ensure_future(self._attempt(due))
                self._sending.add(task)
                task.add_done_callback(self._sent)
                continue
            pause = (
                min((each.due for each in idle), default=now + 3_600 * SECOND) - now
                if room
                else 3_600 * SECOND
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), max(pause, 1_000) / SECOND)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        self._sending.discard(task)
        self._changed.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("a delivery to %s failed", self.webhook.id, exc_info=task.exception())

    async def _attempt(self, delivery: Delivery) -> None:
        delivery.attempts += 1
        later = None
        try:
            answer = await deliver(self._service, self.webhook, delivery)
        except InvalidError as error:
            delivery.error, final = str(error), True
        except (OSError, TimeoutError) as error:
            delivery.error, final = str(error) or "no answer in time", False
        except Exception as error:
            log.exception("%s to %s failed", delivery.id, self.webhook.id)
            delivery.error, final = f"{type(error).__name__}: {error}", False
        else:
            delivery.status, delivery.error = answer.status, ""
            if answer.status in OK:
                self._failing = False
                self._done(delivery, "delivered")
                return
            delivery.error = f"answered {answer.status}"
            final = answer.status in _BAD and answer.status not in _AGAIN
            later = _seconds(answer.headers.get("retry-after"))
        self._failing = True
        if final or delivery.attempts > len(DELAYS):
            self._done(delivery, "dead")
            return
        pause = DELAYS[delivery.attempts - 1] if later is None else min(later, _LONGEST)
        delivery.due, delivery.busy, delivery.state = monotonic() + int(pause * SECOND), False, "retrying"

    def _done(self, delivery: Delivery, state: str) -> None:
        with suppress(ValueError):  # it may have been dropped meanwhile
            self._waiting.remove(delivery)
            self._over(delivery, state, delivery.error)

    def _over(self, delivery: Delivery, state: str, error: str) -> None:
        delivery.state, delivery.error = state, error
        self.past.append(delivery)
        if state != "delivered":
            log.warning("%s: %s to %s: %s", state, delivery.id, self.webhook.id, error)


def wanted_by(webhook: Webhook) -> Wanted:
    """Return the filter of a webhook: events of its own tenant only, unless it has none."""
    return Wanted(
        frozenset(webhook.events),
        frozenset(webhook.queues) or None,
        frozenset(webhook.tasks) or None,
        webhook.tenant or None,
    )


def trial(webhook: Webhook, now: int) -> Shown:
    """Return an event that only tries whether a subscriber can be reached."""
    id_ = f"evt_{new_id()}"
    body = {"specversion": VERSION, "id": id_, "type": "webhook.test", "source": SOURCE}
    body |= {"time": written(now), "subject": webhook.id}
    return Shown(
        id_, "webhook.test", webhook.tenant, "", "", {**body, "data": {"subscription_id": webhook.id}}
    )


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 9 else None  # noqa: PLR2004
