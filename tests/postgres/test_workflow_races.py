"""Two transactions that change the same workflow, step by step."""

import pytest

from penstock.errors import WrongStateError
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.workflows import batch, chain
from tests.postgres.race import do
from tests.support.works import Works, job, jobs

FAILED = Failed("ValueError", "no")


@pytest.fixture
def works(race):
    return Works(race.desk.engine)


def settle(works, names, outcome=None):
    return lambda desk: desk.engine.settle(works.settlements(names, outcome))


def cancel(works):
    return lambda desk: desk.engine.cancel_workflow(works.id).state.value


class TestSettleAndSettle:
    def test_the_second_end_sees_the_first(self, race, works):
        works.start(batch(jobs("a b"), on_success=job("yes")))
        works.claim()
        one, two = race.meet(settle(works, "a"), settle(works, "b"), at="the gates")

        one.commit()
        assert two.answer() == [True]
        assert works.claim() == "yes"
        assert works.claim() == ""

    def test_one_that_came_to_nothing_is_not_heard(self, race, works):
        works.start(batch(jobs("a b"), on_success=job("yes")))
        works.claim()
        one, two = race.meet(settle(works, "a"), settle(works, "b"), at="the gates")

        one.roll_back()
        assert two.answer() == [True]
        assert works.claim() == ""
        works.settle("a")
        assert works.claim() == "yes"

    def test_jobs_of_no_workflow_wait_for_nobody(self, race, works):
        works.engine.enqueue(jobs("free"))
        works.start(chain(jobs("a b")))
        works.claim()
        one = race.hold(settle(works, "a"))

        assert race.start(settle(works, "free")).answer() == [True]
        one.commit()


class TestCancelAndSettle:
    def test_a_settle_after_the_cancel_sets_nothing_free(self, race, works):
        works.start(chain(jobs("a b")))
        works.claim()
        one, two = race.meet(cancel(works), settle(works, "a"), at="a row")

        assert one.commit() == "cancelled"
        assert two.answer() == [True]
        assert works.claim() == ""
        assert works.steps == {"a": "done", "b": "cancelled"}

    def test_a_cancel_after_the_settle_takes_what_it_set_free(self, race, works):
        works.start(chain(jobs("a b")))
        works.claim()
        one, two = race.meet(settle(works, "a"), cancel(works), at="the gates")

        one.commit()
        assert two.answer() == "cancelled"
        assert works.claim() == ""
        assert works.job("b").state is State.CANCELLED

    def test_a_cancel_after_the_last_settle_comes_too_late(self, race, works):
        works.start(chain(jobs("a")))
        works.claim()
        one, two = race.meet(settle(works, "a"), cancel(works), at="the gates")

        one.commit()
        with pytest.raises(WrongStateError):
            two.answer()

    def test_a_cancel_does_not_miss_a_job_on_its_way_to_a_retry(self, race, works):
        works.start(chain(jobs("a b", retry=RetryPolicy(attempts=3))))
        works.claim()
        one, two = race.meet(settle(works, "a", FAILED), cancel(works), at="the gates")

        one.commit()
        assert two.answer() == "cancelled"
        assert works.job("a").state is State.CANCELLED

    def test_a_job_that_starts_at_this_very_moment_is_asked_to_stop(self, race, works):
        works.start(chain(jobs("a b")))
        one, two = race.meet(
            lambda desk: desk.engine.claim(["q"], 1, worker="w").jobs, cancel(works), at="a row"
        )

        (claimed,) = one.commit()
        assert two.answer() == "cancelled"
        (beat,) = works.engine.heartbeat([(claimed.seq, claimed.fence)])
        assert beat.cancel_asked


class TestPruneAndOthers:
    def test_a_workflow_is_not_pruned_while_it_is_run_again(self, race, works):
        works.start(chain(jobs("a b")))
        works.run("a", FAILED)
        failed = works.job("a").id
        one = race.hold(do.retry(failed))

        race.start(do.prune(race.clock.now() + 1)).answer()
        one.commit()
        works.run("a")
        assert works.claim() == "b"
