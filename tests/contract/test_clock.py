"""Clocks that are set while jobs run: spans stay as long as they were, dates follow."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import clock as clocks
from penstock.clock import SECOND, SteadyClock
from penstock.engine import Engine, open_engine
from penstock.engine.leases import GUARD
from penstock.job import START_GRACE, NewInstance
from penstock.lifecycle.outcomes import Done
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from penstock.limits.rules import Floating, Limit, Numbers
from tests.support.clock import BEGINNING, FakeClock
from tests.support.desk import LEASE, Desk, rate, slots, throttle

HOUR = 3600 * SECOND
STEPS = pytest.mark.parametrize(
    "step", [HOUR, -HOUR, 400 * 24 * HOUR], ids=["forward", "back", "a year and more"]
)


class Machine:
    """A machine whose clock can be set: it shows the wall's time, and counts from its own start."""

    def __init__(self) -> None:
        self.since_start = 5 * HOUR
        self.wall = BEGINNING
        self.run = "first run"

    def wait(self, span: int) -> None:
        self.since_start += span
        self.wall += span

    def set_clock(self, by: int) -> None:
        self.wall += by


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(clocks.SystemClock, "now", lambda _: machine.wall)
    monkeypatch.setattr(clocks, "since_boot", lambda: machine.since_start)
    monkeypatch.setattr("penstock.engine.clock.since_boot", lambda: machine.since_start)
    monkeypatch.setattr("penstock.engine.clock.boot_name", lambda: machine.run)
    return machine


@pytest.fixture
def start(tmp_path: Path, machine: Machine) -> Iterator[Callable[[], Desk]]:
    """Open the same file as often as asked, by the machine's own clock."""
    engines: list[Engine] = []

    def open_desk() -> Desk:
        engines.append(open_engine(str(tmp_path / "jobs.db")))
        assert isinstance(engines[-1].clock, SteadyClock)
        return Desk(engines[-1], engines[-1].clock)  # type: ignore[arg-type]

    yield open_desk
    for engine in engines:
        engine.close()


def starts_after(span: int, name: str, desk: Desk, machine: Machine) -> None:
    """Assert that nothing starts before *span* has passed, and then the job of that *name* does."""
    machine.wait(span - 1)
    assert desk.claim() == ""
    machine.wait(1)
    assert desk.claim() == name


