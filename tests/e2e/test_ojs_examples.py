"""Every example of the Open Job Spec's page on rate limiting, word for word, does what the page says of it."""

import json

import pytest

from tests.support.stores import server_on_sqlite

PAYMENT = """
{
  "type": "payment.process",
  "args": [{"order_id": "ord_123", "amount": 9999}],
  "rate_limit": {
    "key": "payment-api",
    "concurrency": 5
  }
}
"""
EMAIL = """
{
  "type": "email.send",
  "args": [{"to": "user@example.com", "template": "welcome"}],
  "rate_limit": {
    "key": "email-provider",
    "rate": {
      "limit": 1000,
      "period": "PT1H"
    }
  }
}
"""
REPORT = """
{
  "type": "report.generate",
  "args": [{"report_id": "rpt_456"}],
  "meta": {"tenant_id": "acme-corp"},
  "rate_limit": {
    "key": "tenant:acme-corp:reports",
    "concurrency": 3,
    "throttle": {
      "limit": 1,
      "period": "PT1S"
    }
  }
}
"""
PUSH = """
{
  "type": "notification.push",
  "args": [{"user_id": "u_789", "message": "New follower!"}],
  "rate_limit": {
    "key": "push-notifications",
    "rate": {
      "limit": 10000,
      "period": "PT1M"
    },
    "on_limit": "drop"
  }
}
"""
SYNC = """
{
  "type": "api.sync",
  "args": [{"endpoint": "/users", "page": 1}],
  "rate_limit": {
    "key": "api.partner.com",
    "concurrency": 10,
    "rate": {
      "limit": 500,
      "period": "PT1M"
    },
    "throttle": {
      "limit": 10,
      "period": "PT1S"
    },
    "on_limit": "wait"
  }
}
"""
POLICY = """
{
  "rate_limit": {
    "key": "stripe-api",
    "concurrency": 5,
    "rate": {
      "limit": 100,
      "period": "PT1M"
    },
    "throttle": {
      "limit": 10,
      "period": "PT1S"
    },
    "on_limit": "wait"
  }
}
"""
QUEUE_LIMIT = """
{
  "concurrency": 20,
  "rate": {
    "limit": 1000,
    "period": "PT1H"
  }
}
"""
ERROR = """
{
  "error": {
    "type": "RateLimitExceeded",
    "message": "Stripe API rate limit exceeded",
    "rate_limit_until": "2026-02-13T12:05:00Z"
  }
}
"""
OVERRIDE = """
{
  "concurrency": 0,
  "expires_at": "2026-02-13T13:00:00Z"
}
"""
INSPECTED = """
{
  "key": "stripe-api",
  "concurrency": {
    "limit": 5,
    "active": 3,
    "available": 2
  },
  "rate": {
    "limit": 100,
    "period": "PT1M",
    "current_count": 47,
    "window_resets_at": "2026-02-13T12:01:00Z"
  },
  "throttle": {
    "limit": 10,
    "period": "PT1S",
    "next_allowed_at": "2026-02-13T12:00:00.100Z"
  },
  "waiting_count": 12
}
"""
LISTED = """
{
  "items": [
    {
      "key": "stripe-api",
      "concurrency": { "limit": 5, "active": 3 },
      "rate": { "limit": 100, "period": "PT1M", "current_count": 47 },
      "waiting_count": 12
    },
    {
      "key": "tenant:acme-corp",
      "concurrency": { "limit": 10, "active": 7 },
      "waiting_count": 3
    }
  ],
  "pagination": {
    "total": 42,
    "page": 1,
    "per_page": 20
  }
}
"""


# Any store shows what the page shows.
pytestmark = server_on_sqlite


def sent(server, text, times=1):
    """Enqueue an example as it stands."""
    for _ in range(times):
        answer = server.post("/ojs/v1/jobs", text.encode())
        assert 201 == answer.status, answer.body
    return answer["job"]


def started(server, count=100):
    return server.fetch("default", count=count)


@pytest.mark.parametrize("text", [PAYMENT, EMAIL, REPORT, PUSH, SYNC])
def test_a_job_comes_back_as_it_was_sent(server, text):
    job = sent(server, text)
    plain = json.loads(text)

    shown = server.job(job)

    assert (plain["type"], plain["args"]) == (shown["type"], shown["args"])
    assert {"on_limit": "wait", **plain["rate_limit"]} == shown["rate_limit"]
    assert plain.get("meta", {}) == shown["meta"]
    assert [job["id"]] == [each["id"] for each in started(server)]


def test_payments_run_five_at_a_time(server):
    sent(server, PAYMENT, 8)

    assert 5 == len(started(server))


