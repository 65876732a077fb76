"""Resource groups: a job takes, when it starts, one resource that has room; if none has, it waits."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import Engine
from penstock.errors import GateShutError, InvalidLimitError, NotFoundError
from penstock.job import START_GRACE, Ahead, ResourceGroup
from penstock.lifecycle.outcomes import Failed, HandedBack, Limited
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.calendar import EVE, DailyCap, Ramp
from penstock.limits.groups import Resource, Strategy
from penstock.limits.rules import UNLIMITED, Limit, Numbers, OnLimit, Window
from tests.support.desk import LEASE, Desk, rate, slots, work_of
from tests.support.stores import on_sqlite

pytestmark = pytest.mark.usefixtures("healthy")

MAIL = Limit("mailboxes", UNLIMITED, group=True)
HOUR = 3_600 * SECOND
DAY = 24 * HOUR


def moment(text: str) -> int:
    """Return a moment in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


@pytest.fixture
def mail(desk: Desk) -> Desk:
    desk.clock.advance(moment("2026-06-10T12:00:00") - desk.clock.now())
    desk.engine.put_resource_group("mailboxes")
    return desk


def put(desk: Desk, key: str, cap: int | None = None, zone: str = "UTC", **facts: object) -> None:
    """Put a resource with a daily cap."""
    ramp = facts.pop("ramp", None)
    daily = None if cap is None else DailyCap(cap, zone, ramp)
    desk.engine.put_resource("mailboxes", Resource(key, daily=daily, **facts))


def names(count: int) -> str:
    return " ".join(f"j{n:03}" for n in range(count))


def taken(desk: Desk, started: str) -> str:
    """Return the resources that these attempts took."""
    return " ".join(str(desk.attempts[name].resource) for name in started.split())


def go_to(desk: Desk, text: str) -> None:
    desk.clock.advance(moment(text) - desk.clock.now())


class TestGroups:
    def test_a_group_and_its_resources_are_kept_changed_and_deleted(
        self, mail: Desk, opened: Callable[[], Engine]
    ) -> None:
        put(mail, "b")
        ramp = Ramp(date(2026, 6, 1), 10, 0)
        put(mail, "a", 30, "Europe/Berlin", weight=3, ramp=ramp)
        other = opened()
        other.put_resource_group("others", Strategy.RANDOM, tenant="acme")

        assert other.resource_groups() == [
            ResourceGroup("mailboxes"),
            ResourceGroup("others", Strategy.RANDOM, "acme"),
        ]
        assert other.resource_groups("") == [ResourceGroup("mailboxes")]
        first, second = other.resources("mailboxes")
        assert first.resource == Resource("a", 3, daily=DailyCap(30, "Europe/Berlin", ramp))
        assert (first.used, first.cap, first.running, first.opens_at) == (0, 27, 0, mail.clock.now())
        assert (second.resource, second.cap) == (Resource("b"), None)
        mail.engine.delete_resource("mailboxes", "a")
        assert [view.resource.key for view in other.resources("mailboxes")] == ["b"]
        mail.engine.delete_resource_group("mailboxes")
        assert other.resource_groups("") == []

    def test_what_is_not_there_is_not_found(self, mail: Desk) -> None:
        engine = mail.engine

        with pytest.raises(NotFoundError):
            engine.put_resource("none", Resource("a"))
        with pytest.raises(NotFoundError):
            engine.resources("mailboxes", tenant="acme")
        with pytest.raises(NotFoundError):
            engine.delete_resource("mailboxes", "a")
        with pytest.raises(NotFoundError):
            engine.delete_resource_group("none")

    def test_a_job_names_one_group(self, mail: Desk) -> None:
        with pytest.raises(InvalidLimitError):
            mail.enqueue("a", MAIL, Limit("others", UNLIMITED, group=True))

    def test_the_resource_is_told_to_the_worker_and_shown(self, mail: Desk) -> None:
        put(mail, "a@x")
        mail.enqueue("j", MAIL)

        assert mail.job("j").resource is None
        mail.claim()

        assert mail.attempts["j"].resource == "a@x"
        assert mail.job("j").resource == "a@x"
        assert mail.engine.history("j")[0].held == ("group mailboxes", "a@x")
        assert mail.engine.gate("a@x").running == 1
        mail.settle("j")
        assert mail.engine.gate("a@x").running == 0

    def test_groups_of_tenants_are_apart(self, mail: Desk) -> None:
        put(mail, "a")
        mail.engine.put_resource_group("mailboxes", tenant="acme")
        mail.enqueue("x", MAIL)
        mail.enqueue("y", MAIL, tenant="acme")

        assert mail.claim() == "x"
        mail.engine.put_resource("mailboxes", Resource("a", daily=DailyCap(1)), tenant="acme")
        assert mail.claim() == "y"
        assert mail.engine.gate("a").running == mail.engine.gate("a", tenant="acme").running == 1

    def test_upkeep_spares_groups_and_resources(self, mail: Desk) -> None:
        put(mail, "a", 1)
        for _ in range(3):
            mail.engine.upkeep()
        mail.enqueue("x", MAIL)

        assert mail.claim() == "x"

    @pytest.mark.parametrize(
        ("damage", "told"),
        [
            (
                "UPDATE gate SET member_of = NULL WHERE name = 'a'",
                "gate a is that of a resource of the groups ''",
            ),
            ("DELETE FROM resource_group", "resource a belongs to group"),
            ("UPDATE running SET resource = 'b'", "job x took resource b, but holds no slot in its gate"),
        ],
        ids=["gate", "group", "attempt"],
    )
    def test_the_doctor_finds_what_is_wrong(self, mail: Desk, damage: str, told: str) -> None:
        put(mail, "a")
        mail.enqueue("x", MAIL)
        mail.claim()

        mail.engine.store.write(lambda db: db.run(damage))

        assert any(sentence.startswith(told) for sentence in mail.engine.doctor())
        mail.engine.reset()


