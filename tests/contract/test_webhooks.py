"""Webhooks are remembered, each for its tenant."""

import msgspec
import pytest

from penstock.engine import webhooks
from penstock.errors import InvalidError, NotFoundError
from penstock.job import Webhook
from tests.support.clock import FakeClock

HOOK = Webhook("https://example.com/a", ("job.*",), "a secret")
replace = msgspec.structs.replace


def test_a_webhook_is_what_was_asked_for_also_in_another_process(engine, opened, clock: FakeClock) -> None:
    wanted = replace(HOOK, tenant="acme", queues=("mail", "sms"), tasks=("send",), meta='{"owner":"me"}')
    added = engine.add_webhook(wanted)

    assert replace(wanted, id=added.id, created=clock.now(), changed=clock.now()) == added
    assert added == opened().webhook(added.id)
    assert [added] == opened().webhooks()


def test_a_change_keeps_the_rest(engine, clock: FakeClock) -> None:
    added = engine.add_webhook(replace(HOOK, tenant="acme"))
    clock.advance(1_000)
    changed = engine.change_webhook(added.id, lambda hook: replace(hook, active=False, id="x", tenant="y"))

    assert replace(added, active=False, changed=clock.now()) == changed
    assert changed == engine.webhook(added.id)


def test_a_tenant_has_only_its_own(engine) -> None:
    mine, other = (engine.add_webhook(replace(HOOK, tenant=tenant)) for tenant in ("mine", "other"))

    assert [mine] == engine.webhooks("mine")
    assert {mine.id, other.id} == {hook.id for hook in engine.webhooks()}
    for verb in (
        lambda: engine.webhook(other.id, "mine"),
        lambda: engine.change_webhook(other.id, lambda hook: replace(hook, url="http://elsewhere"), "mine"),
        lambda: engine.delete_webhook(other.id, "mine"),
    ):
        with pytest.raises(NotFoundError):
            verb()
    assert other == engine.webhook(other.id)


def test_a_deleted_one_is_gone(engine) -> None:
    added = engine.add_webhook(HOOK)
    engine.delete_webhook(added.id)

    assert [] == engine.webhooks()
    with pytest.raises(NotFoundError):
        engine.delete_webhook(added.id)


def test_there_are_only_so_many(engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MOST", 2)
    engine.add_webhook(HOOK)
    engine.add_webhook(HOOK)

    with pytest.raises(InvalidError, match="2 already"):
        engine.add_webhook(HOOK)


def test_a_secret_is_not_shown_by_accident(engine) -> None:
    assert "a secret" not in repr(engine.add_webhook(HOOK))
