"""Blocks with others inside: which of them begin, and what follows from their ends."""

import json
from collections import Counter

import pytest

from penstock.job import Finish, Start, Timer
from penstock.sequences import block_id
from penstock.sequences.conductor import MOST_BEGUN
from tests.support.sequences import SECOND, HandlerError, Play, sequence, step


def fails(message="no"):
    def handler(_):
        raise HandlerError(message)

    return handler


def block(kind, block_id="x", **fields):
    return {"type": kind, "id": block_id, **fields}


def played(*blocks, context=None, **handlers):
    """Play to the end, with a crash after every list of commands."""
    return Play(sequence(*blocks), context or {}, {"boom": fails(), **handlers}, crash=True).run()


def given(play, task="work"):
    return [params for name, params in play.ran if name == task]


# Parallel


def test_all_branches_begin_at_once_and_all_must_end():
    play = Play(
        sequence(block("parallel", branches=[[step("a"), step("b")], [step("c")], []]), step("d"))
    ).begin()

    assert ["a", "c"] == play.keys
    play.end("c")
    assert ["a", "c"] == play.keys
    play.end("a")
    play.end("b")
    assert ["a", "c", "b", "d"] == play.keys
    assert {"branches": 3} == play.result("x")


def test_a_branch_that_fails_lets_the_others_end_first():
    play = Play(
        sequence(block("parallel", branches=[[step("a"), step("b")], [step("c")], [step("d")]]))
    ).begin()
    play.end("a", error=HandlerError("first"))
    play.end("c", error=HandlerError("second"))

    assert play.finish is None
    play.end("d")
    assert ("failed", "first", ["a", "c", "d"]) == (play.outcome, play.failure["message"], play.keys)
    assert "failed" == play.state("x")


# Race


def test_the_first_branch_to_succeed_ends_the_others():
    play = Play(sequence(block("race", branches=[[step("a"), step("b")], [step("c")]]), step("d"))).begin()
    play.end("c", 1)

    assert (["a"], ["a", "c", "d"], {"winner": 1}) == (play.cancelled, play.keys, play.result("x"))
    assert "cancelled" == play.state("a")


def test_a_branch_that_fails_does_not_decide_a_race():
    play = Play(sequence(block("race", branches=[[step("a")], [step("c")]]))).begin()
    play.end("a", error=HandlerError("first"))

    assert play.finish is None
    play.end("c")
    assert ("done", {"winner": 1}) == (play.outcome, play.result("x"))


def test_a_race_fails_when_all_branches_did():
    play = played(block("race", branches=[[step("a", "boom")], [step("b", "boom")]]))

    assert ("failed", ["boom", "boom"]) == (play.outcome, play.tasks)


def test_nothing_is_started_only_to_be_cancelled():
    play = Play(
        sequence(
            block(
                "race",
                branches=[[step("a")], [step("b", "noop")], [step("c", "sleep", params={"duration": 5})]],
            )
        )
    )
    play.begin()

    assert ([], "done", {"winner": 1}) == (play.keys, play.outcome, play.result("x"))
    assert "cancelled" == play.state("a") == play.state("c")


# Loop


def test_a_loop_goes_on_while_its_condition_holds():
    play = played(
        step("zero", "set_state", params={"key": "n", "value": 0}),
        block(
            "loop",
            condition="state.n < 3",
            body=[
                step("a", params={"n": "{{state.n}}"}),
                step("inc", "set_state", params={"key": "n", "value": "{{outputs.a.next}}"}),
            ],
        ),
        work=lambda params: {"next": params["n"] + 1},
    )

    assert ("done", {"iterations": 3}) == (play.outcome, play.result("x"))
    assert ["x#0/a", "x#1/a", "x#2/a"] == play.keys


def test_a_loop_whose_condition_never_holds_does_nothing():
    play = played(block("loop", condition=False, body=[step("a")]), step("b", params={"x": "{{outputs.a}}"}))

    assert ({"iterations": 0}, [{"x": None}]) == (play.result("x"), given(play))


def test_a_loop_ends_after_so_many_iterations():
    play = played(block("loop", max_iterations=2, body=[step("a")]))

    assert ({"iterations": 2, "capped": True}, ["x#0/a", "x#1/a"]) == (play.result("x"), play.keys)


