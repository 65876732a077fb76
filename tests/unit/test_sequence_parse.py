"""Definitions of sequences: what is read, and which field is named when one is refused."""

import json
from copy import deepcopy
from datetime import date, datetime, time

import pytest

from penstock.errors import InvalidError
from penstock.lifecycle import RetryPolicy
from penstock.sequences import parse
from penstock.sequences.blocks import Choice, Delay, SendWindow, Wait
from penstock.sequences.parse import MAX_BLOCKS, MAX_BRANCHES, MAX_DEPTH
from tests.support.sequences import DAY, HOUR, MILLISECOND, SECOND, sequence, step

EVERY_BLOCK = {
    "id": "018f85d4-9c2b-7f5f-a2a5-f4143fa7d001",
    "tenant_id": "demo",
    "namespace": "default",
    "name": "everything",
    "version": 3,
    "deprecated": False,
    "status": "production",
    "created_at": "2026-05-05T12:00:00Z",
    "blocks": [
        step("a"),
        {"type": "parallel", "id": "par", "branches": [[step("b")], [step("c"), step("d")]]},
        {"type": "race", "id": "race", "branches": [[step("e")], [step("f")]]},
        {
            "type": "loop",
            "id": "loop",
            "condition": "data.x < 3",
            "break_on": "data.stop",
            "max_iterations": 5,
            "continue_on_error": True,
            "poll_interval": "1s",
            "body": [step("g")],
        },
        {"type": "for_each", "id": "each", "collection": "data.xs", "item_var": "x", "body": [step("h")]},
        {
            "type": "router",
            "id": "router",
            "routes": [{"condition": "data.a == 1", "blocks": [step("i")]}],
            "default": [step("j")],
        },
        {
            "type": "try_catch",
            "id": "try",
            "try_block": [step("k")],
            "catch_block": [step("l")],
            "finally_block": [step("m")],
        },
        {
            "type": "sub_sequence",
            "id": "sub",
            "sequence_name": "other",
            "version": 2,
            "input": {"a": "{{data.a}}"},
        },
        {
            "type": "a_b_split",
            "id": "split",
            "variants": [
                {"name": "one", "weight": 70, "blocks": [step("n")]},
                {"name": "two", "weight": 30, "blocks": []},
            ],
        },
        {"type": "cancellation_scope", "id": "scope", "blocks": [step("o")]},
        {
            "type": "saga",
            "id": "saga",
            "steps": [
                {"id": "s1", "action": step("p"), "compensation": step("undo_p")},
                {"id": "s2", "action": {"handler": "q"}, "compensation": {"handler": "undo_q"}},
                {"id": "s3", "action": step("r")},
            ],
        },
    ],
    "on_failure": [step("sorry")],
    "on_cancel": [step("bye")],
}


def refused(definition):
    with pytest.raises(InvalidError) as error:
        parse(definition)
    return error.value


def changed(definition, where, value):
    """Return a copy of *definition* with one field changed: `("blocks", 0, "id")`."""
    copy = deepcopy(definition)
    inside = copy
    for name in where[:-1]:
        inside = inside[name]
    if value is ...:
        del inside[where[-1]]
    else:
        inside[where[-1]] = value
    return copy


def test_every_kind_of_block_is_read():
    read = parse(EVERY_BLOCK)

    assert ("everything", 3) == (read.name, read.version)
    assert () == read.warnings
    assert [
        "Step",
        "Parallel",
        "Race",
        "Loop",
        "ForEach",
        "Router",
        "TryCatch",
        "SubSequence",
        "Split",
        "CancellationScope",
        "Saga",
    ] == [type(block).__name__ for block in read.root.branches[0]]
    assert {*"abcdefghijklmnopr", "s2", "s2:compensation", "undo_p"} <= set(read.blocks)
    assert ("par", 1, 1) == (read.places["d"].parent.id, *read.places["d"][1:])
    assert ["sorry"] == [block.id for block in read.root.branches[1]]
    assert ["bye"] == [block.id for block in read.root.branches[2]]


