"""Floating limits: refreshed while in use, by any worker that can; their bounds; a job's own maximum beside them."""

from collections.abc import Callable
from contextlib import closing

import pytest

from penstock.clock import SECOND
from penstock.engine import Engine, open_engine
from penstock.engine.floating import RESTING
from penstock.errors import InvalidError, InvalidLimitError
from penstock.job import Lending, NewJob, Refresh, RefreshesFor, RefreshReport, Want
from penstock.lifecycle.outcomes import Again
from penstock.lifecycle.retry import RetryPolicy
from penstock.limits.rules import Floating, Limit, Numbers
from penstock.store.session import Session
from tests.support.clock import FakeClock
from tests.support.desk import LEASE, Desk, slots, work_of

EVERY = 60 * SECOND
LONG = 100 * EVERY


def floating(
    key: str, count: int, handler: str = "how_many", least: int = 0, most: int | None = None
) -> Limit:
    return Limit(key, Numbers(slots=count), floating=Floating(handler, EVERY, "{}", least, most))


def lend(desk: Desk, handlers: tuple[str, ...] = ("how_many",), **asked: object) -> list[Refresh]:
    return desk.engine.refreshes(handlers, 100, worker="worker", lease=LEASE, **asked)  # type: ignore[arg-type]


def refresh(desk: Desk, value: int | None, error: str = "") -> None:
    (lent,) = lend(desk)
    assert desk.engine.refreshed(lent, value=value, error=error)


def used_and_left(desk: Desk, key: str = "X") -> None:
    """Have a key float, refreshed once, and no job of it left."""
    desk.enqueue(f"{key}-first", floating(key, 1))
    desk.claim()
    refresh(desk, 2)
    desk.settle(f"{key}-first")


class TestOnlyWhileInUse:
    def test_a_key_that_no_job_uses_is_not_refreshed(self, desk: Desk) -> None:
        used_and_left(desk)
        desk.wait(10 * EVERY)

        assert lend(desk) == []
        assert not desk.engine.floating("X").in_use

    def test_a_key_whose_job_runs_is_refreshed(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1))
        desk.claim(lease=LONG)
        refresh(desk, 2)
        desk.wait(EVERY)

        assert [lent.key for lent in lend(desk)] == ["X"]
        assert desk.engine.floating("X").in_use

    def test_a_key_at_which_a_job_waits_is_refreshed_though_it_is_parked_elsewhere(self, desk: Desk) -> None:
        desk.engine.configure("key", "Y", Numbers(slots=0))
        desk.enqueue("a", floating("X", 1), slots("Y", 1))
        refresh(desk, 2)
        desk.wait(EVERY)

        assert desk.engine.floating("X").in_use
        assert len(lend(desk)) == 1

    def test_a_key_that_comes_into_use_again_is_due_at_once_and_whatever_becomes_of_the_job(
        self, desk: Desk
    ) -> None:
        used_and_left(desk)
        desk.wait(10 * EVERY)
        assert lend(desk) == []  # it rests
        desk.enqueue("b", slots("X", 5))  # a job that brings a number of its own uses the key too
        desk.claim()
        desk.settle("b")

        refresh(desk, 3)

        assert desk.engine.floating("X").value == 3
        assert lend(desk) == []

    def test_a_key_that_comes_into_use_again_before_it_is_due_waits_for_that(self, desk: Desk) -> None:
        used_and_left(desk)
        desk.wait(EVERY // 2)
        desk.enqueue("b", floating("X", 1))
        desk.claim(lease=LONG)

        assert lend(desk) == []
        desk.wait(EVERY // 2)
        assert len(lend(desk)) == 1

    def test_a_job_for_later_does_not_use_its_key_until_it_is_due(self, desk: Desk) -> None:
        used_and_left(desk)
        desk.enqueue("b", floating("X", 1), due=desk.clock.now() + 3 * EVERY)
        desk.wait(2 * EVERY)
        assert lend(desk) == []
        desk.wait(EVERY)
        desk.claim(lease=LONG)

        assert len(lend(desk)) == 1

    def test_a_retry_uses_its_key_again(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1), retry=RetryPolicy.of(attempts=2))
        desk.claim()
        refresh(desk, 2)
        desk.settle("a", Again(3 * EVERY))
        desk.wait(2 * EVERY)
        assert lend(desk) == []
        desk.wait(EVERY)
        desk.claim()

        assert len(lend(desk)) == 1

    def test_a_call_that_borrows_a_slot_uses_its_key(self, desk: Desk) -> None:
        used_and_left(desk)
        desk.wait(EVERY)
        assert lend(desk) == []
        want = Want(1, "X", Numbers(slots=5))

        desk.engine.lend(Lending(0, LONG, "calls", wanted=(want,)))

        assert len(lend(desk)) == 1
        assert desk.engine.doctor() == []

    def test_a_failed_refresh_of_a_key_that_no_job_uses_is_not_tried_again(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1))
        desk.claim()
        refresh(desk, None, "down")
        desk.settle("a")
        desk.wait(SECOND)

        assert lend(desk) == []

    def test_an_operator_may_ask_for_a_refresh_of_a_key_that_is_not_in_use(self, desk: Desk) -> None:
        used_and_left(desk)
        desk.wait(2 * EVERY)
        assert lend(desk) == []
        desk.engine.refresh_floating("X")

        refresh(desk, 7)

        assert desk.engine.floating("X").value == 7
        assert lend(desk) == []

    def test_an_operator_need_not_wait_for_the_interval(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1))
        refresh(desk, 2)
        assert lend(desk) == []
        desk.engine.refresh_floating("X")

        (lent,) = lend(desk)
        desk.engine.refresh_floating("X")  # a worker has it: nothing more to do

        assert lend(desk) == []
        assert desk.engine.refreshed(lent, value=3)

    def test_every_way_out_leaves_no_key_asleep_that_is_in_use(self, desk: Desk) -> None:
        desk.enqueue("a b c", floating("X", 1))
        desk.wait(LEASE)
        for _ in range(4):
            desk.claim()
            desk.wait(LEASE)
            refresh(desk, 1)
            desk.wait(EVERY)
            assert desk.engine.doctor() == []
        desk.engine.cancel("b")
        desk.wait(EVERY)
        lend(desk)

        assert desk.engine.doctor() == []

    def test_the_doctor_tells_of_a_key_in_use_that_rests(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1))
        desk.engine.store.write(lambda db: db.run("UPDATE floating SET idle = 1"))

        (told,) = desk.engine.doctor()

        assert "X" in told


