"""Of several idle workers the one that found something last goes first."""

import pytest

from penstock.worker import wakeups as wakeups_module
from penstock.worker.wakeups import HEAD_START, MEMORY, Wakeups


class Changing:
    """An engine in which something happens all the time."""

    def wait(self, revision, _timeout):
        return revision + 1


class Woken:
    """Wake-ups on a clock of their own."""

    def __init__(self, monkeypatch):
        self.now = 0
        self.wakes = []
        monkeypatch.setattr(wakeups_module, "monotonic", lambda: self.now)
        monkeypatch.setattr(wakeups_module, "pause", self._pause)
        self._wakeups = Wakeups(Changing(), lambda: self.wakes.append(self.now))

    def look(self, *, found):
        """Say whether the last wake-up was of use, and be woken again; return how long that took."""
        began = self.now
        self._wakeups.watch(len(self.wakes), found=found)
        self._wakeups._look()
        return self.wakes[-1] - began

    def _pause(self, seconds):
        self.now += round(seconds * 1_000_000)


@pytest.fixture
def woken(monkeypatch):
    return Woken(monkeypatch)


def test_a_worker_is_woken_at_once_at_first_and_while_it_finds_jobs(woken):
    """P1."""
    assert woken.look(found=False) == 0
    assert [woken.look(found=True) for _ in range(5)] == [0] * 5


def test_a_worker_that_was_woken_in_vain_lets_others_go_first(woken):
    """P1: with four idle workers three claims found nothing, and kept the fourth waiting."""
    woken.look(found=False)

    assert [woken.look(found=False) for _ in range(5)] == [HEAD_START] * 5


def test_a_worker_that_found_a_job_is_woken_at_once_again(woken):
    woken.look(found=False)
    woken.look(found=False)

    assert woken.look(found=True) == 0


def test_a_claim_that_no_wake_up_led_to_changes_nothing(woken):
    """P1: after each job a worker looks for another, and mostly finds none."""
    woken.look(found=False)
    woken._wakeups.watch(len(woken.wakes), found=True)

    assert woken.look(found=False) == 0


def test_after_a_silence_every_worker_is_woken_at_once(woken):
    """P1."""
    woken.look(found=False)
    woken._wakeups.watch(len(woken.wakes), found=False)
    woken.now += MEMORY

    woken._wakeups._look()
    assert woken.wakes[-1] == woken.now
