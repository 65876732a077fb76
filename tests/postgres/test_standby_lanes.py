"""Jobs that stand by, where claims share the gates: lanes are locked for them, and left if they must not."""

import pytest

from penstock.job import Settlement
from penstock.lifecycle.outcomes import Done
from tests.postgres.race import do, quiet
from tests.postgres.test_own_lanes import meet_own_lanes, running
from tests.support.desk import slots

QUICK = (("task", 1_000),)


@pytest.fixture(autouse=True)
def warm(race):
    meet_own_lanes(race)


def line_up(race, names):
    for name in names.split():
        race.desk.enqueue(name, slots(name, 1))


def stand_by(count, standby, settled=None):
    """Claim for so many hands, and so many to stand by; settle a job of the desk in the same transaction."""

    def work(desk):
        asked = {"worker": "worker", "relay": QUICK, "standby": standby}
        if settled is None:
            claim = desk.engine.claim(["q"], count, **asked)
        else:
            attempt = desk.attempts[settled]
            settlements = [Settlement(attempt.seq, attempt.fence, Done(None))]
            _, claim = desk.engine.exchange(settlements, ["q"], count, **asked)
        desk.attempts |= {job.id: job for job in claim.jobs}
        return " ".join(job.id for job in claim.jobs)

    return work


def test_claims_whose_jobs_stand_by_do_not_wait_for_each_other_nor_lock_more_than_they_take(race):
    line_up(race, "a b c d e")
    one = race.hold(stand_by(1, 1))
    two = race.hold(stand_by(0, 2))

    assert race.start(do.claim(5)).answer() == "e"
    assert two.commit() == "c d"
    assert one.commit() == "a b"


@pytest.mark.parametrize("settled", [None, "first"], ids=["claim", "exchange"])
def test_a_claim_that_passed_over_a_lane_hears_that_it_was_left_and_did_not_stand_by(race, settled):
    if settled:
        line_up(race, settled)
        assert race.desk.claim(1) == settled
    line_up(race, "a")
    race.desk.enqueue("two", slots("b", 2))
    line_up(race, "c")
    token = quiet(race.desk.engine)
    one = race.hold(stand_by(1, 5, settled))
    assert race.start(do.claim(5)).answer() == ""

    assert one.commit() == "a"
    assert race.desk.engine.wait(token, 5) != token
    assert race.start(do.claim(5)).answer() == "two c"


def test_a_claim_for_no_hand_that_leaves_what_it_locked_lets_others_hear(race):
    race.desk.enqueue("two", slots("b", 2))
    token = quiet(race.desk.engine)
    one = race.hold(stand_by(0, 5))
    assert race.start(do.claim(5)).answer() == ""

    assert one.commit() == ""
    assert race.desk.engine.wait(token, 5) != token
    assert race.start(do.claim(5)).answer() == "two"


def test_what_stood_by_and_was_undone_is_still_there(race):
    line_up(race, "a b")
    token = quiet(race.desk.engine)
    one = race.hold(stand_by(0, 5))
    assert race.start(do.claim(5)).answer() == ""

    one.roll_back()
    assert race.desk.engine.wait(token, 5) != token
    assert race.start(stand_by(1, 5)).answer() == "a b"
    assert running(race, "b") == 1


def test_a_settle_of_what_stood_by_waits_for_no_other(race):
    line_up(race, "a b c")
    assert stand_by(1, 1)(race.desk) == "a b"
    race.desk.enqueue("b2", slots("b", 1))
    one = race.hold(do.settle("a"))

    assert race.start(do.settle("b")).answer() == [True]
    assert race.start(stand_by(0, 5)).answer() == "c b2"
    assert one.commit() == [True]