def test_a_loop_breaks_when_told():
    play = played(
        block("loop", break_on="outputs.a.n == 1", body=[step("a", "count")]),
        step("after", params={"last": "{{outputs.a.n}}"}),
        count=counter(),
    )

    assert ({"iterations": 2}, "done", [{"last": 1}]) == (play.result("x"), play.outcome, given(play))


def test_a_body_that_fails_fails_its_loop():
    play = played(block("loop", body=[step("a", "boom"), step("b")]))

    assert ("failed", ["x#0/a"], "failed") == (play.outcome, play.keys, play.state("x"))


def test_a_loop_may_go_on_after_an_error():
    play = played(
        block("loop", max_iterations=3, continue_on_error=True, body=[step("a", "boom"), step("b")])
    )

    assert ("done", ["x#0/a", "x#1/a", "x#2/a"]) == (play.outcome, play.keys)


def test_a_loop_pauses_between_its_iterations():
    play = Play(
        sequence(block("loop", max_iterations=3, poll_interval="10s", body=[step("a")])), crash=True
    ).begin()
    began = play.now

    assert [Timer("x@poll.1", after=10 * SECOND)] == play.end("x#0/a")
    play.run()
    assert (20 * SECOND, "done") == (play.now - began, play.outcome)
    assert ["x#0/a", "x@poll.1", "x#1/a", "x@poll.2", "x#2/a"] == play.keys


@pytest.mark.parametrize("field", ["condition", "break_on"])
def test_a_condition_without_a_value_fails_its_loop(field):
    play = played(block("loop", body=[step("a")], **{field: "nowhere.x"}))

    assert ("failed", "TemplateError", "failed") == (play.outcome, play.failure["kind"], play.state("x"))


def test_a_condition_may_lose_its_value_after_a_pause():
    play = played(
        block("loop", condition="outputs.a == null || outputs.a - 1", poll_interval=5, body=[step("a")]),
        work=lambda _: "text",
    )

    assert ("failed", "ExpressionError") == (play.outcome, play.failure["kind"])


def test_loops_in_loops_have_keys_of_their_own():
    inner = block("loop", "inner", max_iterations=2, body=[step("a", params={"o": "{{outputs.b.n}}"})])
    play = played(
        block("loop", "outer", max_iterations=2, body=[step("b", "count"), inner]),
        step("c", "last", params={"a": "{{outputs.a}}", "b": "{{outputs.b.n}}"}),
        count=counter(),
        work=lambda params: f"saw {params['o']}",
    )

    assert [
        "outer#0/b", "outer#0/inner#0/a", "outer#0/inner#1/a",
        "outer#1/b", "outer#1/inner#0/a", "outer#1/inner#1/a", "c",
    ] == play.keys  # fmt: skip
    # A block of the same iteration is seen; from outside it is the last one.
    assert [{"o": 0}, {"o": 0}, {"o": 1}, {"o": 1}] == given(play)
    assert [{"a": "saw 1", "b": 1}] == given(play, "last")


def counter():
    numbers = iter(range(1_000))
    return lambda _: {"n": next(numbers)}


# For each


@pytest.mark.parametrize("collection", ["data.xs", "{{data.xs}}", ["a", "b", "c"], "context.xs"])
def test_a_body_runs_for_each_item_in_turn(collection):
    body = [
        step(
            "a",
            params={
                "item": "{{item}}",
                "data": "{{context.data.item}}{{data.item}}",
                "flat": "{{context.item}}",
            },
        )
    ]
    play = played(block("for_each", collection=collection, body=body), context={"xs": ["a", "b", "c"]})

    assert [{"item": x, "data": x + x, "flat": x} for x in "abc"] == given(play)
    assert (["x#0/a", "x#1/a", "x#2/a"], {"iterations": 3}) == (play.keys, play.result("x"))


def test_a_long_list_is_remembered_in_parts():
    body = [step("a", params={"item": "{{item}}"})]
    play = played(block("for_each", collection="data.xs", body=body), context={"xs": list(range(250))})

    assert [{"item": number} for number in range(250)] == given(play)
    assert ["x@items.0", "x@items.1", "x@items.2"] == [key for key in play.memo if "@items" in key]


