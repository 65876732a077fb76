"""Whatever is sent as a limit, an override, a config or a pool: it is taken or refused with a reason, never a crash."""

from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.server import served

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, 2, 5, 2**53 - 1, 2**53, 2**63, 2**64]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["PT1S", "PT0.001S", "P1D", "PT1H", "second", "day", "P1Y", "-PT1S", "PT", "+PT1S", "1h30m", "\0"]
    ),
    st.sampled_from(["key", "a:b.c-d_e", "_x", "x" * 256, "x" * 257, "ключ", "queue:q", "@tenant", "\ud800"]),
    st.sampled_from(
        ["wait", "drop", "reschedule", "tenant", "global", "2099-01-01T00:00:00Z", "0001-01-01T00:00:00Z"]
    ),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=2),
)
window = st.one_of(
    odd,
    st.fixed_dictionaries(
        {}, optional={"limit": st.one_of(st.integers(0, 9), odd), "period": st.one_of(st.just("PT1S"), odd)}
    ),
)
policy = st.one_of(
    odd,
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.one_of(st.just("k"), odd),
            "concurrency": st.one_of(st.integers(0, 9), odd),
            "rate": window,
            "throttle": window,
            "on_limit": st.one_of(st.sampled_from(["wait", "drop", "reschedule"]), odd),
            "period": odd,
            "max_per_second": odd,
            "scope": odd,
            "more": odd,
        },
    ),
)
numbers = {"concurrency": odd, "rate": window, "throttle": window, "limit": odd, "period": odd}
override = st.fixed_dictionaries({}, optional={**numbers, "expires_at": odd})
pressure = st.fixed_dictionaries({}, optional={"max_depth": odd, "strategy": odd, "warning_threshold": odd})
config = st.fixed_dictionaries(
    {},
    optional={
        "concurrency": odd,
        "rate_limit": st.one_of(odd, st.fixed_dictionaries({}, optional=numbers)),
        "backpressure": st.one_of(odd, pressure),
        "paused": odd,
    },
)
members = st.one_of(
    odd,
    st.lists(st.sampled_from(["a", "b", "A", "", "x" * 200]), max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "_"]), st.one_of(odd, st.just({"weight": 2})), max_size=2),
)
pool = st.fixed_dictionaries(
    {}, optional={"queues": members, "strategy": odd, "weights": odd, "concurrency": odd}
)

wild = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("fuzz") / "jobs.db", "--test-mode") as running:
        yield running


def taken(answer):
    """Tell whether it was taken; if not, the answer must say why."""
    assert answer.status < 500, answer.body
    if answer.status < 400:
        return True
    error = answer["error"]
    assert error["message"]
    assert error["code"] in {"invalid_request", "invalid_payload", "QUEUE_FULL", "not_found"}, error
    return False


@wild
@given(policy=st.one_of(policy, st.lists(policy, max_size=3)), top=st.booleans())
@example(policy={"key": "k", "throttle": {"limit": 2**53 - 1, "period": "PT0.000001S"}}, top=True)
@example(policy={"max_per_second": 1e-300}, top=False)
@example(policy={"max_per_second": 0.000_000_1}, top=False)
@example(policy={"key": "k", "rate": {"limit": 1, "period": "P104249991374D"}}, top=False)
def test_a_policy_is_taken_or_refused(server, policy, top):
    body = {"type": "fuzz.job", "args": []}
    body = body | {"rate_limit": policy} if top else body | {"options": {"rate_limit": policy}}

    if not taken(server.post("/ojs/v1/jobs", body)):
        return

    # Keys that no job has any more are forgotten soon.
    limits = policy if isinstance(policy, list) else [policy]
    for key in [limit["key"] for limit in limits if limit and limit.get("key")]:
        assert 200 == server.get(f"/ojs/v1/rate-limits/{quote(key, safe='')}").status
    for job in server.fetch("default", count=3):
        server.ack(job)
    assert 200 == server.get("/ojs/v1/rate-limits?per_page=5").status


@wild
@given(body=st.one_of(override, odd))
@example(body={"concurrency": 1, "expires_at": "9999-12-31T23:59:59Z"})
@example(body={"concurrency": 1, "expires_at": "+P36500000D"})
def test_an_override_is_taken_or_refused(server, body):
    if taken(server.put("/ojs/v1/rate-limits/over", body)):
        shown = server.get("/ojs/v1/rate-limits/over")
        assert 200 == shown.status
        taken(server.delete("/ojs/v1/rate-limits/over/override"))


@wild
@given(body=st.one_of(config, odd))
def test_a_config_is_taken_or_refused(server, body):
    taken(server.put("/ojs/v1/admin/queues/fuzzed/config", body))

    assert 200 == server.get("/ojs/v1/queues/fuzzed/config").status
    taken(server.post("/ojs/v1/jobs", {"type": "fuzz.job", "args": [], "options": {"queue": "fuzzed"}}))
    server.fetch("fuzzed", count=3)


@wild
@given(
    body=st.one_of(st.fixed_dictionaries({}, optional=numbers), odd),
    scope=st.sampled_from(["queues", "types"]),
)
def test_a_limit_of_a_queue_or_a_type_is_taken_or_refused(server, body, scope):
    path = f"/ojs/v1/admin/{scope}/fuzzed/rate-limit"

    if taken(server.put(path, body)):
        assert 200 == server.get(path).status
        assert 200 == server.delete(path).status


@wild
@given(
    body=st.one_of(pool, odd),
    fetch=st.fixed_dictionaries({}, optional={"strategy": odd, "weights": odd, "pool": odd, "count": odd}),
)
def test_a_pool_is_taken_or_refused(server, body, fetch):
    if taken(server.put("/ojs/v1/admin/pools/fuzzed", body)):
        assert 200 == server.get("/ojs/v1/admin/pools/fuzzed").status
    taken(server.post("/ojs/v1/workers/fetch", {"queues": ["a", "b"], **fetch}))