class TestCost:
    def test_a_poll_writes_nothing_when_nothing_is_due(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk.enqueue("a", floating("X", 1))
        desk.claim(lease=LONG)
        refresh(desk, 2)
        monkeypatch.setattr(desk.engine.store, "write", _refuse)

        assert lend(desk) == []
        assert desk.engine.refreshes_for([RefreshesFor(1, "w", queues=("q",))]) == [[]]

    def test_a_poll_writes_once_for_keys_that_begin_to_rest(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        used_and_left(desk)
        desk.wait(EVERY)
        assert lend(desk, ("another",)) == []
        monkeypatch.setattr(desk.engine.store, "write", _refuse)

        assert lend(desk) == []
        assert lend(desk, ("another",)) == []

    def test_ten_thousand_keys_not_in_use_cost_a_poll_and_a_claim_nothing(self, clock: FakeClock) -> None:
        with closing(open_engine(":memory:", clock=clock)) as engine:
            desk = Desk(engine, clock)
            used_and_left(desk)
            desk.enqueue("runs", floating("X", 5))
            desk.claim(1, lease=LONG)
            polls = [work_of(engine, lambda: lend(desk)).steps]
            claims = [work_of(engine, desk.claim).steps]
            engine.store.write(_ten_thousand_keys_not_in_use)
            for _ in range(10_000 // RESTING):
                assert lend(desk) == []

            polls.append(work_of(engine, lambda: lend(desk)).steps)
            claims.append(work_of(engine, desk.claim).steps)

            assert engine.floating_limits(limit=1)[1] == 10_001
            assert polls[1] <= 1.1 * polls[0]
            assert claims[1] <= 1.1 * claims[0]


class TestAnyWorkerThatCan:
    def test_a_worker_with_a_handler_that_another_job_of_the_key_names_may_have_it(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1, "old"))
        assert lend(desk, ("new",)) == []
        desk.enqueue("b", floating("X", 1, "new"))

        (lent,) = lend(desk, ("new",))

        assert lent.handler == "new"

    def test_one_without_a_handler_goes_to_a_worker_of_a_queue_in_which_its_key_is_used(
        self, desk: Desk
    ) -> None:
        desk.enqueue("a", floating("X", 1, ""), queue="one")
        desk.enqueue("b", slots("X", 3), queue="two")
        desk.enqueue("c", slots("Y", 3), queue="three")

        assert lend(desk, (), queues=("three",)) == []
        assert lend(desk, ("how_many",)) == []
        (lent,) = lend(desk, (), queues=("two", "zero"))

        assert (lent.key, lent.handler, lent.queue) == ("X", "", "two")

    def test_jobs_that_waited_before_their_key_floated_count(self, desk: Desk) -> None:
        desk.enqueue("b", slots("X", 3), queue="two")
        desk.enqueue("a", floating("X", 1, ""), queue="one")

        assert len(lend(desk, (), queues=("two",))) == 1

    def test_one_that_names_a_handler_is_not_lent_by_queues(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1))

        assert lend(desk, (), queues=("q",)) == []

    def test_a_worker_of_one_tenant_has_only_what_is_its_own(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1), tenant="acme")
        desk.enqueue("b", floating("X", 1), tenant="globex")
        desk.enqueue("c", floating("X", 1))

        assert [lent.tenant for lent in lend(desk, tenant="acme")] == ["acme"]
        assert [lent.tenant for lent in lend(desk, tenant="")] == [""]
        assert [lent.tenant for lent in lend(desk)] == ["globex"]

    def test_several_workers_are_served_in_one_transaction_and_none_gets_what_another_has(
        self, desk: Desk
    ) -> None:
        for key in "VWXYZ":
            desk.enqueue(key.lower(), floating(key, 1))
        asked = [RefreshesFor(2, worker, ("how_many",)) for worker in ("one", "two", "three")]

        lent = desk.engine.refreshes_for(asked)

        assert [2, 2, 1] == [len(each) for each in lent]
        assert sorted(each.key for some in lent for each in some) == list("VWXYZ")

    def test_reports_of_several_are_taken_in_one_transaction(self, desk: Desk) -> None:
        for key in "XY":
            desk.enqueue(key.lower(), floating(key, 1))
        one, two = sorted(lend(desk), key=lambda each: each.key)

        reports = [
            RefreshReport(one.gate, one.fence, 4),
            RefreshReport(two.gate, two.fence, error="down"),
            RefreshReport(one.gate, one.fence - 1, 9),
            RefreshReport(999_999, 1, 9),
        ]

        assert [True, True, False, False] == desk.engine.report_refreshes(reports)
        assert desk.engine.floating("X").value == 4
        assert desk.engine.floating("Y").last_error == "down"

    def test_a_count_must_be_one_at_least(self, desk: Desk) -> None:
        with pytest.raises(InvalidError, match="count"):
            desk.engine.refreshes(["how_many"], 0, worker="w")