def test_the_variable_may_have_another_name_and_be_an_object():
    body = [step("a", when="row.n > 1", params={"n": "{{row.n}}"})]
    play = played(
        block("for_each", collection="data.rows", item_var="row", body=body),
        context={"rows": [{"n": 1}, {"n": 2}]},
    )

    assert [{"n": 2}] == given(play)


def test_the_innermost_variable_of_a_name_counts():
    inner = block("for_each", "y", collection="item.ys", body=[step("a", params={"v": "{{item}}"})])
    play = played(
        block("for_each", collection="data.xs", body=[inner, step("b", params={"v": "{{item.name}}"})]),
        context={"xs": [{"name": "p", "ys": [1, 2]}, {"name": "q", "ys": []}]},
    )

    assert [{"v": 1}, {"v": 2}, {"v": "p"}, {"v": "q"}] == given(play)


def test_an_item_may_be_null():
    play = played(
        block("for_each", collection=[None], body=[step("a", params={"v": "{{item}}"})]), context={"item": 3}
    )

    assert [{"v": None}] == given(play)


def test_outside_of_its_block_a_variable_is_unknown():
    play = played(block("for_each", collection=[], body=[step("a")]), step("b", params={"v": "{{item}}"}))

    assert ("failed", "TemplateError", {"iterations": 0}) == (
        play.outcome,
        play.failure["kind"],
        play.result("x"),
    )


@pytest.mark.parametrize(
    ("collection", "kind"),
    [
        ("data.nowhere", "ParamError"),
        ("data.many", "ParamError"),
        ("{{data.text}}", "ParamError"),
        ("data.text - 1", "ExpressionError"),
        ("data.large", "ParamError"),
    ],
)
def test_what_is_no_list_or_too_long_fails_the_block(collection, kind):
    play = played(
        block("for_each", collection=collection, max_iterations=3, body=[step("a")]),
        context={"many": [1, 2, 3, 4], "text": "abc", "large": ["x" * 3_000_000, "x" * 3_000_000]},
    )

    assert ("failed", kind, []) == (play.outcome, play.failure["kind"], play.keys)


def test_an_item_whose_body_fails_ends_the_block():
    play = played(block("for_each", collection=[1, 2], body=[step("a", "boom")]))

    assert ("failed", ["x#0/a"]) == (play.outcome, play.keys)


def test_the_items_are_those_of_the_begin():
    body = [step("a", "human_review", wait_for_input={"store_as": "xs"}), step("b", params={"v": "{{item}}"})]
    play = Play(sequence(block("for_each", collection="data.xs", body=body)), {"xs": [1, 2]}).begin()
    for _ in range(2):
        play.signal("human_input:a", "changed")
        play.run()

    assert ([{"v": 1}, {"v": 2}], "done") == (given(play), play.outcome)


# Router and split


@pytest.mark.parametrize(
    ("plan", "task", "route"),
    [("pro", "one", 0), ("trial", "two", 1), ("none", "three", None)],
)
def test_the_first_route_whose_condition_holds_is_taken(plan, task, route):
    routes = [
        {"condition": 'context.data.plan == "pro"', "blocks": [step("a", "one")]},
        {"condition": 'context.data.plan in ["trial", "pro"]', "blocks": [step("b", "two")]},
    ]
    play = played(block("router", routes=routes, default=[step("c", "three")]), context={"plan": plan})

    assert ([task], {"route": route}, "done") == (play.tasks, play.result("x"), play.outcome)


def test_without_a_default_no_route_may_be_taken():
    play = played(block("router", routes=[{"condition": False, "blocks": [step("a")]}]), step("b"))

    assert (["b"], {"route": None}) == (play.keys, play.result("x"))


@pytest.mark.parametrize("condition", ["nowhere.x", True])
def test_a_route_that_fails_fails_its_router(condition):
    play = played(block("router", routes=[{"condition": condition, "blocks": [step("a", "boom")]}]))

    assert "failed" == play.outcome == play.state("x")


