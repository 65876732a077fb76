"""Real worker processes on one file: woken, killed, stopped, frozen."""

import json
import signal
from collections import defaultdict
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.job import NewJob
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Limit, Numbers, Window
from tests.support import journal
from tests.support.command import Process
from tests.support.frozen import freeze
from tests.support.timing import until

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0


class Workplace:
    """A store, a journal and worker processes that do not outlive the test."""

    def __init__(self, folder, store=None):
        self.store = store or folder / "jobs.db"
        self.journal = folder / "journal"
        self.log = folder / "log"
        self.engine = open_engine(str(self.store))
        self.processes = []

    def hire(self, **options):
        process = Process(
            str(self.store), str(self.journal), json.dumps(options), module="tests.support.hand",
            folder=ROOT, streams=("stdout",), log=self.log,
        )  # fmt: skip
        self.processes.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    def lose(self, process):
        process.kill()
        process.wait()

    def enqueue(self, task="wait", key="k", seconds=0.0, count=1, **options):
        args = json.dumps({"args": [key, seconds]})
        answers = self.engine.enqueue([NewJob(task, args, **options) for _ in range(count)])
        return [answer.id for answer in answers]

    def lines(self, what=None):
        return [line for line in journal.read(self.journal) if what in {None, line["what"]}]

    def until(self, true):
        until(true, PATIENCE, self.lines)

    def ended(self, ids, state=State.DONE):
        self.until(lambda: all(self.engine.job(job).state is state for job in ids))

    def close(self):
        for process in self.processes:
            self.lose(process)
            process.stdout.close()
        self.engine.close()


@pytest.fixture
def place(tmp_path):
    place = Workplace(tmp_path)
    yield place
    try:
        assert place.engine.doctor() == []
    finally:
        place.close()


def one_at_a_time(key):
    return (Limit(key, Numbers(slots=1)),)


def overlaps(lines):
    """Return the most handlers of one key that were seen at work at once."""
    changes = defaultdict(list)
    for line in sorted(lines, key=lambda line: line["at"]):
        changes[line["key"]].append(1 if line["what"] == "began" else -1)
    return max(max(accumulate(steps)) for steps in changes.values())


def test_an_idle_worker_in_another_process_is_woken_by_each_job(place):
    place.hire()
    # Looking by itself now and then, the worker would need minutes.
    for _ in range(25):
        place.ended(place.enqueue(), State.DONE)


def test_a_killed_worker_loses_its_lease_and_another_finishes_its_jobs(place):
    victim = place.hire(lease="1s")
    ids = place.enqueue(key="one", seconds=0.2, count=4, limits=one_at_a_time("one"))
    place.until(lambda: place.lines("began"))
    place.lose(victim)
    survivor = place.hire(lease="1s")
    place.ended(ids)

    by = {line["pid"] for line in place.lines("ended")}
    assert by == {survivor.pid}
    # The victim's handler ended with it, without a line to say so.
    cut = place.lines("began")[0]
    assert overlaps([line for line in place.lines() if line != cut]) == 1


def test_a_killed_worker_loses_no_last_update(place):
    latest = {"unique": Unique("settings", on_duplicate=OnDuplicate.REPLACE)}
    victim = place.hire(lease="1s")
    (first,) = place.enqueue(key="first", seconds=60, **latest)
    place.until(lambda: place.lines("began"))
    (second,) = place.enqueue(key="second", **latest)
    (last,) = place.enqueue(key="last", **latest)
    place.lose(victim)
    place.hire(lease="1s")

    place.ended([last])
    place.ended([first, second], State.CANCELLED)
    assert ["first", "last"] == [line["key"] for line in place.lines("began")]


def test_steady_calls_and_a_storm_of_kills_lose_no_last_update_and_overlap_nothing(place):
    latest = Unique("settings", on_duplicate=OnDuplicate.REPLACE)
    ids = []
    for _ in range(4):
        victim = place.hire(lease="1s")
        seen = len(place.lines("began"))
        while len(place.lines("began")) < seen + 3:
            ids += place.enqueue(key="settings", seconds=0.02, unique=latest)
        place.lose(victim)
    place.hire(lease="1s")
    place.ended(ids[-1:])

    # A handler that was killed wrote no end; the next one began only after its lease had run out.
    ends = {(line["job"], line["pid"]) for line in place.lines("ended")}
    assert overlaps([line for line in place.lines() if (line["job"], line["pid"]) in ends]) == 1
    assert place.lines("ended")[-1]["job"] == ids[-1]
    assert {place.engine.job(job).state for job in ids} <= {State.DONE, State.CANCELLED}


