"""Jobs that are started for a worker in which no hand is free yet: they stand by there, and hold their slots."""

from collections.abc import Callable

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import Engine
from penstock.engine.settle import MAX_LOST
from penstock.errors import InvalidError
from penstock.job import FOLLOWERS_MOST, Ahead, Claim, ClaimFor, NewJob, Order, Pool, Settlement
from penstock.lifecycle.outcomes import Done, HandedBack
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Floating, Limit, Numbers, Window
from tests.contract.test_turns import give_the_turn
from tests.support.desk import LEASE, Desk, rate, slots

QUICK = (("task", MILLISECOND),)
K = slots("k", 1)
COUNTS = RetryPolicy(attempts=2, lost_counts=True)


def claim(desk: Desk, count: int = 1, standby: int = 10, **facts: object) -> Claim:
    facts = {"relay": QUICK, "worker": "worker", "lease": LEASE, **facts}
    found = desk.engine.claim(facts.pop("queues", ["q"]), count, standby=standby, **facts)
    desk.attempts |= {job.id: job for job in found.jobs}
    return found


def names(claim: Claim) -> str:
    return " ".join(job.id for job in claim.jobs)


def line_up(desk: Desk, names: str, **facts: object) -> None:
    """Enqueue jobs, each of a key of its own."""
    for name in names.split():
        desk.enqueue(name, slots(name, 1), **facts)


def sound(desk: Desk) -> None:
    assert desk.engine.doctor() == []


