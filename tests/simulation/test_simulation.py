"""A year of operation in a minute: random histories, and a referee who sees what workers see."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.fate import Fate
from tests.simulation.history import STEPS, Failure, failure_of, play, told, trace
from tests.simulation.many import find
from tests.simulation.world import world
from tests.simulation.wounds import WOUNDS, wounded
from tests.support.soak import often

ROOT = Path(__file__).parents[2]
SEEDS = often(100, 500)
PART = 25


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_nothing_that_users_or_fate_can_do_breaks_a_promise(first):
    played = [play(seed) for seed in range(first, first + PART)]

    assert [] == [told(result) for result in played if isinstance(result, Failure)][:1]
    assert PART == len(played)
    assert all(result.steps >= STEPS for result in played)


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
            timeout=60,
        ).stdout
        for hash_seed in ("1", "2")
    }

    assert {f"{trace(7, 120)}\n".encode()} == answers


def test_histories_are_full_of_everything():
    """A history in which nothing happens shows nothing."""
    verbs, states = set(), set()
    for seed in range(30):
        with world("A") as fresh:
            for operation in Fate(fresh, seed).history(60):
                verbs.add(operation[0])
                fresh.do(operation)
            states |= {job.state for job in fresh.model.jobs.values()}

    assert {"done", "failed", "discarded", "cancelled", "expired"} == states
    assert verbs >= {
        "enqueue", "claim", "settle", "begun", "beat", "die", "settle_late", "cancel", "retry", "configure",
        "override", "clear_override", "shut", "pause", "resume", "refreshes", "refreshed", "schedule",
        "enable_schedule", "set_clock", "restart", "crash_in", "upkeep", "why", "advance", "rest",
    }  # fmt: skip


def test_a_failure_is_told_as_a_test_to_paste():
    with wounded("one slot too many"):
        failure = next(result for seed in range(20) if isinstance(result := play(seed), Failure))
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