VARIANTS = [
    {"name": "one", "weight": 70, "blocks": [step("a", "one")]},
    {"name": "none", "weight": 0, "blocks": [step("b", "none")]},
    {"name": "two", "weight": 30, "blocks": [step("c", "two")]},
]


def test_a_split_takes_the_same_variant_whenever_it_is_asked():
    def variant(instance):
        return (
            Play(sequence(block("a_b_split", variants=VARIANTS)), instance=instance)
            .run()
            .result("x")["variant"]
        )

    taken = Counter(variant(f"instance-{number}") for number in range(400))

    assert variant("instance-1") == variant("instance-1")
    assert {"one", "two"} == set(taken)
    assert 240 < taken["one"] < 320


def test_a_variant_that_fails_fails_its_split():
    variants = [{"name": name, "weight": 1, "blocks": [step(name, "boom")]} for name in "ab"]

    assert "failed" == played(block("a_b_split", variants=variants)).outcome


# Try and catch


def attempt(**branches):
    return block("try_catch", **{"try_block": [step("t", "boom")], "catch_block": [step("c")], **branches})


def test_what_fails_is_caught_and_the_error_is_seen():
    catch = [step("c", params={"kind": "{{error.kind}}", "why": "{{error.message}}"})]
    play = played(
        attempt(catch_block=catch, finally_block=[step("f", "last", params={"why": "{{error.message}}"})]),
        step("n"),
    )

    assert [{"kind": "HandlerError", "why": "no"}, {}] == given(play)
    assert [{"why": "no"}] == given(play, "last")
    assert ({"caught": True, "error": {"kind": "HandlerError", "message": "no"}}, "done") == (
        play.result("x"),
        play.outcome,
    )


def test_nothing_is_caught_where_nothing_fails():
    play = played(attempt(try_block=[step("t")], finally_block=[step("f")]))

    assert (["t", "f"], {"caught": False}) == (play.keys, play.result("x"))


def test_an_empty_catch_is_enough():
    assert "done" == played(attempt(catch_block=[])).outcome


def test_a_catch_that_fails_fails_the_block_after_the_last_branch():
    play = played(attempt(catch_block=[step("c", "bang")], finally_block=[step("f")]), bang=fails("worse"))

    assert (["t", "c", "f"], "failed", "worse") == (play.keys, play.outcome, play.failure["message"])


def test_a_last_branch_that_fails_fails_the_block():
    play = played(attempt(try_block=[step("t")], finally_block=[step("f", "boom")]))

    assert ("failed", "failed") == (play.outcome, play.state("x"))


def test_an_error_inside_a_composite_is_caught_around_it():
    inside = block("parallel", "p", branches=[[block("loop", "l", body=[step("a", "boom")])], [step("b")]])
    play = played(attempt(try_block=[inside]))

    assert ("done", ["b", "l#0/a", "c"]) == (play.outcome, play.keys)


# Saga


def saga(*tasks, **fields):
    return block(
        "saga",
        steps=[
            {
                "id": f"s{n}",
                "action": step(f"a{n}", task, **fields),
                "compensation": step(f"u{n}", f"undo{n}"),
            }
            for n, task in enumerate(tasks)
        ],
    )


def test_a_saga_that_succeeds_undoes_nothing():
    play = played(saga("one", "two"))

    assert (["one", "two"], {"steps": 2}, "done") == (play.tasks, play.result("x"), play.outcome)


def test_a_saga_undoes_in_reverse_what_was_done_before_it_failed():
    play = played(saga("one", "two", "boom", "four"))

    assert (["one", "two", "boom", "undo1", "undo0"], "failed", "no") == (
        play.tasks,
        play.outcome,
        play.failure["message"],
    )


def test_a_saga_whose_first_action_fails_has_nothing_to_undo():
    assert ["boom"] == played(saga("boom", "two")).tasks


def test_what_cannot_be_undone_is_told_and_the_rest_is_undone_all_the_same():
    play = played(saga("one", "two", "boom"), undo1=fails("stuck"))

    assert ["one", "two", "boom", "undo1", "undo0"] == play.tasks
    assert {"kind": "HandlerError", "message": "no; not undone: s1"} == play.failure


