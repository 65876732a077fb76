"""A year of operation in a minute: random histories, and a referee who sees what workers see."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest

from penstock.job import NewJob
from tests.simulation.history import STEPS, Failure, failure_of, play, told, trace
from tests.simulation.machine import machine, short_transactions
from tests.simulation.many import find
from tests.simulation.world import world
from tests.simulation.wounds import WOUNDS, wounded
from tests.support.shrink import shrink
from tests.support.soak import often

ROOT = Path(__file__).parents[2]
SEEDS = often(12, 500)
PART = often(12, 25)
# What must have happened for so many histories to show anything.
PLAYED = {
    "enqueue", "claim", "claims", "exchange", "settle", "begun", "beat", "die", "spend", "settle_late", "cancel",
    "retry",
    "configure", "override", "clear_override", "shut", "pause", "resume", "refreshes", "refreshed", "schedule",
    "enable_schedule", "restart", "crash_in", "upkeep", "why", "advance", "rest", "crashed on the way",
    "crashed before the answer", "refresh lent", "refresh taken", "done", "failed", "discarded", "cancelled",
    "expired", "expedite", "claim_one", "taken by its id", "claim_ahead", "stood by",
}  # fmt: skip


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_nothing_that_users_or_fate_can_do_breaks_a_promise(first):
    played = [play(seed) for seed in range(first, first + PART)]

    assert [] == [told(result) for result in played if isinstance(result, Failure)][:1]
    assert PART == len(played)
    assert all(result.steps >= STEPS for result in played)
    counts = sum((result.counts for result in played), Counter())
    assert set() == PLAYED - counts.keys()


def test_starts_that_are_granted_ahead_break_no_promise():
    for number in range(often(4, 40)):
        with world("C") as fresh:
            fresh.do(("flow", number, 40))
            fresh.do(("rest",))
            assert fresh.machine.counts["granted ahead"] > 10


def test_the_same_seed_brings_the_same_history_in_every_process():
    code = "from tests.simulation.history import trace; print(trace(7, 120))"
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            },
            stdout=subprocess.PIPE,
            check=True,
            timeout=250,
        ).stdout
        for hash_seed in ("1", "2")
    }

    assert {f"{trace(7, 120)}\n".encode()} == answers


def test_a_crash_that_is_not_played_is_noticed():
    """A store that writes past the cut connection would make every crash a harmless restart."""
    with machine(turns=True) as made:
        writer = made.store._writer
        other = type(writer)(writer._connection, writer._files, writer._changed)
        with patch.object(writer, "write", other.write), pytest.raises(AssertionError, match="no crash"):
            made.until_crash(1, lambda: made.engine.enqueue([NewJob("t", queue="q")]))


def test_short_transactions_come_to_the_same_answers():
    """Claims that see little at a time and are asked again find the same jobs."""
    with short_transactions():
        played = [play(seed) for seed in range(0, often(10, 40), 2)]

    assert [] == [told(result) for result in played if isinstance(result, Failure)][:1]
    assert sum(result.counts["asked again"] for result in played) > 5


def test_a_failure_is_told_as_a_test_to_paste():
    with wounded("one slot too many"):
        failure = next(result for seed in range(100) if isinstance(result := play(seed, 60), Failure))
        text = told(failure)
        head, _, body = text.partition("def test_found_by_seed_")
        names = {}
        exec(f"from tests.simulation.world import replay\ndef test_found_by_seed_{body}", names)
        test = next(value for name, value in names.items() if name.startswith("test_"))

        with pytest.raises(AssertionError):
            test()

    assert "shrunk to" in head
    assert body.count("\n            (") <= 10
    test()  # it is the wound that fails it


@pytest.mark.parametrize("wound", WOUNDS)
def test_every_wound_can_still_be_made(wound):
    with wounded(wound):
        pass


@pytest.mark.parametrize(
    "wound",
    [
        "one slot too many",
        "starts remembered at the claim",
        "a release forgotten on cancel",
        "a relay whose jobs take no slots",
        "a relay while others wait for hands",
        "promotion skipped for the second queue",
        "a newcomer that barges",
        "an old refresh that counts",
        "a crash that commits half",
    ],
)
def test_a_wound_is_noticed(wound):
    """All of them are tried by `make mutants`."""
    _, seeds, _ = find(wound, most=20)

    assert seeds


def test_what_makes_no_sense_does_nothing():
    nobody = "nobody"
    history = [
        ("settle", [(nobody, ("done",), True)]), ("settle_late", nobody), ("begun", nobody), ("beat", nobody),
        ("cancel", nobody), ("retry", nobody), ("why", nobody), ("refreshed", "A", "", 1), ("rest",),
    ]  # fmt: skip

    assert failure_of("A", history) is None


def test_shrinking_keeps_what_still_fails():
    operations = [("advance", number) for number in range(100)]

    fewest = shrink(operations, lambda fewer: {("advance", 7), ("advance", 70)} <= set(fewer))

    assert fewest == [("advance", 7), ("advance", 70)]
