"""Ending what is live: losers of a race, and instances that are cancelled."""

import pytest

from penstock.job import Cancel, EntryState
from penstock.sequences import Ended, cancel, conduct
from tests.support.sequences import HandlerError, Play, sequence, step


def block(kind, block_id="x", **fields):
    return {"type": kind, "id": block_id, **fields}


def race(loser, *after):
    """Return a race that `win` wins against *loser*."""
    return sequence(block("race", "race", branches=[[loser, *after], [step("win", "winner")]]), step("next"))


def won(loser, *after, before=lambda _: None, context=None):
    """Play until *before* is done, then let the other branch win."""
    play = Play(race(loser, *after), context or {"xs": [1, 2]}, crash=True).begin()
    before(play)
    play.end("win")
    return play


def with_error(key):
    return lambda play: play.end(key, error=HandlerError())


LOSERS = [
    (step("a"), None, ["a"]),
    (step("a", delay="1h"), None, ["a@delay"]),
    (step("a", "sleep", params={"duration": "1h"}), None, ["a"]),
    (step("a", "wait_for_event", params={"event": "e"}), None, ["a"]),
    (step("a", wait_for_input={}), None, ["a@wait"]),
    (
        step("a", wait_for_input={"choices": ["y"]}),
        lambda play: play.signal("human_input:a", "x"),
        ["a@wait.1"],
    ),
    (
        step("a", wait_for_input={"timeout": 5, "escalation_handler": "boss"}),
        lambda play: play.give_up("a@wait"),
        ["a@escalate"],
    ),
    (step("a", fallback_handler="other"), with_error("a"), ["a@fallback"]),
    (step("a", retry={"max_attempts": 2, "retry_if": True}), with_error("a"), ["a@try.1"]),
    (step("a", deadline="1h"), None, ["a", "a@deadline"]),
    (
        step("a", deadline="1h", on_deadline_breach={"handler": "page"}),
        lambda play: play.fire("a@deadline"),
        ["a", "a@breach"],
    ),
    (step("a", cancellable=False, delay="1h"), None, ["a@delay"]),
    (block("sub_sequence", sequence_name="other"), None, ["x"]),
    (block("parallel", branches=[[step("a")], [step("b")], []]), None, ["a", "b"]),
    (block("parallel", branches=[[step("a")], [step("b")]]), lambda play: play.end("a"), ["b"]),
    (block("parallel", branches=[[step("a"), step("c")], [step("b")]]), with_error("a"), ["b"]),
    (block("race", branches=[[step("a")], [step("b")]]), None, ["a", "b"]),
    (block("loop", body=[step("a"), step("b")]), lambda play: play.end("x#0/a"), ["x#0/b"]),
    (block("loop", body=[step("a")], poll_interval=5), lambda play: play.end("x#0/a"), ["x@poll.1"]),
    (block("for_each", collection="data.xs", body=[step("a")]), lambda play: play.end("x#0/a"), ["x#1/a"]),
    (block("router", routes=[{"condition": False, "blocks": []}], default=[step("a")]), None, ["a"]),
    (
        block(
            "a_b_split",
            variants=[
                {"name": "n", "weight": 0, "blocks": [step("b")]},
                {"name": "m", "weight": 1, "blocks": [step("a")]},
            ],
        ),
        None,
        ["a"],
    ),
    (block("try_catch", try_block=[step("a")], catch_block=[step("b")]), None, ["a"]),
    (block("try_catch", try_block=[step("a")], catch_block=[step("b")]), with_error("a"), ["b"]),
    (
        block(
            "saga",
            steps=[
                {"id": "s", "action": step("a"), "compensation": step("u")},
                {"id": "t", "action": step("b")},
            ],
        ),
        lambda play: [play.end("a"), play.end("b", error=HandlerError())],
        ["u"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("loser", "before", "cancelled"), LOSERS)
def test_whatever_a_loser_waits_for_is_ended(loser, before, cancelled):
    play = won(loser, step("never"), before=before or (lambda _: None))

    assert set(cancelled) == set(play.cancelled)
    assert ["next"] == list(play.jobs)
    assert {} == play.timers == play.waits == play.children
    assert "cancelled" == play.state(loser["id"])
    play.end("next")
    assert ("done", False) == (play.outcome, "never" in play.memo)


@pytest.mark.parametrize(("loser", "before", "cancelled"), LOSERS)
def test_whatever_an_instance_waits_for_is_ended_when_it_is_cancelled(loser, before, cancelled):
    play = Play(sequence(step("first", "noop"), loser, step("never")), {"xs": [1, 2]}, crash=True).begin()
    (before or (lambda _: None))(play)
    play.cancel()

    assert ("cancelled", set(cancelled)) == (play.outcome, set(play.cancelled))


def test_a_branch_of_many_blocks_is_found_without_reading_all_of_them():
    definition = race(step("s0"), *(step(f"s{n}") for n in range(1, 3_000)))
    play = Play(definition).begin()
    for number in range(2_000):
        play.end(f"s{number}")
    play.end("win")

    assert ["s2000"] == play.cancelled
    assert play.reads < 40


# What must come to its end


def scope(*blocks):
    return block("cancellation_scope", "scope", blocks=list(blocks))


def test_a_race_goes_on_only_when_a_scope_of_a_loser_has_come_to_its_end():
    play = won(scope(step("a"), step("b")), step("never"))

    assert (["a"], []) == (list(play.jobs), play.cancelled)
    play.end("a")
    assert ["b"] == list(play.jobs)
    play.end("b")
    assert (["next"], {"winner": 1}, "done") == (list(play.jobs), play.result("race"), play.state("scope"))
    play.end("next")
    assert ("done", False) == (play.outcome, "never" in play.memo)


def test_a_scope_that_fails_does_not_fail_a_race_that_was_won():
    play = won(scope(step("a")))
    play.end("a", error=HandlerError())

    assert ["next"] == list(play.jobs)


def test_a_step_that_is_not_cancellable_comes_to_its_end():
    loser = step("a", cancellable=False, fallback_handler="other")
    play = won(loser, step("never"))
    play.end("a", error=HandlerError())

    assert ["a@fallback"] == list(play.jobs)
    play.end("a@fallback")
    assert ["next"] == list(play.jobs)


def test_scopes_deep_inside_come_to_their_end_and_all_around_them_ends():
    inside = block(
        "parallel",
        "par",
        branches=[
            [scope(step("a"))],
            [step("b")],
            [block("loop", "loop", body=[step("c", cancellable=False), step("d")])],
        ],
    )
    play = won(inside, step("never"))

    assert (["b"], {"a", "loop#0/c"}) == (play.cancelled, set(play.jobs))
    play.end("loop#0/c")
    assert ("cancelled", ["a"]) == (play.state("loop"), list(play.jobs))
    play.end("a")
    assert ("cancelled", ["next"]) == (play.state("par"), list(play.jobs))


def test_a_race_that_waits_for_a_loser_may_itself_lose():
    inner = block("race", "inner", branches=[[scope(step("a"))], [step("b")]])
    play = won(inner, before=lambda play: play.end("b"))

    assert (["a"], []) == (list(play.jobs), play.cancelled)
    play.end("a")
    assert ({"winner": 1}, ["next"]) == (play.result("inner"), list(play.jobs))


def test_a_cancelled_instance_ends_after_its_scopes():
    play = Play(sequence(scope(step("a"), step("b")), step("never")), crash=True).begin()
    play.cancel()

    assert (None, []) == (play.outcome, play.cancelled)
    assert [] == cancel(play.sequence, play)
    play.end("a")
    play.end("b")
    assert ("cancelled", False) == (play.outcome, "never" in play.memo)


def test_what_follows_a_cancel_runs_before_the_end():
    definition = sequence(
        step("a"), on_cancel=[step("bye", "mail"), step("later", "mail")], on_failure=[step("f")]
    )
    play = Play(definition, crash=True).begin()
    play.cancel()

    assert (["a"], ["bye"]) == (play.cancelled, list(play.jobs))
    assert [] == cancel(play.sequence, play)
    play.end("bye", error=HandlerError())
    assert "cancelled" == play.outcome


def test_an_instance_is_cancelled_while_it_runs_what_follows_a_failure():
    play = Play(sequence(step("a"), on_failure=[step("f")]), crash=True).begin()
    play.end("a", error=HandlerError())
    play.cancel()

    assert (["f"], "cancelled") == (play.cancelled, play.outcome)


def test_an_instance_is_cancelled_between_two_calls():
    play = Play(sequence(*(step(f"s{n}", "noop") for n in range(600)))).begin()
    play.cancel()

    assert (["s512@next"], "cancelled") == (play.cancelled, play.outcome)


# Ends that come together


def end_unheard(play, key, state=EntryState.DONE):
    """Let something end whose end is conducted later in the same transaction."""
    play.jobs.pop(key, None)
    play.timers.pop(key, None)
    play.memo[key] = play.memo[key].__class__(key, state, "1")
    return Ended(key, state, "1")


@pytest.mark.parametrize(
    ("loser", "key"),
    [
        (step("a"), "a"),
        (step("a", delay=5), "a@delay"),
        (step("a", cancellable=False), "a"),
        (block("parallel", branches=[[step("a")], [step("b")]]), "a"),
        (block("try_catch", try_block=[step("a")], catch_block=[]), "a"),
        (block("loop", body=[step("a")]), "x#0/a"),
    ],
)
def test_the_end_of_a_loser_in_the_same_transaction_is_of_no_account(loser, key):
    play = Play(race(loser, step("never"))).begin()
    ended = end_unheard(play, key)
    play.end("win")

    assert [] == conduct(play.sequence, play, ended)
    assert ["next"] == list(play.jobs)


@pytest.mark.parametrize(
    ("loser", "key"),
    [
        (step("a", fallback_handler="other"), "a"),
        (step("a", cancellable=False), "a"),
        (step("a", delay=5), "a@delay"),
        (block("loop", body=[step("b")], poll_interval=5), "x@poll.1"),
    ],
)
def test_the_end_of_a_loser_is_not_taken_for_one_that_is_awaited(loser, key):
    branches = [[loser, step("never")], [scope(step("c"))], [step("win", "winner")]]
    play = Play(sequence(block("race", "race", branches=branches), step("next"))).begin()
    if key == "x@poll.1":
        play.end("x#0/b")
    ended = end_unheard(play, key, EntryState.FAILED if loser.get("fallback_handler") else EntryState.DONE)
    play.end("win")

    assert [] == conduct(play.sequence, play, ended)
    assert ["c"] == list(play.jobs)
    play.end("c")
    assert ["next"] == list(play.jobs)


def test_a_loop_that_was_cancelled_does_not_go_on_after_its_pause():
    loop = block("loop", body=[step("b")], poll_interval=5)
    play = Play(sequence(loop)).begin()
    play.end("x#0/b")
    ended = end_unheard(play, "x@poll.1")
    play.memo["x"] = play.memo["x"].__class__("x", EntryState.CANCELLED)

    assert [] == conduct(play.sequence, play, ended)


@pytest.mark.parametrize("noops", [1, 5])
def test_what_begins_in_the_call_that_decides_a_race_begins_nothing_more(noops):
    slow = [*(step(f"slow{number}", "noop") for number in range(noops)), step("never")]
    definition = sequence(block("race", "race", branches=[slow, [step("fast", "noop")]]))
    play = Play(definition).begin()

    assert ("done", {"winner": 1}, []) == (play.outcome, play.result("race"), play.keys)


def test_cancels_come_before_what_is_remembered():
    play = Play(sequence(step("a", deadline=5), on_failure=[step("f")])).begin()
    commands = play.fire("a@deadline")

    assert Cancel("a") == commands[0]
    assert "failed" == play.state("a")
