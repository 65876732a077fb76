"""How a step goes on: its condition, delay, question, job, retries, fallback and deadline."""

import json

import pytest

from penstock.job import Await, Cancel, Child, EntryState, Finish, Save, SetContext, Start, Timer
from penstock.lifecycle import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits import UNLIMITED, Limit
from penstock.sequences import Ended
from penstock.sequences.conductor import MAX_CHILD_DEPTH
from penstock.sequences.pool_values import with_resource
from tests.support.sequences import DAY, HOUR, SECOND, HandlerError, Play, sequence, step


def fails(message="no", kind="HandlerError"):
    def handler(_):
        raise HandlerError(message, kind)

    return handler


def only(commands, kind):
    (found,) = [command for command in commands if isinstance(command, kind)]
    return found


def begun(*blocks, context=None, **options):
    return Play(sequence(*blocks), context or {}, **options).begin()


def played(*blocks, context=None, **handlers):
    return Play(sequence(*blocks), context or {}, handlers).run()


def test_a_step_is_one_job_and_the_next_follows_its_end():
    play = begun(step("a", "mail", params={"to": "x"}), step("b", "mail"))

    (first,) = play.lists[0]
    assert ("a", "mail", {"args": [], "kwargs": {"to": "x"}}, "") == (
        first.key, first.job.task, json.loads(first.job.args), first.job.queue,
    )  # fmt: skip
    assert [Start] == [type(command) for command in play.end("a", {"id": 1})]
    assert [Finish(State.DONE, '{"ok": true}')] == play.end("b", {"ok": True})


