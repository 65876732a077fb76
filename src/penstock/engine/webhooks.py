"""Webhooks: URLs to which events are posted.  Only stored here; posting to them is the HTTP server's business."""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidError, NotFoundError
from penstock.ids import new_id
from penstock.job import Webhook
from penstock.store import webhooks as rows
from penstock.store.session import Locks

MOST: Final = 1_000  # of all tenants together
_HIDDEN: Final = ("url", "secret", "meta")  # may hold what is no business of those who read the audit
_replace: Final = msgspec.structs.replace


class WebhookVerbs(Transactions):
    def add_webhook(self, webhook: Webhook) -> Webhook:
        """Add a webhook; return it with its id."""

        def work(board: Board) -> Webhook:
            board.db.lock(["webhooks"])
            if rows.count(board.db) >= MOST:
                raise InvalidError("webhooks", f"there are {MOST} already, which is as many as are allowed")
            added = _replace(webhook, id=f"sub_{new_id()}", created=board.now, changed=board.now)
            rows.put(board.db, added)
            audit.note(board, "webhook.add", "webhook", added.id, added.tenant, after=_told(added))
            return added

        return self._write(work, Locks.NONE)

    def change_webhook(
        self, id_: str, edit: Callable[[Webhook], Webhook], tenant: str | None = None
    ) -> Webhook:
        """Replace a webhook by what *edit* makes of it; its id and its tenant stay."""

        def work(board: Board) -> Webhook:
            before = _own(rows.locked(board.db, id_), id_, tenant)
            after = _replace(
                edit(before), id=before.id, tenant=before.tenant, created=before.created, changed=board.now
            )
            rows.put(board.db, after)
            told = _told(after) | {
                name: "changed" for name in _HIDDEN if getattr(before, name) != getattr(after, name)
            }
            audit.note(
                board, "webhook.change", "webhook", id_, after.tenant, before=_told(before), after=told
            )
            return after

        return self._write(work, Locks.NONE)

    def delete_webhook(self, id_: str, tenant: str | None = None) -> None:
        """Delete a webhook."""

        def work(board: Board) -> None:
            found = _own(rows.locked(board.db, id_), id_, tenant)
            rows.delete(board.db, id_)
            audit.note(board, "webhook.delete", "webhook", id_, found.tenant, before=_told(found))

        self._write(work, Locks.NONE)

    def webhook(self, id_: str, tenant: str | None = None) -> Webhook:
        """Return one webhook."""
        return self.store.read(lambda db: _own(rows.of(db, id_), id_, tenant))

    def webhooks(self, tenant: str | None = None) -> list[Webhook]:
        """Return the webhooks of one tenant, or of all."""
        return self.store.read(lambda db: rows.all_of(db, tenant))


def _told(webhook: Webhook) -> dict[str, object]:
    """Return what the audit tells of a webhook: where it posts to is a secret, but for the host."""
    return {
        "host": urlsplit(webhook.url).hostname,
        "events": list(webhook.events),
        "queues": list(webhook.queues),
        "tasks": list(webhook.tasks),
        "active": webhook.active,
    }


def _own(found: Webhook | None, id_: str, tenant: str | None) -> Webhook:
    if found is None or (tenant is not None and found.tenant != tenant):
        raise NotFoundError("webhook", id_)
    return found