class TestRenewing:
    def test_a_renewed_refresh_stays_with_its_worker(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1))
        (lent,) = lend(desk)
        for _ in range(3):
            desk.wait(LEASE - 1)
            assert [True] == desk.engine.renew_refreshes([(lent.gate, lent.fence)], lease=LEASE)
        desk.wait(LEASE - 1)

        assert lend(desk) == []
        desk.wait(1)
        assert len(lend(desk)) == 1

    def test_what_another_worker_has_now_cannot_be_renewed(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1))
        (old,) = lend(desk)
        desk.wait(LEASE)
        (new,) = lend(desk)

        asked = [(old.gate, old.fence), (new.gate, new.fence), (999_999, 1)]

        assert [False, True, False] == desk.engine.renew_refreshes(asked, lease=LEASE)
        assert desk.engine.refreshed(new, value=2)
        assert [False] == desk.engine.renew_refreshes([(new.gate, new.fence)], lease=LEASE)
        assert [] == desk.engine.renew_refreshes([], lease=LEASE)

    def test_a_worker_knows_how_often_it_failed_and_its_bounds(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 3, least=2, most=9))
        refresh(desk, None, "down")
        desk.wait(SECOND)

        (lent,) = lend(desk)

        assert (lent.failures, lent.least, lent.most, lent.current) == (1, 2, 9, 3)
        assert desk.engine.floating("X").worker == "worker"

    def test_a_worker_of_one_tenant_may_neither_renew_nor_report_for_others(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 1), tenant="acme")
        (lent,) = lend(desk)
        mine = RefreshReport(lent.gate, lent.fence, 4, tenant="acme")
        other = RefreshReport(lent.gate, lent.fence, 9, tenant="globex")

        assert [False] == desk.engine.renew_refreshes([(lent.gate, lent.fence)], tenant="globex")
        assert [True] == desk.engine.renew_refreshes([(lent.gate, lent.fence)], tenant="acme")
        assert [False, True] == desk.engine.report_refreshes([other, mine])
        assert desk.engine.floating("X", "acme").value == 4