def test_the_step_of_the_page_is_read():
    read = parse(
        sequence(
            {
                "id": "send-email",
                "type": "step",
                "handler": "http_request",
                "params": {
                    "url": "https://api.sendgrid.com/v3/mail/send",
                    "method": "POST",
                    "body": {"from": "outreach@acme.com", "to": "{{context.recipient}}"},
                },
                "rate_limit_key": "mailbox:outreach@acme.com",
            }
        )
    )

    assert "mailbox:outreach@acme.com" == read.blocks["send-email"].rate_limit_key


def test_what_is_left_out_has_its_default():
    read = parse(
        sequence(
            step("a"),
            {"type": "loop", "id": "loop", "body": [step("b")]},
            {"type": "for_each", "id": "each", "collection": [1], "body": [step("c")]},
            step("d", send_window={}),
            step("e", retry={"max_attempts": 2}),
        )
    )

    plain, loop, each = (read.blocks[name] for name in ("a", "loop", "each"))
    assert 1 == read.version
    assert (True, RetryPolicy(), "", True) == (plain.when, plain.retry, plain.queue_name, plain.cancellable)
    assert (True, False, 1_000, False, 0) == (
        loop.condition, loop.break_on, loop.max_iterations, loop.continue_on_error, loop.poll_interval,
    )  # fmt: skip
    assert ("item", 1_000) == (each.item_var, each.max_iterations)
    assert SendWindow(9, 17, frozenset(range(7))) == read.blocks["d"].send_window
    assert RetryPolicy(2, delay=SECOND, cap=HOUR, jitter=False) == read.blocks["e"].retry


def test_the_fields_of_a_step_are_read():
    read = parse(
        sequence(
            step(
                "a",
                timeout="30s",
                deadline=5_000,
                on_deadline_breach={"handler": "page_someone", "params": {"a": 1}},
                retry={
                    "max_attempts": 3,
                    "initial_backoff": 1_000,
                    "max_backoff": "1m",
                    "backoff_multiplier": 3,
                    "non_retryable_codes": ["Bad", 404],
                    "retry_if": "error.kind == 'Busy'",
                },
                delay={
                    "duration": "2d",
                    "jitter": 1_500,
                    "business_days_only": True,
                    "holidays": ["2026-05-25"],
                    "fire_at_local": "09:30",
                    "timezone": "Europe/Rome",
                },
                send_window={"start_hour": 22, "end_hour": 6, "days": [0, 6], "timezone": "UTC"},
                wait_for_input={
                    "prompt": "Well?",
                    "timeout": "1h",
                    "choices": [{"label": "Yes", "value": "y"}, "no", {"value": 3}],
                    "store_as": "answer",
                    "escalation_handler": "boss",
                    "allow_comment": True,
                },
                queue_name="mail",
                pool="mailboxes",
                fallback_handler="other",
                cancellable=False,
            )
        )
    ).blocks["a"]

    assert (30 * SECOND, 5 * SECOND) == (read.timeout, read.deadline)
    assert ("page_someone", {"a": 1}) == read.on_deadline_breach
    assert (
        RetryPolicy(3, delay=SECOND, cap=60 * SECOND, factor=3, jitter=False, never=("Bad", "404"))
        == read.retry
    )
    assert "error.kind == 'Busy'" == read.retry_if.text
    assert (
        Delay(2 * DAY, 1_500 * MILLISECOND, True, frozenset({date(2026, 5, 25)}), time(9, 30), "Europe/Rome")
        == read.delay
    )
    assert SendWindow(22, 6, frozenset({0, 6}), "UTC") == read.send_window
    assert (
        Wait(
            "Well?",
            HOUR,
            (Choice("Yes", "y"), Choice("no", "no"), Choice("3", 3)),
            "answer",
            "boss",
            allow_comment=True,
        )
        == read.wait
    )
    assert ("mail", "mailboxes", "other", False) == (
        read.queue_name, read.pool, read.fallback_handler, read.cancellable,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (1_000, Delay(SECOND)),
        ("2d", Delay(2 * DAY)),
        (0, Delay()),
        ({"fire_at_local": "2026-03-08T02:30:00"}, Delay(fire_at_local=datetime(2026, 3, 8, 2, 30))),
    ],
)
def test_a_delay_is_whole_milliseconds_or_a_text(delay, expected):
    assert expected == parse(sequence(step("a", delay=delay))).blocks["a"].delay


