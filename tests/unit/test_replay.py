"""The driver: what a body asks for, given what its instance remembers."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from penstock.errors import (
    DivergedError,
    InvalidWorkflowError,
    SignalTimeoutError,
    StepCancelledError,
    StepFailedError,
)
from penstock.job import Await, Cancel, Entry, EntryState, Finish, NewJob, Note, Start, Timer
from penstock.lifecycle.states import State
from penstock.replay import (
    MOST_NOTE,
    MOST_STEPS,
    Raised,
    ask,
    first,
    gather,
    note,
    replay,
    signal,
    sleep,
)

SECOND = 1_000_000


def step(name, *args):
    return ask(
        f"{name}.step()",
        name,
        lambda key: Start(key, NewJob(name, json.dumps({"args": args}))),
        json.loads,
    )


def end(ended):
    if isinstance(ended, Raised):
        return Finish(State.FAILED, error=f"{type(ended.error).__name__}: {ended.error}")
    return Finish(State.DONE, result=json.dumps(ended.value))


def done(key, value=None):
    return Entry(key, EntryState.DONE, json.dumps(value))


def failed(key, kind="ValueError", message="no"):
    return Entry(key, EntryState.FAILED, error=json.dumps({"kind": kind, "message": message}))


def live(*keys):
    return [Entry(key, EntryState.LIVE) for key in keys]


def cancelled(key):
    return Entry(key, EntryState.CANCELLED)


def run(body, *entries):
    return list(replay(body, entries, end))


def asked(body, *entries):
    """Return what a pass asks for, in short."""
    return [_short(each) for each in run(body, *entries)]


def _short(command):
    match command:
        case Finish(state=State.DONE, result=result):
            return json.loads(result)
        case Finish(error=error):
            return error
        case Cancel(key=key):
            return f"cancel {key}"
        case Note(key=key, value=value):
            return f"{key}={value}"
        case _:
            return command.key


class TestOneAfterAnother:
    def test_a_body_without_steps_ends_at_once(self):
        async def body():
            return 7

        assert [Finish(State.DONE, "7")] == run(body)

    def test_a_step_is_started_once_and_its_result_is_what_the_body_gets(self):
        async def body():
            return await step("double", await step("fetch", "x"))

        assert [Start("fetch", NewJob("fetch", '{"args": ["x"]}'))] == run(body)
        assert [] == run(body, *live("fetch"))
        assert [Start("double", NewJob("double", '{"args": [4]}'))] == run(body, done("fetch", 4))
        assert [8] == asked(body, done("fetch", 4), done("double", 8))

    def test_the_calls_of_a_name_are_counted(self):
        async def body():
            return [await step("a") for _ in range(3)]

        assert ["a"] == asked(body)
        assert ["a#1"] == asked(body, done("a"))
        assert ["a#2"] == asked(body, done("a"), done("a#1"))

    def test_a_name_that_looks_like_a_counted_one_gets_a_key_of_its_own(self):
        async def body():
            await gather(step("a#1"), step("a"), step("a"))

        assert ["a#1", "a", "a#2"] == asked(body)

    def test_a_step_starts_when_it_is_called(self):
        async def body():
            one, other = step("one"), step("other")
            return [await other, await one]

        assert ["one", "other"] == asked(body)
        assert [[2, 1]] == asked(body, done("one", 1), done("other", 2))

    def test_a_step_may_be_awaited_twice(self):
        async def body():
            one = step("one")
            return [await one, await one]

        assert [[1, 1]] == asked(body, done("one", 1))

    def test_a_function_made_of_steps_can_be_awaited(self):
        async def both(name):
            return [await step(name), await step(name)]

        async def body():
            return await both("a")

        assert ["a#1"] == asked(body, done("a", 1))
        assert [[1, 2]] == asked(body, done("a", 1), done("a#1", 2))

    def test_a_step_that_was_skipped_has_no_value(self):
        async def body():
            return [await step("a")]

        assert [[None]] == asked(body, Entry("a", EntryState.SKIPPED))

    def test_a_step_that_is_never_awaited_is_a_mistake(self):
        async def body():
            await step("a")
            step("b")

        (told,) = asked(body, done("a"))

        assert "b was called and never awaited" in told


class TestFailures:
    def test_a_step_that_failed_raises_in_the_body(self):
        async def body():
            try:
                await step("pay")
            except StepFailedError as error:
                return [error.step, error.kind, error.job, str(error)]

        entry = Entry(
            "pay",
            EntryState.FAILED,
            error=json.dumps({"kind": "CardError", "message": "declined", "job": "j7"}),
        )

        assert [["pay", "CardError", "j7", "step pay failed: CardError: declined"]] == asked(body, entry)

    def test_an_error_that_is_not_caught_ends_the_instance(self):
        async def body():
            await step("pay")

        assert ["StepFailedError: step pay failed: ValueError: no"] == asked(body, failed("pay"))

    def test_a_cancelled_step_raises_too(self):
        async def body():
            with pytest.raises(StepCancelledError):
                await step("pay")
            return "went on"

        assert ["went on"] == asked(body, cancelled("pay"))

    def test_a_failure_leads_to_another_step(self):
        async def body():
            try:
                await step("pay")
            except StepFailedError:
                return await step("refund")

        assert ["refund"] == asked(body, failed("pay"))

    def test_nothing_is_started_when_the_body_ends(self):
        async def body():
            step("new")
            await gather(step("fails"), step("lives"))

        assert ["StepFailedError: step fails failed: ValueError: no"] == asked(
            body, failed("fails"), *live("lives")
        )

    def test_a_result_that_cannot_be_read_raises_where_the_body_waits(self):
        async def body():
            try:
                await step("a")
            except ValueError:
                return "unreadable"

        assert ["unreadable"] == asked(body, Entry("a", EntryState.DONE, "{"))


class TestSleepAndSignal:
    def test_a_sleep_is_a_timer(self):
        async def body():
            await sleep("2d")
            await sleep(datetime(1970, 1, 2, tzinfo=UTC))
            return "awake"

        assert [Timer("sleep", after=2 * 86_400 * SECOND)] == run(body)
        assert [Timer("sleep#1", at=86_400 * SECOND)] == run(body, done("sleep"))
        assert ["awake"] == asked(body, done("sleep"), done("sleep#1"))

    def test_a_moment_without_a_time_zone_is_refused(self):
        async def body():
            await sleep(datetime(2026, 1, 1))

        assert "has no time zone" in asked(body)[0]

    def test_a_signal_brings_its_payload(self):
        async def body():
            return await signal("reply", timeout="7d")

        assert [Await("signal:reply", "reply", 7 * 86_400 * SECOND)] == run(body)
        assert [{"parts": [1]}] == asked(body, done("signal:reply", {"parts": [1]}))

    def test_a_signal_that_did_not_come_in_time_is_a_timeout(self):
        async def body():
            try:
                await signal("reply", timeout=1)
            except TimeoutError as error:
                return type(error).__name__

        assert [SignalTimeoutError.__name__] == asked(body, failed("signal:reply", "SignalTimeout", ""))


class TestGather:
    def test_all_are_started_at_once_and_answered_in_order(self):
        async def body():
            return await gather(*[step("score", n) for n in range(3)])

        keys = ["score", "score#1", "score#2"]
        assert keys == asked(body)
        assert [] == asked(body, *live("score", "score#1"), done("score#2", 2))
        assert [[0, 1, 2]] == asked(body, *(done(key, n) for n, key in enumerate(keys)))

    def test_nothing_at_all_is_an_empty_list(self):
        async def body():
            return await gather()

        assert [[]] == asked(body)

    def test_the_first_failure_in_order_is_raised_once_those_before_it_are_done(self):
        async def body():
            await gather(step("a"), step("b"), step("c"))

        assert [] == asked(body, *live("a"), failed("b"), failed("c"))
        assert "step b" in asked(body, done("a"), failed("b"), failed("c"))[0]
        assert "step b" in asked(body, done("a"), failed("b"), *live("c"))[0]

    def test_errors_can_be_returned(self):
        async def body():
            found = await gather(step("a"), step("b"), return_exceptions=True)
            return [type(each).__name__ for each in found]

        assert [["int", "StepFailedError"]] == asked(body, done("a", 1), failed("b"))

    def test_functions_count_their_calls_for_themselves(self):
        async def one(number):
            await step("fetch", number)
            return await step("store", number)

        async def body():
            return await gather(one(0), one(1))

        assert ["gather[0]/fetch", "gather[1]/fetch"] == asked(body)
        assert ["gather[1]/store"] == asked(body, *live("gather[0]/fetch"), done("gather[1]/fetch"))
        assert [["x", "y"]] == asked(
            body,
            done("gather[0]/fetch"),
            done("gather[1]/fetch"),
            done("gather[1]/store", "y"),
            done("gather[0]/store", "x"),
        )

    def test_a_gather_in_a_gather(self):
        async def inner():
            return await gather(step("a"), step("a"))

        async def body():
            await gather(inner())
            await gather(inner())

        assert ["gather[0]/a", "gather[0]/a#1"] == asked(body)
        assert ["gather#1[0]/a", "gather#1[0]/a#1"] == asked(body, done("gather[0]/a"), done("gather[0]/a#1"))

    def test_what_is_no_step_is_refused(self):
        async def body():
            await gather(7)

        assert "is no step" in asked(body)[0]


class TestFirst:
    def test_the_first_to_end_wins_and_the_others_are_cancelled(self):
        async def body():
            index, value = await first(step("a"), step("b"), sleep(1))
            return [index, value]

        assert ["a", "b", "sleep"] == asked(body)
        assert ["cancel a", "cancel sleep", "first=1", [1, "b"]] == asked(
            body, *live("a", "sleep"), done("b", "b")
        )

    def test_the_winner_is_remembered_whatever_ends_later(self):
        async def body():
            index, _ = await first(step("a"), step("b"))
            await step("next")
            return index

        assert ["cancel a", "first=1", "next"] == asked(body, *live("a"), done("b"))
        assert [1] == asked(body, done("a"), done("b"), done("first", 1), done("next"))

    def test_a_winner_that_failed_raises(self):
        async def body():
            await first(step("a"), step("b"))

        assert ["cancel b", "first=0", "StepFailedError: step a failed: ValueError: no"] == asked(
            body, failed("a"), *live("b")
        )

    def test_one_that_lost_counts_as_cancelled_even_if_it_ended(self):
        async def body():
            a, b = step("a"), step("b")
            await first(a, b)
            try:
                await b
            except StepCancelledError as error:
                return error.step

        assert ["first=0", "b"] == asked(body, done("a"), done("b"))
        assert ["b"] == asked(body, done("a"), done("b"), done("first", 0))

    def test_one_that_would_lose_at_once_is_never_started(self):
        async def body():
            a = step("a")
            await a
            return (await first(a, step("b"))).which

        assert ["first=0", 0] == asked(body, done("a"))
        assert [0] == asked(body, done("a"), done("first", 0))

    def test_a_function_that_lost_asks_for_nothing_more(self):
        async def slow():
            await step("a")
            await note(lambda: 1)
            await first(step("b"), sleep(1))

        async def body():
            await first(slow(), step("quick"))
            await step("after")

        keys = ["first[0]/a", "quick"]
        assert set(keys) == set(asked(body))
        won = asked(body, *live(keys[0]), done("quick"))
        assert {"first=1", "cancel first[0]/a", "after"} == set(won)
        # The step that lost ended in the same moment; its function goes no further all the same.
        assert [] == asked(body, done(keys[0]), done("quick"), done("first", 1), *live("after"))

    def test_a_wait_that_lost_names_its_signal(self):
        async def body():
            await first(signal("go"), sleep(1))

        assert Cancel("signal:go", "go") in run(body, *live("signal:go"), done("sleep"))

    def test_a_gather_that_lost_is_cancelled_whole(self):
        async def body():
            return (await first(gather(step("a"), step("b")), sleep(1))).which

        assert ["cancel a", "cancel b", "first=1", 1] == asked(body, *live("a", "b"), done("sleep"))

    def test_a_branch_that_waits_for_what_another_gave_up_goes_on(self):
        async def body():
            a = step("a")

            async def waits():
                try:
                    await a
                except StepCancelledError:
                    return "given up"

            async def gives_up():
                await first(a, step("b"))

            return (await gather(waits(), gives_up()))[0]

        assert "given up" == asked(body, *live("a"), done("gather[1]/b"))[-1]

    def test_nothing_is_no_choice(self):
        async def body():
            await first()

        assert "at least one" in asked(body)[0]


class TestNote:
    def test_a_note_is_computed_once(self):
        numbers = iter([7, 8])

        async def body():
            number = await note(lambda: next(numbers))
            await step("a")
            return number

        assert {"note:<lambda>=7", "a"} == set(asked(body))
        assert [7] == asked(body, done("note:<lambda>", 7), done("a"))

    def test_a_note_is_the_same_in_the_first_pass_and_later(self):
        async def body():
            return await note(lambda: (1, 2))

        assert [1, 2] == asked(body)[-1]

    def test_an_error_is_noted_too(self):
        def risky():
            raise ValueError("boom")

        async def body():
            try:
                await note(risky)
            except StepFailedError as error:
                return [error.kind, str(error)]

        command, told = run(body)

        assert ["ValueError", "step note:risky failed: ValueError: boom"] == json.loads(told.result)
        assert [told] == run(body, Entry(command.key, EntryState.DONE, command.value))

    def test_a_large_one_is_refused(self):
        async def body():
            await note(lambda: "x" * MOST_NOTE)

        assert "make a task of it" in asked(body)[0]

    def test_an_async_function_is_refused(self):
        async def fetch():
            pass

        async def body():
            await note(fetch)

        assert "make a task of it" in asked(body)[0] or "async" in asked(body)[0]


class TestForeign:
    @pytest.mark.parametrize(
        "foreign",
        [lambda: asyncio.sleep(0), lambda: asyncio.sleep(1), asyncio.open_connection],
        ids=["yield", "sleep", "io"],
    )
    def test_awaiting_anything_else_says_what_to_do(self, foreign):
        async def body():
            await foreign()

        (told,) = asked(body)

        assert "InvalidWorkflowError" in told
        assert "put anything else" in told

    def test_a_function_that_suspends_on_something_else_is_told_too(self):
        class Foreign:
            def __await__(self):
                yield "something"

        async def helper():
            await Foreign()

        async def body():
            await gather(helper())

        assert "awaited str" in asked(body)[0]

    def test_outside_a_body_there_are_no_steps(self):
        for call in (lambda: step("a"), lambda: sleep(1), lambda: signal("x"), lambda: note(int), gather):
            with pytest.raises(InvalidWorkflowError, match="belongs in the body of a workflow"):
                call()


class TestDivergence:
    def test_a_body_that_asks_for_another_step_is_told_both(self):
        async def body():
            await step("new")

        with pytest.raises(DivergedError, match="remembers step old, but the body asks for new") as caught:
            run(body, done("old"))

        assert ("old", "new") == (caught.value.remembered, caught.value.asked)

    def test_a_body_that_ends_too_soon_is_told_too(self):
        async def body():
            return 1

        with pytest.raises(DivergedError, match="ends or waits without it"):
            run(body, done("old"))

    def test_an_error_before_the_remembered_steps_is_no_end(self):
        async def body():
            raise NameError("a typing mistake in the new body")

        with pytest.raises(DivergedError):
            run(body, done("old"))

    def test_steps_at_the_end_may_be_added(self):
        async def body():
            await step("old")
            await step("new")

        assert ["new"] == asked(body, done("old"))


class TestLeaving:
    def test_what_stands_in_a_finally_asks_for_nothing_until_it_is_meant(self):
        async def body():
            try:
                await step("work")
            finally:
                await step("tidy")
            return "tidied"

        assert ["work"] == asked(body)
        assert ["tidy"] == asked(body, done("work"))
        assert ["tidied"] == asked(body, done("work"), done("tidy"))

    def test_branches_are_left_as_quietly(self):
        async def one():
            try:
                await step("work")
            finally:
                await step("tidy")

        async def body():
            await gather(one(), one())

        assert ["gather[0]/work", "gather[1]/work"] == asked(body)


def test_an_instance_has_a_bounded_number_of_steps():
    async def body():
        for _ in range(MOST_STEPS + 1):
            await note(int)

    assert "return Restart" in asked(body)[-1]
