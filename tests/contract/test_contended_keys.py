"""Many jobs for few keys: floods, shared keys, opposite orders, numbers that differ or change, late attempts."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import GUARD
from penstock.job import START_GRACE, Settlement
from penstock.lifecycle.outcomes import Done, Failed, HandedBack
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers, Window
from tests.support.clock import FakeClock
from tests.support.desk import LEASE, Desk, Work, rate, slots, throttle, work_of
from tests.support.stores import on_sqlite

TWICE = RetryPolicy(attempts=2, backoff=Backoff.FIXED, delay=SECOND, jitter=False)
FAILED = Failed("ValueError", "no")


def _claim_behind(desk: Desk, prefix: str, parked: int) -> Work:
    """Enqueue a flood on one key, then a free job; return what claiming the free job costs."""
    _flood(desk, prefix, parked)
    desk.claim(1, queues=[prefix])
    desk.enqueue(f"{prefix}-free", slots(f"{prefix}-other", 1), queue=prefix)

    def claim() -> None:
        assert desk.claim(1, queues=[prefix]) == f"{prefix}-free"

    return work_of(desk.engine, claim)


def _serve_the_next(desk: Desk, prefix: str, parked: int) -> Work:
    _flood(desk, prefix, parked)
    first = desk.claim(1, queues=[prefix])

    def serve() -> None:
        desk.settle(first)
        assert desk.claim(1, queues=[prefix]) == f"{prefix}1"
        desk.enqueue(f"{prefix}-new", slots(prefix, 1), queue=prefix)

    return work_of(desk.engine, serve)


@on_sqlite
@pytest.mark.parametrize("verb", [_claim_behind, _serve_the_next], ids=["free jobs behind it", "serving it"])
def test_a_flood_on_one_key_costs_the_same_however_many_wait(desk: Desk, verb) -> None:
    few = verb(desk, "few", 200)
    many = verb(desk, "many", 20_000)

    assert len(many.statements) == len(few.statements)
    assert many.steps <= few.steps * 1.5


def test_a_key_shared_with_a_queue_without_workers_is_not_lost(desk: Desk) -> None:
    desk.enqueue("d1 d2 d3", slots("X", 1), queue="dead")
    desk.enqueue("a b c", slots("X", 1), queue="live")

    for name in ("a", "b", "c"):
        assert desk.claim(queues=["live"]) == name
        desk.settle(name)

    assert desk.claim(queues=["dead"]) == "d1"


def test_a_higher_priority_that_comes_after_the_call_goes_first(desk: Desk) -> None:
    desk.enqueue("running low", slots("X", 1))
    desk.claim()
    desk.settle("running")  # calls low
    desk.enqueue("high", slots("X", 1), priority=5)

    assert desk.claim() == "high"
    desk.settle("high")
    assert desk.claim() == "low"


def test_a_higher_priority_with_other_limits_on_the_key_goes_first_too(desk: Desk) -> None:
    desk.enqueue("running low", slots("X", 1))
    desk.claim()
    desk.settle("running")
    desk.enqueue("high", slots("X", 2), slots("Y", 1), priority=5)

    assert desk.claim(1) == "high"
    assert desk.claim(1) == ""


def test_opposite_orders_do_not_deadlock(desk: Desk) -> None:
    for number in range(4):
        desk.enqueue(f"xy{number}", slots("X", 1), slots("Y", 1))
        desk.enqueue(f"yx{number}", slots("Y", 1), slots("X", 1))

    served = []
    while started := desk.claim():
        served.append(started)
        desk.settle(started)

    assert served == ["xy0", "yx0", "xy1", "yx1", "xy2", "yx2", "xy3", "yx3"]


def test_each_job_is_held_to_its_own_numbers_over_one_memory(desk: Desk) -> None:
    desk.enqueue("one", slots("X", 1))
    desk.enqueue("two", slots("X", 2))
    desk.enqueue("three", slots("X", 3))
    desk.enqueue("another", slots("X", 1))

    assert desk.claim() == "one two three"
    desk.settle("one two")
    assert desk.claim() == ""  # one still runs, and one is too many for jobs that allow one
    desk.settle("three")
    assert desk.claim() == "another"


def test_an_override_beats_a_configured_value_beats_the_jobs_own(desk: Desk) -> None:
    desk.enqueue("a b c d e f", slots("X", 1))
    assert desk.claim() == "a"
    desk.engine.configure("key", "X", Numbers(slots=3))
    assert desk.claim() == "b c"
    desk.engine.override("X", Numbers(slots=5))
    assert desk.claim() == "d e"
    desk.engine.clear_override("X")
    desk.settle("a b")
    assert desk.claim() == ""
    desk.settle("c")
    assert desk.claim() == "f"


def test_numbers_are_replaced_one_by_one(desk: Desk) -> None:
    desk.engine.configure("key", "X", Numbers(rate=Window(2, SECOND)))
    desk.enqueue("a b c", slots("X", 1))

    assert desk.claim() == "a"  # its own slots still count
    desk.settle("a")
    assert desk.claim() == "b"
    desk.settle("b")
    assert desk.claim() == ""  # and the configured rate too


@on_sqlite
def test_enqueueing_to_a_hot_key_writes_nothing_about_its_gate(desk: Desk) -> None:
    desk.enqueue("a b c", slots("X", 1))
    desk.claim()

    work = work_of(desk.engine, lambda: desk.enqueue("d", slots("X", 1)))

    writes = [
        text for text in work.statements if text.lstrip().startswith(("UPDATE gate", "INSERT INTO gate"))
    ]
    assert writes == []


def test_a_claim_takes_at_most_the_open_capacity(desk: Desk) -> None:
    desk.enqueue(" ".join(f"s{n}" for n in range(9)), slots("S", 3), queue="slots")
    desk.enqueue(" ".join(f"r{n}" for n in range(9)), rate("R", 4), queue="rate")
    desk.enqueue(" ".join(f"t{n}" for n in range(9)), throttle("T", 5), queue="throttle")

    assert desk.claim(9, queues=["slots"]) == "s0 s1 s2"
    assert desk.claim(9, queues=["rate"]) == "r0 r1 r2 r3"
    assert desk.claim(9, queues=["throttle"]) == "t0"


def test_a_queue_with_a_limit_takes_at_most_that(desk: Desk) -> None:
    desk.engine.configure("queue", "q", Numbers(slots=3))
    desk.enqueue("a b")
    desk.enqueue("c d", slots("X", 9))

    assert desk.claim() == "a b c"
    desk.settle("b")
    assert desk.claim() == "d"


def test_a_type_with_a_limit_counts_those_that_run_already(desk: Desk) -> None:
    desk.enqueue("a b")
    desk.enqueue("c", slots("X", 9))
    desk.enqueue("other", task="other")
    assert desk.claim(2) == "a b"
    desk.engine.configure("type", "task", Numbers(slots=2))

    assert desk.claim() == "other"
    desk.settle("a")
    assert desk.claim() == "c"


def test_lowering_a_limit_below_what_runs_evicts_nobody_and_starts_nobody(desk: Desk) -> None:
    desk.enqueue("a b c d", slots("X", 3))
    desk.claim()
    desk.engine.configure("key", "X", Numbers(slots=1))

    assert [beat.alive for beat in _beats(desk, "a b c")] == [True, True, True]
    assert desk.claim() == ""
    desk.settle("a b")
    assert desk.claim() == ""
    desk.settle("c")
    assert desk.claim() == "d"


@pytest.mark.parametrize(
    "nothing",
    [Numbers(slots=0), Numbers(rate=Window(0, SECOND)), Numbers(throttle=Window(0, SECOND))],
    ids=["slots", "rate", "throttle"],
)
def test_a_limit_of_zero_pauses(desk: Desk, nothing: Numbers) -> None:
    desk.enqueue("a b", slots("X", 9))
    desk.engine.configure("key", "X", nothing)
    desk.wait(3600 * SECOND)

    assert desk.claim() == ""
    assert desk.engine.why("a").earliest is None
    desk.engine.configure("key", "X", None)
    assert desk.claim() == "a b"


def test_a_job_with_a_limit_of_zero_of_its_own_waits_until_told_otherwise(desk: Desk) -> None:
    desk.enqueue("a", slots("X", 0))
    assert desk.claim() == ""
    desk.engine.configure("key", "X", Numbers(slots=1))

    assert desk.claim() == "a"


def test_retries_pass_the_gates_like_any_start(desk: Desk) -> None:
    desk.enqueue("a", slots("X", 1), retry=TWICE)
    desk.claim()
    desk.settle("a", FAILED)
    desk.enqueue("b", slots("X", 1))
    assert desk.claim() == "b"
    desk.wait(SECOND)

    assert desk.claim() == ""  # a is due, and b runs
    desk.settle("b")
    assert desk.claim() == "a"


def test_running_a_job_again_by_hand_passes_the_gates(desk: Desk) -> None:
    desk.enqueue("a b", slots("X", 1))
    desk.claim()
    desk.settle("a", FAILED)
    assert desk.claim() == "b"
    desk.engine.retry("a")

    assert desk.claim() == ""
    desk.settle("b")
    assert desk.claim() == "a"


def test_an_attempt_that_outlives_its_lease_loses_its_slot_and_its_say(desk: Desk) -> None:
    desk.enqueue("a b", slots("X", 2))
    desk.claim(1)
    late = dict(desk.attempts)
    desk.wait(LEASE)
    assert desk.claim() == "a b"
    again, desk.attempts = desk.attempts, late

    assert [beat.alive for beat in _beats(desk, "a")] == [False]
    assert desk.settle("a") == [False]
    assert desk.state("a") is State.RUNNING
    desk.attempts = again
    assert desk.settle("a") == [True]
    assert desk.settle("a") == [False]


def test_an_old_attempt_settled_beside_others_of_its_new_fence_has_no_say(desk: Desk) -> None:
    desk.enqueue("a b", slots("X", 2))
    desk.claim(1)
    late = desk.attempts["a"]
    desk.wait(LEASE)
    assert desk.claim() == "a b"
    assert desk.attempts["a"].fence == desk.attempts["b"].fence
    before = desk.job("a")
    other = desk.attempts["b"]

    reports = [Settlement(attempt.seq, attempt.fence, Done()) for attempt in (late, other)]
    assert desk.engine.settle(reports) == [False, True]

    assert desk.job("a") == before
    assert desk.engine.doctor() == []
    assert desk.settle("a") == [True]


def test_a_heartbeat_keeps_the_lease(desk: Desk) -> None:
    desk.enqueue("a b", slots("X", 1))
    desk.claim()
    for _ in range(5):
        desk.wait(LEASE - SECOND)
        assert [beat.alive for beat in _beats(desk, "a")] == [True]
        assert desk.claim() == ""

    assert desk.settle("a") == [True]


@pytest.mark.parametrize(
    ("late", "report"),
    [
        (40 * MILLISECOND, lambda desk: desk.begun("a")),
        (300 * MILLISECOND, lambda desk: desk.settle("a", began=desk.clock.now())),
    ],
    ids=["told as it begins", "told when it has ended"],
)
def test_an_attempt_that_begins_late_counts_from_when_it_began(desk: Desk, late: int, report) -> None:
    desk.enqueue("a b", throttle("X", 1))
    desk.claim()
    desk.wait(late)
    report(desk)

    desk.wait(SECOND)
    assert desk.claim() == ""
    desk.wait(GUARD)
    assert desk.claim() == "b"


def test_an_attempt_handed_back_unbegun_leaves_no_start(desk: Desk) -> None:
    desk.enqueue("a b", rate("X", 1))
    desk.claim()
    desk.settle("a", HandedBack(begun=False))

    assert desk.claim() == "a"


def test_an_attempt_handed_back_after_it_began_leaves_its_start(desk: Desk) -> None:
    desk.enqueue("a b", rate("X", 1))
    desk.claim()
    desk.settle("a", HandedBack(begun=True))

    assert desk.claim() == ""
    desk.wait(SECOND + START_GRACE)
    assert desk.claim() == "a"


def test_a_batch_counts_itself(desk: Desk) -> None:
    desk.enqueue("a", slots("X", 1))
    desk.enqueue("b", slots("X", 1), slots("Y", 2))
    desk.enqueue("c", slots("Y", 1))
    desk.enqueue("d", slots("Z", 1), slots("Y", 1))

    assert desk.claim(10) == "a c"


def test_many_claims_at_once_never_overlap(opened, clock: FakeClock) -> None:
    desks = [Desk(opened(), clock) for _ in range(3)]
    names = [f"j{number}" for number in range(90)]
    desks[0].enqueue(" ".join(names), slots("X", 2), slots("Y", 3))
    running: set[str] = set()
    most, served, lock = 0, [], threading.Lock()

    def work(desk: Desk) -> None:
        nonlocal most
        for _ in range(400):
            started = desk.claim(3).split()
            with lock:
                running.update(started)
                most = max(most, len(running))
                served.extend(started)
            with lock:
                running.difference_update(started)
            if started:
                desk.settle(" ".join(started))
            if len(served) == len(names):
                return

    with ThreadPoolExecutor(len(desks)) as pool:
        list(pool.map(work, desks))

    assert sorted(served) == sorted(names)
    assert most <= 2
    assert desks[0].engine.doctor() == []


def _flood(desk: Desk, prefix: str, parked: int) -> None:
    for start in range(0, parked, 2_000):
        numbers = range(start, min(start + 2_000, parked))
        desk.enqueue(" ".join(f"{prefix}{number}" for number in numbers), slots(prefix, 1), queue=prefix)


def _beats(desk: Desk, names: str) -> list:
    attempts = [desk.attempts[name] for name in names.split()]
    return desk.engine.heartbeat([(attempt.seq, attempt.fence) for attempt in attempts], lease=LEASE)
