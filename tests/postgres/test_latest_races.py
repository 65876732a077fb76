"""The latest call of a unique key, while others start, settle, rescue or replace the same job at that moment."""

import pytest

from penstock.clock import SECOND
from penstock.job import NewJob, Schedule
from penstock.lifecycle.outcomes import Failed, HandedBack
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import OnDuplicate, Unique
from tests.postgres.race import FREE_OR_LIMITED, LIMITED, do
from tests.support.desk import LEASE

NO = Failed("ValueError", "no")


def calling(name, *limits, key="k", delay=0, **terms):
    """Return what has a call come in."""
    unique = Unique(key, on_duplicate=OnDuplicate.REPLACE, **terms)
    retry = RetryPolicy(attempts=5, delay=delay, jitter=False)
    job = NewJob("task", id=name, queue="q", limits=limits, retry=retry, unique=unique)
    return lambda desk: desk.engine.enqueue([job])[0].id


def running(race, *limits, delay=0):
    calling("a", *limits, delay=delay)(race.desk)
    assert race.desk.claim() == "a"


def rest(race):
    """Let all transactions finish; return the jobs that run then, one after the other."""
    race.finish()
    started = []
    while names := race.desk.claim():
        started += names.split()
        race.desk.settle(names)
    assert race.desk.engine.doctor() == []
    return started


class TestClaimedMeanwhile:
    def test_a_call_waits_for_the_end_of_a_job_that_starts_at_this_moment(self, race):
        calling("a")(race.desk)
        claim, call = race.meet(do.claim(), calling("b"), at="a row")

        assert claim.commit() == "a"
        assert call.answer() == "b"
        assert race.desk.claim() == ""
        race.desk.settle("a")
        assert rest(race) == ["b"]
        assert race.desk.state("a") is State.DONE

    def test_a_job_that_did_not_start_after_all_is_replaced(self, race):
        calling("a")(race.desk)
        claim, call = race.meet(do.claim(), calling("b"), at="a row")

        claim.roll_back()
        call.answer()
        assert rest(race) == ["b"]
        assert race.desk.state("a") is State.CANCELLED

    def test_a_claim_passes_by_a_job_that_is_being_replaced(self, race):
        calling("a")(race.desk)
        call = race.hold(calling("b"))

        assert race.start(do.claim()).answer() == ""
        call.commit()
        assert rest(race) == ["b"]

    def test_a_job_with_limits_is_started_or_replaced_never_both(self, race):
        calling("a", *LIMITED)(race.desk)
        call, claim = race.meet(calling("b", *LIMITED), do.claim(), at="the gates")

        call.commit()
        assert claim.answer() == "b"
        assert race.desk.state("a") is State.CANCELLED


OUTCOMES = pytest.mark.parametrize(
    ("outcome", "delay", "state"),
    [(None, 0, State.DONE), (NO, 0, State.CANCELLED), (NO, SECOND, State.CANCELLED),
     (HandedBack(), 0, State.CANCELLED)],
    ids=["done", "failed", "failed, to run later", "handed back"],
)  # fmt: skip


