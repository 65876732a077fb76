"""What only PostgreSQL has: writers side by side, a server that fails, its own clock and its own signals."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine import open_engine
from tests.postgres.race import Race
from tests.support.clock import FakeClock
from tests.support.connections import keep_connections
from tests.support.postgres import drop_schema, empty_store, fresh_schema, shared_url

ROOT = Path(__file__).parents[2]


@pytest.fixture
def url():
    """The address of a store that is empty."""
    with empty_store() as url:
        yield url


@pytest.fixture
def new_url():
    """The address of a schema that does not exist yet."""
    url = fresh_schema(shared_url())
    yield url
    drop_schema(url)


@pytest.fixture
def opened():
    """Open stores, as several processes would; they are closed at the end."""
    engines = []

    def start(url, **options):
        engines.append(open_engine(url, **options))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


class Node:
    """A process that takes itself for another machine, whose clock is wrong by so many seconds."""

    def __init__(self, url, seconds):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.node", str(seconds), url], cwd=ROOT, text=True,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def begin(self, expression):
        """Have it evaluate a Python expression."""
        self._process.stdin.write(f"{expression}\n")
        self._process.stdin.flush()

    def answer(self):
        """Return what came of it."""
        return json.loads(self._process.stdout.readline())

    def do(self, expression):
        self.begin(expression)
        return self.answer()

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def nodes(url):
    """Machines whose clocks are wrong by so many seconds."""
    begun = []

    def begin(*seconds):
        begun.extend(Node(url, wrong) for wrong in seconds)
        for node in begun:
            assert node.answer() == "ready"
        return begun

    yield begin
    for node in begun:
        node.close()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def race(url, clock, monkeypatch):
    """Transactions at once on one store, which must be in order afterwards."""
    keep_connections(monkeypatch)
    with Race(url, clock) as race:
        yield race
