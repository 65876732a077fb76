"""Events: what is told, with which facts, when, and to whom."""

import logging
import threading

import pytest

from penstock.clock import SECOND
from penstock.errors import DuplicateJobError, WrongStateError
from penstock.job import START_GRACE, Event, NewJob
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited
from penstock.lifecycle.retry import Exhausted, RetryPolicy
from penstock.lifecycle.unique import Unique
from penstock.limits.rules import Floating, Limit, Numbers
from penstock.store import gates as gate_rows
from tests.support.desk import LEASE, Desk, rate, slots, throttle

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
        ("outcome", "policy", "names"),
        [
            (NO, RetryPolicy(), ["job.failed"]),
            (NO, TWICE, ["job.retrying"]),
            (Again(), TWICE, ["job.retrying"]),
            (NO, DISCARD, ["job.discarded"]),
            (Cancelled("enough"), RetryPolicy(), ["job.cancelled"]),
            (HandedBack(), RetryPolicy(), ["job.handed_back"]),
        ],
        ids=["failed", "retrying", "again", "discarded", "cancelled", "handed back"],
    )
    def test_every_end_has_a_name(self, desk: Desk, outcome, policy, names) -> None:
        desk.enqueue("a", retry=policy)
        desk.claim()
        told(desk)
        desk.settle("a", outcome)

        assert {event.facts["job"] for event in desk.events} == {"a"}
        assert told(desk) == names

    def test_a_retry_tells_when(self, desk: Desk) -> None:
        desk.enqueue("a", retry=TWICE)
        desk.claim()
        desk.settle("a", Again(after=7 * SECOND))

        facts = the_one(desk, "job.retrying").facts
        assert (facts["job"], facts["after"], facts["attempt"]) == ("a", 7 * SECOND, 1)

    def test_a_rescue_an_expiry_and_a_cancel_are_told(self, desk: Desk) -> None:
        desk.enqueue("lost late")
        desk.enqueue("expires", slots("X", 0), expires=desk.clock.now() + SECOND)
        desk.enqueue("unwanted", slots("X", 0))
        desk.claim()
        told(desk)
        desk.engine.cancel("unwanted", "changed my mind")
        desk.wait(LEASE)
        desk.engine.upkeep()

        assert (
            the_one(desk, "job.cancelled").facts
            == {
                "job": "unwanted",
                "reason": "changed my mind",
            }
            | NAMES
        )
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


class TestLimits:
    def test_a_blocked_episode_is_told_once_not_once_per_claim(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        assert desk.claim() == "a"
        for _ in range(10):
            assert desk.claim() == ""
            desk.wait(SECOND)

        facts = the_one(desk, "limit.exceeded").facts
        assert {name: facts[name] for name in ("key", "rule", "limit", "current", "job")} == {
            "key": "X",
            "rule": "slots",
            "limit": 1,
            "current": 1,
            "job": "b",
        }

    def test_a_job_that_starts_after_waiting_is_released(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        assert desk.heard("limit.released") == []
        desk.settle("a")
        assert desk.heard("limit.released") == []
        desk.claim()

        assert the_one(desk, "limit.released").facts == {"key": "X", "owner": "", "job": "b"} | NAMES

    def test_every_one_who_has_to_wait_is_told_of_and_released_in_turn(self, desk: Desk) -> None:
        desk.enqueue("a b c", slots("X", 1))
        for name in "abc":
            assert desk.claim() == name
            desk.settle(name)

        assert [event.facts["job"] for event in desk.heard("limit.exceeded")] == ["b", "c"]
        assert [event.facts["job"] for event in desk.heard("limit.released")] == ["b", "c"]

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

        assert has(the_one(desk, "limit.dropped"), key="X", job="b", task="send")
        assert has(the_one(desk, "job.discarded"), job="b", task="send", reason="limit")
        assert told(desk, "b") == ["job.enqueued", "limit.dropped", "job.discarded"]

    def test_a_429_from_the_called_system_adjusts_the_gate(self, desk: Desk) -> None:
        desk.enqueue("a", slots("X", 1), slots("Y", 1))
        desk.claim()
        until = desk.clock.now() + SECOND
        desk.settle("a", Limited(until, "X", "429"))

        assert the_one(desk, "limit.adjusted").facts == {
            "key": "X",
            "tenant": "",
            "until": until,
            "reason": "429",
        }

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
