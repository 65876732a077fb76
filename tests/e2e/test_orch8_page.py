"""Every request of the page on concurrency and rate limits, word for word, does what the page says of it.

Only the hosts of the steps are others: a provider on loopback stands for them.
"""

import json

import pytest

from tests.support.orch8 import Desk
from tests.support.provider import providing

CAMPAIGN = """
{
"sequence_name": "outreach_campaign",
"version": 1,
"tenant_id": "acme",
"concurrency_key": "contact:john@acme.com",
"max_concurrency": 1,
"context": {
"contact_email": "john@acme.com",
"campaign_id": "camp-42"
}
}
"""
SECOND_CAMPAIGN = """
{
"sequence_name": "outreach_campaign",
"version": 1,
"tenant_id": "acme",
"concurrency_key": "contact:john@acme.com",
"max_concurrency": 1,
"context": { "campaign_id": "camp-99" }
}
"""
COMBINED = """
{
"sequence_name": "outreach_campaign",
"version": 1,
"tenant_id": "acme",
"concurrency_key": "contact:john@acme.com",
"max_concurrency": 1,
"context": { "contact_email": "john@acme.com" }
}
"""
ONBOARDING = """
{
"sequence_name": "welcome_onboarding",
"version": 1,
"tenant_id": "acme",
"idempotency_key": "signup:user-12345:2024-01-15",
"idempotency_window": "24h",
"context": {
"user_id": "user-12345",
"signup_source": "landing_page"
}
}
"""
ONBOARDING_AGAIN = """
{
"sequence_name": "welcome_onboarding",
"version": 1,
"tenant_id": "acme",
"idempotency_key": "signup:user-12345:2024-01-15",
"context": { "user_id": "user-12345" }
}
"""
SEND_EMAIL = """
{
"id": "send-email",
"type": "step",
"handler": "http_request",
"params": {
"url": "https://api.sendgrid.com/v3/mail/send",
"method": "POST",
"body": {
"from": "outreach@acme.com",
"to": "{{context.recipient}}",
"subject": "Hello from Acme"
}
},
"rate_limit_key": "mailbox:outreach@acme.com"
}
"""
SUMMARY = """
{
"id": "generate-summary",
"type": "step",
"handler": "http_request",
"params": {
"url": "https://api.openai.com/v1/chat/completions",
"method": "POST",
"body": { "model": "gpt-4", "messages": "{{context.messages}}" }
},
"rate_limit_key": "api:openai"
}
"""
NOTIFICATION = """
{
"id": "send-notification",
"type": "step",
"handler": "http_request",
"params": {
"url": "https://push.acme.com/send",
"method": "POST",
"body": {
"user_id": "{{context.user_id}}",
"message": "{{context.notification_text}}"
}
},
"rate_limit_key": "notify:{{context.user_id}}"
}
"""
COMBINED_STEP = """
{
"id": "send-email",
"type": "step",
"handler": "http_request",
"params": { "url": "https://api.sendgrid.com/v3/mail/send", "method": "POST" },
"rate_limit_key": "mailbox:outreach@acme.com"
}
"""
MAILBOX = """
{
"tenant_id": "acme",
"resource_key": "mailbox:outreach@acme.com",
"max_count": 30,
"window_seconds": 86400
}
"""
OPENAI = """
{
"tenant_id": "acme",
"resource_key": "api:openai",
"max_count": 100,
"window_seconds": 60
}
"""
WARMUP = """
{
"tenant_id": "acme",
"resource_key": "mailbox:new-sender@acme.com",
"max_count": 10,
"window_seconds": 86400
}
"""
PER_USER = """
{
"tenant_id": "acme",
"resource_key": "notify:user-12345",
"max_count": 5,
"window_seconds": 3600
}
"""


@pytest.fixture
def provider():
    with providing() as one:
        yield one


@pytest.fixture
def desk(server):
    return Desk(server)


def to_provider(text, provider):
    """Return a step of the page that calls *provider*."""
    block = json.loads(text)
    path = block["params"]["url"].removeprefix("https://").partition("/")[2]
    block["params"]["url"] = f"{provider.url}/{path}"
    return block


def sent(server, path, text):
    """Send a body of the page as it is printed; return the answer."""
    answer = server.post(path, text.encode(), Content_Type="application/json")
    assert 201 == answer.status, answer.body
    return answer.body


def test_a_second_campaign_for_a_contact_is_deferred_until_the_first_has_ended(desk, server):
    desk.put("outreach_campaign", {"id": "work", "type": "step", "handler": "work"})

    first, second = (sent(server, "/instances", text) for text in (CAMPAIGN, SECOND_CAMPAIGN))

    assert ("running", "contact:john@acme.com", 1) == (
        first["status"], first["concurrency_key"], first["max_concurrency"],
    )  # fmt: skip
    assert {"contact_email": "john@acme.com", "campaign_id": "camp-42"} == first["context"]["data"]
    assert ("deferred", "contact:john@acme.com", "concurrency_limit_reached") == (
        second["status"], second["concurrency_key"], second["deferred_reason"],
    )  # fmt: skip
    desk.complete(*desk.poll("work"))
    assert ("completed", "running") == (desk.status(first), desk.status(second))