class TestExact:
    def test_no_more_start_on_a_day_than_the_cap(self, mail: Desk) -> None:
        put(mail, "a", 2)
        put(mail, "b", 1)
        mail.enqueue(names(7), MAIL)

        assert taken(mail, mail.claim()) == "a b a"
        mail.settle("j000 j001 j002")
        assert mail.claim() == ""
        go_to(mail, "2026-06-11T00:00:00")
        assert taken(mail, mail.claim()) == "b a a"
        mail.settle("j003 j004 j005")
        go_to(mail, "2026-06-12T00:00:00")
        assert mail.claim() == "j006"

    @pytest.mark.parametrize(
        ("zone", "before", "midnight"),
        [
            ("Europe/Berlin", "2027-03-27T23:30:00", "2027-03-28T22:00:00"),  # 23 hours
            ("Europe/Berlin", "2027-10-30T22:30:00", "2027-10-31T23:00:00"),  # 25 hours
            ("America/New_York", "2027-06-10T05:00:00", "2027-06-11T04:00:00"),
            ("Africa/Cairo", "2027-04-29T10:00:00", "2027-04-29T22:00:00"),  # clocks skip that midnight
        ],
    )
    def test_a_day_is_one_of_the_resources_zone(
        self, mail: Desk, zone: str, before: str, midnight: str
    ) -> None:
        go_to(mail, before)
        put(mail, "a", 1, zone)
        mail.enqueue("x y", MAIL)

        assert mail.claim() == "x"
        mail.settle("x")
        assert mail.engine.why("y").earliest == moment(midnight)
        mail.wait(moment(midnight) - 1 - mail.clock.now())
        assert mail.claim() == ""
        mail.wait(1)
        assert mail.claim() == "y"

    def test_a_start_before_midnight_begins_before_midnight_or_not_at_all(self, mail: Desk) -> None:
        put(mail, "a", 1)
        go_to(mail, "2026-06-11T00:00:00")
        mail.wait(DAY - EVE - 1)
        mail.enqueue("x y", MAIL)

        assert mail.claim() == "x"
        assert mail.attempts["x"].begin_by == moment("2026-06-12T00:00:00") - 1
        mail.settle("x", HandedBack(begun=False))
        mail.wait(EVE + 1)
        assert mail.claim() == "x"
        assert mail.attempts["x"].begin_by == mail.clock.now() + START_GRACE
        mail.settle("x")
        assert mail.claim() == ""

    def test_nothing_starts_on_the_eve_of_a_day(self, mail: Desk) -> None:
        put(mail, "a", 1)
        go_to(mail, "2026-06-11T00:00:00")
        mail.wait(DAY - EVE)
        mail.enqueue("x", MAIL)

        assert mail.claim() == ""
        mail.wait(EVE)
        assert mail.claim() == "x"

    def test_a_ramp_goes_from_its_first_cap_to_the_whole_one_and_0_is_shut(self, mail: Desk) -> None:
        put(mail, "a", 10, ramp=Ramp(date(2026, 6, 10), 5, 0))
        mail.enqueue(names(50), MAIL)

        started = []
        for day in range(6):
            started.append(len(mail.claim(50).split()))
            if not day:
                assert mail.engine.why("j000").earliest == moment("2026-06-11T00:00:00")
            mail.wait(moment("2026-06-11T00:00:00") + day * DAY - mail.clock.now())

        assert started == [0, 2, 4, 6, 8, 10]

    def test_handed_back_unbegun_gives_the_days_count_back(self, mail: Desk) -> None:
        put(mail, "a", 1)
        mail.enqueue("x y", MAIL)

        mail.claim()
        mail.settle("x", HandedBack(begun=False))
        assert mail.engine.resources("mailboxes")[0].used == 0
        assert mail.claim() == "x"
        mail.settle("x", HandedBack(begun=True))
        assert mail.engine.resources("mailboxes")[0].used == 1
        assert mail.claim() == ""

    @pytest.mark.parametrize("how", ["uncapped", "deleted"])
    def test_only_what_was_counted_is_given_back(self, mail: Desk, how: str) -> None:
        put(mail, "a", None if how == "uncapped" else 1)
        mail.enqueue("x y z", MAIL)
        assert mail.claim(1) == "x"
        if how == "deleted":
            mail.engine.delete_resource("mailboxes", "a")
        put(mail, "a", 1)
        assert mail.claim() == "y"

        mail.settle("x", HandedBack(begun=False))

        assert mail.claim() == ""

    def test_a_worker_that_dies_between_claim_and_begin_leaves_the_start_counted(self, mail: Desk) -> None:
        put(mail, "a", 2)
        mail.enqueue("x y", MAIL)

        assert mail.claim(1) == "x"
        mail.wait(LEASE)
        assert mail.claim() == "x"
        mail.wait(LEASE)
        assert mail.claim() == ""
        assert mail.engine.resources("mailboxes")[0].used == 2
        assert mail.state("x") is State.WAITING
        go_to(mail, "2026-06-11T00:00:00")
        assert mail.claim() == "x y"

    def test_every_attempt_counts(self, mail: Desk) -> None:
        put(mail, "a", 2)
        again = RetryPolicy(attempts=3, backoff=Backoff.FIXED, delay=SECOND, jitter=False)
        mail.enqueue("x", MAIL, retry=again)

        for _ in range(2):
            assert mail.claim() == "x"
            mail.settle("x", Failed("ValueError", "no"))
            mail.wait(SECOND)
        assert mail.claim() == ""

    def test_two_processes_share_the_count(self, mail: Desk, opened: Callable[[], Engine]) -> None:
        other = Desk(opened(), mail.clock)
        put(mail, "a", 3)
        mail.enqueue("x1 x2 x3 x4", MAIL)

        assert mail.claim(2) == "x1 x2"
        assert other.claim() == "x3"
        other.settle("x3", HandedBack(begun=False))
        assert mail.claim() == "x3"
        assert other.claim() == ""

    def test_another_zone_counts_all_that_may_belong_to_its_day(self, mail: Desk) -> None:
        put(mail, "a", 1, "Pacific/Kiritimati")
        mail.enqueue("x y z", MAIL)
        assert mail.claim() == "x"
        mail.settle("x")

        put(mail, "a", 1, "UTC")

        assert mail.claim() == ""
        go_to(mail, "2026-06-11T00:00:00")
        assert mail.claim() == "y"


