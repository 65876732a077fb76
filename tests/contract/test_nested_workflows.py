"""Workflows in workflows: what stands inside ends as a step does, and what follows it is told of all of it."""

import json

import pytest

from penstock.clock import SECOND
from penstock.errors import InvalidWorkflowError
from penstock.lifecycle.outcomes import Failed
from penstock.workflows import Step, batch, chain, dag, group
from tests.support.desk import work_of
from tests.support.stores import on_sqlite
from tests.support.works import Works, job, jobs

FAILED = Failed("ValueError", "no")


def telling(*members):
    """Return a batch whose callbacks are called yes, no and anyhow."""
    return batch(members, on_success=job("yes"), on_failure=job("no"), on_complete=job("anyhow"))


def claimed(works):
    return set(works.claim().split())


class TestDone:
    def test_a_group_in_a_chain_holds_it_up_until_all_of_it_is_done(self, works):
        view = works.start(chain([job("a"), group(jobs("b c")), job("d")]), kind="chain")

        assert (view.steps_total, view.kind) == (4, "chain")
        assert works.claim() == "a"
        works.settle("a")
        assert claimed(works) == {"b", "c"}
        assert works.parents("b") == works.parents("c") == ["a!"]
        works.settle("c")
        assert works.claim() == ""
        works.settle("b")
        assert works.claim() == "d"
        assert works.parents("d") == [["b!", "c!"]]
        works.settle("d")
        assert works.state == "completed"
        assert (works.view.steps_completed, works.view.steps_total) == (4, 4)

    def test_chains_in_a_group_go_on_by_themselves(self, works):
        works.start(chain([group([chain(jobs("a b")), chain(jobs("x y"))]), job("end")]))
        works.run("a")

        assert claimed(works) == {"b"}
        assert works.parents("b") == ["a!"]
        works.settle("b x")
        works.run("y")
        assert works.claim() == "end"
        assert works.parents("end") == [["b!", "y!"]]

    def test_a_chain_goes_on_when_the_callbacks_of_a_batch_in_it_are_done(self, works):
        works.start(chain([telling(job("a"), group(jobs("b c"))), job("d")]))
        works.claim()
        works.settle("a b c")

        assert claimed(works) == {"yes", "anyhow"}
        assert works.parents("yes") == works.parents("anyhow") == ["a!", ["b!", "c!"]]
        works.settle("yes")
        assert works.claim() == ""
        works.settle("anyhow")
        assert works.claim() == "d"
        assert works.parents("d") == [["a!", ["b!", "c!"]]]
        works.settle("d")
        assert works.state == "completed"
        assert (works.steps["no"], works.view.steps_total) == ("skipped", 4)

    def test_steps_in_any_order_depend_on_what_is_inside(self, works):
        inner = dag([Step("x", job("b")), Step("y", job("c"), ("x",))])
        works.start(dag([Step("z", job("d"), ("in", "a")), Step("in", inner, ("a",)), Step("a", job("a"))]))
        for name in "abc":
            works.run(name)

        assert works.claim() == "d"
        assert works.parents("d") == [["c!"], "a!"]

    def test_results_are_handed_on_through_eight_levels_and_as_they_were(self, works):
        nested = job("in")
        for level in range(8):
            nested = chain([nested]) if level % 2 else group([nested])
        works.start(chain([job("a"), nested, job("z")]))
        works.claim()
        works.settle("a")
        works.claim()
        assert works.parents("in") == ["a!"]
        works.settle("in")

        works.claim()
        assert works.parents("z") == [[[[["in!"]]]]]

    def test_a_result_that_looks_like_numbers_in_brackets_stays_what_it_is(self, works):
        works.start(chain([group(jobs("a b", meta='{"parent_results": 1}')), job("c", meta='{"n": 7}')]))
        works.claim()
        works.settle("a b")
        works.claim()

        assert json.loads(works.attempts["c"].meta) == {"n": 7, "parent_results": [["a!", "b!"]]}


