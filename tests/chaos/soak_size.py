"""Half a million jobs pass through PostgreSQL: tables and indexes level off, and dead rows are cleared away.

Time is pressed together: what a service does in an hour happens in a few minutes, so autovacuum looks
every few seconds instead of every minute, and ended jobs are kept for seconds instead of days.
"""

import itertools
import random
import time

import psycopg
import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.job import NewJob, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers, Window
from tests.support.postgres import Server, need_package

JOBS = 500_000
SAMPLE = 50_000
BACKLOG = 5_000
BATCH = 500
KEYS = 1_000
KEEP = 5 * SECOND
TIDY = 10_000  # jobs between two rounds of upkeep
# What is kept of jobs that ended: it grows with what is kept, and with nothing else.
HISTORY = {"job", "done", "attempt", "progress", "uniqueness"}
LEVEL = 1.3
SETTINGS = {"autovacuum_naptime": "3s"}

SIZES = """
    SELECT c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid), coalesce(s.n_dead_tup, 0)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
    WHERE n.nspname = 'penstock' AND c.relkind = 'r' ORDER BY c.relname
"""


class Soak:
    """A backlog that is worked off at one end and filled up at the other."""

    def __init__(self, engine):
        self.engine = engine
        self._chance = random.Random(0)
        self._to_settle = []
        self.through = 0

    def fill(self, count):
        self.engine.enqueue([self._job() for _ in range(count)])

    def step(self):
        answers, claim = self.engine.exchange(self._to_settle, ["default"], BATCH, worker="soak")
        assert all(answers)
        self.through += len(answers)
        self._to_settle = [Settlement(job.seq, job.fence, Done()) for job in claim.jobs]
        if answers:
            self.fill(len(answers))

    def tidy(self):
        self.engine.upkeep()
        self.engine.prune(self.engine.clock.now() - KEEP)

    def _job(self):
        """Return a job: six in ten are free, three have a key of their own kind, one has a rate."""
        kind, key = self._chance.random(), self._chance.randrange(KEYS)
        if kind < 0.6:
            return NewJob("free")
        if kind < 0.9:
            return NewJob("keyed", limits=(Limit(f"account:{key}", Numbers(slots=2)),))
        return NewJob("rated", limits=(Limit(f"api:{key % 100}", Numbers(rate=Window(1_000, SECOND))),))


@pytest.mark.timeout(600)
def test_sizes_level_off():
    need_package()
    server = Server.begin(durable=True, settings=SETTINGS)
    try:
        samples = soak(server.url)
    finally:
        server.close()

    working = [sum(size for table, size in sample.items() if table not in HISTORY) for sample in samples]
    third = len(samples) // 3
    assert max(working[-third:]) <= LEVEL * max(working[third:-third])
    assert max(sum(sample.values()) for sample in samples[-third:]) <= LEVEL * max(
        sum(sample.values()) for sample in samples[third:-third]
    )


def soak(url):
    """Let the jobs pass; return the size of every table with its indexes, after each part of them."""
    samples = []
    engine = open_engine(url)
    run = Soak(engine)
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(BACKLOG // BATCH):
            run.fill(BATCH)
        began = time.monotonic()
        print("\n    jobs  seconds   waiting   tables MB  indexes MB  history MB  dead rows  largest")
        for part in itertools.count(1):
            while run.through < part * TIDY:
                run.step()
            run.tidy()
            if run.through >= SAMPLE * (len(samples) + 1):
                rows = connection.execute(SIZES).fetchall()
                samples.append({table: heap + indexes for table, heap, indexes, _ in rows})
                show(rows, run.through, time.monotonic() - began, engine.count()[State.WAITING])
            if run.through >= JOBS:
                break
    assert [] == engine.doctor()
    engine.close()
    return samples


def show(rows, jobs, seconds, waiting):
    """Print a line of the table."""
    working = [row for row in rows if row[0] not in HISTORY]
    largest = sorted(working, key=lambda row: row[1] + row[2], reverse=True)[:4]
    named = ", ".join(f"{table} {(heap + indexes) / 1e6:.1f}" for table, heap, indexes, _ in largest)
    heaps, indexes = sum(row[1] for row in working), sum(row[2] for row in working)
    history = sum(row[1] + row[2] for row in rows if row[0] in HISTORY)
    dead = sum(row[3] for row in rows)
    print(
        f"{jobs:>8,} {seconds:>8.1f} {waiting:>9,} {heaps / 1e6:>11.1f} {indexes / 1e6:>11.1f} "
        f"{history / 1e6:>11.1f} {dead:>10,}  {named}",
        flush=True,
    )