class TestOrder:
    def test_jobs_stand_by_beyond_the_count_in_the_order_of_the_claim(self, desk: Desk) -> None:
        line_up(desk, "a b c")
        line_up(desk, "high", priority=1)
        line_up(desk, "d e f")

        found = claim(desk, 2, standby=3)

        assert names(found) == "high a b c d"
        assert found.at_once == 5
        assert not found.more
        assert found.next_at == desk.clock.now()
        assert [desk.state(name) for name in "de"] == [State.RUNNING, State.WAITING]
        assert desk.settle("high a b c d") == [True] * 5
        assert desk.claim() == "e f"
        sound(desk)

    def test_a_claim_for_no_hand_starts_only_what_stands_by(self, desk: Desk) -> None:
        line_up(desk, "a b c")

        found = claim(desk, 0, standby=2)

        assert names(found) == "a b"
        assert not found.more
        assert found.next_at == desk.clock.now()
        assert names(claim(desk, 0)) == "c"
        sound(desk)

    @pytest.mark.parametrize("count", [0, 3])
    def test_where_none_stands_by_a_claim_answers_as_without(self, desk: Desk, count: int) -> None:
        found = claim(desk, count)
        assert (found.jobs, found.more, found.next_at) == ([], False, None)

        line_up(desk, "later", due=desk.clock.now() + SECOND)
        found = claim(desk, count)
        assert (found.jobs, found.more, found.next_at) == ([], False, desk.clock.now() + SECOND)

        line_up(desk, "a")
        desk.claim(1)
        found = claim(desk, count)
        assert (found.jobs, found.more, found.next_at) == ([], False, desk.clock.now() + SECOND)

    def test_many_lanes_are_read_in_order(self, desk: Desk) -> None:
        several = [f"j{number}" for number in range(60)]
        line_up(desk, " ".join(several))

        assert names(claim(desk, 10, standby=40)) == " ".join(several[:50])
        assert names(claim(desk, 10, standby=40)) == " ".join(several[50:])
        sound(desk)

    @pytest.mark.parametrize("settled", ["first", "strange"])
    def test_an_exchange_settles_and_has_others_stand_by(self, desk: Desk, settled: str) -> None:
        line_up(desk, "first strange a")
        desk.enqueue("second", slots("first", 1))
        line_up(desk, "b c")
        desk.claim(2)
        attempt = desk.attempts[settled]

        (accepted,), found = desk.engine.exchange(
            [Settlement(attempt.seq, attempt.fence, Done())],
            ["q"],
            1,
            worker="worker",
            relay=QUICK,
            standby=2,
        )

        assert accepted is True
        assert names(found) == ("a second" if settled == "first" else "a b c")
        sound(desk)

    def test_as_many_lanes_are_left_to_others_as_became_ready_in_the_transaction(self, desk: Desk) -> None:
        for name in "abcd":
            desk.enqueue(f"{name} {name}2", slots(name, 1))
        desk.claim(3)
        ended = [desk.attempts[name] for name in "abc"]

        _, found = desk.engine.exchange(
            [Settlement(each.seq, each.fence, Done()) for each in ended],
            ["q"],
            0,
            worker="worker",
            relay=QUICK,
            standby=10,
        )

        assert names(found) == "a2"  # d is as new to others as it was before
        assert names(claim(desk, 0, standby=10)) == "b2 c2 d"
        sound(desk)

    def test_a_job_that_was_called_does_not_stand_by_before_those_that_were_not_read(
        self, desk: Desk
    ) -> None:
        desk.enqueue("called", slots("x", 1))
        desk.claim(1)
        line_up(desk, "strange", task="other")
        several = [f"j{number}" for number in range(16)]
        line_up(desk, " ".join(several))
        desk.enqueue("late", slots("x", 1))
        called = desk.attempts["called"]

        _, found = desk.engine.exchange(
            [Settlement(called.seq, called.fence, Done())], ["q"], 1, worker="w", tasks=["task"], relay=QUICK,
            standby=15,
        )  # fmt: skip

        assert names(found) == " ".join(several[:15])  # as many as it read, but for the strange one
        assert desk.claim() == "strange j15 late"
        sound(desk)

    def test_of_each_key_only_one_is_at_work_or_stands_by(self, desk: Desk) -> None:
        desk.enqueue("a1 a2", slots("a", 1))
        desk.enqueue("b1 b2", slots("b", 1))

        assert names(claim(desk)) == "a1 b1"
        assert claim(desk, 10, standby=10).jobs == []
        assert desk.engine.gate("b").running == 1
        desk.settle("a1")
        assert names(claim(desk)) == "a2"
        sound(desk)

    def test_where_jobs_stand_by_no_slot_is_handed_on(self, desk: Desk) -> None:
        desk.enqueue("a1 a2", slots("a", 1))
        desk.enqueue("b1 b2", slots("b", 1))

        found = claim(desk, 1)
        assert names(found) == "a1 b1"
        desk.settle("a1 b1")
        found = claim(desk, 2)
        assert [(job.id, job.after > 0) for job in found.jobs] == [("a2", False), ("b2", False)]

    def test_where_none_stands_by_slots_are_handed_on(self, desk: Desk) -> None:
        desk.enqueue("a1 a2 a3", slots("a", 1))

        found = claim(desk, 1)

        assert [(job.id, job.after > 0) for job in found.jobs] == [("a1", False), ("a2", True), ("a3", True)]
        sound(desk)

    def test_a_lower_queue_stands_by_with_a_higher_one_by_priority_and_age(self, desk: Desk) -> None:
        line_up(desk, "a b")
        line_up(desk, "x y", queue="other")
        line_up(desk, "c")
        line_up(desk, "z", queue="other", priority=1)

        assert names(claim(desk, 1, standby=4, queues=["q", "other"])) == "z a b x y"