class TestSettledMeanwhile:
    @OUTCOMES
    @FREE_OR_LIMITED
    def test_a_settlement_that_waits_for_a_call_sees_it(self, race, outcome, delay, state, limits):
        running(race, *limits, delay=delay)
        call, settle = race.meet(calling("b", *limits), do.settle("a", outcome), at="a row")

        call.commit()
        assert all(settle.answer())
        assert rest(race) == ["b"]
        assert race.desk.state("a") is state

    @OUTCOMES
    def test_a_call_that_waits_for_a_settlement_replaces_the_job_unless_it_has_ended(
        self, race, outcome, delay, state
    ):
        running(race, delay=delay)
        settle, call = race.meet(do.settle("a", outcome), calling("b"), at="a row")

        assert all(settle.commit())
        call.answer()
        assert rest(race) == ["b"]
        assert race.desk.state("a") is state

    def test_a_call_is_remembered_if_the_settlement_comes_to_nothing(self, race):
        running(race)
        settle, call = race.meet(do.settle("a"), calling("b"), at="a row")

        settle.roll_back()
        call.answer()
        assert race.desk.claim() == ""
        race.desk.settle("a")
        assert rest(race) == ["b"]

    @OUTCOMES
    def test_a_settlement_takes_along_the_newest_of_those_remembered(self, race, outcome, delay, state):
        running(race, delay=delay)
        calling("b")(race.desk)
        call, settle = race.meet(calling("c"), do.settle("a", outcome), at="a row")

        call.commit()
        settle.answer()
        assert rest(race) == ["c"]
        assert race.desk.state("b") is State.CANCELLED
        if outcome is not None:
            assert race.desk.job("a").reason == "replaced by c"

    def test_a_call_replaces_the_one_remembered_that_a_settlement_sets_free_at_this_moment(self, race):
        running(race)
        calling("b")(race.desk)
        settle, call = race.meet(do.settle("a"), calling("c"), at="a row")

        settle.commit()
        call.answer()
        assert rest(race) == ["c"]
        assert race.desk.job("b").reason == "replaced by c"

    def test_a_job_goes_on_if_the_call_that_was_remembered_is_cancelled_at_this_moment(self, race):
        running(race)
        calling("b")(race.desk)
        cancel, settle = race.meet(do.cancel("b"), do.settle("a", NO), at="a row")

        cancel.commit()
        settle.answer()
        assert rest(race) == ["a"]

    def test_a_call_that_is_set_free_at_this_moment_is_cancelled_where_it_waits(self, race):
        running(race)
        calling("b")(race.desk)
        settle, cancel = race.meet(do.settle("a"), do.cancel("b"), at="a row")

        settle.commit()
        assert cancel.answer() is State.CANCELLED
        assert rest(race) == []


class TestRescuedMeanwhile:
    def test_a_rescue_leaves_a_job_alone_that_a_call_looks_at(self, race):
        running(race)
        race.clock.advance(LEASE)
        call, rescue = race.meet(calling("b"), do.upkeep(), at="the gates")

        call.commit()
        rescue.answer()
        assert rest(race) == ["b"]
        assert race.desk.state("a") is State.CANCELLED

    def test_a_call_replaces_a_job_that_is_rescued_at_this_moment(self, race):
        running(race)
        race.clock.advance(LEASE)
        claim = race.hold(do.claim(queues=["other"]))  # which rescues first
        call = race.start(calling("b"))
        call.waits_for("a row")

        claim.commit()
        call.answer()
        assert rest(race) == ["b"]


def test_a_claim_that_fires_a_schedule_has_the_gates_before_it_wants_a_name(race):
    """It may have rows by then for which a call waits that has the name."""
    unique = Unique("k", on_duplicate=OnDuplicate.REPLACE)
    race.desk.engine.set_schedule(Schedule("s", "* * * * *", NewJob("task", queue="q", unique=unique)))
    race.clock.advance(60 * SECOND)
    with race.gates_taken():
        claim = race.start(do.claim())
        claim.waits_for("the gates")

    assert claim.answer()


class TestTwoCallsAtOnce:
    def test_the_second_of_two_calls_is_remembered(self, race):
        running(race)
        one, two = race.meet(calling("b"), calling("c"), at="a name")

        one.commit()
        two.answer()
        race.desk.settle("a")
        assert rest(race) == ["c"]

    def test_calls_of_two_keys_do_not_wait_for_each_other_at_their_names(self, race):
        running(race)
        one = race.hold(calling("b"))
        two = race.start(calling("other", key="l"))

        assert two.answer() == "other"
        one.commit()
        race.desk.settle("a")
        assert sorted(rest(race)) == ["b", "other"]

    def test_a_pause_counts_the_calls_of_both(self, race):
        pause = {"quiet": 5 * SECOND, "max_wait": 60 * SECOND}
        one, two = race.meet(calling("a", **pause), calling("b", **pause), at="a name")

        one.commit()
        two.answer()
        race.clock.advance(5 * SECOND)
        assert rest(race) == ["b"]

    def test_many_callers_and_workers_lose_no_last_call(self, race):
        """Not a script: whatever is left to chance, the last call of each key has run in the end."""

        def produce(desk):
            return [calling(f"{key}-{number}", key=key)(desk) for number in range(15) for key in "xyz"]

        def consume(desk):
            for _ in range(40):
                for name in desk.claim(2).split():
                    desk.settle(name)

        tries = [race.start(produce), race.start(consume), race.start(consume)]
        for tried in tries:
            tried.thread.join(60)
        rest(race)
        assert {race.desk.state(f"{key}-14") for key in "xyz"} == {State.DONE}
