"""Two servers on one PostgreSQL, one of them killed: no window at the provider holds more than the limit."""

from tests.support.orch8 import Desk, call
from tests.support.postgres import fresh_schema, shared_url
from tests.support.provider import most_in_window, providing
from tests.support.server import served

COUNT, LIMIT, WINDOW = 60, 10, 2
# Seconds that the way to the provider may take longer for one request than for another.  Starts come in bursts when
# the window opens, so that one too many would still be in a window that is shorter by this.
JITTER = 0.5


def test_ten_in_a_window_never_become_eleven_though_a_server_is_killed():
    url = fresh_schema(shared_url())
    with providing() as provider, served(url) as one, served(url) as other:
        desk = Desk(one)
        desk.put("s", call("a", provider, key="k"))
        desk.limit("k", LIMIT, WINDOW)
        wanted = {"sequence_name": "s", "tenant_id": "acme"}
        ids = desk.post("/instances/batch", {"instances": [wanted] * COUNT})["ids"]
        one.until(lambda: len(provider.got) >= COUNT // 3)

        other.kill()
        one.until(lambda: len(provider.got) >= COUNT // 2)
        other.restart()

        one.until(lambda: desk.get("/instances?state=completed&limit=1")["total"] == COUNT, 120)
        began = provider.times

    keys = {got.headers["Idempotency-Key"] for got in provider.got}
    assert {f"{id_}:a" for id_ in ids} == keys
    assert most_in_window(began, WINDOW - JITTER) <= LIMIT


def test_a_server_that_was_killed_goes_on_where_it_was(tmp_path):
    with providing() as provider, served(tmp_path / "jobs.db") as server:
        desk = Desk(server)
        desk.put("s", call("a", provider, key="k"), {"id": "b", "type": "step", "handler": "work"})
        desk.limit("k", 3, 86_400)
        wanted = {"sequence_name": "s", "tenant_id": "acme", "concurrency_key": "c", "max_concurrency": 4}
        desk.post("/instances/batch", {"instances": [wanted] * 8})
        server.until(lambda: len(provider.got) == 3)
        server.until(lambda: len(desk.get("/workers/tasks?handler_name=work")) == 3)

        server.kill()
        server.restart()

        assert (4, 4) == tuple(
            desk.get(f"/instances?state={state}")["total"] for state in ("running", "deferred")
        )
        assert (3, 1) == tuple(desk.get("/rate-limits/k")[name] for name in ("current_count", "waiting"))
        desk.delete("/rate-limits/k")
        server.until(lambda: len(provider.got) == 4)
