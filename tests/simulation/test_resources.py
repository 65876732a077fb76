"""Resource groups through random histories; and the engine wounded, to see that the model notices."""

from collections.abc import Callable

import pytest

from penstock.engine.admission.board import Board
from penstock.engine.admission.groups import Groups
from penstock.limits import calendar
from penstock.limits.calendar import DailyCap
from penstock.limits.gate import ON_RELEASE, Gate
from penstock.limits.groups import Group, Member
from penstock.limits.rules import UNLIMITED
from tests.simulation.resource_model import History, NoticedError
from tests.support.postgres import empty_store
from tests.support.soak import often

STEPS = 80
NEAR_MIDNIGHT = 94  # a history with a claim in the last moments of a day
NOT_BEGUN = 11  # one in which it matters that a job was not begun


@pytest.mark.parametrize("part", range(4))
def test_a_claim_starts_what_the_model_foretells(part: int) -> None:
    histories = range(part, often(40, 2_000), 4)

    assert sum(History(seed).play(STEPS) for seed in histories) > 100


@pytest.mark.parametrize("part", range(2))
def test_what_is_kept_for_a_turn_breaks_no_limit_and_strands_nothing(part: int) -> None:
    for seed in range(part, often(20, 1_000), 2):
        History(seed, turns=True).play(2 * STEPS)


def test_a_claim_starts_the_same_on_postgresql() -> None:
    for seed in range(often(4, 100)):
        with empty_store() as url:
            History(seed, url).play(STEPS)


Wound = Callable[[pytest.MonkeyPatch], None]


def a_change_at_a_resource_is_not_told_to_its_group(put: pytest.MonkeyPatch) -> None:
    put.setattr(Groups, "with_groups", lambda self, gates: self._board.load_gates(gates) or gates)


def a_cap_of_0_is_none(put: pytest.MonkeyPatch) -> None:
    on = DailyCap.on
    put.setattr(DailyCap, "on", lambda self, day: on(self, day) or 1_000)


def starts_are_not_counted(put: pytest.MonkeyPatch) -> None:
    put.setattr(Member, "start", lambda _self, _now: "0:0")


def what_was_not_begun_stays_counted(put: pytest.MonkeyPatch) -> None:
    put.setattr(Groups, "take_back", lambda _self, _attempt: None)


def a_start_may_begin_on_the_next_day(put: pytest.MonkeyPatch) -> None:
    put.setattr(DailyCap, "last_moment", lambda _self, at: at + 10_000_000)


def days_are_those_of_utc(put: pytest.MonkeyPatch) -> None:
    local_day = calendar.local_day
    put.setattr(calendar, "local_day", lambda at, _zone: local_day(at, "UTC"))


def the_gate_of_the_resource_is_not_asked(put: pytest.MonkeyPatch) -> None:
    def opens_at(self: Member, _cost: int, now: int, kept: int = 0) -> int:
        daily = self.resource.daily
        if not self.resource.enabled:
            return ON_RELEASE
        return now if daily is None else daily.opens_at(self.days, now, 2 if kept else 1)

    put.setattr(Member, "opens_at", opens_at)


def a_resource_that_is_not_enabled_is_taken(put: pytest.MonkeyPatch) -> None:
    opens_at = Gate.opens_at
    put.setattr(
        Member, "opens_at", lambda self, cost, now, kept=0: opens_at(self.gate, UNLIMITED, cost, now, kept)
    )


def counts_are_not_written(put: pytest.MonkeyPatch) -> None:
    put.setattr(Groups, "flush", lambda _self: None)


def a_group_is_not_woken_at_midnight(put: pytest.MonkeyPatch) -> None:
    lower_wake = Board.lower_wake

    def lowered(self: Board, gate: int, at: int) -> None:
        if self.post(gate).group is None:
            lower_wake(self, gate, at)

    put.setattr(Board, "lower_wake", lowered)


def only_the_first_resource_is_looked_at(put: pytest.MonkeyPatch) -> None:
    openings = Group.openings
    put.setattr(Group, "openings", lambda self, cost, now, kept=0: openings(self, cost, now, kept)[:1])


WOUNDS: list[Wound] = [
    a_change_at_a_resource_is_not_told_to_its_group,
    a_cap_of_0_is_none,
    starts_are_not_counted,
    what_was_not_begun_stays_counted,
    a_start_may_begin_on_the_next_day,
    days_are_those_of_utc,
    the_gate_of_the_resource_is_not_asked,
    a_resource_that_is_not_enabled_is_taken,
    counts_are_not_written,
    a_group_is_not_woken_at_midnight,
    only_the_first_resource_is_looked_at,
]


@pytest.mark.parametrize("wound", WOUNDS, ids=lambda wound: wound.__name__)
def test_the_model_notices(wound: Wound, monkeypatch: pytest.MonkeyPatch) -> None:
    wound(monkeypatch)

    def play() -> None:
        for seed in (NEAR_MIDNIGHT, NOT_BEGUN, *range(200)):
            History(seed).play(STEPS)

    with pytest.raises(NoticedError):
        play()