def test_the_job_of_a_step_has_its_options():
    play = begun(
        step(
            "a",
            rate_limit_key="notify:{{context.user_id}}",
            queue_name="mail",
            timeout="30s",
            retry={
                "max_attempts": 4,
                "initial_backoff": 100,
                "max_backoff": 1_000,
                "non_retryable_codes": ["Bad"],
            },
            pool="mailboxes",
            params={"from": "{{pool.resource_key}}", "to": "{{context.user_id}}"},
        ),
        context={"user_id": "user-12345"},
    )

    job = only(play.lists[0], Start).job
    assert (Limit("mailboxes", UNLIMITED, group=True), Limit("notify:user-12345", UNLIMITED)) == job.limits
    assert ("mail", 30 * SECOND) == (job.queue, job.timeout)
    assert RetryPolicy(4, delay=SECOND // 10, cap=SECOND, jitter=False, never=("Bad",)) == job.retry
    assert {"from": "", "to": "user-12345"} == json.loads(job.args)["kwargs"]
    assert {"from": "a@x", "to": "user-12345"} == given(job, "a@x")


def given(job, resource):
    """Return what a worker is given whose start took a resource."""
    return json.loads(with_resource(job.args, job.meta, resource))["kwargs"]


def test_the_resource_of_a_pool_is_put_where_it_is_named_and_nowhere_else():
    params = {
        "from": "<{{pool.resource_key}}> by {{ pool.resource_key }}!",
        "deep": [{"to": ["x", "{{data.x}}: {{pool.resource_key}}"]}],
        "data": "{{data.x}}",
    }
    trap = "{{pool.resource_key}}"
    job = only(begun(step("a", pool="p", params=params), context={"x": trap}).lists[0], Start).job

    assert given(job, "m@x") == {
        "from": "<m@x> by m@x!", "deep": [{"to": ["x", f"{trap}: m@x"]}], "data": trap,
    }  # fmt: skip
    assert given(job, "resource:instance:m")["from"] == "<instance:m> by instance:m!"


def test_a_job_whose_params_name_no_resource_keeps_them_as_they_are():
    job = only(begun(step("a", pool="p", params={"x": "{{data.x}}"}), context={"x": 1}).lists[0], Start).job

    assert job.meta == "{}"
    assert job.args == with_resource(job.args, job.meta, "m@x")
    assert job.args == with_resource(job.args, '{"x":"penstock.resource"}', "m@x")


@pytest.mark.parametrize("fields", [{"rate_limit_key": "k"}, {"pool": "p"}])
def test_a_handler_inside_the_engine_takes_its_start_first(fields):
    play = begun(step("a", "transform", params={"x": 1}, **fields))

    started = only(play.lists[0], Start)
    assert ("a@start", "penstock.take_start", "penstock.server") == (
        started.key, started.job.task, started.job.queue,
    )  # fmt: skip
    assert 1 == len(started.job.limits)
    play.end("a@start", None)
    assert Finish(State.DONE, '{"x":1}') == play.finish


def test_a_handler_inside_the_engine_is_given_the_resource_of_its_start():
    play = begun(step("a", "transform", pool="p", params={"x": "by {{pool.resource_key}}"}))

    play.end("a@start", "m@x")
    assert Finish(State.DONE, '{"x":"by m@x"}') == play.finish


def test_a_handler_inside_the_engine_fails_with_its_start_or_before():
    lost = begun(step("a", "noop", pool="p", params={"x": "{{pool.resource_key}}"}))
    bad = played(step("a", "noop", rate_limit_key="k", params={"x": "{{nowhere.x}}"}))
    fallback = begun(step("a", pool="p", params={"x": "{{pool.resource_key}}"}, fallback_handler="transform"))

    lost.end("a@start", error=HandlerError("gone", "Gone"))
    assert ("failed", "Gone") == (lost.outcome, lost.failure["kind"])
    assert ("failed", "TemplateError", []) == (bad.outcome, bad.failure["kind"], bad.keys)
    fallback.end("a", error=HandlerError("gone", "Gone"))
    assert ("failed", "ParamError") == (fallback.outcome, fallback.failure["kind"])


def test_max_attempts_is_the_number_of_all_tries():
    play = played(step("a", retry={"max_attempts": 3}), work=fails())

    assert ["work"] * 3 == play.tasks
    assert "failed" == play.outcome


def test_without_retry_there_is_one_try():
    play = played(step("a"), work=fails())

    assert (["work"], "failed", {"kind": "HandlerError", "message": "no"}) == (
        play.tasks, play.outcome, play.failure,
    )  # fmt: skip


def test_a_code_that_is_not_retryable_is_not_tried_again():
    play = played(
        step("a", retry={"max_attempts": 3, "non_retryable_codes": ["Bad"]}), work=fails(kind="Bad")
    )

    assert ["work"] == play.tasks


@pytest.mark.parametrize(
    ("retry_if", "kind", "tries"),
    [
        ("error.kind == 'Busy'", "Busy", 3),
        ("error.kind == 'Busy'", "Broken", 1),
        ("nowhere.x", "Busy", 1),
        (True, "Busy", 3),
        (True, "Bad", 1),
    ],
)
def test_an_expression_may_decide_whether_to_try_again(retry_if, kind, tries):
    retry = {
        "max_attempts": 3,
        "retry_if": retry_if,
        "initial_backoff": 1_000,
        "non_retryable_codes": ["Bad"],
    }
    play = Play(sequence(step("a", retry=retry)), {}, {"work": fails(kind=kind)}, crash=True)
    began = play.now
    play.run()

    assert tries == len(play.tasks)
    assert ["a", "a@try.1", "a@try.2"][:tries] == play.keys
    assert (0, SECOND, 3 * SECOND)[tries - 1] == play.now - began
    assert "failed" == play.outcome == play.state("a")


def test_what_a_later_try_returns_is_the_result_of_the_step():
    play = begun(
        step("a", retry={"max_attempts": 2, "retry_if": True}), step("b", params={"v": "{{outputs.a.v}}"})
    )
    play.end("a", error=HandlerError())
    commands = play.end("a@try.1", {"v": 1})

    assert ("done", {"v": 1}) == (play.state("a"), play.result("a"))
    assert {"v": 1} == json.loads(only(commands, Start).job.args)["kwargs"]


def test_a_step_whose_condition_does_not_hold_is_skipped():
    play = played(step("a", when="data.x == 1"), step("b", when="data.x == 2"), context={"x": 2})

    assert ("skipped", "done", ["b"]) == (play.state("a"), play.outcome, play.keys)


def test_a_condition_that_has_no_value_fails_the_step():
    play = played(step("a", when="data.x - 1"))

    assert ("failed", "ExpressionError", []) == (play.outcome, play.failure["kind"], play.keys)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"params": {"x": "{{nowhere.x}}"}}, "TemplateError"),
        ({"params": {"x": "{{pool.resource_key}}"}}, "TemplateError"),
        ({"params": {"x": "{{outputs}}"}}, "TemplateError"),
        ({"params": "{{data.x}}"}, "ParamError"),
        ({"rate_limit_key": "{{data.nowhere}}"}, "ParamError"),
        ({"rate_limit_key": "{{data.bad}}"}, "ParamError"),
        ({"params": {"x": "{{data.large}}", "y": "{{data.large}}"}}, "ParamError"),
        ({"params": {"x": {"y": [{"z": "{{data.deep}}"}]}}}, "ParamError"),
        ({"fallback_handler": "other", "params": {"x": "{{nowhere.x}}"}}, "TemplateError"),
    ],
)
def test_what_cannot_be_filled_in_fails_the_step_before_any_job_is_made(fields, kind):
    deep = 1
    for _ in range(60):
        deep = [deep]
    play = played(step("a", **fields), context={"bad": "a\nb", "x": 3, "large": "x" * 600_000, "deep": deep})

    assert ([], "failed", kind) == (play.keys, play.outcome, play.failure["kind"])
    assert kind == play.error("a")["kind"]


