"""A claim names the tasks that its worker knows; jobs of others are invisible to it."""

import random
import string

import pytest

from penstock.clock import SECOND
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.job import ClaimFor, NewJob, Order
from penstock.lifecycle.outcomes import Done, HandedBack
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Numbers, Window
from tests.support.desk import Desk, rate, slots

MINUTE = 60 * SECOND
HOUR = 3_600 * SECOND
LIMITED = pytest.mark.parametrize("limits", [(), (slots("k", 9),)], ids=["free", "limited"])


def parts(engine: Engine) -> list[tuple[str, str]]:
    return engine.store.read(lambda db: db.all("SELECT queue, task FROM task_part ORDER BY queue, task"))


class TestInvisible:
    @LIMITED
    def test_a_claim_takes_only_what_it_knows(self, desk: Desk, limits) -> None:
        desk.enqueue("a", *limits, task="old")
        desk.enqueue("b", *limits, task="new")

        assert desk.claim(tasks=["new"]) == "b"
        assert desk.claim(tasks=["new"]) == ""
        assert desk.claim(tasks=["old"]) == "a"
        assert desk.engine.doctor() == []

    def test_jobs_too_heavy_for_their_key_are_not_lost_on_the_way_to_their_part(self, desk: Desk) -> None:
        desk.enqueue("a b c", rate("k", 3), task="old", cost=3)
        desk.engine.override("k", Numbers(rate=Window(1, SECOND)))
        assert desk.claim(tasks=["new"]) == ""
        assert desk.engine.doctor() == []
        desk.engine.clear_override("k")

        for name in "abc":
            assert desk.claim(tasks=["old"]) == name
            desk.wait(2 * SECOND)

    @LIMITED
    def test_a_job_that_no_worker_took_keeps_its_place(self, desk: Desk, limits) -> None:
        desk.enqueue("a1", *limits, task="a")
        desk.enqueue("b1", *limits, task="b")
        desk.enqueue("a2", *limits, task="a")
        assert desk.claim(1, tasks=["b"]) == "b1"

        desk.enqueue("b2", *limits, task="b")
        desk.enqueue("best", *limits, task="a", priority=1)

        assert desk.claim() == "best a1 a2 b2"

    @LIMITED
    def test_order_holds_over_all_that_a_claim_knows(self, desk: Desk, limits) -> None:
        for number, task in enumerate("abcabc"):
            desk.enqueue(f"{task}{number}", *limits, task=task)
        assert desk.claim(1, tasks=["c"]) == "c2"
        for number, task in enumerate("abc", 6):
            desk.enqueue(f"{task}{number}", *limits, task=task)

        assert desk.claim(4, tasks=["a", "b"]) == "a0 b1 a3 b4"
        assert desk.claim(tasks=["*"]) == "c5 a6 b7 c8"

    @LIMITED
    def test_jobs_that_wait_behind_many_strangers_are_found(self, desk: Desk, limits) -> None:
        desk.enqueue(" ".join(f"s{n}" for n in range(1_200)), *limits, task="stranger")
        desk.enqueue("mine", *limits, task="mine")

        assert desk.claim(1, tasks=["mine"]) == "mine"
        assert len(desk.claim(2_000 if not limits else 8, tasks=["stranger"]).split()) == (
            1_200 if not limits else 8
        )
        assert desk.engine.doctor() == []

    def test_patterns_name_many(self, desk: Desk) -> None:
        for task in ("mail.send", "mail.bounce", "sms.send", "mail"):
            desk.enqueue(task, task=task)

        assert desk.claim(tasks=["mail.*"]) == "mail.send mail.bounce"
        assert desk.claim(tasks=["*.send", "none"]) == "sms.send"
        assert desk.claim(tasks=[]) == ""
        assert desk.claim(tasks=["m*l"]) == "mail"

    @pytest.mark.parametrize("tasks", [[""], ["a*b*"], ["a\n"], ["a" * 256], ["a"] * 1_001], ids=str)
    def test_what_cannot_be_named_is_refused(self, desk: Desk, tasks) -> None:
        with pytest.raises(InvalidError, match="tasks"):
            desk.claim(tasks=tasks)

    def test_claims_of_one_transaction_know_different_tasks(self, desk: Desk) -> None:
        for task in "abc":
            desk.enqueue(f"{task}1 {task}2", slots(task, 1), task=task)
        asked = [ClaimFor(("q",), 5, "w", tasks=tasks) for tasks in (("b",), ("c", "a"), None)]

        answers = desk.engine.claims(asked)

        assert [[job.id for job in claim.jobs] for claim in answers] == [["b1"], ["a1", "c1"], []]
        assert desk.engine.doctor() == []

    def test_a_settlement_lets_a_claim_find_what_it_knows(self, desk: Desk) -> None:
        desk.enqueue("a", slots("k", 1), task="a")
        desk.claim(tasks=["a"])
        desk.enqueue("b", slots("k", 1), task="b")
        desk.enqueue("c", slots("k", 1), task="c")
        assert desk.claim(tasks=["c"]) == ""

        desk.settle("a")

        assert desk.claim(tasks=["c"]) == "c"
        desk.settle("c")
        assert desk.claim(tasks=["b"]) == "b"
        assert desk.engine.doctor() == []


