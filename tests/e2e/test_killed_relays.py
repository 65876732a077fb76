"""Workers that hand slots on, or have attempts stand by, are killed, watched from outside.

No two handlers of a key overlap, and no job is lost.
"""

import random
import time

import pytest

from penstock.engine import open_engine
from tests.e2e.test_killed_workers import PATIENCE, WORKER, Watch
from tests.support import outside
from tests.support.postgres import empty_store
from tests.support.timing import most_at_once, until

KEYS, JOBS, KILLS = 4, 1_500, 3
HANDS = int(WORKER[-1])
MANY = 300  # keys, for each worker to have more to begin than hands


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


def standing_by(engine):
    """Count the attempts of the worker with the most that are more than its hands, right now."""
    rows = engine.store.read(
        lambda db: db.all("SELECT count(*) FROM running WHERE follows = 0 GROUP BY worker")
    )
    return max((count for (count,) in rows), default=0) - HANDS


@pytest.mark.parametrize(
    ("keys", "seen"), [(KEYS, followers), (MANY, standing_by)], ids=["relays", "standby"]
)
def test_slots_are_held_by_one_at_a_time_though_workers_die(watch, keys, seen):
    chance = random.Random()
    with outside.app.connection.lent(watch.engine):
        calls = [outside.brief.call(number % keys) for number in range(JOBS)]
        for account, handle in enumerate(outside.app.enqueue_many(calls)):
            watch.jobs[handle.id] = ("brief", account % keys)
    for _ in range(2):
        watch.hire()

    most, end = 0, time.monotonic() + PATIENCE
    while len(watch.killed) < KILLS and time.monotonic() < end and not watch.all_done():
        now = seen(watch.engine)
        most = max(most, now)
        at_work = [worker for worker in watch.workers if worker.pid in watch.at_work()]
        if at_work and (now > 0 or watch.killed):
            watch.kill(chance.choice(at_work))
            watch.hire()
        time.sleep(0.01)
    until(watch.all_done, PATIENCE, watch.engine.count, every=0.05)

    assert most > 0, "nothing was handed on, or stood by"
    assert watch.killed
    spans = watch.attempts()
    assert {span.job for span in spans} == set(watch.jobs)
    held = {}
    for span in spans:
        held.setdefault(watch.jobs[span.job], []).append((span.began, span.ended))
    assert {most_at_once(times) for times in held.values()} == {1}
    assert watch.engine.doctor() == []