class TestResourcesAreKeys:
    def test_a_resource_whose_gate_is_shut_has_no_room(self, mail: Desk) -> None:
        put(mail, "a")
        put(mail, "b")
        mail.engine.configure("key", "a", Numbers(slots=1))
        mail.engine.shut("b", mail.clock.now() + HOUR)
        mail.enqueue("x y z", MAIL)

        assert taken(mail, mail.claim()) == "a"
        mail.settle("x")
        assert taken(mail, mail.claim()) == "a"
        assert mail.claim() == ""
        mail.settle("y")
        mail.engine.configure("key", "a", Numbers(slots=0))
        mail.wait(HOUR)
        assert taken(mail, mail.claim()) == "b"

    def test_starts_are_remembered_at_the_gate_of_the_resource(self, mail: Desk) -> None:
        put(mail, "a")
        mail.engine.configure("key", "a", Numbers(rate=Window(2, HOUR)))
        mail.enqueue("x", MAIL)
        mail.enqueue("d1 d2", rate("a", 2, HOUR))
        mail.enqueue("y", MAIL)

        assert mail.claim() == "x d1"
        mail.begun("x d1")
        mail.settle("x d1")
        assert mail.engine.gate("a").recent == 2
        assert mail.claim() == ""
        mail.wait(HOUR + SECOND)
        assert mail.claim() == "d2 y"

    def test_the_end_of_another_job_of_the_key_wakes_the_group(self, mail: Desk) -> None:
        put(mail, "a")
        mail.enqueue("d", slots("a", 1))
        mail.engine.configure("key", "a", Numbers(slots=1))
        assert mail.claim() == "d"
        mail.enqueue("x", MAIL)
        assert mail.claim() == ""

        mail.settle("d")

        assert mail.claim() == "x"
        mail.enqueue("e", slots("a", 1))
        assert mail.claim() == ""
        mail.settle("x")
        assert mail.claim() == "e"

    def test_a_handler_that_is_told_too_many_shuts_the_resource_it_took(self, mail: Desk) -> None:
        put(mail, "a", 9)
        put(mail, "b", 9)
        mail.enqueue("x y", MAIL)

        assert taken(mail, mail.claim(1)) == "a"
        mail.settle("x", Limited(mail.clock.now() + HOUR))

        assert taken(mail, mail.claim()) == "b b"

    def test_an_override_that_ends_wakes_the_group(self, mail: Desk) -> None:
        put(mail, "a")
        mail.engine.override("a", Numbers(slots=0), until=mail.clock.now() + HOUR)
        mail.enqueue("x", MAIL)

        assert mail.claim() == ""
        mail.wait(HOUR)
        assert mail.claim() == "x"

    def test_a_job_that_names_the_key_too_takes_one_slot_of_it(self, mail: Desk) -> None:
        put(mail, "a")
        mail.enqueue("x y", MAIL, slots("a", 1))

        assert mail.claim() == "x"
        assert mail.engine.gate("a").running == 1
        mail.settle("x")
        assert mail.claim() == "y"

    def test_a_start_too_heavy_for_every_resource_hides_no_other(self, mail: Desk) -> None:
        put(mail, "a")
        mail.engine.configure("key", "a", Numbers(rate=Window(2, HOUR)))
        mail.enqueue("heavy", MAIL, cost=5)
        mail.enqueue("light", MAIL)

        assert mail.claim() == "light"
        mail.engine.configure("key", "a", Numbers(rate=Window(9, HOUR)))
        assert mail.claim() == "heavy"


