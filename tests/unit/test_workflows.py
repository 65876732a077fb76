"""The shapes of workflows, and what cannot be one."""

import pytest
from msgspec.structs import replace

from penstock.errors import InvalidWorkflowError
from penstock.workflows import Step, When, batch, chain, check_steps, dag, group
from penstock.workflows import steps as steps_module


def test_in_a_chain_each_waits_for_the_one_before_it():
    assert chain(["a", "b", "c"]) == (
        Step("step-0", "a"),
        Step("step-1", "b", ("step-0",)),
        Step("step-2", "c", ("step-1",)),
    )


def test_in_a_group_no_step_waits():
    assert group(["a", "b"]) == (Step("job-0", "a"), Step("job-1", "b"))


def test_a_batch_is_a_group_and_the_callbacks_that_are_told_of_it():
    both = ("job-0", "job-1")

    assert batch(["a", "b"], on_success="yes", on_failure="no", on_complete="anyhow") == (
        *group(["a", "b"]),
        Step("on_success", "yes", both, When.DONE, callback=True),
        Step("on_failure", "no", both, When.FAILED, callback=True),
        Step("on_complete", "anyhow", both, When.ENDED, callback=True),
    )
    assert batch(["a"]) == group(["a"])


def test_a_step_after_a_group_waits_for_all_of_it_and_is_told_a_list():
    assert chain(["a", group(["b", "c"]), "d"]) == (
        Step("step-0", "a"),
        Step("step-1/job-0", "b", ("step-0",)),
        Step("step-1/job-1", "c", ("step-0",)),
        Step("step-2", "d", both := ("step-1/job-0", "step-1/job-1"), results=(both,)),
    )


def test_each_job_of_a_group_after_a_group_is_told_the_list_of_the_first():
    assert chain([group(["a", "b"]), group(["c"])])[2:] == (
        Step("step-1/job-0", "c", both := ("step-0/job-0", "step-0/job-1"), results=(both,)),
    )


def test_the_result_of_a_chain_is_that_of_its_last_step():
    assert batch([chain(["a", "b"]), "c"], on_complete="d") == (
        Step("job-0/step-0", "a"),
        Step("job-0/step-1", "b", ("job-0/step-0",)),
        Step("job-1", "c"),
        Step("on_complete", "d", ("job-0/step-1", "job-1"), When.ENDED, callback=True),
    )


def test_a_step_after_a_batch_waits_for_its_callbacks_too_and_is_told_what_its_jobs_returned():
    assert chain([batch(["a", group(["b"])], on_failure="c"), "d"]) == (
        Step("step-0/job-0", "a"),
        Step("step-0/job-1/job-0", "b"),
        Step(
            "step-0/on_failure", "c", both := ("step-0/job-0", "step-0/job-1/job-0"), When.FAILED, callback=True,
            results=(both[0], (both[1],)), opening="step-0/job-0",
        ),
        Step("step-1", "d", (*both, "step-0/on_failure"), results=((both[0], (both[1],)),)),
    )  # fmt: skip


def test_what_is_nested_twice_is_named_by_both():
    inner = batch([chain(["a"])], on_success="b")

    assert group([chain([inner, "c"])]) == (
        Step("job-0/step-0/job-0/step-0", "a"),
        Step(
            "job-0/step-0/on_success", "b", (a := "job-0/step-0/job-0/step-0",), When.DONE, callback=True, opening=a
        ),
        Step("job-0/step-1", "c", (a, "job-0/step-0/on_success"), results=((a,),)),
    )  # fmt: skip


def test_steps_in_any_order_may_be_shapes_and_depend_on_them():
    inner = dag(
        [
            Step("x", "a"),
            Step("y", "b", ("x",)),
            Step("z", "c", ("x",)),
            Step("t", "d", ("y",), callback=True),
        ]
    )

    assert dag([Step("last", "e", ("in", "first")), Step("in", inner, ("first",)), Step("first", "f")]) == (
        Step("last", "e", ("in/y", "in/z", "in/t", "first"), results=(("in/y", "in/z"), "first")),
        Step("in/x", "a", ("first",)),
        Step("in/y", "b", ("in/x",)),
        Step("in/z", "c", ("in/x",)),
        Step("in/t", "d", ("in/y",), callback=True, opening="in/x"),
        Step("first", "f"),
    )


def test_two_steps_of_one_name_are_refused_though_one_of_them_is_a_shape():
    with pytest.raises(InvalidWorkflowError, match="'a' names two steps"):
        dag([Step("a", "j"), Step("b", "j"), Step("a", group("cd"))])


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (Step("in", group("ab"), ("in",)),),
        (Step("in", group("ab"), ("no",)),),
        (Step("a", "j", ("in",)), Step("in", group("ab"), ("a",))),
        (Step("in", ()),),
    ],
)
def test_what_can_never_run_is_refused_also_around_shapes(steps):
    with pytest.raises(InvalidWorkflowError):
        check_steps(dag([replace(step, job=dag(step.job)) if step.job == () else step for step in steps]))


@pytest.mark.parametrize(
    "steps",
    [
        chain("abc"),
        group("abc"),
        batch("abc", on_complete="d"),
        chain("a"),
        chain([group("ab"), batch([chain("cd"), "e"], on_failure="f"), group("gh")]),
    ],
)
def test_the_usual_shapes_are_sound(steps):
    check_steps(steps)


@pytest.mark.parametrize(
    ("field", "steps"),
    [
        ("steps", ()),
        ("id", (Step("", "j"),)),
        ("id", (Step("a\nb", "j"),)),
        ("id", (Step("a" * 256, "j"),)),
        ("id", (Step("a", "j"), Step("a", "j"))),
        ("depends_on", (Step("a", "j", ("b",)),)),
        ("depends_on", (Step("a", "j"), Step("b", "j", ("a", "a")))),
        ("depends_on", (Step("a", "j", ("a",)),)),
        ("depends_on", (Step("a", "j"), Step("b", "j", ("c",)), Step("c", "j", ("b",)))),
        ("depends_on", (Step("a", "j", when=When.FAILED),)),
        ("depends_on", (Step("a", "j"), Step("b", "j", callback=True))),
        ("steps", (Step("a", "j", ("b",), callback=True), Step("b", "j", ("a",), callback=True))),
        ("results", (Step("a", "j"), Step("b", "j"), Step("c", "j", ("a",), results=(("a", "b"),)))),
        ("opening", (Step("a", "j"), Step("b", "j", ("a",), callback=True, opening="c"))),
    ],
)
def test_what_can_never_run_is_refused_with_the_field_named(field, steps):
    with pytest.raises(InvalidWorkflowError) as refused:
        check_steps(steps)

    assert refused.value.field == field


def test_a_workflow_has_a_size(monkeypatch):
    monkeypatch.setattr(steps_module, "MAX_STEPS", 2)
    monkeypatch.setattr(steps_module, "MAX_EDGES", 1)

    check_steps(chain("ab"))
    with pytest.raises(InvalidWorkflowError, match="3 steps"):
        check_steps(tuple(Step(id_, "j") for id_ in "abc"))
    with pytest.raises(InvalidWorkflowError, match="3 steps"):
        group("abc")
    monkeypatch.setattr(steps_module, "MAX_STEPS", 3)
    with pytest.raises(InvalidWorkflowError, match="dependencies"):
        chain("abc")


def test_groups_after_each_other_are_bounded_before_they_are_written_out():
    with pytest.raises(InvalidWorkflowError, match="100000 dependencies"):
        chain([group(range(4_000)), group(range(4_000))])