class TestGates:
    def test_a_stranger_at_the_front_of_a_line_loses_no_slot(self, desk: Desk) -> None:
        """I3: the lane of a task that no worker knows is called, and takes the call of no other."""
        desk.enqueue("x", slots("k", 1), task="mine")
        desk.claim(tasks=["mine"])
        desk.enqueue("s1", slots("k", 1), task="stranger")
        desk.enqueue("s2", slots("k", 1), slots("own", 1), task="stranger")
        desk.enqueue("m1 m2", slots("k", 1), task="mine")
        desk.settle("x")

        for name in ("m1", "m2"):
            assert desk.claim(tasks=["mine"]) == name
            desk.settle(name)
        assert desk.claim() == "s1"
        assert desk.engine.doctor() == []

    def test_strangers_who_were_refused_often_keep_no_slot_for_ever(self, desk: Desk) -> None:
        desk.enqueue("x", slots("k", 2), task="mine")
        desk.enqueue("s", slots("k", 2), slots("other", 1), task="stranger")
        desk.enqueue("o", slots("other", 1), task="mine", queue="p")
        desk.claim(queues=("p",))
        desk.claim(1, tasks=["mine"])
        for _ in range(6):
            desk.claim(tasks=["stranger"])
            desk.engine.override("other", Numbers(slots=2), until=None)
            desk.engine.clear_override("other")
        desk.settle("o x")
        desk.enqueue("m1 m2", slots("k", 2), task="mine")

        desk.clock.advance(3 * SECOND)

        assert desk.claim(tasks=["mine"]) == "m1 m2"

    def test_a_drop_is_not_decided_by_a_claim_that_does_not_know_the_job(self, desk: Desk) -> None:
        for name, task in (("m1", "mine"), ("s1", "stranger"), ("m2", "mine")):
            desk.enqueue(name, slots("k", 1, "drop"), task=task)

        assert desk.claim(tasks=["mine"]) == "m1"

        assert desk.engine.job("s1").state is State.WAITING
        desk.claim(tasks=["stranger"])
        assert desk.engine.job("s1").state is State.DISCARDED

    def test_a_heavy_stranger_holds_no_light_job_that_is_known(self, desk: Desk) -> None:
        desk.enqueue("m0", rate("k", 5), task="mine", cost=3)
        desk.claim(tasks=["mine"])
        desk.enqueue("s1", rate("k", 5), task="stranger", cost=5)
        desk.enqueue("m1", rate("k", 5), task="mine", cost=2)
        desk.clock.advance(2 * SECOND)  # the budget for the first stranger is gathered, and no claim uses it
        assert desk.claim(tasks=["mine"]) == "m1"

        desk.enqueue("s2", rate("k", 5), task="stranger", cost=5, priority=-1)
        desk.enqueue("m2", rate("k", 5), task="mine", cost=2, priority=-2)

        assert desk.claim(tasks=["mine"]) == "m2"

    def test_a_queue_with_a_limit_counts_all_its_parts(self, desk: Desk) -> None:
        desk.engine.configure("queue", "q", Numbers(slots=2))
        for task in "abc":
            desk.enqueue(task, task=task)
        assert desk.claim(1, tasks=["b"]) == "b"
        assert desk.claim(1, tasks=["a"]) == "a"

        assert desk.claim(tasks=["c"]) == ""
        desk.settle("a")
        assert desk.claim(tasks=["c"]) == "c"

    def test_a_type_limited_since_is_heeded_in_its_part(self, desk: Desk) -> None:
        desk.enqueue("s1 s2", task="stranger")
        desk.enqueue("m", task="mine")
        assert desk.claim(tasks=["mine"]) == "m"
        desk.engine.configure("type", "stranger", Numbers(slots=1))

        assert desk.claim() == "s1"
        assert desk.engine.doctor() == []

    def test_tenants_with_strangers_only_are_passed_over(self, desk: Desk) -> None:
        desk.enqueue("x1 x2", task="stranger", tenant="x")
        desk.enqueue("y1", task="mine", tenant="y")
        desk.enqueue("x3", task="mine", tenant="x")
        desk.enqueue("free", task="mine")

        assert sorted(desk.claim(tasks=["mine"]).split()) == ["free", "x3", "y1"]
        assert desk.claim(tasks=["stranger"]) == "x1 x2"
        assert desk.engine.doctor() == []

    def test_a_paused_queue_pauses_its_parts(self, desk: Desk) -> None:
        desk.enqueue("s", task="stranger")
        desk.claim(tasks=["mine"])
        desk.engine.pause("q")

        assert desk.claim(tasks=["stranger"]) == ""
        desk.engine.resume("q")
        assert desk.claim(tasks=["stranger"]) == "s"

    @pytest.mark.parametrize("order", [Order.STRICT, Order.ROUND_ROBIN, Order.LEAST_LOADED])
    def test_shares_of_queues_are_taken_of_what_is_known(self, desk: Desk, order: Order) -> None:
        for queue in "pq":
            desk.enqueue(f"s{queue}", task="stranger", queue=queue)
            desk.enqueue(f"m{queue}", task="mine", queue=queue)

        claim = desk.engine.claim("pq", 4, worker="w", order=order, tasks=["mine"])

        assert {job.id for job in claim.jobs} == {"mp", "mq"}


