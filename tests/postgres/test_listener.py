"""What the listener passes on, and when: played on a clock of its own, without a server."""

import random
from bisect import bisect_left
from collections import deque
from types import SimpleNamespace

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.job import Topic
from penstock.store.postgres import signals as signals_module
from penstock.store.postgres.signals import STORM, Signals

US = "us"
LATEST = SECOND // 30  # how long one may be kept in a storm


class Play:
    """A server that notifies when the script says so, a listener, and a thread that waits for work all the time."""

    def __init__(self, monkeypatch, waited_for=(Topic.WORK,)):
        self.now = SECOND
        self.info = SimpleNamespace(backend_pid=1)
        self.passed_on = []  # (moment, topics)
        self._script = deque()
        monkeypatch.setattr(signals_module, "monotonic", lambda: self.now)
        self._signals = Signals("", "", "schema")
        monkeypatch.setattr(self._signals, "_self", US)
        monkeypatch.setattr(self._signals, "_closed", self)
        monkeypatch.setattr(
            self._signals, "_count", lambda topics: self.passed_on.append((self.now, {*topics}))
        )
        monkeypatch.setattr(
            self._signals, "_waiting", {topic: int(topic in waited_for) for topic in Topic}, raising=False
        )

    def run(self, script):
        """Let the listener hear (moment, sender, topics) one after the other; return how late it passed each on.

        What it hears of itself is left out.
        """
        self._script = deque(sorted((self.now + at, sender, topics) for at, sender, topics in script))
        told = [(at, Topic[topics]) for at, sender, topics in self._script if sender != US]
        self._signals._listen_on(self)
        moments = {topic: [at for at, topics in self.passed_on if topic in topics] for topic in Topic}
        return [moments[topic][bisect_left(moments[topic], at)] - at for at, topic in told]

    # What the listener asks of a connection, and of the event that says that the store was closed.

    def execute(self, *_):
        return SimpleNamespace(fetchone=lambda: (self.info.backend_pid,))

    def notifies(self, *, timeout, stop_after=None):
        end = self.now + int(timeout * SECOND)
        if self._script and self._script[0][0] <= end:
            self.now = max(self.now, self._script[0][0])
        else:
            self.now = end
        while self._script and self._script[0][0] <= self.now:
            _, sender, topics = self._script.popleft()
            yield SimpleNamespace(payload=f"{sender} {topics}")

    def is_set(self):
        return not self._script

    def wait(self, seconds):
        self.now += int(seconds * SECOND)


@pytest.fixture
def play(monkeypatch):
    return Play(monkeypatch)


def at_random(mean, seconds, seed=1):
    """Draw moments that are *mean* apart on average."""
    chance, at = random.Random(seed), 0
    while at < seconds * SECOND:
        at += int(chance.expovariate(1 / mean))
        yield at


def test_fifty_enqueues_a_second_at_random_moments_are_each_passed_on_with_no_wait(play):
    """P1."""
    moments = list(at_random(20 * MILLISECOND, 60))
    jobs = [(at, "producer", "WORK") for at in moments]
    own = [(at + 3 * MILLISECOND, US, "ENDS") for at in moments]

    late = play.run([*jobs, *own])

    assert len(late) > 2_500
    assert max(late) == 0


def test_what_the_process_told_itself_delays_no_wake_up(play):
    """P1."""
    own = [(at, US, "WORK ENDS") for at in at_random(MILLISECOND, 10)]
    jobs = [(at, "producer", "WORK") for at in at_random(100 * MILLISECOND, 10, seed=2)]

    late = play.run([*own, *jobs])

    assert max(late) == 0


def test_a_topic_that_no_thread_here_waits_for_delays_no_wake_up(play):
    """P1: other workers tell of every end, and this one waits for work only."""
    ends = [(at, "worker", "ENDS") for at in at_random(MILLISECOND, 10)]
    jobs = [(at, "producer", "WORK") for at in at_random(50 * MILLISECOND, 10, seed=2)]

    play.run([*ends, *jobs])

    assert {at for at, topics in play.passed_on if Topic.WORK in topics} >= {SECOND + at for at, *_ in jobs}


@pytest.mark.parametrize("silence", [0.05, 1, 10])
def test_the_first_notification_after_a_storm_and_a_silence_is_passed_on_with_no_wait(play, silence):
    storm = [(at, "producer", "WORK") for at in at_random(MILLISECOND, 5)]

    late = play.run([*storm, (int((5.1 + silence) * SECOND), "producer", "WORK")])

    assert late[-1] == 0


def test_a_storm_of_sixteen_producers_becomes_few_wake_ups_and_the_last_job_is_heard_of(play):
    seconds = 10
    storm = [
        (at, f"producer {seed}", "WORK")
        for seed in range(16)
        for at in at_random(2 * MILLISECOND, seconds, seed)
    ]

    late = play.run(storm)

    assert len(play.passed_on) < STORM + 32 * seconds
    assert max(late) < LATEST
