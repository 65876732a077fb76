"""No start is taken for one that will never begin while it may just have begun."""

import pytest

from penstock.clock import SECOND, SystemClock
from penstock.job import Claimed
from penstock.worker import attempt as attempt_module
from penstock.worker import starter as starter_module
from penstock.worker.attempt import BEGIN_MARGIN, Attempt, Shift
from penstock.worker.handler import Handler
from penstock.worker.starter import EARLY, Starter

GAP, GRACE = 10_000, 50_000


class Two:
    """Two attempts of a throttled key, planned a gap apart; the first one was sent."""

    def __init__(self, monkeypatch, *, is_async):
        self.now = self.begin = 5_000 * SECOND
        for module in (starter_module, attempt_module):
            monkeypatch.setattr(module, "since_boot", lambda: self.now)
        shift = Shift(SystemClock())
        self.sent = []
        self.starter = Starter(shift, self.sent.extend)
        self.first, self.second = (
            Attempt(
                _claimed(n, self.begin), Handler(_handler, is_async), shift, offset=0, renewed=self.begin,
                lease=15 * SECOND,
            )
            for n in range(2)
        )  # fmt: skip
        self.starter.plan([self.first, self.second])
        self.starter.send_due()
        assert self.sent == [self.first]

    @property
    def last(self):
        """The last moment at which the first may begin."""
        return self.begin + GRACE - BEGIN_MARGIN


def _handler():
    raise AssertionError("never called")


def _claimed(seq, now):
    at = now + seq * GAP
    return Claimed(
        seq, f"job {seq}", "task", "{}", "q", 1, 7, now + 30 * SECOND, at + GRACE, None, "{}", "", 0, started=now,
        begin_from=at, gates="1", spaced="1",
    )  # fmt: skip


def test_an_async_handler_that_began_at_the_last_moment_keeps_the_next_waiting(monkeypatch):
    two = Two(monkeypatch, is_async=True)
    two.now = two.last - 100
    assert two.first.begin()

    two.now = two.begin + GRACE - EARLY + 10
    two.starter.send_due()

    assert two.sent == [two.first]


def test_a_handler_that_begins_while_the_starter_looks_keeps_the_next_waiting(monkeypatch):
    two = Two(monkeypatch, is_async=False)
    two.now = two.last - 1_000
    heed = two.starter._heed_begun

    def slowly():
        heed()
        two.now = two.last - 100
        assert two.first.begin()
        two.now = two.begin + GRACE + 1_000

    monkeypatch.setattr(two.starter, "_heed_begun", slowly)
    two.starter.send_due()

    assert two.sent == [two.first]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_attempt_whose_moment_comes_after_its_latest_is_refused_at_once(monkeypatch, is_async):
    two = Two(monkeypatch, is_async=is_async)
    two.first.begin_from = two.first.begin_by + 20 * SECOND

    assert not two.first.begin()
    assert two.first.late