def test_a_review_by_a_person_may_have_its_question_among_its_params():
    read = parse(
        sequence(
            step("a", "human_review", params={"prompt": "Well?", "choices": ["y"], "reviewer": "{{data.x}}"}),
            step("b", "human_review"),
            step("c", "human_review", params="{{data}}", wait_for_input={"prompt": "So?"}),
            step("d", "human_review", params="{{data}}"),
        )
    )

    assert Wait("Well?", choices=(Choice("y", "y"),)) == read.blocks["a"].wait
    assert Wait() == read.blocks["b"].wait == read.blocks["d"].wait
    assert Wait("So?") == read.blocks["c"].wait


def test_known_fields_without_effect_are_told_of():
    read = parse(
        sequence(
            step("a", cache_key="x", context_access={}, output_schema={}, compensation={"handler": "x"}),
            {"type": "race", "id": "r", "semantics": "first_to_succeed", "branches": [[step("b")]]},
            {"type": "loop", "id": "l", "body": [step("c")], "retain_iterations": 3},
            input_schema={},
            sla={"max_runtime": 1},
        )
    )

    assert {
        "blocks[0].cache_key", "blocks[0].context_access", "blocks[0].output_schema", "blocks[0].compensation",
        "blocks[1].semantics", "blocks[2].retain_iterations", "input_schema", "sla",
    } == {warning.removesuffix(" has no effect") for warning in read.warnings}  # fmt: skip


@pytest.mark.parametrize("alias", ["a_b_split", "ab_split"])
def test_a_split_has_two_names(alias):
    definition = changed(EVERY_BLOCK, ("blocks", 8, "type"), alias)

    assert "Split" == type(parse(definition).blocks["split"]).__name__


