"""Events: what is told, with which facts, when, and to whom."""

import logging
import threading

import pytest

from penstock.clock import SECOND
from penstock.engine.admission.blocked import BEHIND
from penstock.errors import DuplicateJobError, WrongStateError
from penstock.job import START_GRACE, Event, NewJob
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited
from penstock.lifecycle.retry import Exhausted, RetryPolicy
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Floating, Limit, Numbers
from penstock.store import gates as gate_rows
from tests.support.desk import LEASE, Desk, rate, slots, throttle, work_of
from tests.support.stores import on_sqlite

NO = Failed("ValueError", "no")
NAMES = {"task": "task", "queue": "q", "tenant": ""}  # of every job here
TWICE = RetryPolicy(attempts=2, delay=SECOND, jitter=False)
DISCARD = RetryPolicy(exhausted=Exhausted.DISCARD)


def told(desk: Desk, job: str | None = None) -> list[str]:
    """Return the names of the events so far, and forget them."""
    names = [event.name for event in desk.events if job in (None, event.facts.get("job"))]
    desk.events.clear()
    return names


def the_one(desk: Desk, name: str) -> Event:
    (event,) = desk.heard(name)
    return event


def has(event: Event, **facts: object) -> bool:
    """Tell whether an event has these facts, and perhaps others."""
    return facts.items() <= event.facts.items()


