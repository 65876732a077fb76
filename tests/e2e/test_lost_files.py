"""Real processes whose SQLite file is taken away, replaced or damaged under them."""

import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress

import pytest

from penstock.engine import open_engine
from penstock.job import NewJob
from tests.support.command import Process, document, penstock
from tests.support.server import Served
from tests.support.timing import until

BROKEN = 5
PAGE = 4096
PATIENCE = 40
TASKS = """
import asyncio
from penstock import App

app = App("jobs.db")

@app.task
async def rest(seconds: float) -> None:
    print("rests", flush=True)
    await asyncio.sleep(seconds)
"""
OVERWRITE = """
import os, sys
with open(sys.argv[1], "r+b") as file:
    file.write(b"\\xa5" * os.path.getsize(sys.argv[1]))
"""


class Hand:
    """A `penstock worker` in a folder, and what it says."""

    def __init__(self, folder):
        self._process = Process(
            "worker", "tasks:app", "--lease", "1s", folder=folder, streams=("stdout", "stderr")
        )
        self.lines = []
        streams = (self._process.stdout, self._process.stderr)
        self._readers = [threading.Thread(target=self._read, args=[each], daemon=True) for each in streams]
        for reader in self._readers:
            reader.start()
        self.says("begins")

    def _read(self, stream):
        with stream:
            self.lines.extend(iter(stream.readline, ""))

    def says(self, word):
        until(lambda: any(word in line for line in self.lines), PATIENCE)

    def kill(self):
        self._process.kill()
        self.ended()

    def ended(self):
        """Wait for its end; return its exit status and all it said."""
        status = self._process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return status, "".join(self.lines)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tasks.py").write_text(TASKS)
    open_engine(str(tmp_path / "jobs.db")).close()
    return tmp_path


@pytest.fixture
def hand(folder):
    hand = Hand(folder)
    yield hand
    hand.kill()


def put_copy(folder):
    """Put another database in place, as an operator does who restores a copy and forgets to stop."""
    with closing(open_engine(str(folder / "copy.db"))) as engine:
        engine.enqueue([NewJob("rest", json.dumps({"args": [0]}))])
    (folder / "copy.db").replace(folder / "jobs.db")


class TestLost:
    def test_an_idle_worker_whose_file_was_replaced_ends_and_says_what_to_do(self, folder, hand):
        put_copy(folder)

        status, said = hand.ended()

        assert BROKEN == status
        assert "jobs.db was replaced while it was in use" in said
        assert "stop every process that uses it" in said
        assert "trying again" not in said

    @pytest.mark.parametrize("name", ["jobs.db", "jobs.db-wal", "jobs.db-shm"])
    def test_an_idle_worker_whose_file_was_removed_ends(self, folder, hand, name):
        (folder / name).unlink()

        status, said = hand.ended()

        assert BROKEN == status
        assert f"{name} was removed" in said

    def test_a_worker_that_runs_a_job_ends_too(self, folder, hand):
        with closing(open_engine(str(folder / "jobs.db"))) as engine:
            engine.enqueue([NewJob("tasks.rest", json.dumps({"args": [3600]}))])
            hand.says("rests")

            put_copy(folder)
            status, said = hand.ended()

        assert BROKEN == status
        assert "jobs.db was replaced" in said

    def test_a_server_whose_file_was_removed_keeps_no_job_and_ends(self, folder):
        server = Served(folder / "jobs.db")
        server.start()
        try:
            server.enqueue({"type": "some.work", "args": []})
            (folder / "jobs.db").unlink()

            with suppress(OSError):  # it may have ended already
                answer = server.post("/ojs/v1/jobs", {"type": "some.work", "args": []})
                assert 503 == answer.status
                assert "was removed" in answer["error"]["message"]
            assert BROKEN == server.wait()
        finally:
            server.stop()

        assert "jobs.db was removed while it was in use" in "".join(server.log)
        assert "Traceback" not in "".join(server.log)

    def test_a_worker_that_was_killed_is_followed_by_one_that_finds_nothing_missing(self, folder, hand):
        with closing(open_engine(str(folder / "jobs.db"))) as engine:
            engine.enqueue([NewJob("tasks.rest", json.dumps({"args": [0]})) for _ in range(20)])
            hand.says("rests")
        hand.kill()

        ran = penstock("worker", "tasks:app", "--until-idle", "--lease", "1s", folder=folder)

        assert 0 == ran.returncode, ran.stderr
        assert document("doctor", "--store", "jobs.db", folder=folder)["healthy"]


class TestDamaged:
    def test_a_worker_under_which_the_file_is_damaged_ends_and_says_what_to_do(self, folder, hand):
        with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE counter SET value = value + 1")
            # In a process of its own: this one would lose SQLite's locks.
            subprocess.run([sys.executable, "-c", OVERWRITE, folder / "jobs.db"], check=True, timeout=60)
            other.execute("COMMIT")  # so that the worker reads again

            status, said = hand.ended()

        assert BROKEN == status
        assert "jobs.db is damaged" in said
        assert ".recover" in said

    @pytest.mark.parametrize("command", [["worker", "tasks:app"], ["serve", "--port", "0"], ["jobs", "list"]])
    def test_every_command_says_that_a_database_is_damaged(self, folder, command):
        damage(folder)

        ran = penstock(*command, folder=folder, PENSTOCK_URL="jobs.db")

        assert BROKEN == ran.returncode
        assert "jobs.db is damaged" in ran.stderr
        assert "name another file" not in ran.stderr

    def test_the_doctor_lists_what_sqlite_finds(self, folder):
        with closing(open_engine(str(folder / "jobs.db"))) as engine:
            engine.enqueue([NewJob("rest")] * 3_000)
        damage(folder, first=(folder / "jobs.db").stat().st_size // PAGE - 20)

        told = penstock("doctor", "--store", "jobs.db", folder=folder)
        found = document("doctor", "--store", "jobs.db", folder=folder, status=BROKEN)

        assert BROKEN == told.returncode
        assert "jobs.db: damaged" in told.stdout
        assert "put a copy back" in told.stderr
        assert not found["healthy"]
        assert found["differences"]


def damage(folder, first=2):
    """Overwrite all pages from *first* on."""
    path = folder / "jobs.db"
    with path.open("r+b") as file:
        file.seek((first - 1) * PAGE)
        file.write(b"\xa5" * (path.stat().st_size - (first - 1) * PAGE))