def test_a_duplicate_request_is_answered_with_the_existing_instance(desk, server):
    desk.put("welcome_onboarding", {"id": "work", "type": "step", "handler": "work"})

    first, second = (sent(server, "/instances", text) for text in (ONBOARDING, ONBOARDING_AGAIN))

    assert "deduplicated" not in first
    assert (first["id"], "running", "signup:user-12345:2024-01-15", True) == (
        second["id"], second["status"], second["idempotency_key"], second["deduplicated"],
    )  # fmt: skip
    assert 1 == desk.get("/instances")["total"]


def test_a_step_sends_its_object_with_the_context_in_it(desk, server, provider):
    desk.put("mail", to_provider(SEND_EMAIL, provider))
    sent(server, "/rate-limits", MAILBOX)

    run = desk.start("mail", context={"recipient": "ann@example.com"})

    desk.ended(run)
    (got,) = provider.got
    assert {
        "from": "outreach@acme.com", "to": "ann@example.com", "subject": "Hello from Acme",
    } == got.plain  # fmt: skip
    assert ("POST", "/v3/mail/send", "application/json") == (
        got.method, got.path, got.headers["Content-Type"],
    )  # fmt: skip


def test_thirty_mails_a_day_are_sent_and_the_next_waits_for_the_oldest_to_expire(desk, server, provider):
    desk.put("mail", to_provider(SEND_EMAIL, provider))
    sent(server, "/rate-limits", MAILBOX)
    many = [
        {"sequence_name": "mail", "tenant_id": "acme", "context": {"recipient": str(n)}} for n in range(35)
    ]

    desk.post("/instances/batch", {"instances": many})

    server.until(lambda: len(provider.got) == 30)
    (shown,) = desk.get("/rate-limits")
    assert (30, 5) == (shown["current_count"], shown["waiting"])
    assert shown["next_slot_at"][:10] > shown["created_at"][:10]  # a day later
    assert 30 == len(provider.got)


def test_a_resource_is_answered_as_printed_and_updated_in_place(server):
    first = sent(server, "/rate-limits", OPENAI)
    second = sent(server, "/rate-limits", OPENAI.replace("100", "50"))

    assert {"tenant_id": "acme", "resource_key": "api:openai", "max_count": 100, "window_seconds": 60} == {
        name: first[name] for name in ("tenant_id", "resource_key", "max_count", "window_seconds")
    }
    assert {"id", "created_at"} <= set(first)
    assert (first["id"], first["created_at"], 50) == (
        second["id"], second["created_at"], second["max_count"],
    )  # fmt: skip


def test_resources_are_listed_and_deleted(server):
    for text in (MAILBOX, OPENAI):
        sent(server, "/rate-limits", text)

    listed = server.get("/rate-limits?tenant_id=acme")
    gone = server.delete("/rate-limits/mailbox:outreach@acme.com?tenant_id=acme")

    assert ["api:openai", "mailbox:outreach@acme.com"] == [each["resource_key"] for each in listed.body]
    assert (204, b"") == (gone.status, gone.body)
    assert ["api:openai"] == [each["resource_key"] for each in server.get("/rate-limits?tenant_id=acme").body]


def test_a_warm_up_by_updates_lets_more_start_each_time(desk, server, provider):
    desk.put("mail", {**to_provider(SEND_EMAIL, provider), "rate_limit_key": "mailbox:new-sender@acme.com"})
    sent(server, "/rate-limits", WARMUP)
    desk.post(
        "/instances/batch",
        {"instances": [{"sequence_name": "mail", "tenant_id": "acme"} for _ in range(120)]},
    )

    server.until(lambda: len(provider.got) == 10)
    for count in (50, 100):
        sent(server, "/rate-limits", WARMUP.replace("10,", f"{count},"))
        server.until(lambda count=count: len(provider.got) >= count)

    assert 20 == desk.get("/rate-limits")[0]["waiting"]
    assert 100 == len(provider.got)


def test_a_template_that_is_a_whole_text_keeps_its_kind(desk, server, provider):
    desk.put("summary", to_provider(SUMMARY, provider))
    sent(server, "/rate-limits", OPENAI)
    messages = [{"role": "user", "content": "hello"}]

    desk.ended(desk.start("summary", context={"messages": messages}))

    assert {"model": "gpt-4", "messages": messages} == provider.got[0].plain


def test_each_user_has_a_counter_and_users_without_a_resource_are_free(desk, server, provider):
    desk.put("notify", to_provider(NOTIFICATION, provider))
    sent(server, "/rate-limits", PER_USER)
    users = ["user-12345"] * 8 + ["user-2"] * 8

    one = {"sequence_name": "notify", "tenant_id": "acme"}
    contexts = [{"user_id": user, "notification_text": "hi"} for user in users]
    desk.post("/instances/batch", {"instances": [{**one, "context": context} for context in contexts]})

    server.until(lambda: len(provider.got) == 13)
    assert 5 == sum(got.plain["user_id"] == "user-12345" for got in provider.got)
    assert 3 == desk.get("/rate-limits/notify:user-12345")["waiting"]


def test_a_slot_for_a_contact_and_a_rate_for_a_mailbox_hold_together(desk, server, provider):
    desk.put("outreach_campaign", to_provider(COMBINED_STEP, provider))
    sent(server, "/rate-limits", MAILBOX.replace("30", "1"))

    first, second = (sent(server, "/instances", COMBINED) for _ in range(2))

    server.until(lambda: desk.status(second) == "running")
    assert ("completed", 1) == (desk.status(first), len(provider.got))
    server.delete("/rate-limits/mailbox:outreach@acme.com?tenant_id=acme")
    desk.ended(second)
