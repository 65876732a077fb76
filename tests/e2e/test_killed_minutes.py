"""Processes are killed at random: minutes have every arrival, start, end and drop once."""

import random
import time
from contextlib import closing

import pytest

from penstock.engine import open_engine
from penstock.lifecycle.states import State
from tests.support import counted
from tests.support.command import Process
from tests.support.postgres import empty_store
from tests.support.timing import until

KILLS = 6


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "jobs.db")
        return
    with empty_store() as address:
        yield address


def storm(url, *wound, kills=KILLS):
    """Have processes work on a store, and kill one after the other; then work off what is left."""
    chance = random.Random()
    with closing(open_engine(url)) as engine:
        workers = [hire(url, chance, wound) for _ in range(2)]
        for _ in range(kills):
            time.sleep(chance.uniform(0.2, 0.6))
            workers.append(hire(url, chance, wound))
            dead = workers.pop(0)
            dead.kill()
            dead.wait()
        for worker in workers:
            worker.kill()
            worker.wait()

        def is_idle():
            engine.upkeep()
            counted.drain(engine, chance, "last", relay=())
            return not engine.count().keys() & {State.WAITING, State.SCHEDULED, State.RUNNING}

        until(is_idle, 30.0, engine.count, every=0.01)
        while engine.keep_minutes():
            pass
        return compared(engine)


def hire(url, chance, wound):
    return Process(url, str(chance.randrange(10**6)), *wound, module="tests.support.counted")


def compared(engine):
    """Return what minutes say, and what jobs and attempts say."""

    def ask(sql):
        ((number,),) = engine.store.read(lambda db: db.all(sql))
        return number

    total = engine.past().whole
    told = {
        "ended": total.ended,
        "started": total.started,
        "failed": total.failed,
        "dropped": total.dropped,
        "by gate": sum(engine.gate_past(key).whole.ended for key in counted.KEYS),
        "doctor": engine.doctor(),
    }
    done = "SELECT count(*) FROM done WHERE state = 'done'"
    attempts = ask(done) + ask("SELECT count(*) FROM attempt")
    true = {
        "ended": attempts,
        "started": attempts,
        "failed": ask("SELECT count(*) FROM attempt WHERE outcome IN ('failed', 'lost')"),
        "dropped": ask("SELECT count(*) FROM done WHERE started IS NULL AND state <> 'done'"),
        "by gate": sum(
            ask(f"SELECT coalesce(sum(1 + length(gates) - length(replace(gates, ',', ''))), 0) FROM {table}")
            for table in (
                "(SELECT gates FROM done WHERE state = 'done' AND gates <> '') d",
                "(SELECT gates FROM attempt WHERE gates <> '') a",
            )
        ),
        "doctor": [],
    }
    return told, true


def test_minutes_have_what_happened_once_though_processes_are_killed(url):
    told, true = storm(url)

    assert true == told
    assert min(told["ended"], told["failed"], told["by gate"]) > 0


@pytest.mark.parametrize("wound", counted.WOUNDS)
def test_what_is_added_in_two_steps_is_noticed(tmp_path, wound):
    url = str(tmp_path / "jobs.db")
    told, true = storm(url, wound, kills=2)

    assert true != told
