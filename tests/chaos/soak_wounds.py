"""The referee finds every fault it was made to find: storms over an engine that was wounded on purpose."""

import re

import pytest

from tests.chaos import wounds
from tests.chaos.play import play

FOUND = {
    wounds.one_slot_too_many: r"(one|two).* had . at once",
    wounds.slots_that_are_not_given_back: r"still are|counts . running, but",
    wounds.a_window_that_lets_one_more_through: r"rated:. had 4 starts in",
    wounds.gaps_too_short: r"spaced had two starts",
    wounds.a_floating_limit_that_never_falls: r"floats had . at once",
    wounds.a_fence_with_a_hole: r"was accepted though",
    wounds.leases_that_end_early: r"was taken from a worker that was well",
    wounds.jobs_that_are_forgotten: r"is lost",
    wounds.slots_given_back_during_a_sleep: r"contact:. had . at once, 1 allowed",
    wounds.steps_that_are_forgotten: r"step draft of run .* began as 2 jobs",
}


def test_every_wound_is_tried():
    assert set(wounds.WOUNDS.values()) == set(FOUND)


@pytest.mark.parametrize("wound", FOUND, ids=lambda wound: wound.__name__)
def test_a_wound_is_found(wound, tmp_path):
    complaints, _, _ = play(
        str(tmp_path / "jobs.db"), tmp_path, 12.0, patience=8.0, freezes=2, wounds=(wound.__name__,)
    )

    assert [text for text in complaints if re.search(FOUND[wound], text)]