def test_what_has_no_compensation_or_was_skipped_is_not_undone():
    steps = [
        {
            "id": "s0",
            "action": step("a0", "one"),
            "compensation": step("u0", "undo0", params={"why": "{{error.message}}"}),
        },
        {"id": "s1", "action": step("a1", "two")},
        {"id": "s2", "action": step("a2", "three", when=False), "compensation": step("u2", "undo2")},
        {"id": "s3", "action": step("a3", "boom")},
    ]
    play = played(block("saga", steps=steps))

    assert ["one", "two", "boom", "undo0"] == play.tasks
    assert [{"why": "no"}] == given(play, "undo0")


# The whole


def test_the_result_of_a_sequence_is_that_of_its_last_block():
    play = played(step("a"), step("b", "last"), last=lambda _: {"x": 1})

    assert '{"x": 1}' == play.finish.result


def test_what_follows_a_failure_runs_before_the_instance_fails():
    definition = sequence(
        step("a", "boom"),
        step("b"),
        on_failure=[step("f", "sorry", params={"why": "{{error.message}}"}), step("g", "boom")],
    )
    play = Play(definition, {}, {"boom": fails()}, crash=True).run()

    assert ["boom", "sorry", "boom"] == play.tasks
    assert [{"why": "no"}] == given(play, "sorry")
    assert ("failed", {"kind": "HandlerError", "message": "no"}) == (play.outcome, play.failure)


def test_what_follows_a_failure_does_not_run_where_nothing_fails():
    assert ["work"] == Play(sequence(step("a"), on_failure=[step("f", "sorry")])).run().tasks


def test_a_sequence_of_thousands_of_steps_begins_a_bounded_number_at_once():
    play = Play(sequence(*(step(f"s{n}", "noop") for n in range(3_000))), crash=True).begin()

    assert MOST_BEGUN == len(play.memo) - 1
    assert [f"s{MOST_BEGUN}@next"] == list(play.timers)
    play.run()
    assert "done" == play.outcome
    assert max(map(len, play.lists)) <= MOST_BEGUN + 1


def test_a_loop_of_nothing_but_engine_handlers_ends_too():
    play = Play(sequence(block("loop", max_iterations=5_000, body=[step("a", "noop")]))).run()

    assert ("done", 5_000) == (play.outcome, play.result("x")["iterations"])


def test_a_deep_sequence_ends():
    inside = step("leaf")
    for level in range(63):
        inside = block("parallel", f"p{level}", branches=[[inside]])
    play = Play(sequence(inside), crash=True).begin()

    play.end("leaf")
    assert "done" == play.outcome
    assert play.reads <= 130


@pytest.mark.parametrize("key", ["a", "outer#2/inner#0/a", "a@wait.1", "outer#2/a@delay"])
def test_a_key_tells_which_block_it_belongs_to(key):
    assert "a" == block_id(key)


# What an end costs


def most_reads(play):
    """Play to the end; return the most entries that one end read, in the first and in the last thousand."""
    reads = []
    while play.finish is None:
        play.run_job(next(iter(play.jobs)))
        reads.append(play.reads)
    return max(reads[:1_000]), max(reads[-1_000:])


def test_the_end_of_a_step_reads_as_much_after_ten_thousand_as_at_first():
    body = [step("a", params={"before": "{{outputs.a}}", "item": "{{item}}"})]
    play = Play(
        sequence(block("for_each", collection="data.xs", max_iterations=10_000, body=body)),
        {"xs": list(range(10_000))},
    )
    first, last = most_reads(play.begin())

    assert "done" == play.outcome
    assert first == last <= 4


def test_the_end_of_a_step_reads_as_much_at_the_end_of_a_long_sequence():
    play = Play(sequence(*(step(f"s{n}") for n in range(4_000))))

    assert (1, 1) == most_reads(play.begin())


def test_an_end_writes_nothing_but_what_follows():
    play = Play(sequence(block("try_catch", try_block=[step("a"), step("b")], catch_block=[]))).begin()

    assert [Start] == [type(command) for command in play.end("a")]
    assert isinstance(play.end("b")[-1], Finish)
    assert json.loads(play.memo["x"].result) == {"caught": False}
