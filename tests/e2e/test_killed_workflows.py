"""Workers that are killed in the middle of workflows: every run comes to the same end, and keeps its slots."""

import json
import random
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from penstock.engine import open_engine
from penstock.job import InstanceState
from tests.support import flowing
from tests.support.command import Process
from tests.support.postgres import drop_schema, fresh_schema, shared_url
from tests.support.timing import until

ROOT = Path(__file__).parents[2]
WORKER = ("worker", "tests.support.flowing:app", "--lease", "3s", "--threads", "4", "--log-level", "error")
PATIENCE = 60.0
CONTACTS, RUNS, KILLS = 4, 12, 4


@pytest.fixture(params=["sqlite", "postgres"])
def own(request, tmp_path):
    """The address of a store that is new."""
    if request.param == "sqlite":
        yield str(tmp_path / "jobs.db")
        return
    url = fresh_schema(shared_url())
    yield url
    drop_schema(url)


def test_workers_that_are_killed_change_no_end_and_give_no_slot_away(own, tmp_path):
    log = tmp_path / "journal"
    environment = {flowing.STORE: own, flowing.JOURNAL: str(log)}

    def hire():
        return Process(*WORKER, folder=ROOT, **environment)

    with closing(open_engine(own)) as engine, flowing.app.connection.lent(engine):
        workers = [hire() for _ in range(2)]
        try:
            runs = [flowing.outreach.start(number % CONTACTS, number) for number in range(RUNS)]
            for _ in range(KILLS):
                time.sleep(0.2 + random.random() * 0.3)  # whatever they do then
                victim = workers.pop(0)
                victim.kill()
                victim.wait()
                workers.append(hire())
            until(lambda: all(run.state == InstanceState.DONE for run in runs), PATIENCE)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()

        assert {1131} == {run.result(0) for run in runs}
        assert [] == engine.doctor()
        began = defaultdict(int)
        for line in map(json.loads, log.read_text().splitlines()):
            began[line["job"]] += line["what"] == "began"
        # One that was recorded never begins again; one whose worker was lost may.
        assert RUNS * 5 == len(began)
        assert RUNS * 5 + KILLS * 4 >= sum(began.values())
        order = [(line["contact"], line["run"]) for line in map(json.loads, log.read_text().splitlines())]
        for contact in range(CONTACTS):
            seen = [run for each, run in order if each == contact]
            # No run of a contact begins before the one before it has ended.
            assert sorted(seen) == seen
