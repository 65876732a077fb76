"""Play histories: a whole one from a seed, or a few operations; and tell of one that fails as a test to paste."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from tests.simulation.fate import Fate
from tests.simulation.model import Mismatch
from tests.simulation.world import Operation, replay, world
from tests.support.shrink import shrink

STEPS = 300
MODES = "ACACACBCAC"  # the last digit of a seed; most of the time with turns, as users run it


class Played(NamedTuple):
    """A history that went well: how many operations it had, a digest of all that happened, and how often what did."""

    steps: int
    digest: str
    counts: Counter[str]


class Failure(NamedTuple):
    """A history that did not go well."""

    mode: str
    seed: int
    error: str
    history: list[Operation]


def mode_of(seed: int) -> str:
    return MODES[seed % len(MODES)]


def play(seed: int, steps: int = STEPS, url: str | None = None, *, by_door: bool = False) -> Played | Failure:
    """Let happen what the seed brings."""
    mode, done = mode_of(seed), []
    try:
        with world(mode, url, by_door=by_door) as fresh:
            for operation in Fate(fresh, seed).history(steps):
                done.append(operation)
                fresh.do(operation)
            digest = hashlib.sha256("\n".join(fresh.trace).encode()).hexdigest()
            return Played(len(done), digest, fresh.machine.counts)
    except Exception as error:  # noqa: BLE001 - an engine that breaks is a finding too
        return Failure(mode, seed, f"{type(error).__name__}: {error}", done)


def trace(seed: int, steps: int = STEPS) -> str:
    """Return all that happens, a line for each operation."""
    with world(mode_of(seed)) as fresh:
        with suppress(Mismatch):
            for operation in Fate(fresh, seed).history(steps):
                fresh.do(operation)
        return "\n".join(fresh.trace)


def failure_of(mode: str, history: Sequence[Operation]) -> str | None:
    """Return what goes wrong in a history."""
    try:
        replay(mode, history)
    except Exception as error:  # noqa: BLE001 - an engine that breaks is a finding too
        return f"{type(error).__name__}: {error}"
    return None


def told(failure: Failure) -> str:
    """Shrink a history that fails, and tell it as a test."""
    mode = failure.mode
    fewest = shrink(failure.history, lambda fewer: failure_of(mode, fewer) is not None)
    lines = "".join(f"            {operation!r},\n" for operation in fewest)
    return (
        f"seed {failure.seed}, after {len(failure.history)} operations: {failure.error}\n"
        f"shrunk to {len(fewest)}: {failure_of(mode, fewest)}\n\n"
        f"def test_found_by_seed_{failure.seed}():\n"
        f"    replay(\n        {mode!r},\n        [\n{lines}        ],\n    )\n"
    )
