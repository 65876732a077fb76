"""Schedules that create instances: one for each moment, with what to do while an earlier one lives."""

import json

import pytest

from penstock.clock import SECOND
from penstock.job import InstanceState, NewJob, Schedule
from penstock.lifecycle.overlap import Overlap
from tests.support.desk import Desk

HOUR = 3_600 * SECOND


@pytest.fixture
def number(desk: Desk) -> int:
    blocks = [{"id": "a", "type": "step", "handler": "work"}]
    return desk.engine.put_sequence("s", json.dumps({"name": "s", "blocks": blocks})).number


def put(desk: Desk, number: int, overlap: Overlap = Overlap.ALLOW) -> None:
    job = NewJob("s", '{"x":1}')
    desk.engine.set_schedule(Schedule("hourly", "@hourly", job, overlap=overlap, sequence=number))


def pass_time(desk: Desk, hours: int = 1) -> list[InstanceState]:
    """Let hours pass; return the states of all instances, the first one first."""
    for _ in range(hours):
        desk.wait(HOUR)
        desk.engine.upkeep()
    return [view.state for view in desk.engine.instances()[0]][::-1]


def test_a_moment_creates_an_instance_and_its_first_step(desk: Desk, number: int) -> None:
    put(desk, number)

    assert [InstanceState.RUNNING] == pass_time(desk)
    (view,) = desk.engine.instances()[0]
    assert ("s", '{"x":1}', number) == (view.workflow, view.args, view.sequence)
    assert view.id == desk.engine.schedule("hourly").last_job
    (job,) = desk.engine.claim(["default"], 1, worker="w").jobs
    assert "work" == job.task
    assert [] == desk.engine.doctor()


@pytest.mark.parametrize(
    ("overlap", "states"),
    [
        (Overlap.ALLOW, ["running", "running", "running"]),
        (Overlap.SKIP, ["running"]),
        (Overlap.WAIT, ["running", "deferred", "deferred"]),
        (Overlap.CANCEL_PREVIOUS, ["cancelled", "cancelled", "running"]),
    ],
)
def test_overlaps(desk: Desk, number: int, overlap: Overlap, states: list[str]) -> None:
    put(desk, number, overlap)

    assert states == pass_time(desk, 3)
    assert [] == desk.engine.doctor()


def test_a_schedule_whose_sequence_is_gone_is_skipped(desk: Desk, number: int) -> None:
    put(desk, number)
    desk.engine.delete_sequence(number)

    assert [] == pass_time(desk)
    assert 0 == desk.engine.schedule("hourly").fired