class TestAllOrNothing:
    def test_a_job_takes_its_other_slots_and_a_resource_or_nothing(self, mail: Desk) -> None:
        put(mail, "a", 1)
        mail.enqueue("x y", MAIL, slots("k", 1))
        mail.enqueue("z", MAIL)

        assert mail.claim(1) == "x"
        assert mail.claim() == ""
        assert mail.engine.gate("k").running == 1
        mail.settle("x", HandedBack(begun=False, after=HOUR))
        assert mail.claim() == "y"
        mail.settle("y")
        go_to(mail, "2026-06-11T00:00:00")
        assert mail.claim() == "z"

    def test_what_another_limit_keeps_takes_no_resource(self, mail: Desk) -> None:
        put(mail, "a", 2)
        mail.enqueue("x y", MAIL, slots("k", 1))
        mail.enqueue("z", MAIL)

        assert mail.claim() == "x z"
        assert mail.engine.resources("mailboxes")[0].used == 2


class TestWaiting:
    def test_jobs_wait_for_a_group_that_is_not_there_yet(self, mail: Desk) -> None:
        mail.engine.delete_resource_group("mailboxes")
        mail.enqueue("x y", MAIL)

        assert mail.claim() == ""
        assert "group mailboxes: has no resources; opens when one is added" in mail.engine.why("x").sentence
        mail.engine.put_resource_group("mailboxes")
        assert mail.claim() == ""
        put(mail, "a", 1)
        assert mail.claim() == "x"
        put(mail, "b", 1)
        assert mail.claim() == "y"

    def test_all_exhausted_then_one_enabled(self, mail: Desk) -> None:
        put(mail, "a", 1)
        put(mail, "b", 1, enabled=False)
        mail.enqueue("x y", MAIL)

        assert mail.claim() == "x"
        assert mail.engine.claim(["q"], 1, worker="w").next_at == mail.clock.now() + LEASE
        put(mail, "b", 1)
        assert taken(mail, mail.claim()) == "b"

    @pytest.mark.parametrize("change", ["raise", "uncap", "delete and put again", "widen"])
    def test_a_change_wakes_who_waits_at_once(self, mail: Desk, change: str) -> None:
        put(mail, "a", 1)
        mail.enqueue("x y", MAIL)
        assert mail.claim() == "x"

        match change:
            case "raise":
                put(mail, "a", 2)
            case "uncap":
                put(mail, "a")
            case "widen":
                put(mail, "c", 1)
            case _:
                mail.engine.delete_resource("mailboxes", "a")
                put(mail, "a", 1)

        assert mail.claim() == "y"

    def test_a_lowered_cap_lets_nothing_more_through(self, mail: Desk) -> None:
        put(mail, "a", 3)
        mail.enqueue("x1 x2 x3", MAIL)
        assert mail.claim(2) == "x1 x2"

        put(mail, "a", 1)

        assert mail.claim() == ""
        assert mail.state("x3") is State.WAITING

    def test_a_resource_that_is_deleted_while_taken_is_given_back_to_its_key(self, mail: Desk) -> None:
        put(mail, "a", 1)
        mail.enqueue("x y", MAIL)
        mail.claim()

        mail.engine.delete_resource("mailboxes", "a")
        mail.settle("x", HandedBack(begun=False))

        assert mail.engine.gate("a").running == 0
        assert mail.claim() == ""

    def test_a_job_that_wants_to_be_dropped_is(self, mail: Desk) -> None:
        put(mail, "a", 1)
        mail.enqueue("x y", Limit("mailboxes", UNLIMITED, OnLimit.DROP, group=True))

        assert mail.claim() == "x"
        assert mail.claim() == ""
        assert mail.state("y") is State.DISCARDED

    def test_why_names_the_group_the_state_of_each_resource_and_the_earliest_opening(
        self, mail: Desk
    ) -> None:
        put(mail, "a", 1)
        put(mail, "b", 1, "Asia/Tokyo")
        put(mail, "c", enabled=False)
        put(mail, "d")
        mail.engine.configure("key", "d", Numbers(slots=1))
        mail.enqueue(names(4), MAIL)
        assert taken(mail, mail.claim()) == "a b d"

        why = mail.engine.why("j003")

        assert why.sentence == (
            "is number 1 in line; group mailboxes: a: 1 of 1 starts on 2026-06-10 (UTC), "
            "b: 1 of 1 starts on 2026-06-10 (Asia/Tokyo), c: disabled, "
            "d: 1 running of 1 at once; opens when one ends"
        )
        assert why.earliest == why.reasons[0].opens_at == moment("2026-06-10T15:00:00")
        with pytest.raises(GateShutError) as refused:
            mail.engine.claim_one("j003", worker="w")
        assert refused.value.opens_at == moment("2026-06-10T15:00:00")
        go_to(mail, "2026-06-10T15:00:00")
        assert mail.engine.claim_one("j003", worker="w").resource == "b"

    def test_a_rescheduled_job_is_expected_when_the_group_opens(self, mail: Desk) -> None:
        put(mail, "a", 1)
        mail.enqueue("x y", Limit("mailboxes", UNLIMITED, OnLimit.RESCHEDULE, group=True))
        mail.claim()

        assert mail.job("y").state is State.SCHEDULED
        assert mail.job("y").due == moment("2026-06-11T00:00:00")

    def test_a_claim_that_is_granted_starts_ahead_gets_none_of_a_group(self, mail: Desk) -> None:
        put(mail, "a", 1)
        go_to(mail, "2026-06-11T00:00:00")
        mail.wait(-40 * MILLISECOND + DAY)
        mail.enqueue("x y", MAIL)
        assert mail.claim() == "x"

        assert mail.engine.claim(["q"], 1, worker="w", ahead=Ahead(most=5)).jobs == []


