"""Workers and fetches take only what they know: real processes on one store, and the server."""

import json
from contextlib import closing

import pytest

from penstock.client import RemoteEngine
from penstock.errors import InvalidError
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers
from tests.e2e.test_worker_processes import Workplace
from tests.support.postgres import empty_store


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        yield from opened(Workplace(tmp_path))
    else:
        with empty_store() as url:
            yield from opened(Workplace(tmp_path, url))


def opened(place):
    yield place
    try:
        assert place.engine.doctor() == []
    finally:
        place.close()


@pytest.mark.parametrize("limits", [(), (Limit("k", Numbers(slots=100)),)], ids=["free", "limited"])
def test_two_versions_of_an_app_share_a_store_and_each_runs_its_own(place, limits):
    old, new = place.hire(tasks=["wait"]), place.hire(tasks=["block"])
    tasks = {"wait": old.pid, "block": new.pid}
    ids = {place.enqueue(task, limits=limits)[0]: task for _ in range(10) for task in tasks}
    place.ended(ids)

    assert {id_: tasks[task] for id_, task in ids.items()} == {
        line["job"]: line["pid"] for line in place.lines("began")
    }
    assert {1} == {place.engine.job(id_).attempt for id_ in ids}
    assert "leaves it to another" not in place.log.read_text()


def test_a_worker_runs_dry_beside_jobs_of_tasks_that_it_does_not_know(place):
    (other,), (mine,) = place.enqueue("block"), place.enqueue("wait")
    place.hire(tasks=["wait"])
    place.ended([mine])

    assert place.engine.job(other).state is State.WAITING
    place.hire(tasks=["block"])
    place.ended([other])


def test_a_fetch_names_the_types_that_its_worker_knows(server):
    for name in ("email.send", "email.bounce", "report.daily"):
        server.enqueue({"type": name, "args": [], "options": {"queue": "mixed"}})

    assert [] == server.fetch("mixed", count=5, types=["sms.*"])
    assert ["report.daily"] == [job["type"] for job in server.fetch("mixed", count=5, types=["report.daily"])]
    assert ["email.send", "email.bounce"] == [
        job["type"] for job in server.fetch("mixed", count=5, types=["email.*"])
    ]
    for types in (["a*b*"], [""], ["UPPER"], "email.send"):
        refused = server.post("/ojs/v1/workers/fetch", {"queues": ["mixed"], "types": types})
        assert 400 == refused.status
        assert "types" in json.dumps(refused.body)


def test_a_remote_worker_names_its_tasks(server):
    with closing(RemoteEngine(server.url)) as engine:
        engine.enqueue([NewJob(task=task, queue="mixed") for task in "abab"])

        claim = engine.claim(["mixed"], 1, worker="w", tasks=["b"])
        answers, more = engine.exchange([done(claim.jobs[0])], ["mixed"], 5, worker="w", tasks=["b"])

        assert [True] == answers
        assert ["b", "b"] == [job.task for job in claim.jobs + more.jobs]
        assert {State.WAITING: 2} == engine.count(queue="mixed", tasks=["a", "c"])
        assert [] == engine.unknown_tasks(["mixed"])
        with pytest.raises(InvalidError, match="tasks"):
            engine.claim(["mixed"], 1, worker="w", tasks=["a*b*"])


def done(job):
    return Settlement(job.seq, job.fence, Done())
