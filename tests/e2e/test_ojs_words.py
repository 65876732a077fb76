"""Errors speak the words of the spec, and ask only for what is accepted."""

import pytest


def job(**options):
    return {"type": "some.work", "args": [], "options": options}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_key_that_is_not_there_is_called_a_key(server, method):
    answer = server.call(method, "/ojs/v1/rate-limits/nothing")

    assert (404, "no rate limit key 'nothing'") == (answer.status, answer["error"]["message"])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"rate_limit": {"key": "k", "rate": {"limit": 1, "period": "soon"}}}, "options.rate_limit.rate.period"),
        ({"rate_limit": {"key": "k", "throttle": {"limit": 1, "period": "PT0S"}}},
         "options.rate_limit.throttle.period"),
        ({"retry": {"initial_interval": "soon"}}, "options.retry.initial_interval"),
        ({"unique": {"keys": ["type"], "period": "soon"}}, "options.unique.period"),
        ({"expires_at": "+Psoon"}, "options.expires_at"),
    ],
)  # fmt: skip
def test_a_bad_duration_is_answered_with_how_to_write_one(server, options, field):
    answer = server.post("/ojs/v1/jobs", job(**options))
    message = answer["error"]["message"]

    assert (True, field) == (answer.status in (400, 422), answer["error"]["details"]["field"])
    assert 'write an ISO 8601 duration such as "PT30S"' in message
    assert "timedelta" not in message
