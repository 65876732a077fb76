"""A worker that has two exchanges under way keeps limits as exactly as with one."""

import asyncio
import threading
from collections import Counter

import pytest

from penstock import App, Concurrency, Rate
from penstock.lifecycle.states import State
from penstock.worker import exchanges, pump

PLACES = 24
JOBS = 600


@pytest.fixture
def second(monkeypatch):
    """How often the second pump has made an exchange."""
    made = []
    run = exchanges.Exchanges.run

    def counted(self, *args, **options):
        if threading.current_thread().name == "penstock-second pump":
            made.append(1)
        return run(self, *args, **options)

    monkeypatch.setattr(exchanges.Exchanges, "run", counted)
    monkeypatch.setattr(pump, "LEAST_SHARE", 2)
    return made


@pytest.mark.parametrize("kinds", [["free"], ["keyed"], ["free", "keyed"], ["free", "keyed", "paced"]])
def test_all_jobs_are_done_once_and_no_key_has_more_than_its_slots(url, second, kinds):
    running, most, begun = Counter(), Counter(), []
    with App(url) as app:

        @app.task
        async def free(_: int) -> None:
            pass

        @app.task(limits=[Concurrency(1, key="key:{key}")])
        async def keyed(key: int) -> None:
            running[key] += 1
            most[key] = max(most[key], running[key])
            await asyncio.sleep(0.001)
            running[key] -= 1

        @app.task(limits=[Rate(50, per="1s", key="pace")])
        async def paced(_: int) -> None:
            begun.append(asyncio.get_running_loop().time())

        tasks = {"free": free, "keyed": keyed, "paced": paced}
        counts = {kind: 60 if kind == "paced" else JOBS for kind in kinds}
        for kind, count in counts.items():
            tasks[kind].enqueue_many([(number % 50,) for number in range(count)])
        app.worker(concurrency=PLACES).run(until_idle=True)

        assert second
        assert app.engine.count() == {State.DONE: sum(counts.values())}
        assert all(job.attempt == 1 for job in app.engine.jobs(limit=5 * JOBS))
        assert set(most.values()) <= {1}
        assert all(later - earlier >= 1 for earlier, later in zip(begun, begun[50:], strict=False))
        assert [] == app.engine.doctor()