class TestRefused:
    """What must not stand by ends it, for all that come after it too; it starts once a hand is free."""

    def test_one_whose_key_jobs_of_another_queue_need(self, desk: Desk) -> None:
        line_up(desk, "a b")
        desk.enqueue("elsewhere", slots("b", 1), queue="other")
        line_up(desk, "c")

        assert names(claim(desk, 1)) == "a"

    @pytest.mark.parametrize(
        "limits",
        [
            pytest.param((slots("k", 2),), id="two slots"),
            pytest.param((K, slots("other", 1)), id="two keys"),
            pytest.param((Limit("k", Numbers(slots=1, rate=Window(9, SECOND))),), id="a rate"),
            pytest.param((Limit("k", Numbers(slots=1, throttle=Window(9, SECOND))),), id="a throttle"),
            pytest.param((rate("k", 9),), id="only a rate"),
            pytest.param((slots("k", 1, "drop"),), id="drop"),
            pytest.param((slots("k", 1, "reschedule"),), id="reschedule"),
            pytest.param((Limit("k", Numbers(slots=1), floating=Floating("h", SECOND)),), id="floating"),
        ],
    )
    def test_one_for_which_more_than_a_slot_decides(self, desk: Desk, limits: tuple[Limit, ...]) -> None:
        line_up(desk, "a b")
        desk.enqueue("c", *limits)
        line_up(desk, "d")

        assert names(claim(desk)) == "a b"
        assert names(claim(desk, 0)) == ""
        assert names(claim(desk, 1)) == "c d"
        sound(desk)

    def test_one_of_a_task_that_is_not_known_to_be_short(self, desk: Desk) -> None:
        line_up(desk, "a b")
        line_up(desk, "c", task="other")
        line_up(desk, "d")

        assert names(claim(desk)) == "a b"
        assert names(claim(desk, relay=())) == "c"
        assert names(claim(desk)) == "d"

    def test_none_where_no_task_is_known_to_be_short(self, desk: Desk) -> None:
        line_up(desk, "a b")

        assert names(claim(desk, relay=())) == "a"
        assert names(claim(desk, 0, relay=())) == ""

    def test_one_of_a_task_that_the_claim_does_not_name_is_as_if_it_were_not_there(self, desk: Desk) -> None:
        line_up(desk, "a")
        line_up(desk, "b", task="other")
        line_up(desk, "c")

        found = claim(desk, tasks=["task"], relay=(*QUICK, ("other", MILLISECOND)))
        assert (
            names(found) == "a"
        )  # b has to be set apart before c is the next: that is for a claim with a hand
        assert names(claim(desk, tasks=["task"])) == "c"
        assert names(claim(desk, tasks=["other"])) == "b"
        sound(desk)

    @pytest.mark.parametrize("change", ["rule", "override", "shut"])
    def test_one_at_a_key_with_a_rule(self, desk: Desk, change: str) -> None:
        line_up(desk, "a b c d")
        if change == "rule":
            desk.engine.configure("key", "c", Numbers(slots=1))
        elif change == "override":
            desk.engine.override("c", Numbers(slots=1))
        else:
            desk.engine.shut("c", desk.clock.now() + SECOND)

        assert names(claim(desk)) == "a b"
        desk.settle("a b")
        assert names(claim(desk)) == ("d" if change == "shut" else "c d")
        sound(desk)

    def test_one_at_a_key_that_remembers_starts(self, desk: Desk) -> None:
        line_up(desk, "a b")
        desk.enqueue("rated", rate("c", 9), queue="other")
        assert names(claim(desk, queues=["other"])) == "rated"
        desk.settle("rated")
        line_up(desk, "c d")

        assert names(claim(desk)) == "a b"
        assert names(claim(desk)) == "c d"

    def test_one_that_has_the_turn_at_its_key(self, desk: Desk) -> None:
        give_the_turn(desk, "slow")
        line_up(desk, "a", queue="slow")

        assert names(claim(desk, 0, queues=["slow"])) == ""
        assert names(claim(desk, 1, queues=["slow"])) == "slow a"
        sound(desk)

    def test_none_in_a_queue_with_a_limit(self, desk: Desk) -> None:
        line_up(desk, "a b")
        desk.engine.configure("queue", "q", Numbers(slots=5))

        assert names(claim(desk)) == "a"
        assert names(claim(desk, 0)) == ""
        assert names(claim(desk)) == "b"

    def test_none_in_a_queue_of_a_pool(self, desk: Desk) -> None:
        line_up(desk, "a b")
        desk.engine.set_pool(Pool("pool", ("q",), slots=5))

        assert names(claim(desk)) == "a"
        assert names(claim(desk, 0)) == ""

    def test_none_where_a_type_has_a_limit(self, desk: Desk) -> None:
        line_up(desk, "a b")
        desk.engine.configure("type", "task", Numbers(slots=5))

        assert names(claim(desk)) == "a"
        assert names(claim(desk, 0)) == ""

    def test_none_of_a_tenant(self, desk: Desk) -> None:
        desk.engine.enqueue(
            [NewJob(id=n, task="task", queue="q", limits=(slots(n, 1),), tenant="t") for n in "abc"]
        )

        assert names(claim(desk)) == "a"
        assert names(claim(desk, tenant="t")) == "b"
        assert names(claim(desk, 0, tenant="t")) == ""
        sound(desk)

    def test_none_where_tenants_take_turns(self, desk: Desk) -> None:
        line_up(desk, "a b c")
        desk.engine.enqueue([NewJob(id="x", task="task", queue="q", limits=(slots("x", 1),), tenant="t")])

        assert names(claim(desk)) == "a"
        sound(desk)

    @pytest.mark.parametrize("count", [0, 1])
    def test_none_where_jobs_without_limits_wait(self, desk: Desk, count: int) -> None:
        line_up(desk, "a", priority=1)
        line_up(desk, "b")
        desk.enqueue("free")

        assert names(claim(desk, count)) == ("a" if count else "")

    def test_none_where_jobs_without_limits_of_the_claim_took_all_hands(self, desk: Desk) -> None:
        desk.enqueue("free1 free2")
        line_up(desk, "a")

        assert names(claim(desk, 2)) == "free1 free2"
        assert names(claim(desk, 0)) == "a"

    def test_one_that_has_lost_its_worker(self, desk: Desk) -> None:
        line_up(desk, "b")
        desk.claim(1)
        desk.wait(LEASE)
        line_up(desk, "a", priority=1)
        line_up(desk, "c")

        assert names(claim(desk)) == "a"
        assert names(claim(desk, 0)) == ""
        assert names(claim(desk)) == "b c"
        sound(desk)

    def test_one_whose_lost_attempts_count(self, desk: Desk) -> None:
        line_up(desk, "a")
        line_up(desk, "b", retry=COUNTS)
        line_up(desk, "c")

        assert names(claim(desk)) == "a"
        assert names(claim(desk, 0)) == ""
        assert names(claim(desk)) == "b c"

    @pytest.mark.parametrize(
        "facts",
        [{"order": Order.STRICT}, {"order": Order.WEIGHTED, "weights": (1, 1)}],
        ids=["strict", "weighted"],
    )
    def test_none_of_a_share(self, desk: Desk, facts: dict[str, object]) -> None:
        line_up(desk, "a b c")

        assert names(claim(desk, queues=["q", "other"], **facts)) == "a"

    def test_none_of_claims_that_are_answered_together(self, desk: Desk) -> None:
        line_up(desk, "a b c d")
        wanted = [ClaimFor(("q",), 1, worker, relay=QUICK, standby=2) for worker in ("one", "two")]

        answers = desk.engine.claims(wanted)

        assert [names(answer) for answer in answers] == ["a", "b"]
        assert desk.claim() == "c d"

    def test_none_while_a_start_that_was_granted_ahead_is_held(self, desk: Desk) -> None:
        desk.enqueue("t1 t2", Limit("t", Numbers(throttle=Window(50, SECOND))))
        granted = claim(desk, 2, standby=5, ahead=Ahead(most=2)).jobs[1]
        line_up(desk, "a b c")
        held = (granted.seq, granted.fence, granted.begin_from - granted.started)

        found = claim(desk, 1, standby=5, ahead=Ahead(most=1, held=(held,)))

        assert granted.begin_from
        assert names(found) == "a"

    def test_one_with_which_a_claim_asks_for_too_many(self, desk: Desk) -> None:
        for count, standby in ((0, 0), (-1, 5), (1, -1), (1, FOLLOWERS_MOST + 1)):
            with pytest.raises(InvalidError):
                claim(desk, count, standby=standby)