class TestOwnMaximum:
    def test_a_job_with_a_maximum_of_its_own_keeps_it_beside_a_larger_value(self, desk: Desk) -> None:
        desk.enqueue("first", floating("X", 1))
        refresh(desk, 10)
        desk.enqueue("a b c d e", slots("X", 2))

        assert desk.claim() == "first a"
        desk.enqueue("second third", floating("X", 1))
        assert desk.claim() == "second third"
        desk.settle("first second third")
        assert desk.claim() == "b"

    def test_the_smaller_value_counts_for_a_job_with_a_larger_maximum(self, desk: Desk) -> None:
        desk.enqueue("first", floating("X", 1))
        refresh(desk, 3)
        desk.enqueue("a b c d e", slots("X", 4))

        assert desk.claim() == "first a b"

    def test_the_default_of_a_job_whose_limit_floats_is_no_maximum(self, desk: Desk) -> None:
        desk.enqueue("a b c", floating("X", 1))
        refresh(desk, 3)

        assert desk.claim() == "a b c"

    def test_configured_numbers_and_overrides_beat_both(self, desk: Desk) -> None:
        desk.enqueue("first", floating("X", 2))
        desk.enqueue("a b c d e", slots("X", 1))
        desk.engine.configure("key", "X", Numbers(slots=3))
        assert desk.claim() == "first a b"
        desk.engine.override("X", Numbers(slots=4))
        assert desk.claim() == "c"

    def test_a_deleted_float_leaves_each_its_own_number(self, desk: Desk) -> None:
        desk.enqueue("first second third", floating("X", 2))
        desk.enqueue("a b", slots("X", 3))
        refresh(desk, 0)
        assert desk.claim() == ""
        desk.engine.delete_floating("X")

        assert desk.claim() == "first second a"

    def test_a_borrowed_slot_obeys_the_smaller_number_too(self, desk: Desk) -> None:
        desk.enqueue("first", floating("X", 9))
        wants = tuple(Want(n, "X", Numbers(slots=2), stay=False) for n in range(4))

        lent = desk.engine.lend(Lending(0, LONG, "calls", wanted=wants))

        assert len(lent.loans) == 2


class TestBounds:
    def test_a_value_outside_is_moved_to_the_nearest(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 5, least=2, most=9))
        refresh(desk, 0)
        assert desk.engine.floating("X").value == 2
        desk.wait(EVERY)
        refresh(desk, 100)

        assert desk.engine.floating("X").value == 9
        assert desk.engine.floating("X").failures == 0

    @pytest.mark.parametrize(
        ("least", "most", "named"), [(6, None, "slots"), (0, 4, "slots"), (7, 6, "most"), (-1, None, "least")]
    )
    def test_bounds_that_make_no_sense_are_refused(self, least: int, most: int | None, named: str) -> None:
        with pytest.raises(InvalidLimitError, match=named):
            floating("X", 5, least=least, most=most)

    def test_by_hand_a_value_must_be_within_and_bounds_move_the_value(self, desk: Desk) -> None:
        desk.enqueue("a b c", floating("X", 5, least=2, most=9))
        with pytest.raises(InvalidError, match="value"):
            desk.engine.set_floating("X", value=10)
        with pytest.raises(InvalidError, match="most"):
            desk.engine.set_floating("X", most=1)
        desk.engine.set_floating("X", most=20, value=10)
        assert desk.engine.floating("X").value == 10
        desk.engine.set_floating("X", least=1, most=2)

        assert desk.engine.floating("X").value == 2
        assert desk.claim() == "a b"


class TestWhy:
    def test_why_names_the_floating_value_its_age_and_failures(self, desk: Desk) -> None:
        desk.enqueue("a b c", floating("X", 1))
        desk.claim(lease=LONG)
        assert "; the 1 floats and was not computed yet" in desk.engine.why("b").sentence
        refresh(desk, 1)
        assert "; the 1 floats and was computed just now" in desk.engine.why("b").sentence
        desk.wait(90 * SECOND)
        refresh(desk, None, "down")

        (reason,) = desk.engine.why("b").reasons

        assert reason.rule == (
            "1 running of 1 at once; opens when one ends; the 1 floats and was computed 1m30s ago; 1 try failed since"
        )

    def test_why_does_not_name_it_where_another_number_keeps_the_job(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 3))
        desk.enqueue("b", slots("X", 1))
        desk.claim(lease=LONG)
        assert "floats" not in desk.engine.why("b").sentence
        desk.engine.configure("key", "X", Numbers(slots=1))
        assert "floats" not in desk.engine.why("b").sentence

    def test_why_of_a_key_that_floats_at_zero(self, desk: Desk) -> None:
        desk.enqueue("a", floating("X", 0))

        assert (
            "paused by a limit of 0; opens when that is raised; the 0 floats" in desk.engine.why("a").sentence
        )