class TestJobs:
    def test_a_job_is_enqueued_started_and_done(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.wait(SECOND)
        desk.claim()
        desk.wait(SECOND)
        desk.settle("a", Done("1"))

        assert [event.name for event in desk.events] == ["job.enqueued", "job.started", "job.done"]
        enqueued, started, done = desk.events
        assert enqueued.facts == {"job": "a"} | NAMES
        assert has(started, job="a", attempt=1, worker="worker", enqueued=enqueued.at, **NAMES)
        assert has(done, job="a", attempt=1, started=started.at, **NAMES)
        assert [enqueued.at, started.at, done.at] == [desk.clock.now() - SECOND * n for n in (2, 1, 0)]

    @pytest.mark.parametrize(
        ("outcome", "policy", "name"),
        [
            (NO, RetryPolicy(), "job.failed"),
            (NO, TWICE, "job.retrying"),
            (Again(), TWICE, "job.retrying"),
            (NO, DISCARD, "job.discarded"),
            (Cancelled("enough"), RetryPolicy(), "job.cancelled"),
            (HandedBack(), RetryPolicy(), "job.handed_back"),
        ],
    )
    def test_every_end_has_a_name(self, desk: Desk, outcome, policy, name) -> None:
        desk.enqueue("a", retry=policy)
        desk.claim()
        told(desk)
        desk.settle("a", outcome)

        assert {event.facts["job"] for event in desk.events} == {"a"}
        assert told(desk) == [name]

    def test_a_retry_tells_when(self, desk: Desk) -> None:
        desk.enqueue("a", retry=TWICE)
        desk.claim()
        desk.settle("a", Again(after=7 * SECOND))

        assert has(the_one(desk, "job.retrying"), job="a", after=7 * SECOND, attempt=1)

    def test_a_rescue_an_expiry_and_a_cancel_are_told(self, desk: Desk) -> None:
        desk.enqueue("lost late")
        desk.enqueue("expires", slots("X", 0), expires=desk.clock.now() + SECOND)
        desk.enqueue("unwanted", slots("X", 0))
        desk.claim()
        told(desk)
        desk.engine.cancel("unwanted", "changed my mind")
        desk.wait(LEASE)
        desk.engine.upkeep()

        cancelled = {"job": "unwanted", "reason": "changed my mind"}
        assert the_one(desk, "job.cancelled").facts == cancelled | NAMES
        assert the_one(desk, "job.expired").facts["job"] == "expires"
        assert [event.facts["job"] for event in desk.heard("job.rescued")] == ["lost", "late"]

    def test_a_run_by_hand_is_told_as_an_enqueue(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.claim()
        desk.settle("a", NO)
        told(desk)
        desk.engine.retry("a")

        assert told(desk, "a") == ["job.enqueued"]

    def test_a_job_reused_for_a_duplicate_is_not_told_again(self, desk: Desk) -> None:
        desk.enqueue("a", unique=Unique("k"))
        desk.enqueue("b", unique=Unique("k"))

        assert told(desk) == ["job.enqueued"]

    def test_a_settlement_refused_by_the_fence_tells_nothing(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.claim()
        desk.settle("a")
        told(desk)
        assert desk.settle("a") == [False]

        assert told(desk) == []

    def test_jobs_go_by_their_ids_never_by_numbers(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.enqueue("dropped", slots("X", 1, "drop"))
        desk.claim()
        desk.settle("a", HandedBack())
        desk.claim()
        desk.engine.cancel("b")
        desk.wait(LEASE)
        desk.claim()
        desk.settle("a", Limited(desk.clock.now() + SECOND, "X"))

        jobs = [event.facts["job"] for event in desk.events if "job" in event.facts]
        assert set(jobs) <= {"a", "b", "dropped"}
        assert len(jobs) > 8


def blocked(desk: Desk) -> list[object]:
    return [event.facts["job"] for event in desk.heard("limit.exceeded")]


def released(desk: Desk) -> list[object]:
    return [event.facts["job"] for event in desk.heard("limit.released")]


class TestLimits:
    def test_a_blocked_episode_is_told_once_not_once_per_claim(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        assert desk.claim() == "a"
        for _ in range(10):
            assert desk.claim() == ""
            desk.wait(SECOND)

        assert has(the_one(desk, "limit.exceeded"), key="X", rule="slots", limit=1, current=1, job="b")

    def test_a_job_that_starts_after_waiting_is_released(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        assert desk.heard("limit.released") == []
        desk.settle("a")
        assert desk.heard("limit.released") == []
        desk.claim()

        assert the_one(desk, "limit.released").facts == {"key": "X", "owner": "", "job": "b"} | NAMES

    def test_every_job_that_has_to_wait_is_told_of_and_released_in_order(self, desk: Desk) -> None:
        desk.enqueue("a b c", slots("X", 1))
        for name in "abc":
            assert desk.claim() == name
            desk.settle(name)

        assert [event.facts["job"] for event in desk.heard("limit.exceeded")] == ["b", "c"]
        assert [event.facts["job"] for event in desk.heard("limit.released")] == ["b", "c"]

    @pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
    @pytest.mark.parametrize("before", [True, False], ids=["before the claim", "after it"])
    def test_each_of_those_that_are_blocked_is_told_when_it_is(self, desk: Desk, at_once, before) -> None:
        desk.enqueue("a", slots("X", 1))
        if not before:
            desk.claim()
        for names in ["b c d e"] if at_once else "bcde":
            desk.enqueue(names, slots("X", 1))
        if before:
            desk.claim()

        assert blocked(desk) == ["b", "c", "d", "e"]
        assert [event.facts["current"] for event in desk.heard("limit.exceeded")] == [1] * 4
        for name in "abcde":
            desk.settle(name)
            desk.claim()
        assert blocked(desk) == released(desk) == ["b", "c", "d", "e"]

    def test_of_very_many_some_are_told_at_once_and_all_once(self, desk: Desk) -> None:
        names = [f"j{n}" for n in range(2 * BEHIND + 10)]
        desk.enqueue(" ".join(names), slots("X", 2))
        assert desk.claim() == "j0 j1"
        assert blocked(desk) == names[2 : 2 + BEHIND]
        for one, two in zip(names[::2], names[1::2], strict=True):
            desk.settle(f"{one} {two}")
            desk.claim()

        assert sorted(blocked(desk)) == sorted(names[2:])
        assert sorted(released(desk)) == sorted(names[2:])

    def test_all_of_a_batch_that_joins_a_shut_line_are_told(self, desk: Desk) -> None:
        names = [f"j{n}" for n in range(BEHIND + 10)]
        desk.engine.configure("key", "X", Numbers(slots=0))
        desk.enqueue(" ".join(names), slots("X", 1))
        assert sorted(blocked(desk)) == sorted(names)
        desk.enqueue(" ".join(f"k{n}" for n in range(BEHIND + 10)), slots("X", 1))

        assert len(blocked(desk)) == len(set(blocked(desk))) == 2 * len(names)

    def test_one_that_comes_before_the_blocked_is_told_and_they_are_not_told_again(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.claim()
        desk.enqueue("b", slots("X", 1))
        desk.enqueue("urgent", slots("X", 1), priority=1)
        for name in ("a", "urgent", "b"):
            desk.settle(name)
            desk.claim()

        assert blocked(desk) == ["b", "urgent"]
        assert released(desk) == ["urgent", "b"]

    def test_a_blocked_job_that_is_called_and_overtaken_by_another_queue_is_told_once(
        self, desk: Desk
    ) -> None:
        desk.enqueue("a b", slots("X", 2))
        desk.claim()
        desk.enqueue("c d", slots("X", 2))
        desk.settle("a b")
        assert desk.claim(1) == "c"
        desk.enqueue("other", slots("X", 2), queue="r")
        assert desk.claim(queues=["r"]) == "other"
        assert desk.claim() == ""
        desk.settle("c other")
        assert desk.claim() == "d"

        assert blocked(desk) == released(desk) == ["c", "d"]

    def test_due_and_retried_jobs_are_told_when_they_find_it_shut(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.claim(lease=60 * SECOND)
        desk.enqueue("b c", slots("X", 1), due=desk.clock.now() + SECOND)
        assert blocked(desk) == []
        desk.wait(2 * SECOND)
        desk.claim()

        assert sorted(blocked(desk)) == ["b", "c"]

    def test_a_job_that_takes_the_place_of_a_blocked_one_is_told(self, desk: Desk) -> None:
        latest = Unique("u", on_duplicate=OnDuplicate.REPLACE)
        desk.enqueue("a", slots("X", 1))
        desk.claim()
        desk.enqueue("b", slots("X", 1), unique=latest)
        desk.enqueue("c", slots("X", 1), unique=latest)
        desk.settle("a")
        assert desk.claim() == "c"

        assert (blocked(desk), released(desk)) == (["b", "c"], ["c"])

    def test_a_rule_is_named_though_others_only_come_first(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.claim()
        desk.enqueue("b", slots("X", 1), slots("B", 1))
        desk.enqueue("c", slots("X", 1), slots("C", 1))
        desk.settle("a")  # which calls b, and not c
        desk.enqueue("d", slots("X", 1), slots("C", 1))

        assert [event.facts["rule"] for event in desk.heard("limit.exceeded")] == ["slots"] * 3

    def test_a_blocked_job_that_is_dropped_later_is_told_of_once(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.claim()
        desk.enqueue("b", slots("X", 1), slots("Y", 1, "drop"))
        desk.enqueue("y", slots("Y", 1), queue="r")
        desk.claim(queues=["r"])
        desk.settle("a")
        desk.claim()

        assert told(desk, "b") == ["job.enqueued", "limit.exceeded", "limit.dropped", "job.discarded"]

    @on_sqlite
    def test_telling_costs_the_same_however_many_wait(self, desk: Desk) -> None:
        steps = []
        for key, waiting in (("few", 300), ("many", 3_000)):
            desk.enqueue(" ".join(f"{key}{n}" for n in range(waiting)), slots(key, 1), queue=key)
            claim = work_of(desk.engine, lambda key=key: desk.claim(1, queues=[key]))
            join = work_of(desk.engine, lambda key=key: desk.enqueue(f"{key}-new", slots(key, 1), queue=key))
            assert len(blocked(desk)) == BEHIND + 1
            desk.events.clear()
            steps.append((claim.steps, join.steps))

        (claim_few, join_few), (claim_many, join_many) = steps
        assert claim_many < 1.1 * claim_few
        assert join_many < 1.1 * join_few

    def test_a_job_that_need_not_wait_is_neither_blocked_nor_released(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 2))
        desk.claim()
        desk.settle("a b")

        assert [name for name in told(desk) if name.startswith("limit")] == []

    def test_being_called_and_refused_at_another_gate_is_the_same_episode(self, desk: Desk) -> None:
        desk.enqueue("x", slots("X", 1))
        desk.enqueue("y", slots("Y", 1))
        desk.claim()
        desk.enqueue("xy", slots("X", 1), slots("Y", 1))
        desk.settle("x")
        assert desk.claim() == ""
        desk.settle("y")
        assert desk.claim() == "xy"

        assert [event.facts["job"] for event in desk.heard("limit.exceeded")] == ["xy"]
        assert [event.facts["job"] for event in desk.heard("limit.released")] == ["xy"]

    def test_a_second_episode_is_told_again(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        desk.settle("a")
        desk.claim()
        desk.settle("b", HandedBack())
        desk.engine.configure("key", "X", Numbers(slots=0))
        assert desk.claim() == ""

        assert [event.facts["job"] for event in desk.heard("limit.exceeded")] == ["b", "b"]

    @pytest.mark.parametrize(
        ("limit", "rule", "number", "current"),
        [(rate("X", 2), "rate", 2, 2), (throttle("X", 1), "throttle", 1, 1), (slots("X", 0), "slots", 0, 0)],
        ids=["rate", "throttle", "zero"],
    )
    def test_the_rule_that_was_hit_is_named(self, desk: Desk, limit, rule, number, current) -> None:
        desk.enqueue("a b c", limit)
        desk.claim()

        facts = desk.heard("limit.exceeded")[0].facts
        assert (facts["rule"], facts["limit"], facts["current"]) == (rule, number, current)

    def test_waiting_out_a_rate_is_one_episode_for_each_job(self, desk: Desk) -> None:
        desk.enqueue("a b c", rate("X", 1))
        for _ in range(3):
            desk.claim()
            desk.wait(SECOND + START_GRACE)

        assert [event.facts["job"] for event in desk.heard("limit.exceeded")] == ["b", "c"]
        assert [event.facts["job"] for event in desk.heard("limit.released")] == ["b", "c"]

    def test_a_drop_is_told_with_its_key_and_task_and_as_a_discard(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.claim()
        told(desk)
        desk.enqueue("b", slots("X", 1, "drop"), task="send")

        assert has(the_one(desk, "limit.exceeded"), key="X", job="b", rule="slots", limit=1, current=1)
        assert has(the_one(desk, "limit.dropped"), key="X", job="b", task="send")
        assert has(the_one(desk, "job.discarded"), job="b", task="send", reason="limit")
        assert told(desk, "b") == ["job.enqueued", "limit.exceeded", "limit.dropped", "job.discarded"]

    def test_a_429_from_the_called_system_adjusts_the_gate(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1), slots("Y", 1))
        desk.claim()
        until = desk.clock.now() + SECOND
        desk.settle("a", Limited(until, "X", "429"))

        adjusted = {"key": "X", "tenant": "", "until": until, "reason": "429"}
        assert the_one(desk, "limit.adjusted").facts == adjusted

    def test_a_429_without_a_key_adjusts_every_gate_of_the_job(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1), slots("Y", 1))
        desk.claim()
        desk.settle("a", Limited(desk.clock.now() + SECOND))

        assert [event.facts["key"] for event in desk.heard("limit.adjusted")] == ["X", "Y"]

    def test_a_429_for_a_gate_the_job_does_not_carry_adjusts_nothing(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.claim()
        desk.settle("a", Limited(desk.clock.now() + SECOND, "Z"))

        assert desk.heard("limit.adjusted") == []
        assert desk.claim() == ""
        desk.wait(SECOND)
        assert desk.claim() == "a"

    def test_an_operator_who_shuts_a_gate_adjusts_it(self, desk: Desk) -> None:
        until = desk.clock.now() + SECOND
        desk.engine.shut("X", until, reason="maintenance")

        assert has(the_one(desk, "limit.adjusted"), key="X", until=until, reason="maintenance")

    def test_a_floating_key_is_told_of_like_any_other(self, desk: Desk) -> None:
        desk.enqueue("a b", Limit("X", Numbers(slots=1), floating=Floating("how_many", SECOND)))
        desk.claim()
        (lent,) = desk.engine.refreshes(["how_many"], 1, worker="worker")
        desk.engine.refreshed(lent, value=2)
        desk.claim()

        assert the_one(desk, "limit.released").facts["job"] == "b"


class TestListening:
    def test_events_are_told_after_the_commit(self, desk: Desk) -> None:
        seen: list[str] = []

        def look(event: Event) -> None:
            seen.append(str(desk.engine.job(str(event.facts["job"])).state))

        desk.engine.listen(look)
        desk.enqueue("a")
        desk.claim()
        desk.settle("a")

        assert seen == ["waiting", "running", "done"]

    def test_a_listener_may_use_the_engine(self, desk: Desk) -> None:
        def chain(event: Event) -> None:
            if event.name == "job.done" and event.facts["job"] == "a":
                desk.enqueue("b")

        desk.engine.listen(chain)
        desk.enqueue("a")
        desk.claim()
        desk.settle("a")

        assert desk.claim() == "b"

    def test_events_come_in_the_thread_that_committed(self, desk: Desk) -> None:
        threads: list[int] = []
        desk.engine.listen(lambda _: threads.append(threading.get_ident()))
        other = threading.Thread(target=desk.enqueue, args=("a",))
        other.start()
        other.join()

        assert threads == [other.ident]

    def test_a_verb_that_is_rolled_back_tells_nothing(self, desk: Desk) -> None:
        desk.enqueue("a")
        told(desk)

        with pytest.raises(DuplicateJobError):
            desk.engine.enqueue([NewJob("task", id="b"), NewJob("task", id="a")])
        with pytest.raises(WrongStateError):
            desk.engine.retry("a")

        assert told(desk) == []

    def test_a_work_that_fails_in_the_middle_tells_nothing(self, desk: Desk, monkeypatch) -> None:
        desk.enqueue("a b", slots("X", 1))
        told(desk)

        def fail(*_: object) -> None:
            raise RuntimeError("in the middle")

        with monkeypatch.context() as patch:
            patch.setattr(gate_rows, "save", fail)
            with pytest.raises(RuntimeError, match="in the middle"):
                desk.claim()

        assert told(desk) == []
        assert desk.claim() == "a"

    def test_a_listener_that_raises_harms_nobody(self, desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
        after: list[str] = []

        def broken(_: Event) -> None:
            raise RuntimeError("oops")

        desk.engine.listen(broken)
        desk.engine.listen(lambda event: after.append(event.name))
        with caplog.at_level(logging.ERROR, "penstock.engine"):
            desk.enqueue("a")
            assert desk.claim() == "a"
            assert desk.settle("a") == [True]

        assert after == ["job.enqueued", "job.started", "job.done"]
        assert [event.name for event in desk.events] == after
        assert "job.done" in caplog.text

    def test_who_stops_listening_hears_no_more(self, desk: Desk) -> None:
        seen: list[Event] = []
        stop = desk.engine.listen(seen.append)
        desk.enqueue("a")
        stop()
        desk.enqueue("b")

        assert [event.facts["job"] for event in seen] == ["a"]

    def test_a_listener_may_stop_itself(self, desk: Desk) -> None:
        seen: list[str] = []

        def once(event: Event) -> None:
            seen.append(event.name)
            stop()

        stop = desk.engine.listen(once)
        desk.engine.enqueue([NewJob("task"), NewJob("task")])

        assert seen == ["job.enqueued"]
        assert len(desk.events) == 2
