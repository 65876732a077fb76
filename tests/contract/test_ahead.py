"""Starts granted ahead: for the moments at which the clock allows them, and for no others."""

import heapq
from itertools import pairwise

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import GUARD
from penstock.job import AHEAD, LEAD, START_GRACE, Ahead, Claim, ClaimFor
from penstock.lifecycle.outcomes import HandedBack
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers, Window
from tests.support.desk import Desk, rate, slots, throttle

GAP = 10 * MILLISECOND
FAST = throttle("k", 100)


class Caller:
    """A worker that begins jobs at their moments."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.begins: dict[str, int] = {}  # when those begin that it was given
        self._told: set[str] = set()  # those that the engine knows to have begun

    def ask(self, count: int = 20, most: int = 20, *, alone: bool = False, **facts: object) -> Claim:
        desk, now = self.desk, self.desk.clock.now()
        spans = [(desk.attempts[name], at) for name, at in self.begins.items() if name not in self._told]
        self._told |= {job.id for job, at in spans if at <= now}
        held, begun = (
            tuple((job.seq, job.fence, at - job.started) for job, at in spans if (at > now) is later)
            for later in (True, False)
        )
        ahead = Ahead(AHEAD, most, held, begun, alone=alone)
        claim = desk.engine.claim(["q"], count, worker="worker", ahead=ahead, **facts)
        desk.attempts |= {job.id: job for job in claim.jobs}
        self.begins |= {job.id: job.begin_from or job.started for job in claim.jobs}
        return claim


@pytest.fixture
def caller(desk: Desk) -> Caller:
    return Caller(desk)


def test_the_starts_of_a_throttle_are_granted_for_their_moments(desk: Desk, caller: Caller) -> None:
    desk.enqueue(" ".join("abcdefghijk"), FAST)

    claim = caller.ask()

    now = desk.clock.now()
    assert [now + n * GAP for n in range(1 + AHEAD // GAP)] == list(caller.begins.values())
    assert [begin + START_GRACE for begin in caller.begins.values()] == [job.begin_by for job in claim.jobs]
    assert now + AHEAD + GAP - LEAD == claim.next_at
    assert [State.WAITING] * 2 == [desk.state("j"), desk.state("k")]


def test_without_asking_nothing_is_granted_ahead(desk: Desk) -> None:
    desk.enqueue("a b c", FAST)

    assert "a" == desk.claim()


def test_no_more_is_granted_than_was_asked_for(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b c d e", FAST)

    assert 3 == len(caller.ask(most=2).jobs)


def test_a_start_granted_alone_is_granted_where_nothing_starts_at_once(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b c d", FAST)
    began = desk.clock.now()

    assert [("a", 0)] == [(job.id, job.begin_from) for job in caller.ask(alone=True).jobs]
    assert [("b", began + GUARD + GAP)] == [(job.id, job.begin_from) for job in caller.ask(alone=True).jobs]


def test_claims_that_are_left_empty_are_granted_one_start_each(desk: Desk) -> None:
    desk.enqueue("a b", slots("none", 9))
    desk.enqueue("c d e", FAST)
    began = desk.clock.now()
    ahead = Ahead(AHEAD, 3, alone=True)

    claims = desk.engine.claims([ClaimFor(("q",), 3, worker, ahead=ahead) for worker in ("x", "y", "z")])

    assert [["a", "b", "c"], ["d"], ["e"]] == [[job.id for job in claim.jobs] for claim in claims]
    assert [began + GAP, began + 2 * GAP] == [job.begin_from for claim in claims[1:] for job in claim.jobs]
    workers = {name: desk.engine.job(name).worker for name in "abcde"}
    assert {"a": "x", "b": "x", "c": "x", "d": "y", "e": "z"} == workers


def test_the_next_claim_of_the_caller_goes_on_from_what_it_expects(desk: Desk, caller: Caller) -> None:
    desk.enqueue(" ".join("abcdefghijklmno"), FAST)
    granted = len(caller.ask().jobs)
    desk.wait(3 * GAP)

    claim = caller.ask()

    next_ones = [(granted + n) * GAP for n in range(3)]
    assert next_ones == [job.begin_from - caller.begins["a"] for job in claim.jobs]
    assert [] == desk.engine.doctor()


def test_another_caller_waits_until_what_was_granted_has_begun_at_the_latest(
    desk: Desk, caller: Caller
) -> None:
    desk.enqueue(" ".join("abcdefghijklmno"), FAST)
    caller.ask()
    last = max(caller.begins.values()) + START_GRACE
    desk.wait(last + GAP - AHEAD - desk.clock.now() - 1)

    other = Caller(desk)
    assert [] == other.ask().jobs

    desk.wait(1)
    assert last + GAP == other.ask().jobs[0].begin_from


def test_a_begin_that_is_told_with_the_claim_opens_the_gate_for_others(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b c", FAST)
    caller.ask(count=1, most=0)
    desk.wait(MILLISECOND)
    job = desk.attempts["a"]
    told = Ahead(AHEAD, 0, begun=((job.seq, job.fence, MILLISECOND),))
    desk.engine.claim(["q"], 1, worker="worker", ahead=told)

    desk.wait(GAP + GUARD)
    assert "b" == desk.claim()


def test_starts_of_a_rate_are_granted_when_old_ones_leave_the_window(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b c d e", rate("k", 2))
    begun = desk.clock.now()
    assert "a b" == desk.claim()
    desk.begun("a")
    desk.wait(5 * MILLISECOND)
    desk.begun("b")
    desk.wait(SECOND - 30 * MILLISECOND)

    claim = caller.ask()

    opened = begun + SECOND + GUARD
    assert [opened, opened + 5 * MILLISECOND] == [job.begin_from for job in claim.jobs]


def test_a_claim_that_was_long_under_way_takes_its_callers_starts_for_as_late_as_they_can_be(
    desk: Desk, caller: Caller
) -> None:
    desk.enqueue("a b c d", rate("k", 3))
    grace = SECOND // 4
    assert 3 == len(caller.ask(grace=grace).jobs)
    claimed = desk.clock.now()
    held = tuple((job.seq, job.fence, 0) for job in desk.attempts.values())
    asked = Ahead(AHEAD, 20, held)  # then all three begin late, and the claim waits for its turn
    desk.wait(SECOND - AHEAD // 2)

    assert [] == desk.engine.claim(["q"], 20, worker="worker", ahead=asked).jobs

    desk.wait(claimed + grace + SECOND - AHEAD - desk.clock.now())
    (job,) = desk.engine.claim(["q"], 20, worker="worker", ahead=asked).jobs
    assert claimed + grace + SECOND == job.begin_from


def test_a_job_of_higher_priority_is_granted_first(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b c", FAST)
    desk.enqueue("urgent", FAST, priority=1)

    assert ["urgent", "a", "b", "c"] == [job.id for job in caller.ask().jobs]


def test_a_lane_whose_other_key_is_busy_hides_none_behind_it(desk: Desk, caller: Caller) -> None:
    desk.enqueue("busy", slots("one", 1))
    desk.claim()
    desk.enqueue("a", FAST)
    desk.enqueue("stuck", slots("one", 1), FAST)
    desk.enqueue("b", slots("two", 1), FAST)

    assert ["a", "b"] == [job.id for job in caller.ask().jobs]

    desk.settle("busy")
    assert ["stuck"] == [job.id for job in caller.ask().jobs]


def test_a_lane_that_gave_its_last_job_waits_nowhere(desk: Desk, caller: Caller) -> None:
    desk.enqueue("first", FAST)
    assert "first" == desk.claim()
    desk.enqueue("a", FAST, slots("s", 1))

    assert ["a"] == [job.id for job in caller.ask().jobs]
    desk.engine.upkeep()
    assert [] == desk.engine.doctor()


def test_slots_are_held_from_the_grant_on(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b c d", Limit("k", Numbers(slots=2, throttle=Window(100, SECOND))))

    assert ["a", "b"] == [job.id for job in caller.ask().jobs]


def test_what_is_handed_back_unbegun_was_no_start(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b", FAST)
    caller.ask()
    desk.settle("a", began=desk.clock.now())
    desk.settle("b", HandedBack())
    desk.wait(GAP + GUARD)

    assert "b" == desk.claim()


def test_nothing_is_granted_in_a_queue_that_is_paused(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b c", FAST)
    desk.claim(1)
    desk.engine.pause("q")

    assert [] == caller.ask().jobs


def test_nothing_is_granted_at_a_gate_that_is_shut_for_longer(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b c", FAST)
    desk.claim(1)
    desk.begun("a")
    desk.engine.shut("k", desk.clock.now() + SECOND)

    assert [] == caller.ask().jobs


def test_nothing_is_granted_beyond_the_end_of_an_override(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a b c", throttle("k", 1))
    desk.engine.override(
        "k", Numbers(throttle=Window(100, SECOND)), until=desk.clock.now() + 25 * MILLISECOND
    )

    assert ["a"] == [job.id for job in caller.ask().jobs]


def test_tasks_that_the_claim_does_not_know_are_not_granted(desk: Desk, caller: Caller) -> None:
    desk.enqueue("a", FAST)
    desk.enqueue("b", FAST, task="strange")
    desk.enqueue("c", FAST)

    assert ["a"] == [job.id for job in caller.ask(tasks=["task"]).jobs]
    desk.begun("a")
    desk.wait(GAP + GUARD)
    assert ["c"] == [job.id for job in caller.ask(tasks=["task"]).jobs]
    assert State.WAITING is desk.state("b")


@pytest.mark.parametrize("callers", [1, 3])
@pytest.mark.parametrize(("limit", "share"), [(5, 98), (20, 98), (100, 98), (500, 90)])
def test_a_throttle_with_a_backlog_is_used_nearly_to_the_full(
    desk: Desk, limit: int, share: int, callers: int
) -> None:
    span = max(2 * SECOND, 40 * SECOND // limit)
    allowed = limit * span // SECOND
    desk.enqueue(" ".join(f"job-{n}" for n in range(allowed + limit)), throttle("k", limit))
    first, workers = desk.clock.now(), [Caller(desk) for _ in range(callers)]
    asks = [(first + n * MILLISECOND, n) for n in range(callers)]

    while asks[0][0] < first + span:
        moment, number = heapq.heappop(asks)
        desk.wait(max(0, moment - desk.clock.now()))
        claim = workers[number].ask(count=100, most=90)
        # It takes a moment until a worker asks again.
        heapq.heappush(asks, (max(claim.next_at or 0, moment + 2 * MILLISECOND), number))

    starts = sorted(at for worker in workers for at in worker.begins.values())
    assert [] == [later - earlier for earlier, later in pairwise(starts) if later - earlier < SECOND // limit]
    assert len([at for at in starts if at < first + span]) >= share / 100 * allowed
