"""The shapes of workflows, and what cannot be one."""

import pytest

from penstock.errors import InvalidWorkflowError
from penstock.workflows import Step, When, batch, chain, check_steps, group
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


@pytest.mark.parametrize("steps", [chain("abc"), group("abc"), batch("abc", on_complete="d"), chain("a")])
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
        ("depends_on", (Step("a", "j"), Step("b", "j", ("a",), callback=True), Step("c", "j", ("b",)))),
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
        check_steps(group("abc"))
    monkeypatch.setattr(steps_module, "MAX_STEPS", 3)
    with pytest.raises(InvalidWorkflowError, match="dependencies"):
        check_steps(chain("abc"))
