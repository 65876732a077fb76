"""A start that cannot be told of in time is given back: its gate remembers it as begun already."""

import asyncio

from penstock.engine import open_engine
from penstock.http.engine_service import Claims, EngineService
from penstock.job import ClaimFor, NewJob
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers, Window

RATED = (Limit("key", Numbers(rate=Window(1, 60_000_000))),)


def claimed(tmp_path, pause, grace=50_000):
    async def work():
        engine = open_engine(str(tmp_path / "jobs.db"))
        engine.enqueue([NewJob("task", limits=RATED)])
        service = EngineService(engine)
        jobs = await service.claim(ClaimFor(("default",), 1, "w", grace=grace), Claims())
        await asyncio.sleep(pause)
        found = await service.in_time(jobs)
        counts = engine.count()
        again = await service.claim(ClaimFor(("default",), 1, "w"), Claims())
        service.close()
        engine.close()
        return len(jobs), len(found), counts, len(again)

    return asyncio.run(work())


def test_what_is_told_in_time_is_begun(tmp_path):
    assert claimed(tmp_path, 0, grace=60_000_000) == (1, 1, {State.RUNNING: 1}, 0)


def test_what_comes_too_late_is_given_back_and_was_no_start(tmp_path):
    assert claimed(tmp_path, 0.1) == (1, 0, {State.WAITING: 1}, 1)