def test_the_key_of_a_limit_may_be_a_number():
    play = begun(step("a", rate_limit_key="{{data.x}}"), context={"x": 7})

    assert "7" == only(play.lists[0], Start).job.limits[0].key


def test_templates_see_the_context_the_outputs_and_the_instance():
    play = played(
        step("a"),
        step(
            "b",
            "transform",
            params={
                "flat": "{{context.x}}",
                "data": "{{context.data.x}} {{data.x}} {{input.x}}",
                "config": "{{context.config.c}}{{config.c}}",
                "runtime": "{{runtime.timezone}}",
                "out": "{{outputs.a}}",
                "steps": "{{steps.a.list[1]}}",
                "id": "{{instance_id}}",
                "unknown": "{{outputs.nowhere.x}}",
                "later": "{{outputs.b}}",
                "error": "{{error.message}}",
            },
        ),
        context={"data": {"x": 1}, "config": {"c": 2}, "runtime": {"timezone": "UTC"}},
        work=lambda _: {"list": [1, 2]},
    )

    assert {
        "flat": 1,
        "data": "1 1 1",
        "config": "22",
        "runtime": "UTC",
        "out": {"list": [1, 2]},
        "steps": 2,
        "id": "instance-1",
        "unknown": None,
        "later": None,
        "error": None,
    } == play.result("b")


def test_a_delay_is_a_timer_before_the_job():
    play = Play(sequence(step("a", delay="2d")))
    began = play.now
    play.begin()

    assert [Timer("a@delay", at=began + 2 * DAY)] == play.lists[0]
    assert [Start] == [type(command) for command in play.fire("a@delay")]