@pytest.mark.parametrize(
    ("where", "value", "field"),
    [
        (("name",), ..., "name"),
        (("name",), "", "name"),
        (("name",), "a\nb", "name"),
        (("version",), "1", "version"),
        (("version",), -1, "version"),
        (("version",), True, "version"),
        (("blocks",), ..., "blocks"),
        (("blocks",), [], "blocks"),
        (("blocks",), {}, "blocks"),
        (("extra",), 1, "extra"),
        (("on_failure",), [{"type": "parallel", "id": "x", "branches": [[]]}], "on_failure[0].type"),
        (("on_cancel", 0, "handler"), ..., "on_cancel[0].handler"),
        (("blocks", 0), "step", "blocks[0]"),
        (("blocks", 0, "id"), ..., "blocks[0].id"),
        (("blocks", 0, "id"), "", "blocks[0].id"),
        (("blocks", 0, "id"), "a/b", "blocks[0].id"),
        (("blocks", 0, "id"), "a#b", "blocks[0].id"),
        (("blocks", 0, "id"), "a@b", "blocks[0].id"),
        (("blocks", 0, "id"), "a" * 256, "blocks[0].id"),
        (("blocks", 0, "id"), "scope", "blocks[9].id"),
        (("blocks", 1, "branches", 1, 1, "id"), "par", "blocks[1].branches[1][1].id"),
        (("blocks", 0, "type"), "stepp", "blocks[0].type"),
        (("blocks", 0, "type"), 1, "blocks[0].type"),
        (("blocks", 0, "rate_limt_key"), "x", "blocks[0].rate_limt_key"),
        (("blocks", 0, "handler"), ..., "blocks[0].handler"),
        (("blocks", 0, "handler"), "a\nb", "blocks[0].handler"),
        (("blocks", 0, "params"), [], "blocks[0].params"),
        (("blocks", 0, "params"), "text", "blocks[0].params"),
        (("blocks", 0, "params"), {"a": [{"b": "{{x"}]}, "blocks[0].params.a[0].b"),
        (("blocks", 0, "when"), "data.x ==", "blocks[0].when"),
        (("blocks", 0, "when"), 1, "blocks[0].when"),
        (("blocks", 0, "timeout"), 1.5, "blocks[0].timeout"),
        (("blocks", 0, "timeout"), 0, "blocks[0].timeout"),
        (("blocks", 0, "timeout"), True, "blocks[0].timeout"),
        (("blocks", 0, "timeout"), "soon", "blocks[0].timeout"),
        (("blocks", 0, "timeout"), "0s", "blocks[0].timeout"),
        (("blocks", 0, "timeout"), 2**53, "blocks[0].timeout"),
        (("blocks", 0, "delay"), -1, "blocks[0].delay"),
        (("blocks", 0, "delay"), 0.2, "blocks[0].delay"),
        (("blocks", 0, "delay"), {"duration": 0.2}, "blocks[0].delay.duration"),
        (("blocks", 0, "delay"), {"jitter": "x"}, "blocks[0].delay.jitter"),
        (("blocks", 0, "delay"), {"business_days_only": 1}, "blocks[0].delay.business_days_only"),
        (("blocks", 0, "delay"), {"holidays": ["soon"]}, "blocks[0].delay.holidays[0]"),
        (("blocks", 0, "delay"), {"holidays": "soon"}, "blocks[0].delay.holidays"),
        (("blocks", 0, "delay"), {"fire_at_local": "noon"}, "blocks[0].delay.fire_at_local"),
        (("blocks", 0, "delay"), {"fire_at_local": "09:00+02:00"}, "blocks[0].delay.fire_at_local"),
        (("blocks", 0, "delay"), {"fire_at_local": "2026-01-01T09:00:00Z"}, "blocks[0].delay.fire_at_local"),
        (("blocks", 0, "delay"), {"timezone": "Mars/Olympus"}, "blocks[0].delay.timezone"),
        (("blocks", 0, "delay"), {"timezone": "../etc"}, "blocks[0].delay.timezone"),
        (("blocks", 0, "delay"), {"until": 1}, "blocks[0].delay.until"),
        (("blocks", 0, "send_window"), {"start_hour": 24}, "blocks[0].send_window.start_hour"),
        (("blocks", 0, "send_window"), {"end_hour": 9}, "blocks[0].send_window.end_hour"),
        (("blocks", 0, "send_window"), {"days": [7]}, "blocks[0].send_window.days[0]"),
        (("blocks", 0, "send_window"), {"days": []}, "blocks[0].send_window.days"),
        (("blocks", 0, "retry"), {}, "blocks[0].retry.max_attempts"),
        (("blocks", 0, "retry"), {"max_attempts": 0}, "blocks[0].retry.max_attempts"),
        (
            ("blocks", 0, "retry"),
            {"max_attempts": 1, "initial_backoff": 2, "max_backoff": 1},
            "blocks[0].retry.initial_backoff",
        ),
        (
            ("blocks", 0, "retry"),
            {"max_attempts": 1, "backoff_multiplier": 0.5},
            "blocks[0].retry.backoff_multiplier",
        ),
        (
            ("blocks", 0, "retry"),
            {"max_attempts": 1, "backoff_multiplier": "2"},
            "blocks[0].retry.backoff_multiplier",
        ),
        (
            ("blocks", 0, "retry"),
            {"max_attempts": 1, "non_retryable_codes": [True]},
            "blocks[0].retry.non_retryable_codes[0]",
        ),
        (("blocks", 0, "retry"), {"max_attempts": 1, "retry_if": "("}, "blocks[0].retry.retry_if"),
        (("blocks", 0, "on_deadline_breach"), {"handler": "x"}, "blocks[0].on_deadline_breach"),
        (("blocks", 0, "wait_for_input"), {"choices": [{"label": 1}]}, "blocks[0].wait_for_input.choices[0].label"),
        (("blocks", 0, "wait_for_input"), {"store_as": "a b"}, "blocks[0].wait_for_input.store_as"),
        (("blocks", 0, "wait_for_input"), {"timeout": 0}, "blocks[0].wait_for_input.timeout"),
        (("blocks", 0, "rate_limit_key"), "", "blocks[0].rate_limit_key"),
        (("blocks", 0, "rate_limit_key"), "a{{", "blocks[0].rate_limit_key"),
        (("blocks", 0, "queue_name"), "a\nb", "blocks[0].queue_name"),
        (("blocks", 0, "cancellable"), "no", "blocks[0].cancellable"),
        (("blocks", 1, "branches"), [], "blocks[1].branches"),
        (("blocks", 1, "branches"), [step("x")], "blocks[1].branches[0]"),
        (("blocks", 3, "body"), [], "blocks[3].body"),
        (("blocks", 3, "max_iterations"), 100_001, "blocks[3].max_iterations"),
        (("blocks", 3, "max_iterations"), 0, "blocks[3].max_iterations"),
        (("blocks", 3, "condition"), "&&", "blocks[3].condition"),
        (("blocks", 4, "collection"), ..., "blocks[4].collection"),
        (("blocks", 4, "collection"), {}, "blocks[4].collection"),
        (("blocks", 4, "collection"), "((", "blocks[4].collection"),
        (("blocks", 4, "item_var"), "a.b", "blocks[4].item_var"),
        (("blocks", 5, "routes", 0, "condition"), ..., "blocks[5].routes[0].condition"),
        (("blocks", 5, "routes", 0, "then"), [], "blocks[5].routes[0].then"),
        (("blocks", 6, "catch_block"), ..., "blocks[6].catch_block"),
        (("blocks", 6, "try_block"), [], "blocks[6].try_block"),
        (("blocks", 7, "sequence_name"), ..., "blocks[7].sequence_name"),
        (("blocks", 7, "input"), [1], "blocks[7].input"),
        (("blocks", 8, "variants", 1), ..., "blocks[8].variants"),
        (("blocks", 8, "variants", 1, "name"), "one", "blocks[8].variants"),
        (("blocks", 8, "variants", 0, "weight"), -1, "blocks[8].variants[0].weight"),
        (("blocks", 9, "blocks"), ..., "blocks[9].blocks"),
        (("blocks", 10, "steps"), [], "blocks[10].steps"),
        (("blocks", 10, "steps", 1, "id"), "s1", "blocks[10].steps"),
        (("blocks", 10, "steps", 0, "action"), ..., "blocks[10].steps[0].action"),
        (("blocks", 10, "steps", 0, "undo"), {}, "blocks[10].steps[0].undo"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named_by_its_path(where, value, field):
    assert field == refused(changed(EVERY_BLOCK, where, value)).field


def test_variants_cannot_all_weigh_nothing():
    definition = changed(EVERY_BLOCK, ("blocks", 8, "variants", 0, "weight"), 0)

    assert (
        "blocks[8].variants" == refused(changed(definition, ("blocks", 8, "variants", 1, "weight"), 0)).field
    )


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (None, "blocks[0].params"),
        ({}, "blocks[0].params.condition"),
        ({"condition": "1 +"}, "blocks[0].params.condition"),
        ({"condition": "1", "x": 1}, "blocks[0].params.x"),
    ],
)
def test_an_assertion_is_an_expression(params, field):
    assert field == refused(sequence(step("a", "assert", params=params))).field


@pytest.mark.parametrize("definition", [None, [], "x", 3])
def test_what_is_no_object_is_no_sequence(definition):
    assert "sequence" == refused(definition).field


def nested(depth):
    block = step("leaf")
    for level in range(depth - 1):
        block = {"type": "cancellation_scope", "id": f"scope-{level}", "blocks": [block]}
    return sequence(block)


def test_blocks_nest_to_a_bound():
    parse(nested(MAX_DEPTH))

    assert "deeper" in refused(nested(MAX_DEPTH + 1)).problem


def test_there_are_blocks_up_to_a_bound():
    parse(sequence(*(step(f"s{n}") for n in range(MAX_BLOCKS))))

    assert "blocks" == refused(sequence(*(step(f"s{n}") for n in range(MAX_BLOCKS + 1)))).field
    halves = [[step(f"s{half}-{n}") for n in range(MAX_BLOCKS // 2)] for half in range(2)]
    assert "more than" in refused(sequence({"type": "parallel", "id": "p", "branches": halves})).problem


def test_there_are_branches_up_to_a_bound():
    def wide(count):
        return sequence({"type": "race", "id": "r", "branches": [[step(f"s{n}")] for n in range(count)]})

    parse(wide(MAX_BRANCHES))

    assert "blocks[0].branches" == refused(wide(MAX_BRANCHES + 1)).field


def test_params_nest_to_a_bound():
    params = {}
    for _ in range(70):
        params = {"a": params}

    assert "deeper" in refused(sequence(step("a", params=params))).problem


def test_null_is_as_good_as_nothing():
    parse(changed(EVERY_BLOCK, ("blocks", 0, "retry"), None))


def test_a_definition_is_read_from_json_as_it_is_printed():
    parse(json.loads(json.dumps(EVERY_BLOCK)))