class TestLooking:
    def test_floating_limits_are_listed_by_key(self, desk: Desk) -> None:
        for key in ("b:1", "a:1", "a:2"):
            desk.enqueue(key, floating(key, 1))
        desk.enqueue("t", floating("a:1", 3), tenant="acme")

        views, total = desk.engine.floating_limits(prefix="a:", limit=2)

        assert [("a:1", ""), ("a:1", "acme")] == [(view.key, view.tenant) for view in views]
        assert total == 3
        rest, _ = desk.engine.floating_limits(prefix="a:", offset=2)
        assert ["a:2"] == [view.key for view in rest]
        mine, count = desk.engine.floating_limits(tenant="acme")
        assert ([3], 1) == ([view.value for view in mine], count)
        assert desk.engine.floating("a:1", "acme") == mine[0]


def test_lanes_that_did_not_tell_a_default_from_a_maximum_are_made_again(
    migrated: Callable[[str, Callable[[Session], None]], Engine],
) -> None:
    limits = '[["k","c1","wait",["how_many",60000000,"{}"]]]'

    def stand(db: Session) -> None:
        for seq in (1001, 1002):
            db.run(
                "INSERT INTO job (seq, id, tenant, queue, task, args, priority, cost, limits, retry, meta, enqueued) "
                "VALUES (?, ?, '', 'q', 't', '{}', 0, 1, ?, '', '{}', 0)",
                seq,
                f"j{seq}",
                limits,
            )
        db.run(
            "INSERT INTO gate (id, kind, tenant, name, running, lanes, rules) "
            """VALUES (1003, 'key', '', 'k', 0, 1, '{"floating": 5}')"""
        )
        db.run(
            "INSERT INTO floating (gate, handler, initial, every, metadata, next_at, failures, error, fence, worker) "
            "VALUES (1003, 'how_many', 1, 60000000, '{}', 0, 0, '', 0, '')"
        )
        db.run(
            "INSERT INTO lane (id, tenant, queue, gates, head, priority, ord, cost, behind, line, ready) "
            """VALUES (1004, '', 'q', '[[1003,"c1","wait"]]', 1001, 0, 1001, 1, 1003, '1003|q|c1', 0)"""
        )
        db.run("INSERT INTO lane_name VALUES (1004, ?)", f"\x1fq\x1f{limits}")
        db.run("INSERT INTO lane_gate VALUES (1003, 1004)")
        for seq in (1001, 1002):
            db.run(
                "INSERT INTO lane_job (seq, lane, priority, ord, cost, attempt, lost, refused) "
                "VALUES (?, 1004, 0, ?, 1, 0, 0, 0)",
                seq,
                seq,
            )

    engine = migrated("0017_floating.sql", stand)

    assert ["j1001", "j1002"] == [job.id for job in engine.claim(["q"], 5, worker="w").jobs]
    assert engine.doctor() == []
    engine.enqueue([NewJob("t", id="new", queue="q", limits=(floating("k", 1),))])
    assert ["new"] == [job.id for job in engine.claim(["q"], 5, worker="w").jobs]
    assert len(engine.refreshes(["how_many"], 1, worker="w")) == 1


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("a poll asked for a write lock")


def _ten_thousand_keys_not_in_use(db: Session) -> None:
    gates = range(10_000_000, 10_010_000)
    db.many(
        "INSERT INTO gate (id, kind, tenant, name, running, lanes, rules) VALUES (?, 'key', '', ?, 0, 0, ?)",
        [(gate, f"idle:{gate}", '{"floating": 1}') for gate in gates],
    )
    db.many(
        "INSERT INTO floating (gate, handler, initial, every, metadata, next_at, failures, error, fence, worker) "
        "VALUES (?, 'how_many', 1, 1000000, '{}', 1, 0, '', 0, '')",
        [(gate,) for gate in gates],
    )
