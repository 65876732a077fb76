"""Schedules: each moment enqueues one job, however many processes look and however late."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from penstock.clock import SECOND
from penstock.engine.admission.board import Board
from penstock.engine.events import Events
from penstock.engine.schedules import LATER, fire
from penstock.engine.upkeep import BATCH
from penstock.errors import InvalidError, NotFoundError
from penstock.job import Bound, JobView, NewJob, Schedule, Settlement
from penstock.lifecycle.outcomes import Again, Done
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.store import schedules as schedule_rows
from penstock.store.session import Locks
from tests.postgres.race import quiet
from tests.support.clock import BEGINNING
from tests.support.desk import Desk, rate, slots
from tests.support.stores import on_postgres

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def hourly(name: str = "hourly", **facts) -> Schedule:
    job = facts.pop("job", NewJob("tick", queue="q"))
    return Schedule(name, facts.pop("expression", "@hourly"), job, **facts)


def put(desk: Desk, *args, **facts) -> Schedule:
    return desk.engine.set_schedule(hourly(*args, **facts))


def pass_time(desk: Desk, span: int = HOUR) -> int:
    """Let time pass; return how many schedules were due."""
    desk.wait(span)
    return desk.engine.upkeep()["fired"]


def jobs(desk: Desk, **which) -> list[JobView]:
    """Return the jobs, the first one first."""
    return desk.engine.jobs(limit=2_000, **which)[::-1]


def sql(desk: Desk, statement: str) -> None:
    desk.engine.store.write(lambda db: db.run(statement))


class TestKeeping:
    def test_a_new_schedule_knows_its_next_moment(self, desk: Desk) -> None:
        desk.wait(20 * MINUTE)
        made = put(desk, timezone="Asia/Kolkata", meta='{"by":"me"}', ttl=5)

        assert made == desk.engine.schedule("hourly")
        half_past = {"created": desk.clock.now(), "next_at": BEGINNING + 30 * MINUTE}  # in India
        assert made == hourly(timezone="Asia/Kolkata", meta='{"by":"me"}', ttl=5, **half_past)

    def test_all_of_its_job_is_kept(self, desk: Desk) -> None:
        job = NewJob(
            "tick", args='{"a": [1, "ü"]}', queue="q", tenant="us", priority=3, cost=2, timeout=SECOND,
            limits=(slots("X", 2, "drop"), rate("Y", 3)), retry=RetryPolicy(attempts=3, never=("ValueError",)),
            unique=Unique("u", frozenset({State.DONE}), 7, OnDuplicate.REJECT), meta='{"m": null}',
        )  # fmt: skip

        assert put(desk, job=job, tenant="us").job == job

    def test_replacing_keeps_when_it_was_made_and_what_it_did(self, desk: Desk) -> None:
        put(desk)
        pass_time(desk)
        before = desk.engine.schedule("hourly")
        after = put(desk, expression="30 * * * *", overlap=Overlap.SKIP, job=NewJob("tock"))

        assert (after.created, after.last_at) == (BEGINNING, BEGINNING + HOUR)
        assert (after.last_job, after.fired) == (before.last_job, 1)
        assert (after.overlap, after.job.task) == (Overlap.SKIP, "tock")
        assert after.next_at == desk.clock.now() + 30 * MINUTE
        assert len(desk.engine.schedules()[0]) == 1

    def test_replacing_does_not_lose_a_moment_that_has_just_come(self, desk: Desk) -> None:
        put(desk)
        desk.wait(HOUR)
        put(desk, overlap=Overlap.SKIP)

        assert pass_time(desk, 0) == 1

    def test_another_expression_or_zone_sets_the_next_moment_again(self, desk: Desk) -> None:
        put(desk)
        put(desk, "zoned")
        desk.wait(HOUR)
        put(desk, expression="30 * * * *")
        put(desk, "zoned", timezone="Asia/Kolkata")

        assert pass_time(desk, 0) == 0
        assert pass_time(desk, 30 * MINUTE) == 2

    def test_they_are_listed_by_tenant_and_name_a_page_at_a_time(self, desk: Desk) -> None:
        for name in "cab":
            put(desk, name)
        put(desk, "a", tenant="us")

        def names(*args, **which) -> tuple[list[tuple[str, str]], int]:
            found, total = desk.engine.schedules(*args, **which)
            return [(s.tenant, s.name) for s in found], total

        assert names() == ([("", "a"), ("", "b"), ("", "c"), ("us", "a")], 4)
        assert names(offset=1, limit=2) == ([("", "b"), ("", "c")], 4)
        assert names("us") == ([("us", "a")], 1)
        assert names("") == ([("", "a"), ("", "b"), ("", "c")], 3)
        assert names("them") == ([], 0)

    def test_one_that_is_deleted_is_gone_and_its_jobs_are_not(self, desk: Desk) -> None:
        put(desk)
        put(desk, tenant="us")
        pass_time(desk)
        desk.engine.delete_schedule("hourly")

        assert pass_time(desk) == 1
        assert [job.tenant for job in jobs(desk)] == ["", "us", "us"]
        assert desk.engine.schedule("hourly", "us").fired == 2

    @pytest.mark.parametrize("verb", ["schedule", "delete_schedule", "pause_schedule", "resume_schedule"])
    def test_one_that_does_not_exist_is_not_found(self, desk: Desk, verb: str) -> None:
        put(desk, tenant="us")

        with pytest.raises(NotFoundError, match="no schedule 'hourly'"):
            getattr(desk.engine, verb)("hourly")

    @pytest.mark.parametrize(
        ("field", "facts"),
        [
            ("name", {"name": ""}),
            ("name", {"name": "a b"}),
            ("name", {"name": "a" * 241}),
            ("expression", {"expression": "99 25 32 13 8"}),
            ("expression", {"expression": "0 0 LW * */7"}),  # a weekday that is a Sunday
            ("timezone", {"timezone": "Mars/Olympus"}),
            ("overlap", {"overlap": "sometimes"}),
            ("ttl", {"ttl": 0}),
            ("meta", {"meta": "[]"}),
            ("meta", {"job": NewJob("tick", meta="no")}),
            ("task", {"job": NewJob("")}),
            ("queue", {"job": NewJob("tick", queue="a\nb")}),
            ("id", {"job": NewJob("tick", id="one")}),
            ("due", {"job": NewJob("tick", due=1)}),
            ("expires", {"job": NewJob("tick", expires=1)}),
        ],
    )
    def test_one_that_could_never_fire_is_refused(self, desk: Desk, field: str, facts) -> None:
        with pytest.raises(InvalidError) as caught:
            put(desk, **facts)

        assert caught.value.field == field
        assert desk.engine.schedules() == ([], 0)


class TestFiring:
    def test_a_job_is_enqueued_when_the_moment_comes_and_not_before(self, desk: Desk) -> None:
        job = NewJob("tick", args='{"n": 1}', queue="q", priority=7, meta='{"a": "b"}')
        put(desk, job=job, tenant="us")

        assert pass_time(desk, HOUR - 1) == 0
        assert jobs(desk) == []
        assert pass_time(desk, 1) == 1
        (found,) = jobs(desk)
        assert (found.task, found.args, found.queue, found.priority) == ("tick", '{"n": 1}', "q", 7)
        assert (found.tenant, found.state, found.enqueued) == ("us", State.WAITING, desk.clock.now())
        assert json.loads(found.meta) == {"a": "b", "schedule": {"name": "hourly", "at": BEGINNING + HOUR}}

    def test_a_schedule_knows_what_it_did(self, desk: Desk) -> None:
        put(desk)
        pass_time(desk)
        desk.wait(HOUR)
        pass_time(desk, 5)
        found = desk.engine.schedule("hourly")

        assert (found.fired, found.last_at, found.last_job) == (2, desk.clock.now(), jobs(desk)[-1].id)
        assert found.next_at == BEGINNING + 3 * HOUR

    def test_a_claim_does_not_wait_for_upkeep(self, desk: Desk) -> None:
        put(desk)
        desk.wait(HOUR)

        (name,) = desk.claim().split()
        assert desk.job(name).task == "tick"
        assert desk.engine.schedule("hourly").fired == 1

    def test_an_idle_claim_says_when_the_next_one_fires(self, desk: Desk) -> None:
        put(desk, "other", expression="@daily")
        put(desk)

        assert desk.engine.claim(["q"], 1, worker="w").next_at == BEGINNING + HOUR
        desk.engine.pause_schedule("hourly")
        assert desk.engine.claim(["q"], 1, worker="w").next_at == BEGINNING + DAY

    def test_so_does_one_that_must_look_beyond_an_expiry(self, desk: Desk) -> None:
        put(desk)
        desk.enqueue("a", expires=desk.clock.now() + SECOND)
        desk.claim(lease=2 * HOUR)
        desk.wait(2 * SECOND)

        assert desk.engine.claim(["q"], 1, worker="w").next_at == BEGINNING + HOUR

    def test_a_worker_that_waits_hears_of_a_new_schedule(self, desk: Desk) -> None:
        token = quiet(desk.engine)
        put(desk)

        assert desk.engine.wait(token, 10) != token

    def test_moments_that_nobody_saw_fire_once_together(self, desk: Desk) -> None:
        put(desk)

        assert pass_time(desk, 5 * HOUR + MINUTE) == 1
        assert len(jobs(desk)) == 1
        assert desk.engine.schedule("hourly").next_at == BEGINNING + 6 * HOUR
        assert pass_time(desk, 0) == 0

    def test_a_job_of_a_schedule_passes_the_gates_like_any_other(self, desk: Desk) -> None:
        put(desk, job=NewJob("tick", queue="q", limits=(slots("X", 1),)))
        for _ in range(2):
            pass_time(desk)
        (first,) = desk.claim(lease=DAY).split()
        desk.settle(first)

        assert desk.claim() == jobs(desk)[1].id
        assert desk.engine.doctor() == []

    def test_each_is_worth_starting_for_its_time_to_live(self, desk: Desk) -> None:
        put(desk, ttl=MINUTE)
        pass_time(desk, HOUR + SECOND)
        desk.wait(MINUTE)

        assert desk.claim() == ""
        assert jobs(desk)[0].state is State.EXPIRED
        assert jobs(desk)[0].expires == BEGINNING + HOUR + SECOND + MINUTE

    def test_many_at_once_all_fire_before_anyone_starts(self, desk: Desk) -> None:
        for number in range(BATCH + 3):
            put(desk, f"s{number}", job=NewJob("tick", queue="q", priority=int(number == BATCH + 2)))
        desk.wait(HOUR)

        claimed = desk.claim(1)
        assert json.loads(desk.job(claimed).meta)["schedule"]["name"] == f"s{BATCH + 2}"
        assert len(jobs(desk)) == BATCH + 3

    def test_what_fired_and_what_was_skipped_is_told(self, desk: Desk) -> None:
        put(desk, overlap=Overlap.SKIP, tenant="us")
        pass_time(desk)
        pass_time(desk)
        (job,) = jobs(desk)

        assert [event.facts for event in desk.heard("schedule.fired")] == [
            {"schedule": "hourly", "tenant": "us", "job": job.id, "task": "tick", "queue": "q"}
        ]
        assert [event.facts for event in desk.heard("schedule.skipped")] == [
            {"schedule": "hourly", "tenant": "us", "reason": "its last job has not ended"}
        ]


class TestOnce:
    def test_of_many_processes_one_fires(self, desk: Desk, opened) -> None:
        put(desk)
        put(desk, "limited", job=NewJob("tick", queue="q", limits=(slots("X", 9),)))
        engines = [opened() for _ in range(6)]
        together = Barrier(len(engines))

        def look(number: int) -> None:
            together.wait()
            if number % 2:
                engines[number].upkeep()
            else:
                engines[number].claim(["nothing"], 1, worker=f"w{number}")

        with ThreadPoolExecutor(len(engines)) as pool:
            for round_ in range(1, 6):
                desk.wait(HOUR)
                list(pool.map(look, range(len(engines))))
                assert len(jobs(desk)) == 2 * round_

    @on_postgres
    def test_while_one_process_fires_another_claims_past_it(self, desk: Desk, opened) -> None:
        put(desk)
        desk.enqueue("free")
        desk.wait(HOUR)
        rival = opened()

        def work(db) -> list[str]:
            now = desk.clock.now()
            assert fire(Board(db, now, Events(now, wanted=False)), BATCH) == 1
            return [job.id for job in rival.claim(["q"], 5, worker="rival").jobs]

        assert desk.engine.store.write(work, locks=Locks.STARTS) == ["free"]
        assert len(jobs(desk)) == 2
        assert pass_time(desk, 0) == 0

    def test_a_moment_is_not_lost_if_its_transaction_fails(self, desk: Desk, monkeypatch) -> None:
        put(desk)
        with monkeypatch.context() as patched:
            patched.setattr(schedule_rows, "fired", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                pass_time(desk)

        assert jobs(desk) == []
        assert pass_time(desk, 0) == 1
        assert len(jobs(desk)) == 1

    def test_a_job_that_is_refused_holds_up_nobody(self, desk: Desk) -> None:
        unique = Unique("u", on_duplicate=OnDuplicate.REJECT)
        put(desk, "refused", job=NewJob("tick", queue="q", unique=unique))
        put(desk, "taken")
        desk.enqueue("holder", unique=unique)
        desk.wait(HOUR)

        assert len(desk.claim().split()) == 2
        assert [event.facts["schedule"] for event in desk.heard("schedule.fired")] == ["taken"]
        assert [event.facts["schedule"] for event in desk.heard("schedule.skipped")] == ["refused"]
        assert desk.engine.schedule("refused").next_at == BEGINNING + 2 * HOUR

    def test_a_queue_that_is_full_takes_as_many_as_fit(self, desk: Desk) -> None:
        desk.engine.bound("q", Bound(2))
        for name in "abc":
            put(desk, name)
        put(desk, "elsewhere", job=NewJob("tick", queue="other"))

        assert pass_time(desk) == 4
        assert [job.queue for job in jobs(desk)] == ["q", "q", "other"]
        assert [event.facts["schedule"] for event in desk.heard("schedule.skipped")] == ["c"]
        assert [desk.engine.schedule(name).fired for name in "abc"] == [1, 1, 0]

    def test_a_request_that_another_job_stands_for_counts_as_that_one(self, desk: Desk) -> None:
        unique = Unique("u")
        put(desk, job=NewJob("tick", queue="q", unique=unique), overlap=Overlap.SKIP)
        desk.enqueue("holder", unique=unique)
        pass_time(desk)

        assert desk.engine.schedule("hourly").last_job == "holder"
        assert [job.id for job in jobs(desk)] == ["holder"]

    def test_a_job_that_ends_in_the_same_transaction_still_stands_for_its_key(self, desk: Desk) -> None:
        job = NewJob("task", queue="q", unique=Unique("k", window=3600 * SECOND))
        desk.engine.set_schedule(Schedule("s", "* * * * *", job))
        desk.wait(60 * SECOND)
        first = desk.attempts[desk.claim(lease=3600 * SECOND)]
        desk.wait(60 * SECOND)
        settled = Settlement(first.seq, first.fence, Done())

        assert desk.engine.exchange([settled], ["q"], 5, worker="worker")[1].jobs == []
        assert desk.engine.count() == {State.DONE: 1}

    def test_one_that_this_process_cannot_read_is_left_to_another(self, desk: Desk) -> None:
        put(desk)
        sql(desk, "UPDATE schedule SET timezone = 'Mars/Olympus'")
        desk.enqueue("a")
        desk.wait(HOUR)

        assert desk.claim() == "a"
        found = desk.engine.schedule("hourly")
        assert (found.next_at, found.fired) == (desk.clock.now() + LATER, 0)
        sql(desk, "UPDATE schedule SET timezone = 'UTC'")
        pass_time(desk, LATER)
        assert desk.engine.schedule("hourly").fired == 1


class TestOverlap:
    def test_by_default_an_earlier_job_is_no_obstacle(self, desk: Desk) -> None:
        put(desk)
        for _ in range(3):
            pass_time(desk)

        assert len(jobs(desk)) == 3

    @pytest.mark.parametrize("live", ["waiting", "running", "between attempts"])
    def test_skip_waits_for_the_end_of_an_earlier_job_whatever_its_state(self, desk: Desk, live: str) -> None:
        retry = RetryPolicy(attempts=2)
        put(desk, overlap=Overlap.SKIP, job=NewJob("tick", queue="q", retry=retry))
        pass_time(desk)
        if live != "waiting":
            (name,) = desk.claim(lease=DAY).split()
        if live == "between attempts":
            desk.settle(name, Again(after=DAY))
        pass_time(desk)
        pass_time(desk)

        assert len(jobs(desk)) == 1
        found = desk.engine.schedule("hourly")
        assert (found.fired, found.last_at, found.next_at) == (1, BEGINNING + HOUR, BEGINNING + 4 * HOUR)

    @pytest.mark.parametrize("how", ["done", "cancelled", "pruned"])
    def test_skip_fires_again_once_that_has_ended(self, desk: Desk, how: str) -> None:
        put(desk, overlap=Overlap.SKIP)
        pass_time(desk)
        (first,) = jobs(desk)
        if how == "cancelled":
            desk.engine.cancel(first.id)
        else:
            desk.settle(desk.claim())
        if how == "pruned":
            desk.wait(1)
            assert desk.engine.prune(desk.clock.now()) == 1
        pass_time(desk)

        assert desk.engine.schedule("hourly").fired == 2

    def test_skip_minds_a_job_from_before_it_was_chosen(self, desk: Desk) -> None:
        put(desk)
        pass_time(desk)
        put(desk, overlap=Overlap.SKIP)
        pass_time(desk)

        assert len(jobs(desk)) == 1

    def test_skip_minds_a_last_job_that_is_run_again_by_hand(self, desk: Desk) -> None:
        put(desk, overlap=Overlap.SKIP)
        pass_time(desk)
        (only,) = jobs(desk)
        desk.engine.cancel(only.id)
        desk.engine.retry(only.id)
        pass_time(desk)

        assert len(jobs(desk)) == 1

    def test_cancel_previous_ends_those_that_wait_and_asks_those_that_run(self, desk: Desk) -> None:
        put(desk, overlap=Overlap.CANCEL_PREVIOUS)
        pass_time(desk)
        (running,) = desk.claim(lease=DAY).split()
        pass_time(desk)
        waiting = jobs(desk)[1].id
        pass_time(desk)

        assert desk.job(running).cancel_asked
        assert desk.state(running) is State.RUNNING
        assert desk.state(waiting) is State.CANCELLED
        assert desk.job(waiting).reason == "schedule hourly fired again"
        assert [job.state for job in jobs(desk)] == [State.RUNNING, State.CANCELLED, State.WAITING]

    def test_cancel_previous_by_a_claim(self, desk: Desk) -> None:
        put(desk, overlap=Overlap.CANCEL_PREVIOUS)
        pass_time(desk)
        desk.wait(HOUR)

        assert desk.claim() == jobs(desk)[1].id
        assert jobs(desk)[0].state is State.CANCELLED

    def test_wait_starts_one_when_the_one_before_it_has_ended(self, desk: Desk) -> None:
        put(desk, overlap=Overlap.WAIT)
        for _ in range(3):
            pass_time(desk)
        first, second, third = (job.id for job in jobs(desk))

        assert desk.claim() == first
        desk.settle(first)
        assert desk.claim() == second
        desk.settle(second)
        assert desk.claim() == third
        assert desk.engine.doctor() == []


class TestPausing:
    def test_a_paused_schedule_does_not_fire(self, desk: Desk) -> None:
        put(desk)
        paused = desk.engine.pause_schedule("hourly")

        assert (paused.enabled, paused.next_at) == (False, None)
        assert paused == desk.engine.pause_schedule("hourly") == desk.engine.schedule("hourly")
        assert pass_time(desk) == 0

    def test_one_that_is_resumed_fires_from_its_next_moment_on(self, desk: Desk) -> None:
        put(desk)
        desk.engine.pause_schedule("hourly")
        pass_time(desk, 3 * HOUR + MINUTE)
        resumed = desk.engine.resume_schedule("hourly")

        assert (resumed.enabled, resumed.next_at) == (True, BEGINNING + 4 * HOUR)
        assert pass_time(desk, 0) == 0
        assert pass_time(desk, HOUR) == 1

    def test_resuming_one_that_is_not_paused_loses_no_moment(self, desk: Desk) -> None:
        put(desk)
        desk.wait(HOUR)
        desk.engine.resume_schedule("hourly")

        assert pass_time(desk, 0) == 1

    def test_one_may_be_made_paused_and_enabled_by_replacing_it(self, desk: Desk) -> None:
        assert put(desk, enabled=False).next_at is None
        assert pass_time(desk) == 0
        assert put(desk).next_at == BEGINNING + 2 * HOUR

    def test_a_worker_that_waits_hears_of_one_that_is_resumed(self, desk: Desk) -> None:
        put(desk, enabled=False)
        token = quiet(desk.engine)
        desk.engine.resume_schedule("hourly")

        assert desk.engine.wait(token, 10) != token