class TestNotDone:
    def test_a_failure_inside_stops_the_chain_around_it_and_lets_the_others_go_on(self, works):
        works.start(chain([group([chain(jobs("a b")), job("c")]), job("d")]))
        works.run("a", FAILED)

        assert works.steps == {"a": "failed", "b": "cancelled", "c": "running", "d": "cancelled"}
        assert works.state == "running"
        works.settle("c")
        assert (works.claim(), works.state) == ("", "failed")
        assert (works.view.steps_completed, works.view.steps_failed) == (1, 1)

    def test_a_batch_inside_that_failed_tells_so_and_stops_the_chain(self, works):
        works.start(chain([telling(chain(jobs("a b")), job("c")), job("d")]))
        works.run("a", FAILED)
        assert works.claim() == ""
        works.settle("c")

        assert claimed(works) == {"no", "anyhow"}
        assert works.parents("no") == [None, "c!"]
        works.settle("no anyhow")
        assert (works.claim(), works.state, works.steps["d"]) == ("", "failed", "cancelled")

    def test_a_callback_inside_that_fails_stops_the_chain(self, works):
        works.start(chain([telling(job("a")), job("d")]))
        works.run("a")
        works.claim()
        works.settle("anyhow")
        works.settle("yes", FAILED)

        assert (works.claim(), works.state, works.steps["d"]) == ("", "failed", "cancelled")

    def test_nothing_is_told_of_a_batch_that_never_came_to_its_turn(self, works):
        works.start(chain([job("a"), telling(group(jobs("b c"))), job("d")]))
        works.run("a", FAILED)

        assert works.claim() == ""
        assert works.steps == {"a": "failed"} | dict.fromkeys(
            ["b", "c", "yes", "no", "anyhow", "d"], "cancelled"
        )
        assert (works.state, works.view.steps_failed) == ("failed", 1)

    def test_a_batch_around_it_is_told_of_a_failure_inside(self, works):
        works.start(telling(chain([job("a"), telling(job("b"))]), job("c")))
        works.claim()
        works.settle("a", FAILED)
        works.settle("c")

        assert claimed(works) == {"no", "anyhow"}
        assert len([step for step in works.view.steps if step.job_id]) == 4

    def test_a_step_retried_by_hand_brings_back_all_that_was_cancelled_with_it(self, works):
        works.start(chain([job("a"), telling(group(jobs("b c"))), job("d")]))
        works.run("a", FAILED)

        works.engine.retry(works.job("a").id)
        works.run("a")
        assert claimed(works) == {"b", "c"}
        works.settle("b c")
        assert claimed(works) == {"yes", "anyhow"}
        works.settle("yes anyhow")
        works.run("d")
        assert works.state == "completed"

    def test_a_cancel_reaches_what_is_inside(self, works):
        works.start(chain([group([chain(jobs("a b")), job("c")]), telling(job("d"))]))
        works.claim()
        works.engine.cancel_workflow(works.id)
        works.settle("a c")

        assert (works.claim(), works.state) == ("", "cancelled")


class TestBounds:
    def test_too_many_dependencies_are_refused_and_nothing_is_stored(self, engine):
        with pytest.raises(InvalidWorkflowError, match="dependencies"):
            Works(engine).start(chain([group([job("a")] * 400), group([job("b")] * 400)]))

        assert engine.workflows() == ([], 0)

    def test_what_is_nested_is_pruned_with_the_rest(self, works, clock):
        works.start(chain([telling(job("a")), group(jobs("b c"))]))
        works.run("a")
        works.claim()
        works.settle("yes anyhow")
        works.claim()
        works.settle("b c")
        clock.advance(SECOND)

        assert works.engine.prune(clock.now()) == 5
        assert works.engine.workflows() == ([], 0)

    @on_sqlite
    @pytest.mark.parametrize("size", [50, 400])
    def test_the_end_of_one_costs_the_same_in_a_large_workflow(self, engine, size):
        works = Works(engine)
        works.start(chain([group([job(f"j{n}") for n in range(size)]), telling(job("a")), job("z")]))
        works.claim(2)

        assert work_of(engine, lambda: works.settle("j0")).steps < 3_000
