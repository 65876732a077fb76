"""Subscribe to events over HTTP."""

import secrets
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.clock import SECOND, monotonic
from penstock.dialects.ojs.events import event_filter
from penstock.dialects.ojs.events.webhook_delivery import OK, Delivery, deliver, trial
from penstock.dialects.ojs.events.webhook_dispatcher import WebhookDispatcher
from penstock.dialects.ojs.format.names import written
from penstock.errors import InvalidError
from penstock.http.access import OPERATORS
from penstock.http.codec import decode, encode
from penstock.http.outbound_http import check_url
from penstock.http.routes import Reply, Request, Route
from penstock.ids import new_id
from penstock.job import Webhook

OVERLAP: Final = 24 * 3_600 * SECOND  # how long the secret before signs too
_MOST_META: Final = 10_000
_MILLISECOND: Final = 1_000
_replace: Final = msgspec.structs.replace
Names = Annotated[list[str], Meta(max_length=100)]
Secret = Annotated[str, Meta(min_length=8, max_length=256)]
Url = Annotated[str, Meta(min_length=1, max_length=2_048)]


class WebhookFilterBody(Struct):
    """Of which queues and types of jobs events are wanted; none means all."""

    queues: Names | None = None
    job_types: Names | None = None


class SubscriptionBody(Struct):
    """Where to post which events."""

    url: Url
    events: Annotated[list[str], Meta(min_length=1, max_length=100)]
    secret: Secret | None = None
    active: bool = True
    filter: WebhookFilterBody | None = None
    metadata: dict[str, Any] | None = None


