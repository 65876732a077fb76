"""Workers that hand slots on are killed, watched from outside: no two handlers of a key overlap, and no job is lost."""

import random
import time

import pytest

from penstock.engine import open_engine
from tests.e2e.test_killed_workers import PATIENCE, Watch
from tests.support import outside
from tests.support.postgres import empty_store
from tests.support.timing import most_at_once, until

KEYS, JOBS, KILLS = 4, 1_500, 3


@pytest.fixture(params=["sqlite", "postgres"])
def watch(request, tmp_path):
    with empty_store() as url:
        watch = Watch(tmp_path)
        if request.param == "postgres":
            watch.engine.close()
            watch.engine = open_engine(url)
            watch.environment[outside.STORE] = url
        yield watch
        watch.close()


def followers(engine):
    """Count the attempts that begin after another, right now."""
    ((count,),) = engine.store.read(lambda db: db.all("SELECT count(*) FROM running WHERE follows <> 0"))
    return count


def test_slots_that_are_handed_on_are_held_by_one_at_a_time_though_workers_die(watch):
    chance = random.Random()
    with outside.app.connection.lent(watch.engine):
        calls = [outside.brief.call(number % KEYS) for number in range(JOBS)]
        for account, handle in enumerate(outside.app.enqueue_many(calls)):
            watch.jobs[handle.id] = ("brief", account % KEYS)
    for _ in range(2):
        watch.hire()

    handed_on, end = 0, time.monotonic() + PATIENCE
    while len(watch.killed) < KILLS and time.monotonic() < end and not watch.all_done():
        handed_on = max(handed_on, followers(watch.engine))
        at_work = [worker for worker in watch.workers if worker.pid in watch.at_work()]
        if at_work and handed_on:
            watch.kill(chance.choice(at_work))
            watch.hire()
        time.sleep(0.01)
    until(watch.all_done, PATIENCE, watch.engine.count, every=0.05)

    assert handed_on, "no slot was handed on"
    assert watch.killed
    spans = watch.attempts()
    assert {span.job for span in spans} == set(watch.jobs)
    for account in range(KEYS):
        held = [(span.began, span.ended) for span in spans if watch.jobs[span.job] == ("brief", account)]
        assert most_at_once(held) == 1
    assert watch.engine.doctor() == []
