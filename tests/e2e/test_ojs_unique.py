"""Uniqueness policies over HTTP."""


def settings(size):
    unique = {"keys": ["type"], "on_conflict": "replace"}
    return {"type": "settings.publish", "args": [size], "options": {"unique": unique}}


def test_one_that_waits_is_replaced_in_its_place(server):
    first = server.enqueue(settings(1))
    server.enqueue({"type": "other", "args": []})
    second = server.enqueue(settings(2))

    assert "cancelled" == server.get(f"/ojs/v1/jobs/{first['id']}")["job"]["state"]
    assert [second["id"]] == [job["id"] for job in server.fetch("default")]


def test_an_active_one_goes_on_and_the_newest_runs_after_it(server):
    server.enqueue(settings(1))
    (active,) = server.fetch("default")
    second, third = server.enqueue(settings(2)), server.enqueue(settings(3))

    assert [] == server.fetch("default")
    assert "active" == server.get(f"/ojs/v1/jobs/{active['id']}")["job"]["state"]
    assert "cancelled" == server.get(f"/ojs/v1/jobs/{second['id']}")["job"]["state"]
    server.ack(active)
    (next_one,) = server.fetch("default")
    assert (third["id"], [3]) == (next_one["id"], next_one["args"])
