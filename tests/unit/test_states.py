"""What the table of states promises."""

from itertools import product

import pytest

from penstock.lifecycle.states import ENDED, LIVE, TRANSITIONS, State, may

FIRST = (State.SCHEDULED, State.WAITING)


def reachable(starts):
    """Return every state that a job that begins in *starts* can come to."""
    found, fresh = set(), set(starts)
    while fresh:
        found |= fresh
        fresh = {after for before in fresh for after in TRANSITIONS[before]} - found
    return found


def test_the_table_knows_every_state_and_no_other():
    assert set(State) == set(TRANSITIONS)
    assert all(afters <= set(State) for afters in TRANSITIONS.values())


def test_every_state_is_live_or_ended():
    assert set(State) == LIVE | ENDED
    assert not LIVE & ENDED


def test_every_state_can_be_reached():
    assert set(State) == reachable(FIRST)


@pytest.mark.parametrize("state", sorted(ENDED))
def test_an_ended_job_can_only_go_back_into_line(state):
    assert TRANSITIONS[state] <= {State.WAITING}


def test_a_done_job_stays_done():
    assert not TRANSITIONS[State.DONE]


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_can_end(state):
    assert ENDED & TRANSITIONS[state]


def test_only_a_waiting_job_starts_and_only_a_running_one_is_done():
    assert [State.WAITING] == [before for before in State if may(before, State.RUNNING)]
    assert [State.RUNNING] == [before for before in State if may(before, State.DONE)]
    assert [State.RUNNING] == [before for before in State if may(before, State.FAILED)]


def test_no_state_follows_itself():
    assert not [state for state in State if may(state, state)]


def test_may_reads_the_table():
    for before, after in product(State, State):
        assert (after in TRANSITIONS[before]) is may(before, after)
