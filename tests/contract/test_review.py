"""Mistakes that were made once, so that they are not made again."""

import random

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine.upkeep import BATCH
from penstock.job import START_GRACE, NewJob, Settlement
from penstock.lifecycle.outcomes import Again, Done, HandedBack, Limited
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers, Window
from tests.support.desk import LEASE, Desk, rate, slots, throttle
from tests.support.soak import often


def give_the_turn(desk: Desk, name: str, *limits) -> str:
    """Have *name*, of the queue `slow`, refused at X until it has the turn; return who is kept waiting by that."""
    desk.enqueue("fast0", slots("X", 1), queue="fast")
    desk.claim(queues=["fast"])
    desk.enqueue(name, slots("X", 1), *limits, queue="slow")
    for n in range(1, 9):
        desk.enqueue(f"fast{n}", slots("X", 1), queue="fast")
        desk.settle(f"fast{n - 1}")
        if desk.claim(queues=["fast"]) == "":
            return f"fast{n}"
        assert desk.claim(queues=["slow"]) == ""
    pytest.fail(f"{name} never had the turn")


def turns(desk: Desk) -> list[tuple[object, ...]]:
    return desk.engine.store.read(lambda db: db.all("SELECT * FROM turn"))


@pytest.mark.parametrize("limits", [(slots("X", 0, "drop"),), (slots("X", 1, "drop"),)], ids=["shut", "full"])
def test_a_drop_job_that_is_due_and_expires_in_the_same_claim_ends_once(desk: Desk, limits) -> None:
    desk.enqueue("running", slots("X", 1))
    desk.claim()
    at = desk.clock.now() + SECOND
    desk.enqueue("both", *limits, due=at, expires=at)
    desk.enqueue("other", *limits, due=at)
    desk.wait(SECOND)

    assert desk.claim() == ""
    assert desk.state("both") in (State.DISCARDED, State.EXPIRED)
    assert (
        len(
            [
                e
                for e in desk.events
                if e.name in ("job.discarded", "job.expired") and e.facts["job"] == "both"
            ]
        )
        == 1
    )
    assert desk.state("other") is State.DISCARDED
    assert desk.engine.doctor() == []


def test_a_turn_ends_with_its_holder_though_another_stands_before_it(desk: Desk) -> None:
    waiter = give_the_turn(desk, "slow")
    desk.enqueue("first", slots("X", 1), queue="slow", priority=9)  # the head of the lane now
    assert turns(desk)
    desk.engine.cancel("slow")

    assert turns(desk) == []
    assert desk.claim(queues=["fast", "slow"]) == "first"
    desk.settle("first")
    assert desk.claim(queues=["fast", "slow"]) == waiter
    desk.settle(waiter)
    for _ in range(3):
        desk.engine.upkeep()
    desk.enqueue("later", slots("X", 1), queue="slow")
    assert desk.claim(queues=["slow"]) == "later"
    assert desk.engine.doctor() == []


def test_a_start_that_voids_a_turn_rings_the_gates_that_were_kept_for_it(desk: Desk) -> None:
    waiter = give_the_turn(desk, "slow", throttle("Y", 1))
    assert desk.claim(queues=["fast"]) == ""  # X is free, and kept
    desk.enqueue("urgent", throttle("Y", 1), queue="fast", priority=1)

    started = desk.claim(1, queues=["fast"])
    assert started == "urgent"
    # Now the clock keeps the holder from Y, so X must not be kept for it any longer.
    assert desk.claim(queues=["fast"]) == waiter
    assert desk.engine.doctor() == []


def test_a_turn_is_void_while_one_of_its_gates_is_shut_by_hand(desk: Desk) -> None:
    waiter = give_the_turn(desk, "slow", slots("Y", 1))
    assert desk.claim(queues=["fast"]) == ""
    desk.engine.shut("Y", desk.clock.now() + 3600 * SECOND)

    assert desk.claim(queues=["fast"]) == waiter


def test_more_gates_than_a_batch_that_open_at_once_keep_the_order_of_priority(desk: Desk) -> None:
    count = BATCH + 100
    limits = [rate(f"key:{number}", 1) for number in range(count)]

    def enqueue(prefix: str, numbers: range, **facts: int) -> None:
        desk.engine.enqueue(
            [NewJob("task", id=f"{prefix}{n}", queue="q", limits=(limits[n],), **facts) for n in numbers]
        )

    enqueue("a", range(count - 1))
    assert len(desk.claim(count).split()) == count - 1
    desk.wait(MILLISECOND)
    enqueue("a", range(count - 1, count))
    desk.claim(1)
    enqueue("b", range(count - 1))
    enqueue("b", range(count - 1, count), priority=9)
    assert desk.claim() == ""
    desk.wait(SECOND + START_GRACE)

    assert desk.claim(1) == f"b{count - 1}"  # whose gate is the last to open
    assert desk.claim(3) == "b0 b1 b2"
    assert desk.engine.doctor() == []


