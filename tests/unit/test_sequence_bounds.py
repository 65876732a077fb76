"""Templates and expressions that would take any time or memory: refused when they are read, or fail their step."""

import time
from contextlib import suppress

import pytest

from penstock.errors import InvalidError
from penstock.sequences.templates import Literal, read_template
from penstock.sequences.values import MOST_STEPS, Effort, TemplateError, weight
from tests.support.sequences import Play, sequence, step

LONG = "a" * 200_000


def played(*blocks, **context):
    return Play(sequence(*blocks), context).run()


def loop(count, *body):
    return {"id": "l", "type": "loop", "max_iterations": count, "body": list(body)}


@pytest.mark.parametrize(
    "text", ["{{" + "\\'" * 20_000 + "}}", "{{data.x | '" + '\\"' * 20_000 + "}}", "{{data.x}}" * 40_000]
)
def test_to_read_a_text_takes_time_in_proportion_to_its_length(text):
    began = time.process_time()
    with suppress(InvalidError):  # a quote that is not closed
        read_template(text, "x")

    assert time.process_time() - began < 10


def test_a_literal_that_is_nested_too_deeply_is_plain_text():
    deep = "[" * 5_000 + "]" * 5_000

    template = read_template("{{data.x | " + deep + "}}", "x")

    assert Literal(deep) == template.parts[0].segments[1]


@pytest.mark.parametrize("handler", ["work", "transform", "log"])
@pytest.mark.parametrize(
    "params",
    [
        {"x": ["{{data.x}}"] * 10_000},
        {"x": "{{data.x}}" * 10_000},
        {"x": {str(n): "{{data}}" for n in range(10_000)}},
        {"x": ["{{data.x}}"] * 6},
    ],
)
def test_params_that_become_too_large_fail_their_step(handler, params):
    play = played(step("a", handler, params=params), x=LONG)

    assert ("failed", []) == (play.outcome, play.keys)
    assert "at most" in play.failure["message"]


def test_the_input_of_a_child_is_bounded_too():
    child = {"id": "c", "type": "sub_sequence", "sequence_name": "s", "input": {"x": ["{{data.x}}"] * 6}}

    assert "at most" in played(child, x=LONG).failure["message"]


@pytest.mark.parametrize(
    ("handler", "params"),
    [
        ("set_state", {"key": "x", "value": ["{{state.x}}", "{{state.x}}"]}),
        ("set_state", {"key": "x", "value": {"a": "{{state.x}}"}}),
        ("merge_state", {"key": "x", "value": {"a": {"b": "{{state.x}}"}}}),
    ],
)
def test_what_grows_with_each_iteration_ends_at_a_bound(handler, params):
    play = played(loop(5_000, step("a", handler, params=params)))

    assert ("failed", "ParamError") == (play.outcome, play.failure["kind"])


def test_a_state_that_is_merged_again_and_again_is_bounded():
    blocks = [step(f"s{n}", "merge_state", params={"key": "x", "value": {str(n): LONG}}) for n in range(6)]

    assert "ParamError" == played(*blocks).failure["kind"]


@pytest.mark.parametrize(
    "expression",
    [
        " && ".join(["data.a == data.b"] * 50),
        " && ".join(["data.a in [data.b, data.b]"] * 50),
        " && ".join(["contains([data.a], data.b)"] * 50),
        " && ".join(["count([data.a], data.b)"] * 50),
        " && ".join(["unique([data.a])"] * 50),
        " && ".join(["json(data.a)"] * 50),
        " || ".join(["data.x + data.x < data.x"] * 50),
        "'' in [" + ", ".join(["{{data.x | upper | lower}}"] * 50) + "]",
    ],
)
def test_an_expression_that_goes_through_large_values_too_often_has_no_value(expression):
    play = played(step("a", "noop", when=expression), a=[[1] * 30_000], b=[[1] * 30_000], x=LONG)

    assert "failed" == play.outcome
    assert "steps" in play.failure["message"]


def test_large_values_may_be_compared_and_looked_at():
    when = "data.a == data.b && len(data.a) == 30000 && contains(data.x, 'aa')"
    play = played(step("a", "noop", when=when), a=[1] * 30_000, b=[1] * 30_000, x=LONG)

    assert "done" == play.state("a")


def test_a_chain_of_filters_on_a_long_text_has_an_end():
    chain = "data.x" + " | upper | lower" * 100 + " | truncate(1)"
    play = played(step("a", "noop", params={"x": "{{" + chain + "}}"}), x=LONG)

    assert ("TemplateError", True) == (play.failure["kind"], "steps" in play.failure["message"])


def test_blocks_that_take_long_are_left_for_later_transactions():
    heavy = step("a", "noop", when="data.a == data.b")
    each = {"id": "f", "type": "for_each", "collection": list(range(10)), "body": [heavy]}

    play = Play(sequence(each), {"a": [1] * 30_000, "b": [1] * 30_000}).begin()

    assert ["f#2/a@next"] == list(play.timers)
    play.run()
    assert "done" == play.outcome


def test_an_output_is_read_once_however_often_it_is_named():
    play = played(
        step("a", "transform", params={"x": "{{data.x}}"}),
        step("b", "work", params={str(n): "{{outputs.a.y}}" for n in range(20_000)}),
        x=LONG,
    )

    assert "done" == play.outcome


def test_each_block_may_take_its_own_steps():
    effort = Effort()
    effort.take(MOST_STEPS, TemplateError)
    with pytest.raises(TemplateError, match="steps"):
        effort.take(1, TemplateError)

    effort.begin()
    effort.take(MOST_STEPS, TemplateError)


def test_a_value_weighs_as_much_as_there_is_in_it():
    assert (1, 0, 3, 3, 10) == (
        weight(None), weight("short"), weight([1, 2]), weight({"a": {"b": 1}}), weight("a" * 640),
    )  # fmt: skip
