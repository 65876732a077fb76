"""Bulkheads shared by real processes: calls counted from outside, killed, frozen, stopped.

The calls write when they began and when they ended into a journal; what is asked here is asked of that journal.
"""

import json
import math
import os
import signal
import time
from collections import Counter
from itertools import groupby
from pathlib import Path
from statistics import median

import pytest

from penstock.engine import open_engine
from penstock.errors import NotFoundError
from penstock.job import NewJob
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers
from tests.support import journal
from tests.support.command import Process
from tests.support.frozen import freeze
from tests.support.postgres import drop_schema, fresh_schema, shared_url
from tests.support.timing import until

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
LEASE = 2
IDLE = 1  # how long slots of a block are kept for nothing
LONG = 600  # a lease that does not end during a test
SLACK = 4  # for a busy machine
SECOND = 10**9


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "jobs.db")
        return
    url = fresh_schema(shared_url())
    yield url
    drop_schema(url)


class Crew:
    """Processes that outlive a test they survived well, since starting costs most; none outlives all tests."""

    def __init__(self, complaints):
        self.complaints = complaints
        self.spare = []
        self._processes = []

    def hire(self, count):
        """Return so many processes that do nothing yet."""
        missing = self.start("caller", count=max(count - len(self.spare), 0))
        self.spare += [Caller(process) for process in missing]
        return [self.spare.pop() for _ in range(count)]

    def start(self, module, *args, count=1):
        """Start so many processes, and wait until all are ready."""
        processes = [self._begin(module, args) for _ in range(count)]
        for process in processes:
            assert "ready\n" == process.stdout.readline(), self.complaints.read_text()
        return processes

    def close(self):
        for process in self._processes:
            end(process)

    def _begin(self, module, args):
        process = Process(
            *args,
            module=f"tests.support.{module}",
            folder=ROOT,
            streams=("stdin", "stdout"),
            log=self.complaints,
        )
        self._processes.append(process)
        return process


