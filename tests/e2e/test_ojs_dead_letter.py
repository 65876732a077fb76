"""Dead letters over HTTP."""

DEAD = {"retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}
GONE = {"retry": {"max_attempts": 1, "on_exhaustion": "discard"}}


def fail(server, options, queue="mail", **headers):
    """Have a job fail for good; return it."""
    one = server.enqueue({"type": "mail.send", "args": [], "options": {"queue": queue, **options}}, **headers)
    server.fetch(queue, **headers)
    assert "discarded" == server.nack(one, {"message": "no such mailbox"}, **headers)["state"]
    return one


def test_only_what_is_to_be_kept_is_a_dead_letter(server):
    dead, gone = fail(server, DEAD), fail(server, GONE)

    listed = server.get("/ojs/v1/dead-letter")

    assert [dead["id"]] == [one["id"] for one in listed["jobs"]]
    assert "discarded" == listed["jobs"][0]["state"]
    assert ["no such mailbox"] == [error["message"] for error in listed["jobs"][0]["errors"]]
    assert 1 == listed["pagination"]["total"]
    assert "discarded" == server.job(gone)["state"]
    assert 404 == server.post(f"/ojs/v1/dead-letter/{gone['id']}/retry").status
    assert 404 == server.delete(f"/ojs/v1/dead-letter/{gone['id']}").status


def test_a_dead_letter_is_tried_again_with_all_its_attempts(server):
    dead = fail(server, DEAD)

    retried = server.post(f"/ojs/v1/dead-letter/{dead['id']}/retry", {})

    assert (200, "available", 0) == (retried.status, retried["job"]["state"], retried["job"]["attempt"])
    assert [] == server.get("/ojs/v1/dead-letter")["jobs"]
    (again,) = server.fetch("mail")
    assert (dead["id"], 1) == (again["id"], again["attempt"])
    assert 404 == server.post(f"/ojs/v1/dead-letter/{dead['id']}/retry").status


def test_a_dead_letter_is_deleted(server):
    dead = fail(server, DEAD)

    deleted = server.delete(f"/ojs/v1/dead-letter/{dead['id']}")

    assert (200, True, dead["id"]) == (deleted.status, deleted["deleted"], deleted["job_id"])
    assert 404 == server.get(f"/ojs/v1/jobs/{dead['id']}").status
    assert [] == server.get("/ojs/v1/dead-letter")["jobs"]


def test_operators_have_their_own_words(server):
    first, second, third = (fail(server, DEAD) for _ in range(3))

    listed = server.get("/ojs/v1/admin/dead-letter?page=1&per_page=2")
    assert [third["id"], second["id"]] == [one["id"] for one in listed["items"]]
    assert (3, 1, 2) == tuple(listed["pagination"][name] for name in ("total", "page", "per_page"))
    assert {"total": 3, "by_queue": {"mail": 3}} == server.get("/ojs/v1/admin/dead-letter/stats").body
    assert 200 == server.post(f"/ojs/v1/admin/dead-letter/{first['id']}/retry").status
    deleted = server.delete(f"/ojs/v1/admin/dead-letter/{second['id']}")
    assert (204, b"") == (deleted.status, deleted.body)
    assert 1 == server.get("/ojs/v1/admin/dead-letter/stats")["total"]


def test_dead_letters_can_be_chosen_by_queue_and_type(server):
    fail(server, DEAD), fail(server, DEAD, "other")

    assert 1 == server.get("/ojs/v1/dead-letter?queue=other")["pagination"]["total"]
    assert 2 == server.get("/ojs/v1/dead-letter?type=mail.send")["pagination"]["total"]
    assert 0 == server.get("/ojs/v1/dead-letter?type=mail.read")["pagination"]["total"]
    assert 400 == server.get("/ojs/v1/dead-letter?queue=No%20Queue").status


def test_a_tenant_neither_sees_nor_touches_anothers_dead_letters(server):
    dead = fail(server, DEAD, X_OJS_Tenant="acme")

    assert [] == server.get("/ojs/v1/dead-letter", X_OJS_Tenant="other")["jobs"]
    assert 0 == server.get("/ojs/v1/admin/dead-letter/stats", X_OJS_Tenant="other")["total"]
    assert 404 == server.post(f"/ojs/v1/dead-letter/{dead['id']}/retry", X_OJS_Tenant="other").status
    assert 404 == server.delete(f"/ojs/v1/dead-letter/{dead['id']}", X_OJS_Tenant="other").status
    assert 1 == server.get("/ojs/v1/dead-letter", X_OJS_Tenant="acme")["pagination"]["total"]