def test_a_job_handed_back_for_a_while_comes_back_after_it_with_all_its_attempts(desk: Desk) -> None:
    desk.enqueue("a b", slots("X", 1))
    desk.claim()
    desk.settle("a", HandedBack(after=SECOND))

    assert desk.state("a") is State.SCHEDULED
    assert desk.claim() == "b"
    desk.settle("b")
    desk.wait(SECOND - 1)
    assert desk.claim() == ""
    desk.wait(1)
    assert desk.claim() == "a"
    assert desk.attempts["a"].attempt == 1


def test_a_job_without_gates_that_is_limited_waits_for_the_moment(desk: Desk) -> None:
    desk.enqueue("a")
    desk.claim()
    desk.settle("a", Limited(desk.clock.now() + SECOND, None, "429"))

    assert desk.claim() == ""
    desk.wait(SECOND)
    assert desk.claim() == "a"
    assert desk.attempts["a"].attempt == 1


def test_a_job_limited_until_a_moment_that_has_passed_pauses_all_the_same(desk: Desk) -> None:
    desk.enqueue("a")
    desk.enqueue("b", slots("X", 1))
    desk.claim()
    desk.settle("a b", Limited(desk.clock.now() - SECOND))

    assert desk.claim() == ""

    desk.wait(SECOND // 10)

    assert sorted(desk.claim().split()) == ["a", "b"]


@pytest.mark.parametrize("seed", range(often(1, 4)))
def test_a_claim_never_asks_to_be_repeated_in_the_past(desk: Desk, seed: int) -> None:
    chance = random.Random(seed)
    desk.engine.configure("queue", "q", Numbers(rate=Window(8, SECOND)))
    desk.engine.configure("type", "mail", Numbers(throttle=Window(5, SECOND)))
    choices = [
        (),
        (slots("X", 1),),
        (rate("Y", 2),),
        (throttle("Z", 4), slots("X", 2)),
        (slots("X", 1, "drop"),),
    ]
    policy = RetryPolicy(attempts=3, delay=SECOND // 3, jitter=False)
    running: list[tuple[int, int]] = []
    for _ in range(100):
        now = desk.clock.now()
        desk.engine.enqueue(
            [
                NewJob(
                    chance.choice(("mail", "task")),
                    queue="q",
                    limits=chance.choice(choices),
                    priority=chance.choice((0, 0, 1)),
                    cost=chance.choice((1, 1, 2)),
                    due=chance.choice((None, now + chance.randrange(SECOND))),
                    expires=chance.choice((None, now + chance.randrange(1, 3 * SECOND))),
                    retry=policy,
                )
            ]
        )
        claim = desk.engine.claim(["q"], 3, worker="worker", lease=LEASE // 10)
        if claim.next_at is not None:
            assert claim.next_at >= now
            assert claim.more or len(claim.jobs) == 3 or claim.next_at > now
        running += [(job.seq, job.fence) for job in claim.jobs]
        outcome = chance.choice((Done(), Again(), HandedBack(), Limited(now + SECOND // 2)))
        if running and chance.random() < 0.7:
            desk.engine.settle([Settlement(*running.pop(0), outcome)])
        desk.wait(chance.choice((0, 1, MILLISECOND, 80 * MILLISECOND, SECOND // 2)))
    assert desk.engine.doctor() == []


def test_the_moment_a_claim_names_is_early_enough(desk: Desk) -> None:
    """Whoever looks only when told to loses no time and serves everybody."""
    desk.enqueue("r1 r2 r3 r4 r5", rate("R", 2))
    desk.enqueue("t1 t2 t3", throttle("T", 3))
    desk.enqueue("later", slots("S", 1), due=desk.clock.now() + SECOND // 2)
    desk.engine.shut("S", desk.clock.now() + 2 * SECOND)
    started: list[str] = []
    for _ in range(100):
        claim = desk.engine.claim(["q"], 1, worker="worker", lease=LEASE)
        started += [job.id for job in claim.jobs]
        desk.engine.settle([Settlement(job.seq, job.fence, Done()) for job in claim.jobs])
        if claim.next_at is None:
            break
        desk.wait(claim.next_at - desk.clock.now())

    assert sorted(started) == ["later", "r1", "r2", "r3", "r4", "r5", "t1", "t2", "t3"]