class TestStrategies:
    @pytest.mark.parametrize("strategy", ["round_robin", "weighted"])
    def test_shares_are_within_one_of_the_weights(self, mail: Desk, strategy: str) -> None:
        weights = {"a": 5, "b": 2, "c": 1}
        mail.engine.put_resource_group("mailboxes", Strategy(strategy))
        for key, weight in weights.items():
            put(mail, key, weight=weight)
        mail.enqueue(names(60), MAIL)
        if strategy == "round_robin":
            weights = dict.fromkeys(weights, 1)

        counts: Counter[str] = Counter()
        for n in range(1, 61):
            counts[taken(mail, mail.claim(1))] += 1
            for key, weight in weights.items():
                assert abs(counts[key] - n * weight / sum(weights.values())) < 1

    def test_chance_takes_any_that_has_room(self, mail: Desk) -> None:
        mail.engine.put_resource_group("mailboxes", Strategy.RANDOM)
        for key in "abc":
            put(mail, key, 20)
        mail.enqueue(names(70), MAIL)

        assert Counter(taken(mail, mail.claim(70)).split()) == {"a": 20, "b": 20, "c": 20}

    def test_one_that_comes_back_has_no_claim_to_what_it_missed(self, mail: Desk) -> None:
        put(mail, "a")
        put(mail, "b", enabled=False)
        mail.enqueue(names(30), MAIL)
        mail.claim(20)

        put(mail, "b")

        assert Counter(taken(mail, mail.claim(6)).split())["b"] <= 4


