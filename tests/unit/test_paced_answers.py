"""No answer is sent before its moment, and none is reported earlier than it was sent, however little is known of
the store's time."""

import pytest

from penstock.clock import SECOND, SteadyClock
from penstock.http import paced_answers
from penstock.http.paced_answers import HeldAnswer, PacedAnswers
from penstock.job import Claimed, ClaimFor, Settlement
from penstock.lifecycle.outcomes import Done
from penstock.worker import starter
from penstock.worker.starter import LAST, UpperOffset

AHEAD = 1_700_000_000 * SECOND  # how far the store's clock is ahead of the machine's
UNSURE = 300  # microseconds, either way


class Machine:
    """The time since a machine was started."""

    def __init__(self):
        self.now = 5_000 * SECOND

    def since_boot(self):
        return self.now


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    for module in ("penstock.clock", paced_answers.__name__, starter.__name__):
        monkeypatch.setattr(f"{module}.since_boot", machine.since_boot)
    return machine


@pytest.fixture
def clock(machine):
    clock = SteadyClock()
    clock.set(AHEAD + UNSURE, AHEAD - UNSURE)
    return clock


def job(started, begin_from=0, seq=1):
    return Claimed(
        seq, f"job {seq}", "task", "{}", "q", 1, 7, started + 30 * SECOND, (begin_from or started) + 50_000, None, "{}",
        "", 0, started=started, begin_from=begin_from, gates="1", spaced="1",
    )  # fmt: skip


@pytest.fixture
def paced(clock):
    paced = PacedAnswers(clock)
    yield paced
    paced.close()


@pytest.fixture
def planned(monkeypatch):
    """The answers that were made."""
    answers = []

    class Noted(HeldAnswer):
        __slots__ = ()

        def __init__(self, *args):
            super().__init__(*args)
            answers.append(self)

    monkeypatch.setattr(paced_answers, "HeldAnswer", Noted)
    return answers


def test_an_answer_waits_at_least_until_the_moment_of_its_job(machine, paced, planned):
    moment = machine.now + 20_000
    paced.plan([job(machine.now + AHEAD - 2_000, moment + AHEAD)])

    (answer,) = planned
    assert moment <= answer.begin_from <= moment + 2 * UNSURE
    assert answer.begin_by <= moment + 50_000


def test_an_answer_is_reported_no_earlier_than_it_was_sent(machine, paced):
    claimed = job(machine.now + AHEAD)
    machine.now += 2_000  # until the claim is answered
    paced.plan([claimed])
    machine.now += 4_000
    paced.sent([claimed])

    ((seq, fence, after),) = paced.take_begun()
    assert (seq, fence) == (claimed.seq, claimed.fence)
    assert 6_000 <= after <= 6_000 + UNSURE


def test_a_claim_tells_of_a_start_whose_settlement_is_under_way(machine, paced):
    claimed = job(machine.now + AHEAD)
    paced.plan([claimed])
    paced.sent([claimed])

    settlement = paced.with_begin(Settlement(claimed.seq, claimed.fence, Done()))

    assert [(claimed.seq, claimed.fence, settlement.began_after)] == paced.take_begun()


def test_a_start_that_was_settled_is_not_told_of_again(machine, paced):
    claimed = job(machine.now + AHEAD)
    paced.plan([claimed])
    paced.sent([claimed])
    settlement = paced.with_begin(Settlement(claimed.seq, claimed.fence, Done()))
    paced.settled(settlement)

    assert [] == paced.take_begun()


class TestAClockSetBackBetweenAClaimAndItsAnswer:
    @pytest.fixture
    def claimed(self, machine, clock, paced):
        paced.ask([ClaimFor(("q",), 1, "w")])
        claimed = job(machine.now + AHEAD)
        clock.set(AHEAD - 3_600 * SECOND, AHEAD - 3_600 * SECOND)
        paced.plan([claimed])
        return claimed

    def test_an_answer_is_reported_no_earlier_than_it_was_sent(self, machine, paced, claimed):
        machine.now += 44_000
        assert paced.in_time(claimed)
        paced.sent([claimed])

        ((_, _, after),) = paced.take_begun()
        assert after >= 44_000

    def test_an_answer_that_comes_too_late_is_not_sent(self, machine, paced, claimed):
        machine.now += 10 * SECOND

        assert not paced.in_time(claimed)


class TestUpperOffset:
    def test_what_the_clock_is_sure_of_counts_though_answers_take_long(self, machine, clock):
        assert UpperOffset(clock).hear(machine.now + AHEAD - SECOND // 10) == -AHEAD + UNSURE

    def test_of_a_clock_that_is_sure_of_nothing_the_fastest_answer_counts(self, machine):
        offset = UpperOffset(Late(machine))

        assert offset.hear(machine.now + AHEAD - 900) == -AHEAD + 900
        assert offset.hear(machine.now + AHEAD - 200) == -AHEAD + 200
        assert offset.hear(machine.now + AHEAD - 500) == -AHEAD + 200

    def test_an_old_bound_counts_less(self, machine):
        offset = UpperOffset(Late(machine))
        offset.hear(machine.now + AHEAD - 200)
        machine.now += SECOND // 2

        assert offset.hear(machine.now + AHEAD - 900) == -AHEAD + 700
        machine.now += SECOND
        assert offset.hear(machine.now + AHEAD - 900) == -AHEAD + 900

    def test_only_the_last_answers_count(self, machine):
        offset = UpperOffset(Late(machine))
        offset.hear(machine.now + AHEAD)
        answers = [offset.hear(machine.now + AHEAD - 700) for _ in range(LAST)]

        assert answers == [-AHEAD] * (LAST - 1) + [-AHEAD + 700]

    @pytest.mark.parametrize("back", [SECOND // 8, SECOND // 2, SECOND + SECOND // 50, 3_600 * SECOND])
    def test_a_clock_that_was_set_back_is_followed_at_once(self, machine, clock, back):
        offset = UpperOffset(clock)
        offset.hear(machine.now + AHEAD - 500)
        machine.now += 30 * SECOND
        clock.set(AHEAD - back + UNSURE, AHEAD - back - UNSURE)

        assert offset.hear(machine.now + AHEAD - back - 500) == -AHEAD + back + UNSURE


class Late:
    """A clock that tells a little more than the store's time, as a client knows it, and no more."""

    def __init__(self, machine):
        self._machine = machine

    def now(self):
        return self._machine.now + AHEAD + UNSURE