def test_emails_are_counted_by_the_hour(server):
    sent(server, EMAIL, 3)
    started(server)

    rate = server.get("/ojs/v1/rate-limits/email-provider")["rate"]

    assert (1000, "PT1H", 3) == (rate["limit"], rate["period"], rate["current_count"])


def test_reports_start_one_by_one(server):
    sent(server, REPORT, 3)

    assert (1, 0) == (len(started(server)), len(started(server)))
    state = server.get("/ojs/v1/rate-limits/tenant:acme-corp:reports").body
    assert ({"limit": 3, "active": 1, "available": 2}, 2) == (state["concurrency"], state["waiting_count"])


def test_pushes_are_dropped_while_their_provider_is_down(server):
    sent(server, PUSH)
    server.put("/ojs/v1/rate-limits/push-notifications", {"rate": {"limit": 0, "period": "PT1M"}})

    assert [] == started(server)
    assert 0 == server.get("/ojs/v1/rate-limits/push-notifications")["waiting_count"]


def test_syncs_keep_all_three_numbers(server):
    sent(server, SYNC, 3)

    assert 1 == len(started(server))
    state = server.get("/ojs/v1/rate-limits/api.partner.com").body
    assert (10, 500, 10) == tuple(state[name]["limit"] for name in ("concurrency", "rate", "throttle"))


def test_the_policy_stands_in_the_options_of_a_job(server):
    body = {"type": "charge.create", "args": [], "options": json.loads(POLICY)}

    job = sent(server, json.dumps(body))

    assert json.loads(POLICY)["rate_limit"] == server.job(job)["rate_limit"]


def test_a_queue_is_limited_by_an_operator(server):
    answer = server.put(
        "/ojs/v1/admin/queues/email/rate-limit", QUEUE_LIMIT.encode(), Content_Type="application/json"
    )
    jobs = [{"type": "email.send", "args": [], "options": {"queue": "email"}}] * 30
    server.post("/ojs/v1/jobs/batch", {"jobs": jobs})

    assert (200, 20) == (answer.status, answer["concurrency"])
    assert 20 == len(server.fetch("email", count=100))


def test_an_error_may_say_until_when_its_key_is_shut(server):
    sent(server, PAYMENT)
    (job,) = started(server)

    answer = server.post("/ojs/v1/workers/nack", {"job_id": job["id"], **json.loads(ERROR)})

    # The moment of the page is over, so the key is open.
    assert (200, "RateLimitExceeded") == (answer.status, answer["job"]["error"]["type"])
    assert "retryable" == answer["state"]


def test_an_override_that_is_over_changes_nothing(server):
    sent(server, PAYMENT)

    answer = server.put("/ojs/v1/rate-limits/payment-api", OVERRIDE.encode())

    assert (200, 5) == (answer.status, answer["concurrency"]["limit"])
    assert 1 == len(started(server))


def test_an_override_that_is_not_over_pauses_the_key(server):
    sent(server, PAYMENT)

    answer = server.put("/ojs/v1/rate-limits/payment-api", OVERRIDE.replace("2026", "2099").encode())

    assert (200, 0) == (answer.status, answer["concurrency"]["limit"])
    assert "2099-02-13T13:00:00Z" == answer["override"]["expires_at"]
    assert [] == started(server)


def test_a_key_is_shown_with_every_field_of_the_page(server):
    sent(server, json.dumps({"type": "charge.create", "args": [], **json.loads(POLICY)}), 3)
    started(server)

    state = server.get("/ojs/v1/rate-limits/stripe-api").body

    assert [] == missing(json.loads(INSPECTED), state)


def test_keys_are_listed_with_every_field_of_the_page(server):
    sent(server, json.dumps({"type": "charge.create", "args": [], **json.loads(POLICY)}))
    other = {"key": "tenant:acme-corp", "concurrency": 10}
    sent(server, json.dumps({"type": "charge.create", "args": [], "rate_limit": other}))

    answer = server.get("/ojs/v1/rate-limits").body

    assert [] == missing(json.loads(LISTED), answer)
    assert {"total": 2, "page": 1, "per_page": 20}.items() <= answer["pagination"].items()


def missing(expected, found, at="$"):
    """Return where *found* has no field that *expected* has, or one of another kind."""
    if isinstance(expected, dict):
        absent = [f"{at}.{name}" for name in expected if name not in found]
        return absent + [
            place
            for name, value in expected.items()
            if name in found
            for place in missing(value, found[name], f"{at}.{name}")
        ]
    if isinstance(expected, list):
        pairs = enumerate(zip(expected, found, strict=True))
        return [place for n, (one, other) in pairs for place in missing(one, other, f"{at}[{n}]")]
    return [] if type(expected) is type(found) else [at]