class TestTheMachinesClock:
    @pytest.fixture
    def desk(self, start: Callable[[], Desk]) -> Desk:
        return start()

    def test_it_is_the_walls_time_at_first(self, desk: Desk, machine: Machine) -> None:
        desk.enqueue("a")

        assert desk.job("a").enqueued == machine.wall
        assert desk.engine.clock.now() == machine.wall

    @STEPS
    @pytest.mark.parametrize("limit", [rate("X", 1), throttle("X", 1)], ids=["rate", "throttle"])
    @pytest.mark.parametrize("noticed", [True, False])
    def test_no_window_opens_early_and_nobody_is_stranded(
        self, desk: Desk, machine: Machine, step: int, limit: Limit, noticed: bool
    ) -> None:
        desk.enqueue("a b", limit)
        assert desk.claim() == "a"
        machine.set_clock(step)
        if noticed:
            desk.engine.upkeep()

        starts_after(SECOND + START_GRACE, "b", desk, machine)
        desk.engine.upkeep()
        assert desk.engine.doctor() == []

    @STEPS
    def test_an_instance_runs_on(self, desk: Desk, machine: Machine, step: int) -> None:
        new = [NewInstance("wf", id=id_, queue="q", limits=(slots("X", 1),)) for id_ in ("x", "y")]
        desk.engine.create_instances(new)
        machine.set_clock(step)
        assert desk.engine.upkeep()["rescued"] == 0
        machine.wait(LEASE)

        assert [desk.engine.instance(id_).state.value for id_ in ("x", "y")] == ["running", "deferred"]
        assert desk.engine.cancel_instance("x").state.value == "cancelled"
        assert desk.engine.instance("y").state.value == "running"
        assert desk.engine.doctor() == []

    @STEPS
    def test_leases_survive_and_run_out_when_they_would_have(
        self, desk: Desk, machine: Machine, step: int
    ) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        machine.set_clock(step)
        assert desk.engine.upkeep()["rescued"] == 0

        machine.wait(LEASE - 1)
        assert desk.engine.upkeep()["rescued"] == 0
        machine.wait(1)
        assert desk.engine.upkeep()["rescued"] == 1
        assert desk.claim() == "a"

    @STEPS
    def test_an_attempt_takes_too_long_when_it_would_have(
        self, desk: Desk, machine: Machine, step: int
    ) -> None:
        desk.enqueue("a", timeout=2 * SECOND)
        (claimed,) = desk.engine.claim(["q"], 1, worker="w", timed=True).jobs
        desk.engine.cancel("a")
        asked = desk.engine.clock.now()
        machine.set_clock(step)
        desk.engine.upkeep()
        assert desk.engine.attempts(["a"])[0].cancel_at == asked + step

        machine.wait(2 * SECOND - 1)
        (beat,) = desk.engine.heartbeat([(claimed.seq, claimed.fence)])
        assert (beat.alive, desk.engine.upkeep()["rescued"]) == (True, 0)
        machine.wait(1)
        assert desk.engine.upkeep()["rescued"] == 1
        assert [failure.message for failure in desk.engine.failures("a")] == [
            "the attempt took longer than 2s"
        ]

    @STEPS
    def test_a_begin_told_after_the_step_is_remembered_when_it_was(
        self, desk: Desk, machine: Machine, step: int
    ) -> None:
        desk.enqueue("a b", rate("X", 1))
        desk.claim()
        began = desk.engine.clock.now()
        machine.wait(SECOND // 2)
        machine.set_clock(step)
        desk.engine.upkeep()

        assert desk.settle("a", Done(), began=began) == [True]
        machine.wait(SECOND // 2)
        assert desk.claim() == ""
        machine.wait(GUARD)
        assert desk.claim() == "b"

    def test_due_jobs_and_expiries_follow_a_clock_set_forward(self, desk: Desk, machine: Machine) -> None:
        desk.enqueue("due", due=machine.wall + HOUR)
        desk.enqueue("expires", queue="nobody", expires=machine.wall + HOUR)
        desk.engine.upkeep()
        assert desk.claim() == ""
        machine.set_clock(HOUR)
        desk.engine.upkeep()

        assert desk.claim() == "due"
        assert desk.state("expires") is State.EXPIRED

    def test_due_jobs_follow_a_clock_set_back(self, desk: Desk, machine: Machine) -> None:
        desk.enqueue("due", due=machine.wall + SECOND)
        machine.set_clock(-HOUR)
        desk.engine.upkeep()
        machine.wait(HOUR)
        assert desk.claim() == ""
        machine.wait(SECOND)

        assert desk.claim() == "due"

    def test_a_small_difference_is_drift_and_changes_nothing(self, desk: Desk, machine: Machine) -> None:
        before = desk.engine.clock.now()
        machine.set_clock(SECOND - 1)
        desk.engine.upkeep()

        assert desk.engine.clock.now() == before

    @STEPS
    def test_every_process_follows_the_one_that_noticed(self, start, machine: Machine, step: int) -> None:
        here, there = start(), start()
        here.enqueue("a b", rate("X", 1))
        assert there.claim() == "a"
        machine.set_clock(step)
        here.engine.upkeep()
        machine.wait(SECOND + START_GRACE - 1)

        assert there.claim() == ""
        assert there.engine.clock.now() == here.engine.clock.now() == machine.wall
        machine.wait(1)
        assert there.claim() == "b"

    @STEPS
    def test_a_job_waits_as_long_for_a_pause_in_the_calls_as_it_would_have(
        self, desk: Desk, machine: Machine, step: int
    ) -> None:
        latest = Unique("k", on_duplicate=OnDuplicate.REPLACE, quiet=5 * SECOND, max_wait=6 * SECOND)
        desk.enqueue("a", unique=latest)
        machine.set_clock(step)
        desk.engine.upkeep()
        starts_after(5 * SECOND, "a", desk, machine)
        desk.enqueue("b", unique=latest)
        machine.wait(3 * SECOND)
        machine.set_clock(step)
        desk.engine.upkeep()
        desk.enqueue("c", unique=latest)
        desk.settle("a")
        starts_after(3 * SECOND, "c", desk, machine)  # six seconds after b

    @STEPS
    def test_a_call_that_waits_for_the_end_of_another_and_for_a_pause_waits_as_long_as_it_would_have(
        self, desk: Desk, machine: Machine, step: int
    ) -> None:
        latest = Unique("k", on_duplicate=OnDuplicate.REPLACE, quiet=5 * SECOND)
        desk.enqueue("a", unique=Unique("k"))
        desk.claim()
        desk.enqueue("b", unique=latest)
        machine.set_clock(step)
        desk.engine.upkeep()
        desk.settle("a")
        starts_after(5 * SECOND, "b", desk, machine)

    @STEPS
    def test_a_floating_limit_is_refreshed_in_time(self, desk: Desk, machine: Machine, step: int) -> None:
        desk.enqueue("a", Limit("X", Numbers(slots=1), floating=Floating("how_many", 60 * SECOND)))
        (lent,) = desk.engine.refreshes(["how_many"], 1, worker="worker")
        assert desk.engine.refreshed(lent, value=2)
        machine.set_clock(step)
        desk.engine.upkeep()

        machine.wait(60 * SECOND - 1)
        assert desk.engine.refreshes(["how_many"], 1, worker="worker") == []
        machine.wait(1)
        assert len(desk.engine.refreshes(["how_many"], 1, worker="worker")) == 1

    def test_a_turn_lapses_in_time(self, desk: Desk, machine: Machine) -> None:
        desk.enqueue("fast0", slots("X", 1), queue="fast")
        desk.claim(queues=["fast"])
        desk.enqueue("slow", slots("X", 1), queue="slow")
        for n in range(1, 9):
            desk.enqueue(f"fast{n}", slots("X", 1), queue="fast")
            desk.settle(f"fast{n - 1}")
            if desk.claim(queues=["fast"]) == "":
                break
            desk.claim(queues=["slow"])
        else:
            pytest.fail("the slow one never had the turn")
        machine.set_clock(-HOUR)
        desk.engine.upkeep()
        machine.wait(SECOND)

        assert desk.claim(queues=["fast"]) == f"fast{n}"

    def test_a_restart_of_the_machine_goes_by_the_wall_again(self, start, machine: Machine) -> None:
        desk = start()
        desk.enqueue("a b", rate("X", 1, HOUR))
        desk.claim()
        desk.settle("a")
        desk.engine.close()
        machine.run, machine.since_start = "second run", SECOND
        machine.wall += 60 * SECOND

        desk = start()
        assert desk.engine.clock.now() == machine.wall
        starts_after(HOUR - 60 * SECOND + START_GRACE, "b", desk, machine)

    def test_a_gate_shut_for_a_second_is_not_shut_for_an_hour(self, desk: Desk, machine: Machine) -> None:
        desk.enqueue("a", slots("X", 1))
        desk.engine.shut("X", desk.engine.clock.now() + SECOND, reason="429")
        machine.set_clock(-HOUR)
        desk.engine.upkeep()
        machine.wait(SECOND)

        assert desk.claim() == "a"


class TestAClockThatStepsBack:
    """A clock of the user's own: what the gates remember may not run backwards."""

    @pytest.mark.parametrize("limit", [rate("X", 1), throttle("X", 1)], ids=["rate", "throttle"])
    def test_it_opens_nothing(self, desk: Desk, limit: Limit) -> None:
        desk.enqueue("a b", limit)
        desk.claim()
        for back in (1, SECOND, HOUR):
            desk.wait(-back)
            assert desk.claim() == ""
        desk.wait(HOUR + SECOND + 1)
        assert desk.claim() == ""
        desk.wait(SECOND + START_GRACE)

        assert desk.claim() == "b"

    def test_leases_do_not_run_out_by_it_and_settle_as_ever(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("X", 1))
        desk.claim()
        desk.wait(-HOUR)

        assert desk.engine.upkeep()["rescued"] == 0
        assert desk.claim() == ""
        assert desk.settle("a") == [True]
        assert desk.claim() == "b"

    def test_what_is_enqueued_meanwhile_is_served(self, desk: Desk, clock: FakeClock) -> None:
        desk.enqueue("a")
        desk.claim()
        desk.wait(-HOUR)
        desk.enqueue("b", slots("X", 1))
        desk.enqueue("due", due=clock.now() + SECOND)

        assert desk.claim() == "b due"  # the engine's time stands still, and is past that moment