class Caller:
    """A process whose calls share bulkheads, by what it is told to do."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid

    def __getattr__(self, do):
        def tell(**facts):
            self.process.stdin.write(json.dumps({"do": do, **facts}) + "\n")
            self.process.stdin.flush()

        return tell

    def takes(self, key="api", **calls):
        """Have it take a slot for each of *calls*, in a thread or a task."""
        for who, how in calls.items():
            self.take(who=who, key=key, how=how)

    def gives(self, *calls):
        """Have it give back the slots of *calls*."""
        for who in calls:
            self.give(who=who)

    def kill(self):
        """Kill it; return a moment when it was still alive."""
        alive = now()
        self.process.kill()
        self.process.wait(PATIENCE)
        return alive

    def leave(self):
        """Let it come to its end."""
        self.process.stdin.close()
        assert 0 == self.process.wait(PATIENCE)

    def thaw(self):
        os.kill(self.pid, signal.SIGCONT)


class Workplace:
    """A store, a journal, and processes at work."""

    def __init__(self, address, folder, crew):
        self.address = address
        self.journal = folder / "journal"
        self.journal.touch()
        self.engine = open_engine(address)
        self._crew = crew
        self._callers, self._workers = [], []

    def callers(self, count, gates, lease=LONG):
        """Have so many processes whose calls share *gates*."""
        hired = self._crew.hire(count)
        self._callers += hired
        for caller in hired:
            caller.open(store=self.address, journal=str(self.journal), gates=gates, lease=lease)
        self.until(lambda: len(self.lines("opened")) == len(self._callers))
        return hired

    def workers(self, count, **options):
        """Have so many processes that run jobs."""
        self._workers += self._crew.start(
            "hand", self.address, str(self.journal), json.dumps(options), count=count
        )

    def enqueue(self, key, slots, count, seconds):
        args = json.dumps({"args": [key, seconds]})
        limits = (Limit(key, Numbers(slots=slots)),)
        answers = self.engine.enqueue([NewJob("wait", args, limits=limits) for _ in range(count)])
        return [answer.id for answer in answers]

    def lines(self, *what, **facts):
        """Return the lines about *what*, in the order in which it happened."""
        lines = [
            line
            for line in journal.read(self.journal)
            if facts.items() <= line.items() and (not what or line["what"] in what)
        ]
        return sorted(lines, key=lambda line: line["at"])

    def until(self, true, patience=PATIENCE):
        until(true, patience, lambda: self.journal.read_text()[-4000:])

    def began(self, *who):
        """Wait until these calls have their slots."""
        self.until(lambda: set(who) <= {line["who"] for line in self.lines("began")})

    def ended(self, count):
        """Wait until so many calls and jobs are over."""
        self.until(lambda: self.journal.read_bytes().count(b'"ended"') >= count)

    def gate(self, key):
        """Return how many run, and how many wait."""
        try:
            view = self.engine.gate(key)
        except NotFoundError:
            return (0, 0)
        return (view.running, view.waiting)

    def close(self):
        for process in self._workers:
            end(process)
        well = [caller for caller in self._callers if self._is_well(caller)]
        for caller in self._callers:
            if caller not in well:
                end(caller.process)
        self.engine.close()
        self._crew.spare += well

    def _is_well(self, caller):
        """Let a process share nothing any more; tell whether it does."""
        if caller.process.poll() is not None:
            return False
        if len(self.lines("began", pid=caller.pid)) != len(self.lines("ended", pid=caller.pid)):
            return False
        caller.close()
        self.until(lambda: self.lines("closed", pid=caller.pid))
        return True


def end(process):
    process.kill()  # of one that has ended nothing comes
    process.wait(PATIENCE)
    process.stdin.close()
    process.stdout.close()


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@pytest.fixture(scope="module")
def crew(tmp_path_factory):
    crew = Crew(tmp_path_factory.mktemp("crew") / "complaints")
    yield crew
    crew.close()


@pytest.fixture
def place(address, tmp_path, crew):
    place = Workplace(address, tmp_path, crew)
    try:
        yield place
        assert [] == place.engine.doctor()
    finally:
        place.close()


def most_at_once(lines, gone=()):
    """Return the most calls and jobs that were seen at work at once; what died worked until it was *gone*, by pid."""
    changes, open_ = [], Counter()
    for line in lines:
        step = {"began": 1, "ended": -1}.get(line["what"], 0)
        changes.append((line["at"], step))
        open_[line["pid"]] += step
    changes += [(gone[pid], -count) for pid, count in open_.items() if count]
    most = running = 0
    for _, step in sorted(changes):  # of the same moment, ends come first
        running += step
        most = max(most, running)
    assert running == 0
    return most


def test_threads_and_tasks_of_four_processes_obey_one_limit(place, crew):
    callers = place.callers(4, {"api": {"slots": 3}})
    for caller in callers:
        caller.crowd(key="api", threads=2, tasks=4, calls=6, seconds=0.004)
    place.ended(4 * 6 * 6)
    place.until(lambda: place.gate("api") == (0, 0))

    assert 3 == most_at_once(place.lines())
    done = Counter((line["pid"], line["who"]) for line in place.lines("ended"))
    assert ({6}, 4 * 6) == (set(done.values()), len(done))
    assert "" == crew.complaints.read_text()


def test_calls_and_jobs_of_one_key_obey_one_limit_and_neither_starves(place):
    place.workers(2)
    callers = place.callers(4, {"api": {"slots": 3, "key": "key"}})
    for caller in callers:
        caller.crowd(key="api", threads=2, tasks=4, seconds=0.01)
    place.until(lambda: len({line["pid"] for line in place.lines("ended")}) == 4)
    ids = place.enqueue("api", 3, count=10, seconds=0.01)
    place.until(lambda: all(place.engine.job(job).state is State.DONE for job in ids))
    for caller in callers:
        caller.rest()
    place.until(lambda: place.gate("api") == (0, 0))

    assert 3 == most_at_once(place.lines())
    kinds = ["job" if "job" in line else "call" for line in place.lines("began")]
    first, last = kinds.index("job"), len(kinds) - kinds[::-1].index("job")
    runs = {"call": [], "job": []}
    for kind, run in groupby(kinds[first:last]):
        runs[kind].append(len(list(run)))
    # Both wait all the time, and neither is served alone; a worker that is slow to come lets some more calls pass.
    assert 10 == sum(runs["job"])
    assert max(runs["job"]) <= 5
    assert median(runs["call"]) <= 20


def test_what_killed_processes_held_and_waited_for_goes_to_others_within_the_lease(place):
    holder, other = place.callers(2, {"api": {"slots": 3}}, lease=LEASE)
    holder.takes(a="thread", b="task")
    other.takes(c="thread")
    place.began("a", "b", "c")
    waiter, heir = place.callers(2, {"api": {"slots": 3}}, lease=LEASE)
    waiter.takes(x="thread", y="task")
    place.until(lambda: place.gate("api") == (3, 2))
    heir.takes(d="thread", e="task", f="thread")
    place.until(lambda: place.gate("api") == (3, 5))
    # A process that lives keeps its slots for longer than a lease.
    longer = place.lines("began")[-1]["at"] + LEASE * SECOND * 5 // 4
    place.until(lambda: now() > longer)

    alive = holder.kill()
    waiter.kill()
    other.gives("c")
    place.began("d", "e", "f")
    assert (3, 0) == place.gate("api")
    heir.gives(*"def")
    place.until(lambda: place.gate("api") == (0, 0))

    assert ["a", "b", "c"] == sorted(line["who"] for line in place.lines("began") if line["at"] < alive)
    assert 3 == most_at_once(place.lines(), {holder.pid: alive})
    assert [] == place.lines("began", pid=waiter.pid)
    assert place.lines("began")[-1]["at"] < alive + (LEASE + SLACK) * SECOND


def test_a_process_that_ends_gives_its_slots_back_at_once(place):
    first, second, third = place.callers(3, {"api": {"slots": 4}})
    first.takes(a="thread", b="task")
    first.keep(who="c", key="api")
    first.enter(who="d", key="api")
    place.began("a", "b", "c", "d")
    second.takes(e="thread", f="task")
    place.until(lambda: place.gate("api") == (4, 2))
    third.takes(g="thread", h="task")
    place.until(lambda: place.gate("api") == (4, 4))
    third.takes(i="thread")
    place.until(lambda: place.gate("api") == (4, 5))

    gone = {first.pid: now()}
    first.exit(code=3)
    assert 3 == first.process.wait(PATIENCE)
    assert (4, 1) == place.gate("api")
    place.began("e", "f", "g", "h")
    gone[third.pid] = now()
    third.leave()
    assert (2, 0) == place.gate("api")
    gone[second.pid] = now()
    second.leave()
    assert (0, 0) == place.gate("api")

    assert 4 == most_at_once(place.lines(), gone)


def test_blocks_of_three_processes_obey_one_limit_and_all_go_on(place):
    callers = place.callers(3, {"api": {"slots": 8, "block": 8}})
    for caller in callers:
        caller.crowd(key="api", threads=2, tasks=4, seconds=0.01)
    place.until(lambda: all(len(place.lines("ended", pid=caller.pid)) >= 30 for caller in callers))
    working = dict.fromkeys((caller.pid for caller in callers), math.inf)
    place.until(lambda: most_at_once(place.lines(), working) > 6)  # more than the calls of one process
    for caller in callers:
        caller.rest()
    place.until(lambda: place.gate("api") == (0, 0))

    assert most_at_once(place.lines()) <= 8


def test_unused_slots_of_a_block_go_to_calls_that_want_them_and_back_to_the_store(place):
    keeper, other = place.callers(2, {"api": {"slots": 8, "block": 8}})
    keeper.takes(a="thread")
    place.began("a")
    assert (8, 0) == place.gate("api")
    names = "bcdefgh"
    other.takes(**dict.fromkeys(names, "task"))
    place.began(*names)
    assert [] == place.lines("ended")
    other.take(who="i", key="api", how="thread", seconds=0)
    place.until(lambda: place.gate("api") == (8, 1))

    other.gives(*names)
    keeper.gives("a")
    place.until(lambda: place.gate("api") == (0, 0))
    assert now() < place.lines("ended")[-1]["at"] + (IDLE + SLACK) * SECOND
    assert 8 == most_at_once(place.lines())


def test_callers_of_several_processes_are_served_in_the_order_in_which_they_came(place):
    callers = place.callers(3, {"api": {"slots": 1}})
    callers[0].takes(first="thread")
    place.began("first")
    names = []
    for number, turn in enumerate([1, 0, 2, 2, 1, 0, 1, 2]):
        names.append(f"{number} of {turn}")
        callers[turn].take(who=names[-1], key="api", how=["thread", "task"][number % 2], seconds=0)
        place.until(lambda number=number: place.gate("api") == (1, number + 1))
    callers[0].gives("first")
    place.until(lambda: place.gate("api") == (0, 0))

    assert ["first", *names] == [line["who"] for line in place.lines("began")]
    assert 1 == most_at_once(place.lines())


def test_a_process_frozen_for_longer_than_its_lease_has_lost_its_slots_and_can_borrow_again(place):
    gates = {
        "told": {"slots": 1},
        "cancelled": {"slots": 1, "on_lost": "cancel"},
        "block": {"slots": 4, "block": 4},
    }
    frozen, other = place.callers(2, gates, lease=LEASE)
    for key in gates:
        frozen.take(who=f"old {key}", key=key, how="task")
    place.began(*(f"old {key}" for key in gates))
    frozen.take_later(who="new block", key="block", seconds=LEASE)
    place.until(lambda: place.lines("sleeps"))
    freeze(frozen.pid, place.address)
    since = now()

    # Others get all of it.
    names = {"told": "a", "cancelled": "b", "block": "cdef"}
    for key, each in names.items():
        other.takes(key, **dict.fromkeys(each, "thread"))
    place.began(*"abcdef")
    assert min(line["at"] for line in place.lines("began", pid=other.pid)) > since

    # The slots that lay idle in its block when it was frozen are not its own either: a call is about to ask for one.
    place.until(lambda: now() > since + LEASE * SECOND * 5 // 4)
    frozen.thaw()
    place.until(lambda: {line["key"] for line in place.lines("lease_lost")} == set(gates))
    place.until(lambda: place.lines("cancelled"))
    assert ["old cancelled"] == [line["who"] for line in place.lines("cancelled")]
    frozen.look(who="old told")
    place.until(lambda: place.lines("lost", who="old told"))
    place.until(lambda: place.gate("block") == (4, 1))

    # What it gives back belongs to no process.
    frozen.gives("old told", "old block")
    place.until(lambda: len(place.lines("ended", pid=frozen.pid)) == 3)
    frozen.take(who="new told", key="told", how="task")
    place.until(lambda: place.gate("told") == (1, 1))
    assert [] == [line for line in place.lines("began", pid=frozen.pid) if line["at"] > since]

    # It borrows like any other process.
    other.gives(*"abcdef")
    place.began("new told", "new block")
    frozen.look(who="new told")
    place.until(lambda: place.lines("kept", who="new told"))
    frozen.gives("new told", "new block")
    place.until(lambda: all(place.gate(key) == (0, 0) for key in gates))
    for key, facts in gates.items():
        lines = [line for line in place.lines(key=key) if not line["who"].startswith("old")]
        assert facts["slots"] == most_at_once(lines)