class TestWhatBecomesOfIt:
    def test_one_that_is_handed_back_unbegun_keeps_its_place_and_its_attempts(self, desk: Desk) -> None:
        line_up(desk, "a b c")
        claim(desk, 1)
        line_up(desk, "d")

        assert desk.settle("b c", HandedBack(begun=False)) == [True, True]

        assert names(claim(desk, 0)) == "b c d"
        assert [desk.attempts[name].attempt for name in "bcd"] == [1, 1, 1]
        assert [attempt.number for attempt in desk.engine.history("b")] == [1]
        assert desk.settle("a b c d") == [True] * 4
        sound(desk)

    def test_a_worker_that_dies_loses_what_stood_by_and_that_starts_with_a_hand_only(
        self, desk: Desk
    ) -> None:
        line_up(desk, "a b c")
        first = claim(desk, 1)
        assert names(first) == "a b c"
        assert desk.settle("a") == [True]
        assert claim(desk, 5).jobs == []

        desk.wait(LEASE)

        again = claim(desk, 1)
        assert names(again) == "b"
        assert [(job.lost, job.attempt) for job in again.jobs] == [(1, 2)]
        assert names(claim(desk, 1)) == "c"
        old = [Settlement(job.seq, job.fence, Done()) for job in first.jobs]
        assert desk.engine.settle(old) == [False] * 3
        assert desk.settle("b c") == [True, True]
        sound(desk)

    def test_a_job_that_kills_workers_takes_others_with_it_once(self, desk: Desk) -> None:
        line_up(desk, "poison b")
        assert names(claim(desk)) == "poison b"
        for _ in range(MAX_LOST):
            desk.wait(LEASE)
            assert names(claim(desk)) == "poison"

        desk.wait(LEASE)
        assert names(claim(desk)) == "b"
        assert [desk.state("poison"), desk.attempts["b"].lost] == [State.FAILED, 1]

    def test_a_cancel_is_asked_of_the_worker_and_counts_if_it_has_not_begun(self, desk: Desk) -> None:
        line_up(desk, "a b")
        claim(desk)

        desk.engine.cancel("b")

        beats = desk.engine.heartbeat(
            [(desk.attempts[n].seq, desk.attempts[n].fence) for n in "ab"], lease=LEASE
        )
        assert [beat.cancel_asked for beat in beats] == [False, True]
        assert desk.settle("b", HandedBack(begun=False)) == [True]
        assert desk.state("b") is State.CANCELLED
        sound(desk)

    def test_it_counts_at_its_gate_until_it_ends(self, desk: Desk) -> None:
        line_up(desk, "a b")
        claim(desk)
        desk.enqueue("b2", slots("b", 1))
        desk.enqueue("b3", slots("b", 2))

        assert "1 running of 1 at once" in str(desk.engine.why("b2"))
        assert names(claim(desk, 5)) == "b3"  # brings two slots
        assert desk.engine.gate("b").running == 2
        desk.settle("b b3")
        assert names(claim(desk, 5)) == "b2"
        sound(desk)

    def test_another_engine_never_starts_one_of_its_key(
        self, desk: Desk, opened: Callable[[], Engine]
    ) -> None:
        other = opened()
        desk.enqueue("a1 a2", slots("a", 1))
        desk.enqueue("b1 b2", slots("b", 1))

        assert names(claim(desk)) == "a1 b1"
        assert other.claim(["q"], 5, worker="other", relay=QUICK, standby=5).jobs == []
        desk.settle("b1")
        assert names(other.claim(["q"], 1, worker="other", relay=QUICK, standby=5)) == "b2"
        assert claim(desk, 5).jobs == []
        sound(desk)
