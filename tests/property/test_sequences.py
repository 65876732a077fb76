"""What the conductor promises for any sequence: it ends, a key begins once, and a memo read back says the same."""

from contextlib import suppress
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidError
from penstock.sequences import parse
from penstock.sequences.expression_parser import read_expression
from penstock.sequences.expressions import evaluate
from penstock.sequences.paths import dig
from penstock.sequences.templates import fill_in, read_template
from penstock.sequences.values import BlockError
from tests.support.sequences import HandlerError, Play

# Ids are put in later; a block is (kind, branches, fields).
STEPS = st.builds(
    lambda handler, fields: ("step", [], {"handler": handler, **fields}),
    st.sampled_from(["work", "work", "boom", "noop", "fail"]),
    st.fixed_dictionaries(
        {},
        optional={
            "when": st.booleans(),
            "delay": st.integers(0, 3),
            "deadline": st.integers(1, 3),
            "fallback_handler": st.sampled_from(["work", "boom", "noop"]),
            "cancellable": st.booleans(),
            "retry": st.just({"max_attempts": 2, "retry_if": True}),
        },
    ),
) | st.just(("step", [], {"handler": "sleep", "params": {"duration": 2}}))


def composites(blocks):
    some = st.lists(blocks, min_size=1, max_size=3)
    any_number = st.lists(blocks, max_size=2)
    items = st.lists(st.none(), max_size=3)
    branches = st.lists(st.lists(blocks, max_size=2), min_size=1, max_size=3)
    loop_fields = st.fixed_dictionaries(
        {"max_iterations": st.integers(1, 3)},
        optional={"poll_interval": st.just(1), "continue_on_error": st.booleans()},
    )
    return st.one_of(
        st.builds(lambda inside: ("parallel", inside, {}), branches),
        st.builds(lambda inside: ("race", inside, {}), branches),
        st.builds(lambda body, fields: ("loop", [body], fields), some, loop_fields),
        st.builds(lambda body, items: ("for_each", [body], {"collection": items}), some, items),
        st.builds(lambda inside: ("router", inside, {}), branches),
        st.builds(lambda body: ("cancellation_scope", [body], {}), some),
        st.builds(lambda *inside: ("try_catch", list(inside), {}), some, any_number, any_number),
        st.builds(lambda inside: ("saga", inside, {}), st.lists(some, min_size=1, max_size=3)),
        st.builds(lambda inside: ("a_b_split", [*inside, []], {}), branches),
    )  # fmt: skip


SEQUENCES = st.lists(st.recursive(STEPS, composites, max_leaves=12), min_size=1, max_size=4)


def written(sketches, numbers):
    """Return blocks as they are written in JSON."""
    return [block(sketch, numbers) for sketch in sketches]


def block(sketch, numbers):
    kind, inside, fields = sketch
    made = {"type": kind, "id": f"b{next(numbers)}", **fields}
    lists = [written(branch, numbers) for branch in inside]
    match kind:
        case "parallel" | "race":
            made["branches"] = lists
        case "loop" | "for_each":
            (made["body"],) = lists
        case "cancellation_scope":
            (made["blocks"],) = lists
        case "router":
            made["routes"] = [
                {"condition": number == 1, "blocks": branch} for number, branch in enumerate(lists)
            ]
        case "try_catch":
            made["try_block"], made["catch_block"], made["finally_block"] = lists
        case "a_b_split":
            made["variants"] = [
                {"name": f"v{n}", "weight": 1, "blocks": branch} for n, branch in enumerate(lists)
            ]
        case "saga":
            made["steps"] = [
                {"id": f"s{n}", "action": branch[0], **({"compensation": branch[1]} if branch[1:] else {})}
                for n, branch in enumerate(lists)
            ]
    return made


def boom(_):
    raise HandlerError


def play(sketches, chance, *, crash=False):
    """Return a play in which *chance* says what ends next: a job, whatever its turn, or the next timer."""
    definition = {"name": "drawn", "blocks": written(sketches, count())}
    return Play(
        definition, {}, {"boom": boom}, crash=crash, choose=lambda keys: sorted(keys)[chance % len(keys)]
    )


def go_on(played, moves):
    """Make so many moves, or all; jobs and timers come in any order."""
    for move in moves:
        if played.finish is not None:
            return
        if played.jobs and (move % 3 or not played.timers):
            played.run_job(sorted(played.jobs)[move % len(played.jobs)])
        else:
            first = min(played.timers.values())
            played.fire(min(key for key, at in played.timers.items() if at == first))


@given(SEQUENCES, st.integers(0, 100))
def test_every_sequence_ends_in_whatever_order_its_jobs_do(sketches, chance):
    """The play itself asserts that no key begins twice, that something moves it on, and that nothing lives on."""
    played = play(sketches, chance).run(5_000)

    assert played.outcome in {"done", "failed"}


@given(SEQUENCES, st.lists(st.integers(0, 100), max_size=30))
def test_a_memo_that_was_read_back_leads_to_the_same_commands(sketches, moves):
    whole, crashed = (play(sketches, 0, crash=crash).begin() for crash in (False, True))
    for played in (whole, crashed):
        go_on(played, moves)
        played.run(5_000)

    assert whole.lists == crashed.lists
    assert whole.keys == crashed.keys


@given(SEQUENCES, st.lists(st.integers(0, 100), max_size=30))
def test_ends_replayed_from_the_begin_ask_for_the_same_keys(sketches, moves):
    first = play(sketches, 0).begin()
    go_on(first, moves)
    again = play(sketches, 0, crash=True)
    moment = again.now
    again.begin()

    for end, commands in zip(first.ends, first.lists[1:], strict=True):
        again.now = max(moment, first.now)
        assert [type(command) for command in commands] == [type(command) for command in again.conduct(end)]
    assert first.keys == again.keys
    assert first.memo.keys() == again.memo.keys()


@given(SEQUENCES, st.lists(st.integers(0, 100), max_size=30))
def test_a_cancelled_instance_ends(sketches, moves):
    played = play(sketches, 0, crash=True).begin()
    go_on(played, moves)
    ended_before = played.outcome
    if ended_before is None:
        begun = len(played.keys)
        played.cancel()
        played.run(5_000)

        assert "cancelled" == played.outcome
        shielded = any(
            "cancellation_scope" in str(sketch) or "'cancellable': False" in str(sketch)
            for sketch in sketches
        )
        assert shielded or begun == len(played.keys)


DATA = {"a": 1, "b": "text", "c": [1, {"d": None}], "e": {"f": 2.5}}


@given(st.text(alphabet="data.abcef01[]{}|()'\"+-*/<>=!&?: ,inlelenujo\\", max_size=60))
def test_any_text_is_an_expression_with_a_value_or_is_refused(text):
    with suppress(InvalidError, BlockError):
        evaluate(read_expression(text, "when"), lambda path: dig(DATA, path.steps))


@given(st.text(alphabet="{}data.bce|()'\" ,upertimjoinslha0123\\[]", max_size=60))
def test_any_text_is_filled_in_or_is_refused(text):
    with suppress(InvalidError, BlockError):
        fill_in(read_template(text, "params"), lambda path: dig(DATA, path.steps))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "type", "name", "blocks", "handler", "params", "delay", "retry", "when", "branches"]
            ),
            inside,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(JSON)
def test_whatever_is_no_sequence_is_refused_with_a_field(value):
    with pytest.raises(InvalidError) as refused:
        parse({"blocks": value})

    assert refused.value.field
