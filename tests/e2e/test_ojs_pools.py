"""Which queue is served next: pools, strategies, tenants."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.support.server import served


def fill(server, count, *queues, **headers):
    for queue in queues:
        jobs = [{"type": "some.work", "args": [], "options": {"queue": queue}}] * count
        assert 201 == server.post("/ojs/v1/jobs/batch", {"jobs": jobs}, **headers).status


def queues(jobs):
    return Counter(job["queue"] for job in jobs)


def test_without_a_pool_the_first_queue_goes_first(server):
    fill(server, 3, "a", "b")

    assert {"b": 3, "a": 2} == queues(server.fetch("b", "a", count=5))


def test_a_fetch_may_ask_for_turns(server):
    fill(server, 10, "a", "b")

    assert {"a": 4, "b": 4} == queues(server.fetch("a", "b", count=8, strategy="round-robin"))


def test_a_fetch_may_weigh_queues(server):
    fill(server, 20, "a", "b")

    jobs = server.fetch("a", "b", count=8, strategy="weighted", weights={"a": 3, "b": 1})

    assert {"a": 6, "b": 2} == queues(jobs)


def test_turns_leave_no_worker_idle(server):
    fill(server, 1, "a")
    fill(server, 9, "b")

    assert {"a": 1, "b": 7} == queues(server.fetch("a", "b", count=8, strategy="round-robin"))


def test_the_queue_with_the_fewest_running_goes_first(server):
    fill(server, 6, "a", "b")
    server.fetch("a", count=4)

    assert {"b": 2} == queues(server.fetch("a", "b", count=2, strategy="least-loaded"))


def test_what_the_server_was_told_beats_what_a_fetch_asks_for(server):
    pool = {"strategy": "weighted", "queues": {"a": {"weight": 3}, "b": {"weight": 1}}}
    answer = server.put("/ojs/v1/admin/pools/main", pool)
    fill(server, 20, "a", "b")

    named = server.fetch("a", "b", count=4, pool="main", strategy="strict")
    unnamed = server.fetch("a", "b", count=4, strategy="strict")

    assert ("main", "weighted") == (answer["pool"]["name"], answer["pool"]["strategy"])
    assert {"a": 3, "b": 1} == queues(named) == queues(unnamed)
    assert 404 == server.post("/ojs/v1/workers/fetch", {"queues": ["a"], "pool": "unknown"}).status


def test_a_pool_can_be_seen_replaced_and_deleted(server):
    server.put("/ojs/v1/admin/pools/main", {"strategy": "strict", "queues": ["a", "b"], "concurrency": 4})
    seen = server.get("/ojs/v1/admin/pools/main")["pool"]
    server.put("/ojs/v1/admin/pools/main", {"queues": ["b"], "weights": {"b": 7}})
    replaced = server.get("/ojs/v1/admin/pools/main")["pool"]

    assert (200, 404) == tuple(server.delete("/ojs/v1/admin/pools/main").status for _ in range(2))
    assert ("strict", ["a", "b"], 4) == (seen["strategy"], list(seen["queues"]), seen["concurrency"])
    assert ({"b": 7}, None) == (replaced["weights"], replaced.get("concurrency"))
    assert 404 == server.get("/ojs/v1/admin/pools/main").status


def test_a_pool_has_no_more_running_than_its_number_though_many_ask_at_once(server):
    fill(server, 2, "a")
    early = server.fetch("a", count=2)
    server.put("/ojs/v1/admin/pools/main", {"queues": ["a", "b"], "concurrency": 5})
    fill(server, 20, "a", "b")

    with ThreadPoolExecutor(16) as threads:
        wanted = [("a",), ("b",), ("b", "a"), ("a", "b")] * 4
        jobs = [
            job for found in threads.map(lambda names: server.fetch(*names, count=4), wanted) for job in found
        ]
    assert 3 == len(jobs)

    server.ack(early[0])
    assert 1 == len(server.fetch("a", "b", count=8))
    fill(server, 1, "other")
    assert 1 == len(server.fetch("a", "b", "other", count=8))
    server.delete("/ojs/v1/admin/pools/main")
    assert 8 == len(server.fetch("a", "b", count=8))


def test_a_pool_is_the_same_for_all_servers(server, address):
    server.put("/ojs/v1/admin/pools/main", {"queues": ["a", "b"], "concurrency": 3})
    fill(server, 9, "a", "b")

    with served(address) as other:
        first = other.fetch("a", "b", count=2)
        second = server.fetch("a", "b", count=9)

    assert (2, 1) == (len(first), len(second))


def test_a_pool_that_makes_no_sense_names_the_field(server):
    def field(body):
        answer = server.put("/ojs/v1/admin/pools/main", body)
        assert 400 == answer.status
        return answer["error"]["details"]["field"]

    assert "queues" == field({})
    assert "queues" == field({"queues": []})
    assert "strategy" == field({"queues": ["a"], "strategy": "lottery"})
    assert "concurrency" == field({"queues": ["a"], "concurrency": -1})
    assert "weights" == field({"queues": ["a"], "weights": {"b": 1}})


def test_the_stats_tell_how_fetches_were_spread(server):
    fill(server, 3, "a", "b")
    server.fetch("a", count=3)
    server.fetch("b", count=1)

    answer = server.get("/ojs/v1/admin/scheduling/stats").body

    found = {queue["name"]: queue for queue in answer["stats"]["queues"]}
    assert (3, 0.75, 3) == tuple(found["a"][name] for name in ("dispatched", "dispatch_ratio", "active"))
    assert (1, 2) == tuple(found["b"][name] for name in ("dispatched", "available"))
    assert answer["queues"] == answer["stats"]["queues"]


def test_a_fetch_that_names_no_tenant_serves_all_of_them_in_rotation(server):
    fill(server, 6, "mail", X_OJS_Tenant="acme")
    fill(server, 30, "mail", X_OJS_Tenant="globex")
    fill(server, 6, "mail")

    tenants = [server.fetch("mail")[0]["meta"].get("tenant_id") for _ in range(9)]
    rest = Counter(job["meta"].get("tenant_id") for job in server.fetch("mail", count=9))

    assert {"acme": 3, "globex": 3, None: 3} == Counter(tenants)
    assert {"acme": 3, "globex": 3, None: 3} == rest
    assert 24 == len(server.fetch("mail", count=100))


def test_a_fetch_that_names_a_tenant_serves_that_one_only(server):
    fill(server, 2, "mail", X_OJS_Tenant="acme")
    fill(server, 2, "mail", X_OJS_Tenant="globex")

    jobs = server.fetch("mail", count=9, X_OJS_Tenant="acme")

    assert ["acme", "acme"] == [job["meta"]["tenant_id"] for job in jobs]
    assert [] == server.fetch("mail", count=9, X_OJS_Tenant="initech")


def test_a_tenant_whose_jobs_are_all_limited_keeps_nobody_waiting(server):
    limited = {
        "type": "some.work",
        "args": [],
        "options": {"queue": "mail", "rate_limit": {"key": "k", "concurrency": 0}},
    }
    for _ in range(3):
        server.enqueue(limited, X_OJS_Tenant="acme")
    fill(server, 3, "mail", X_OJS_Tenant="globex")

    assert ["globex"] * 3 == [server.fetch("mail")[0]["meta"]["tenant_id"] for _ in range(3)]


def test_a_fetch_that_waits_gets_the_jobs_of_a_tenant_that_comes_later(server):
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(server.fetch, "mail", wait_ms=20_000)
        fill(server, 1, "mail", X_OJS_Tenant="acme")
        (job,) = waiting.result(10)

    assert "acme" == job["meta"]["tenant_id"]


def test_queues_are_paused_for_all_tenants_or_for_one(server):
    fill(server, 2, "mail", X_OJS_Tenant="acme")
    fill(server, 2, "mail", X_OJS_Tenant="globex")

    server.post("/ojs/v1/queues/mail/pause", X_OJS_Tenant="acme")
    only = server.fetch("mail", count=1)
    server.post("/ojs/v1/queues/mail/resume", X_OJS_Tenant="acme")
    assert server.post("/ojs/v1/queues/mail/pause")["queue"]["paused"]
    nothing = [server.fetch("mail", count=9), server.fetch("mail", count=9, X_OJS_Tenant="globex")]
    server.post("/ojs/v1/queues/mail/resume")

    assert ["globex"] == [job["meta"]["tenant_id"] for job in only]
    assert [[], []] == nothing
    assert 3 == len(server.fetch("mail", count=9))


def test_a_tenant_sees_its_own_queues_and_an_operator_all(server):
    fill(server, 2, "mail", X_OJS_Tenant="acme")
    fill(server, 3, "mail", "reports", X_OJS_Tenant="globex")

    def shown(**headers):
        found = server.get("/ojs/v1/queues", **headers)["queues"]
        return {queue["name"]: queue["available"] for queue in found}

    assert {"mail": 2} == shown(X_OJS_Tenant="acme")
    assert {"mail": 5, "reports": 3} == shown()
    assert 2 == server.get("/ojs/v1/queues/mail/stats", X_OJS_Tenant="acme")["queue"]["available"]
    assert 0 == server.get("/ojs/v1/queues/unknown", X_OJS_Tenant="acme")["queue"]["available"]