class TestParts:
    @LIMITED
    def test_jobs_come_back_to_where_they_are_found(self, desk: Desk, limits) -> None:
        desk.enqueue("s", *limits, task="stranger")
        desk.claim(tasks=["mine"])
        assert desk.claim(tasks=["stranger"]) == "s"

        desk.settle("s", HandedBack())
        assert desk.claim(tasks=["mine"]) == ""
        assert desk.claim(tasks=["stranger"]) == "s"
        desk.clock.advance(HOUR)
        assert desk.claim(tasks=["stranger"]) == "s"
        desk.settle("s", Done())
        assert desk.engine.doctor() == []

    @LIMITED
    def test_jobs_that_stand_apart_are_cancelled_and_counted_as_ever(self, desk: Desk, limits) -> None:
        desk.enqueue("s1 s2 s3", *limits, task="stranger")
        desk.claim(tasks=["mine"])

        assert desk.engine.count(queue="q") == {State.WAITING: 3}
        assert desk.engine.count(queue="q", tasks=["mine", "other"]) == {}
        desk.engine.cancel("s1")
        assert desk.engine.why("s3").place == 1
        assert desk.claim() == "s2 s3"

    def test_the_latest_call_takes_the_place_of_one_that_stands_apart(self, desk: Desk) -> None:
        unique = Unique("u", on_duplicate=OnDuplicate.REPLACE)
        for limits in ((), (slots("k", 1),)):
            desk.engine.reset()
            desk.enqueue("s1", *limits, task="stranger", unique=unique)
            desk.enqueue("s0", *limits, task="stranger")
            desk.claim(tasks=["mine"])

            desk.enqueue("s2", *limits, task="stranger", unique=unique)
            desk.enqueue("m", *limits, task="mine", unique=unique)

            assert desk.claim(tasks=["mine"]) == "m"
            assert desk.engine.doctor() == []

    def test_a_part_is_forgotten_once_no_claim_refuses_its_task(self, desk: Desk) -> None:
        desk.enqueue("s", task="stranger")
        desk.enqueue("l", slots("k", 1), task="stranger")
        desk.claim(tasks=["mine"])
        assert parts(desk.engine) == [("q", "stranger")]
        desk.clock.advance(HOUR)
        desk.engine.upkeep()
        assert parts(desk.engine) == [("q", "stranger")]  # jobs wait there

        assert desk.claim(tasks=["stranger"]) == "s l"
        desk.engine.upkeep()
        assert parts(desk.engine) == []

        desk.settle("s l", HandedBack())
        assert desk.claim(tasks=["mine"]) == ""
        assert desk.claim(tasks=["stranger"]) == "s l"
        assert desk.engine.doctor() == []

    def test_jobs_stand_with_the_others_again_while_the_last_of_a_part_wait(self, desk: Desk) -> None:
        desk.enqueue("s1", task="stranger")
        desk.claim(tasks=["mine"])
        desk.clock.advance(HOUR)

        desk.enqueue("s2", task="stranger")
        desk.enqueue("s0", task="stranger", priority=1)

        assert desk.claim(tasks=["stranger"]) == "s0 s1 s2"

    @LIMITED
    def test_names_may_be_as_long_as_they_can(self, desk: Desk, limits) -> None:
        chance = random.Random(7)  # what repeats itself takes less room in an index than it seems
        queue, tenant = ("".join(chance.choices(string.ascii_letters, k=1_024)) for _ in range(2))
        longest = "".join(chr(chance.randint(0x20000, 0x2A000)) for _ in range(255))
        place = {"queue": queue, "tenant": tenant if limits else ""}
        desk.enqueue("a", *limits, task=longest, **place)
        desk.enqueue("b", *limits, task=longest[:-1], **place)
        assert desk.claim(queues=[queue], tasks=["mine"]) == ""
        desk.enqueue("c", *limits, task=longest, **place)

        assert desk.claim(queues=[queue], tasks=[longest]) == "a c"
        assert desk.engine.doctor() == []


