"""Webhooks: whom to tell of what happens."""

from collections.abc import Callable

from penstock.engine import webhooks
from penstock.engine.transactions import Transactions
from penstock.job import Webhook
from penstock.store.session import Hold


class WebhookVerbs(Transactions):
    def add_webhook(self, webhook: Webhook) -> Webhook:
        """Remember whom to tell of what happens; return it with its id."""
        return self._write(lambda board: webhooks.add(board, webhook), Hold.NOTHING)

    def change_webhook(
        self, id_: str, edit: Callable[[Webhook], Webhook], tenant: str | None = None
    ) -> Webhook:
        """Replace a webhook by what *edit* makes of it."""
        return self._write(lambda board: webhooks.change(board, id_, edit, tenant), Hold.NOTHING)

    def delete_webhook(self, id_: str, tenant: str | None = None) -> None:
        """Forget a webhook."""
        self._write(lambda board: webhooks.delete(board, id_, tenant), Hold.NOTHING)

    def webhook(self, id_: str, tenant: str | None = None) -> Webhook:
        """Return one webhook."""
        return self.store.read(lambda db: webhooks.get(db, id_, tenant))

    def webhooks(self, tenant: str | None = None) -> list[Webhook]:
        """Return the webhooks of one tenant, or of all."""
        return self.store.read(lambda db: webhooks.all_of(db, tenant))