class ChangeBody(Struct):
    """What to change."""

    url: Url | UnsetType = UNSET
    events: Annotated[list[str], Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    secret: Secret | UnsetType = UNSET
    active: bool | UnsetType = UNSET
    filter: WebhookFilterBody | UnsetType | None = UNSET
    metadata: dict[str, Any] | UnsetType | None = UNSET


async def subscribe(request: Request) -> Reply:
    """Subscribe; a secret that is made here is shown this once."""
    body = request.read(SubscriptionBody)
    made = f"whsec_{secrets.token_urlsafe(32)}"
    webhook = Webhook("", (), _secret(body.secret or made), tenant=request.owner, active=body.active)
    webhook = _described(request, webhook, body.url, body.events, body.filter, body.metadata)
    added = await request.service.run(lambda engine: engine.add_webhook(webhook))
    await _refresh(request)
    found = shown(added) | ({} if body.secret else {"secret": made})
    return Reply({"subscription": found, **found}, 201, {"Location": f"{_PATH}/{added.id}"})


async def listing(request: Request) -> Reply:
    """Return the subscriptions."""
    found = await request.service.run(lambda engine: engine.webhooks(request.tenant))
    return Reply({"subscriptions": [shown(webhook) for webhook in found], "total": len(found)})


async def info(request: Request) -> Reply:
    """Return one subscription."""
    return _answer(await _own(request))


async def change(request: Request) -> Reply:
    """Change a subscription."""
    body = request.read(ChangeBody)

    def edit(before: Webhook) -> Webhook:
        after = before if body.active is UNSET else _replace(before, active=body.active)
        if body.secret is not UNSET:
            after = _rotated(after, _secret(body.secret), request.now)
        kept = WebhookFilterBody(list(before.queues), list(before.tasks))
        return _described(
            request,
            after,
            before.url if body.url is UNSET else body.url,
            list(before.events) if body.events is UNSET else body.events,
            kept if body.filter is UNSET else body.filter,
            decode(before.meta) if body.metadata is UNSET else body.metadata,
        )

    changed = await request.service.run(
        lambda engine: engine.change_webhook(request.params["id"], edit, request.tenant)
    )
    await _refresh(request)
    return _answer(changed)


async def unsubscribe(request: Request) -> Reply:
    """End a subscription; its waiting deliveries are dropped."""
    id_ = request.params["id"]
    await request.service.run(lambda engine: engine.delete_webhook(id_, request.tenant))
    await _refresh(request)
    return Reply({"deleted": True, "id": id_})


async def rotate(request: Request) -> Reply:
    """Make a new secret, shown this once; the one before signs too for a day."""
    made = f"whsec_{secrets.token_urlsafe(32)}"
    now = request.now
    changed = await request.service.run(
        lambda engine: engine.change_webhook(
            request.params["id"], lambda before: _rotated(before, made, now), request.tenant
        )
    )
    await _refresh(request)
    found = shown(changed) | {"secret": made}
    return Reply({"subscription": found, **found})


async def attempt(request: Request) -> Reply:
    """Send a test event now, and return the result."""
    webhook = await _own(request)
    event = trial(webhook, request.now)
    began = monotonic()
    outcome: dict[str, Any] = {"success": False}
    try:
        answer = await deliver(request.service, webhook, Delivery(f"del_{new_id()}", event, event.text))
        # Not what it answered: that may be a secret of the other server.
        outcome = {"success": answer.status in OK, "status_code": answer.status}
    except (OSError, TimeoutError, InvalidError) as error:
        outcome["error"] = str(error) or "no answer in time"
    return Reply({**outcome, "response_time_ms": (monotonic() - began) // _MILLISECOND})


async def deliveries(request: Request) -> Reply:
    """Return the last deliveries of this server, and those that are under way."""
    which = request.query.get("subscription_id")
    subscribers = request.service.part(WebhookDispatcher).of(request.tenant)
    found = [one for each in subscribers if which in (None, each.webhook.id) for one in each.deliveries()]
    return Reply({"deliveries": found})


def shown(webhook: Webhook) -> dict[str, Any]:
    """Return a subscription as operators see it: never its secret."""
    found: dict[str, Any] = {"id": webhook.id, "url": webhook.url, "events": list(webhook.events)}
    chosen = {"queues": list(webhook.queues), "job_types": list(webhook.tasks)}
    found |= {"active": webhook.active, "filter": {name: names for name, names in chosen.items() if names}}
    found |= {"metadata": decode(webhook.meta), "created_at": written(webhook.created)}
    return (
        found
        | {"updated_at": written(webhook.changed)}
        | ({"tenant_id": webhook.tenant} if webhook.tenant else {})
    )


def _described(
    request: Request,
    webhook: Webhook,
    url: str,
    events: list[str],
    chosen: WebhookFilterBody | None,
    metadata: dict[str, Any] | None,
) -> Webhook:
    check_url(url, loopback=request.service.loopback)
    event_filter.checked(events, None, None, None, at="events.")
    chosen = chosen or WebhookFilterBody()
    event_filter.checked(None, chosen.queues, chosen.job_types, None, at="filter.")
    meta = encode(metadata or {}).decode()
    if len(meta) > _MOST_META or "\\u0000" in meta:
        raise InvalidError(
            "metadata", f"must be at most {_MOST_META} characters of JSON without the character NUL"
        )
    queues, tasks = tuple(chosen.queues or ()), tuple(chosen.job_types or ())
    return _replace(
        webhook, url=url, events=tuple(dict.fromkeys(events)), queues=queues, tasks=tasks, meta=meta
    )


def _rotated(webhook: Webhook, secret: str, now: int) -> Webhook:
    return _replace(webhook, secret=secret, previous=webhook.secret, previous_until=now + OVERLAP)


def _secret(text: str) -> str:
    if not text.isprintable() or not text.isascii():
        raise InvalidError("secret", "must be printable characters of ASCII")
    return text


async def _own(request: Request) -> Webhook:
    return await request.service.run(lambda engine: engine.webhook(request.params["id"], request.tenant))


async def _refresh(request: Request) -> None:
    await request.service.part(WebhookDispatcher).refresh()


def _answer(webhook: Webhook) -> Reply:
    found = shown(webhook)
    return Reply({"subscription": found, **found})


_PATH: Final = "/webhooks/subscriptions"
ROUTES: Final = (
    Route("POST", _PATH, subscribe, OPERATORS, "Subscribe to events", body=SubscriptionBody, status=201),
    Route("GET", _PATH, listing, OPERATORS, "List subscriptions"),
    Route("GET", f"{_PATH}/{{id}}", info, OPERATORS, "Look at a subscription"),
    Route("PATCH", f"{_PATH}/{{id}}", change, OPERATORS, "Change a subscription", body=ChangeBody),
    Route("DELETE", f"{_PATH}/{{id}}", unsubscribe, OPERATORS, "End a subscription"),
    Route("POST", f"{_PATH}/{{id}}/test", attempt, OPERATORS, "Send a test event"),
    Route("POST", f"{_PATH}/{{id}}/rotate-secret", rotate, OPERATORS, "Make a new secret"),
    Route(
        "GET", "/webhooks/deliveries", deliveries, OPERATORS, "Look at deliveries", query=("subscription_id",)
    ),
)