class TestTold:
    @LIMITED
    def test_why_and_the_advice_tell_of_a_task_that_no_worker_knows(self, desk: Desk, limits) -> None:
        desk.enqueue("s1 s2", *limits, task="stranger")
        desk.claim(tasks=["mine"])
        assert desk.engine.why("s1").sentence == "waits for a worker of queue 'q'"
        assert desk.engine.unknown_tasks() == []

        desk.clock.advance(MINUTE)
        desk.claim(tasks=["mine"])

        assert "task stranger: no worker has asked for it since " in desk.engine.why("s1").sentence
        assert desk.engine.why("s1").earliest is None
        (unknown,) = desk.engine.unknown_tasks(["q"])
        assert (unknown.queue, unknown.task, unknown.waiting) == ("q", "stranger", 2)
        assert desk.engine.unknown_tasks(["other"]) == []
        assert desk.engine.advice()[0].startswith(
            "2 jobs of task 'stranger' wait in queue 'q', but no worker has"
        )
        assert desk.engine.doctor() == []

    @pytest.mark.parametrize("tasks", [["stranger"], ["str*"], None], ids=str)
    def test_a_worker_that_asks_for_it_ends_that(self, desk: Desk, tasks) -> None:
        desk.enqueue("s1 s2", slots("k", 1), task="stranger")
        desk.claim(tasks=["mine"])
        desk.clock.advance(MINUTE)

        assert desk.claim(1, tasks=tasks) == "s1"

        assert desk.engine.unknown_tasks() == []
        assert "no worker" not in desk.engine.why("s2").sentence

    def test_a_task_without_jobs_is_not_told_of(self, desk: Desk) -> None:
        desk.enqueue("s1", task="stranger")
        desk.claim(tasks=["mine"])
        desk.engine.cancel("s1")
        desk.clock.advance(MINUTE)

        assert desk.engine.unknown_tasks() == []


def test_jobs_added_in_bulk_are_found_behind_strangers(desk: Desk) -> None:
    """As a store adds them that has a quicker way for jobs without limits."""
    desk.enqueue("s", task="stranger")
    assert desk.claim(tasks=["mine"]) == ""
    desk.engine.enqueue([NewJob(task=task, queue="q") for task in ("stranger", "mine", "stranger", "mine")])

    claim = desk.engine.claim(["q"], 9, worker="w", tasks=["mine"])
    assert [job.task for job in claim.jobs] == ["mine"] * 2
    claim = desk.engine.claim(["q"], 9, worker="w", tasks=["stranger"])
    assert [job.task for job in claim.jobs] == ["stranger"] * 3