def test_jitter_is_the_same_whenever_it_is_asked_for_again():
    def moment(instance):
        play = Play(sequence(step("a", delay={"duration": "1h", "jitter": "30m"})), instance=instance).begin()
        return play.timers["a@delay"] - play.now

    assert moment("x") == moment("x") != moment("y")
    assert all(HOUR // 2 <= moment(str(n)) < 3 * HOUR // 2 for n in range(20))


def test_a_step_waits_for_its_window():
    play = Play(sequence(step("a", send_window={"start_hour": 9, "end_hour": 10})), now=0)
    play.begin()

    assert {"a@delay": 9 * HOUR} == play.timers
    # The timer came late: the window is over, and the next one is tomorrow's.
    play.now = 11 * HOUR
    play.conduct(Ended("a@delay", EntryState.DONE))
    assert {"a@delay.1": DAY + 9 * HOUR} == play.timers
    play.fire("a@delay.1")
    assert ["a"] == list(play.jobs)
    play.end("a")
    assert "done" == play.outcome


def test_the_zone_of_the_instance_counts_for_windows():
    play = Play(
        sequence(step("a", send_window={})), {"runtime": {"timezone": "America/New_York"}}, now=0
    ).begin()

    assert {"a@delay": 14 * HOUR} == play.timers


def test_a_fallback_runs_when_the_handler_has_failed():
    play = Play(
        sequence(
            step("a", fallback_handler="other", params={"x": 1}, rate_limit_key="k"),
            step("b", params={"v": "{{outputs.a.v}}"}),
        ),
        {},
        {"work": fails(), "other": lambda _: {"v": 5}},
        crash=True,
    )
    play.begin()
    play.run_job("a")

    assert ["a@fallback"] == list(play.jobs)
    assert (Limit("k", UNLIMITED),) == play.jobs["a@fallback"].job.limits
    play.run_job("a@fallback")
    assert ("done", {"v": 5}) == (play.state("a"), play.result("a"))
    assert {"v": 5} == json.loads(play.jobs["b"].job.args)["kwargs"]


def test_a_fallback_that_fails_fails_the_step():
    play = played(step("a", fallback_handler="other"), work=fails("one"), other=fails("two"))

    assert ("failed", "two") == (play.outcome, play.failure["message"])


def test_a_fallback_follows_what_fails_inside_the_engine():
    play = played(step("a", "fail", fallback_handler="other"), other=lambda _: 1)

    assert ("done", 1, ["a@fallback"]) == (play.outcome, play.result("a"), play.keys)


def test_a_job_that_is_cancelled_from_outside_fails_its_step():
    play = begun(step("a"))
    play.conduct(Ended("a", EntryState.CANCELLED))

    assert ("failed", "Cancelled", "failed") == (play.outcome, play.failure["kind"], play.state("a"))


# Deadlines


def test_a_deadline_is_a_timer_beside_the_job():
    play = begun(step("a", deadline="5s"))

    assert {"a@deadline": play.now + 5 * SECOND} == play.timers
    assert ["a"] == list(play.jobs)
    assert Cancel("a@deadline") in play.end("a")
    assert "done" == play.outcome


def test_a_step_that_misses_its_deadline_fails_and_its_job_is_cancelled():
    play = begun(step("a", deadline="5s"))
    commands = play.fire("a@deadline")

    assert Cancel("a") == commands[0]
    assert ("failed", "DeadlineBreached", "failed") == (play.outcome, play.failure["kind"], play.state("a"))


def test_what_follows_a_missed_deadline_runs_before_the_step_fails():
    breach = {"handler": "page", "params": {"who": "{{data.boss}}"}}
    play = begun(
        step("a", deadline="5s", on_deadline_breach=breach, rate_limit_key="k"), context={"boss": "Ada"}
    )
    play.fire("a@deadline")

    assert ["a@breach"] == list(play.jobs)
    job = play.jobs["a@breach"].job
    assert ({"who": "Ada"}, ()) == (json.loads(job.args)["kwargs"], job.limits)
    play.end("a@breach", {"paged": True})
    assert ("failed", "DeadlineBreached") == (play.outcome, play.failure["kind"])


@pytest.mark.parametrize("params", [{}, {"x": "{{nowhere.x}}"}])
def test_what_follows_a_missed_deadline_cannot_save_the_step(params):
    breach = {"handler": "log", "params": params}
    play = begun(step("a", deadline="5s", on_deadline_breach=breach, fallback_handler="other"))
    play.fire("a@deadline")

    assert ("failed", "DeadlineBreached") == (play.outcome, play.failure["kind"])


def test_a_deadline_ends_whatever_the_step_waits_for():
    asking = begun(step("a", deadline="5s", wait_for_input={}))
    falling_back = begun(step("a", deadline="5s", fallback_handler="other"))
    falling_back.end("a", error=HandlerError())

    assert Cancel("a@wait") in asking.fire("a@deadline")
    assert Cancel("a@fallback") in falling_back.fire("a@deadline")
    assert "failed" == asking.outcome == falling_back.outcome


def test_a_deadline_begins_after_the_delay():
    play = begun(step("a", deadline="5s", delay="1h"))

    assert ["a@delay"] == list(play.timers)
    play.fire("a@delay")
    assert {"a@deadline": play.now + 5 * SECOND} == play.timers


def test_a_step_inside_the_engine_never_misses_its_deadline():
    assert "done" == played(step("a", "noop", deadline="5s")).outcome


# People


def test_a_step_waits_for_a_person_before_its_job():
    play = begun(
        step(
            "a", wait_for_input={"prompt": "Well?", "store_as": "answer"}, params={"x": "{{context.answer}}"}
        )
    )

    assert Await("a@wait", "human_input:a") == only(play.lists[0], Await)
    commands = play.signal("human_input:a", {"value": "yes"})
    assert {"data": {"answer": "yes"}} == json.loads(only(commands, SetContext).context)
    assert {"x": "yes"} == json.loads(only(commands, Start).job.args)["kwargs"]


def test_an_answer_is_stored_under_the_id_of_its_block_unless_told_otherwise():
    play = begun(step("a", "noop", wait_for_input={}))
    play.signal("human_input:a", "plainly")

    assert {"data": {"a": "plainly"}} == play.context
    assert "done" == play.outcome


def test_an_answer_that_is_no_choice_is_ignored_and_does_not_put_off_the_timeout():
    wait = {"timeout": "1h", "choices": [{"label": "Yes", "value": "y"}, "n"]}
    play = Play(sequence(step("a", "human_review", wait_for_input=wait)), crash=True).begin()
    began = play.now
    for count in range(3):
        play.now += 60 * SECOND
        play.signal("human_input:a", {"value": "maybe"})

        assert {f"a@wait.{count + 1}": ("human_input:a", began + HOUR)} == play.waits
    play.signal("human_input:a", {"value": "n", "comment": "sorry"})

    assert ("done", {"value": "n", "comment": "sorry"}) == (play.outcome, play.result("a"))


def test_a_question_that_is_not_answered_in_time_fails_its_step():
    play = begun(step("a", "human_review", params={"timeout": "1h"}))
    play.give_up("a@wait")

    assert ("failed", "SignalTimeout") == (play.outcome, play.failure["kind"])


def test_a_question_that_is_not_answered_in_time_may_be_escalated():
    wait = {"timeout": "1h", "escalation_handler": "boss", "prompt": "Well?"}
    play = begun(step("a", wait_for_input=wait))
    play.give_up("a@wait")

    job = play.jobs["a@escalate"].job
    assert ("boss", {"block_id": "a", "prompt": "Well?", "instance_id": "instance-1"}) == (
        job.task, json.loads(job.args)["kwargs"],
    )  # fmt: skip
    play.end("a@escalate", "approved")
    assert ("done", "approved", ["a@wait", "a@escalate"]) == (play.outcome, play.result("a"), play.keys)


def test_an_escalation_that_fails_fails_the_step():
    play = begun(step("a", "human_review", params={"timeout": 1, "escalation_handler": "boss"}))
    play.give_up("a@wait")
    play.end("a@escalate", error=HandlerError("asleep"))

    assert ("failed", "asleep") == (play.outcome, play.failure["message"])


# Handlers of the engine


@pytest.mark.parametrize(
    ("handler", "params", "result"),
    [
        ("noop", {}, {}),
        ("log", {"message": "hi {{data.x}}", "level": "info"}, {"message": "hi 1", "level": "info"}),
        ("transform", {"y": "{{data.x}}", "z": [True, None]}, {"y": 1, "z": [True, None]}),
        ("transform", "{{data}}", {"x": 1}),
        ("assert", {"condition": "data.x == 1"}, {}),
        ("assert", {"condition": True}, {}),
        ("assert", {"condition": "{{data.x}} == 1"}, {}),
        ("get_state", {"key": "k"}, {"key": "k", "value": None}),
        ("get_state", {"key": "k", "default": 3}, {"key": "k", "value": 3}),
        ("set_state", {"key": "k", "value": [1]}, {"key": "k", "value": [1]}),
        ("delete_state", {"key": "k"}, {"key": "k", "deleted": False}),
        ("merge_state", {"values": {"a": 1, "b": 2}}, {"keys": ["a", "b"]}),
        ("merge_state", {"key": "k", "value": {"a": 1}}, {"key": "k", "value": {"a": 1}}),
    ],
)
def test_some_handlers_run_inside_the_engine(handler, params, result):
    play = played(step("a", handler, params=params), context={"x": 1})

    assert ("done", [], result) == (play.outcome, play.keys, play.result("a"))


@pytest.mark.parametrize(
    ("handler", "params", "kind", "message"),
    [
        ("fail", {}, "Failed", "failed on purpose"),
        ("fail", {"message": "no {{data.x}}", "kind": "Nope"}, "Nope", "no 1"),
        ("assert", {"condition": "data.x == 2"}, "AssertionFailed", "the condition does not hold"),
        ("assert", {"condition": False, "message": "x is {{data.x}}"}, "AssertionFailed", "x is 1"),
        ("sleep", {}, "ParamError", "sleep needs a duration"),
        ("sleep", {"duration": "soon"}, "ParamError", "duration"),
        ("wait_for_event", {}, "ParamError", "event"),
        ("set_state", {"value": 1}, "ParamError", "key"),
        ("merge_state", {"values": [1]}, "ParamError", "merge_state needs values"),
    ],
)
def test_some_of_them_fail(handler, params, kind, message):
    play = played(step("a", handler, params=params), context={"x": 1})

    assert ("failed", [], kind) == (play.outcome, play.keys, play.failure["kind"])
    assert play.failure["message"].startswith(message)


def test_what_fails_inside_the_engine_is_not_tried_again():
    play = played(step("a", "fail", retry={"max_attempts": 2**31 - 1, "retry_if": True}))

    assert "failed" == play.outcome


def test_a_state_is_remembered_merged_and_deleted():
    play = played(
        step("a", "set_state", params={"key": "cart", "value": {"n": 1}}),
        step("b", "merge_state", params={"key": "cart", "value": {"m": "{{state.cart.n}}"}}),
        step("c", "get_state", params={"key": "cart"}),
        step("d", "transform", params={"m": "{{state.cart.m}}"}),
        step("e", "delete_state", params={"key": "cart"}),
        step("f", "transform", params={"m": "{{state.cart.m}}", "n": "{{state.other}}"}),
        step("g", "delete_state", params={"key": "cart"}),
    )

    assert {"key": "cart", "value": {"n": 1, "m": 1}} == play.result("c")
    assert {"m": 1} == play.result("d")
    assert ({"key": "cart", "deleted": True}, {"m": None, "n": None}) == (play.result("e"), play.result("f"))
    assert {"key": "cart", "deleted": False} == play.result("g")


@pytest.mark.parametrize("params", [{"duration": "5s"}, {"duration_ms": 5_000}, {"duration": "{{data.ms}}"}])
def test_a_sleep_is_a_timer(params):
    play = begun(step("a", "sleep", params=params), context={"ms": 5_000})

    assert [Timer("a", after=5 * SECOND)] == play.lists[0]
    play.fire("a")
    assert ("done", "done") == (play.outcome, play.state("a"))


def test_an_event_is_a_signal():
    play = begun(
        step("a", "wait_for_event", params={"event": "paid:{{data.x}}", "timeout": "1h"}), context={"x": 1}
    )

    assert [Await("a", "event:paid:1", HOUR)] == play.lists[0]
    play.signal("event:paid:1", {"amount": 5})
    assert ("done", {"amount": 5}) == (play.outcome, play.result("a"))


def test_an_event_that_does_not_come_fails_its_step():
    play = begun(step("a", "wait_for_event", params={"name": "paid", "timeout": "1h"}))
    play.give_up("a")

    assert ("failed", "SignalTimeout") == (play.outcome, play.failure["kind"])


@pytest.mark.parametrize("handler", ["http_request", "emit_event", "send_signal", "anything"])
def test_every_other_handler_is_the_task_of_a_job(handler):
    assert handler == only(begun(step("a", handler)).lists[0], Start).job.task


# Sequences in sequences


def test_a_sub_sequence_is_a_child_with_a_context_of_its_own():
    block = {
        "type": "sub_sequence",
        "id": "s",
        "sequence_name": "other",
        "version": 2,
        "input": {"y": "{{data.x}}"},
    }
    play = begun(
        block, step("b", params={"r": "{{outputs.s.r}}"}), context={"data": {"x": 1}, "config": {"c": 2}}
    )

    child = only(play.lists[0], Child).instance
    assert "other" == child.workflow
    assert {"data": {"y": 1}, "config": {"c": 2}, "runtime": {"depth": 1}} == json.loads(child.args)
    assert {"penstock.sequence": {"version": 2}} == json.loads(child.meta)
    assert {"r": 5} == json.loads(only(play.end("s", {"r": 5}), Start).job.args)["kwargs"]


@pytest.mark.parametrize("state", [EntryState.FAILED, EntryState.CANCELLED])
def test_a_child_that_does_not_end_well_fails_its_block(state):
    play = begun({"type": "sub_sequence", "id": "s", "sequence_name": "other"})
    play.conduct(
        Ended("s", state, None, '{"kind":"Bad","message":"x"}' if state is EntryState.FAILED else None)
    )

    assert ("failed", "failed") == (play.outcome, play.state("s"))
    assert ("Bad" if state is EntryState.FAILED else "Cancelled") == play.failure["kind"]


def test_sequences_nest_to_a_bound():
    block = {"type": "sub_sequence", "id": "s", "sequence_name": "other"}
    deepest = begun(block, context={"runtime": {"depth": MAX_CHILD_DEPTH - 1}})
    too_deep = begun(block, context={"runtime": {"depth": MAX_CHILD_DEPTH}})

    assert MAX_CHILD_DEPTH == json.loads(only(deepest.lists[0], Child).instance.args)["runtime"]["depth"]
    assert ("failed", "TooDeep") == (too_deep.outcome, too_deep.failure["kind"])


@pytest.mark.parametrize("given", [{"x": "{{nowhere.x}}"}, "{{data.x}}"])
def test_input_that_cannot_be_filled_in_fails_the_block(given):
    play = begun({"type": "sub_sequence", "id": "s", "sequence_name": "other", "input": given})

    assert ("failed", []) == (play.outcome, play.keys)


def test_steps_inside_the_engine_are_recorded_by_a_save():
    play = begun(step("a", "noop"))

    assert [Save, Finish] == [type(command) for command in play.lists[0]]