class TestTurns:
    def test_a_job_that_needs_a_busy_key_and_a_resource_is_not_starved(self, mail: Desk) -> None:
        put(mail, "a")
        mail.engine.configure("key", "a", Numbers(slots=1))
        mail.enqueue("k0", slots("k", 1))
        mail.enqueue("m0", MAIL)
        assert mail.claim() == "k0 m0"
        mail.enqueue("both", MAIL, slots("k", 1))
        running = {"k": "k0", "m": "m0"}

        for n in range(1, 40):
            kind = "km"[n % 2]
            mail.enqueue(f"{kind}{n}", *([slots("k", 1)] if kind == "k" else [MAIL]))
            mail.settle(running.pop(kind)) if kind in running else None
            started = mail.claim().split()
            if "both" in started:
                break
            running |= {name[0]: name for name in started}

        assert "both" in started

    def test_a_job_that_has_the_turn_keeps_one_resource_and_no_more(self, mail: Desk) -> None:
        put(mail, "a", 99)
        put(mail, "b", 99)
        for key in "ab":
            mail.engine.configure("key", key, Numbers(slots=1))
        mail.enqueue("k0", slots("k", 1))
        mail.enqueue("m0 m1", MAIL)
        assert mail.claim() == "k0 m0 m1"
        mail.enqueue("both", MAIL, slots("k", 1))
        mail.enqueue(" ".join(f"n{n:02}" for n in range(40)), MAIL)
        running, most = ["m0", "m1"], 0

        for _ in range(12):
            mail.settle(running.pop(0))
            running += mail.claim().split()
            most = max(most, len(running))
        mail.settle("k0")
        mail.settle(running.pop(0))

        assert "both" in mail.claim() + " ".join(running)
        assert most <= 2


@on_sqlite
class TestCheap:
    def test_a_claim_costs_the_same_behind_any_number_of_waiting_jobs(self, mail: Desk) -> None:
        put(mail, "a", 3)
        steps = []
        for count in (10, 1_000):
            mail.enqueue(" ".join(f"c{count}-{n}" for n in range(count)), MAIL)
            mail.engine.claim(["q"], 1, worker="w")
            steps.append(work_of(mail.engine, lambda: mail.engine.claim(["q"], 1, worker="w")).steps)

        assert steps[1] < 1.2 * steps[0] + 50

    def test_a_plain_claim_runs_no_further_statement(self, mail: Desk) -> None:
        mail.enqueue("x", slots("k", 1))

        work = work_of(mail.engine, mail.claim)

        assert not any("resource_group" in statement for statement in work.statements)