def test_two_processes_wait_for_a_pause_in_the_calls_of_both(place):
    pause = Unique("k", on_duplicate=OnDuplicate.REPLACE, quiet=SECOND, max_wait=60 * SECOND)
    other = open_engine(str(place.store))
    place.hire()
    place.hire()
    called = []
    for number in range(4):
        engine = (place.engine, other)[number % 2]
        args = json.dumps({"args": [f"call-{number}", 0]})
        called += [(answer.id, answer.at) for answer in engine.enqueue([NewJob("wait", args, unique=pause)])]
        # Each comes before the pause of the one before it is over.
        place.until(lambda at=called[-1][1]: place.engine.clock.now() >= at + SECOND // 10)
    place.ended([called[-1][0]])
    other.close()

    # On a busy machine a pause may come in between.
    begun = [number for number, (job, _) in enumerate(called) if place.engine.job(job).state is State.DONE]
    assert begun[-1] == 3
    assert [line["key"] for line in place.lines("began")] == [f"call-{number}" for number in begun]
    for number in begun:
        job, at = called[number]
        assert place.engine.job(job).started >= at + SECOND
        assert number == 3 or called[number + 1][1] >= at + SECOND


def test_sigterm_lets_running_handlers_finish_and_leaves_the_rest(place):
    worker = place.hire(concurrency=2)
    running = place.enqueue(seconds=0.5, count=2)
    place.until(lambda: len(place.lines("began")) == 2)
    rest = place.enqueue(count=3)
    worker.send_signal(signal.SIGTERM)
    worker.wait(PATIENCE)

    assert worker.returncode == 0
    assert [place.engine.job(job).state for job in running] == [State.DONE] * 2
    assert [place.engine.job(job).state for job in rest] == [State.WAITING] * 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_hands_the_running_jobs_back_at_once(place, number):
    worker = place.hire(lease="60s")
    ids = place.enqueue(seconds=60, count=3, limits=one_at_a_time("one"))[:1]
    place.until(lambda: place.lines("began"))
    worker.send_signal(number)
    place.until(lambda: "stopping" in place.log.read_text())
    assert worker.poll() is None
    worker.send_signal(number)
    worker.wait(PATIENCE)

    # Long before its lease has run out, and with all its attempts.
    view = place.engine.job(ids[0])
    assert worker.returncode == 0
    assert (view.state, view.attempt) == (State.WAITING, 0)
    assert place.lines("ended")


def test_a_function_that_will_not_end_is_not_handed_back_while_it_may_run(place):
    worker = place.hire(tasks=["block"], lease="3s")
    ids = place.enqueue("block", seconds=60, limits=one_at_a_time("one"))
    place.until(lambda: place.lines("began"))
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGINT)
    worker.wait(PATIENCE)

    assert place.engine.job(ids[0]).state is State.RUNNING
    place.until(lambda: place.engine.upkeep() and place.engine.job(ids[0]).state is State.WAITING)


def test_the_late_outcome_of_a_frozen_worker_counts_for_nothing(place):
    frozen = place.hire(lease="1s")
    (job,) = place.enqueue(seconds=1.5)
    place.until(lambda: place.lines("began"))
    freeze(frozen.pid, str(place.store))
    other = place.hire(lease="1s")
    place.ended([job])
    frozen.send_signal(signal.SIGCONT)
    place.until(lambda: len(place.lines("ended")) == 2)
    frozen.send_signal(signal.SIGTERM)
    frozen.wait()

    assert place.engine.job(job).result == str(other.pid)
    assert "lease" in place.log.read_text()


def test_a_hogged_event_loop_keeps_its_lease(place):
    hog = place.hire(tasks=["hog"], lease="1s")
    place.hire(tasks=["hog"], lease="1s", name="other")
    (job,) = place.enqueue("hog", seconds=3.0)
    place.ended([job])

    assert len(place.lines("began")) == 1
    assert place.engine.job(job).attempt == 1
    assert hog.poll() is None


@pytest.mark.parametrize("task", ["wait", "block"])
def test_two_processes_keep_a_rate_and_a_limit_at_the_handler(place, task):
    limits = (Limit("shared", Numbers(slots=3, rate=Window(10, SECOND // 4))),)
    for _ in range(2):
        place.hire(tasks=[task])
    ids = place.enqueue(task, key="shared", seconds=0.01, count=60, limits=limits)
    place.ended(ids)

    starts = sorted(line["at"] for line in place.lines("began"))
    assert len(starts) == 60
    assert all(later - first > 250_000_000 for first, later in zip(starts, starts[10:], strict=False))
    assert overlaps(place.lines()) <= 3


def test_two_processes_keep_a_throttle_at_the_handler(place):
    limits = (Limit("spaced", Numbers(throttle=Window(50, SECOND))),)
    for _ in range(2):
        place.hire()
    place.ended(place.enqueue(key="spaced", count=50, limits=limits))

    starts = sorted(line["at"] for line in place.lines("began"))
    assert len(starts) == 50
    assert all(later - first >= 20_000_000 for first, later in pairwise(starts))


def test_a_storm_of_kills_loses_nothing_and_overlaps_nothing(place):
    keys = [f"key-{number}" for number in range(5)]
    ids = []
    for key in keys:
        ids += place.enqueue(key=key, seconds=0.02, count=20, limits=one_at_a_time(key))
    for _ in range(3):
        victim = place.hire(lease="1s")
        seen = len(place.lines("ended"))
        place.until(lambda seen=seen: len(place.lines("ended")) > seen + 5)
        place.lose(victim)
    place.hire(lease="1s")
    place.ended(ids)

    # A handler that was killed wrote no end; its next attempt began only after its lease had run out.
    ends = {(line["job"], line["pid"]): line["at"] for line in place.lines("ended")}
    whole = [line for line in place.lines() if line["what"] == "ended" or (line["job"], line["pid"]) in ends]
    assert overlaps(whole) == 1
    assert {line["job"] for line in place.lines("ended")} == set(ids)
