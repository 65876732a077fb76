"""What is done to workers and server during a storm, and when: drawn by lot, the same for the same seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.rules import LEASE

WORKERS = 4
PAUSES = (0.5, 1.8)  # seconds between two kills
CALM = 0.6  # at the beginning, so that every process is at work
# Until its leases have run out and others have its jobs, but not until they are done with them.
FREEZE = 1.2 * LEASE


@dataclass(frozen=True, slots=True, order=True)
class Blow:
    """Something that happens *at* so many seconds.

    Kills and freezes strike one *worker*, if *ripe* while one of its handlers is at work; a restart
    stops the server, *how* is for `pg_ctl`, and leaves it *down* for a while.
    """

    at: float
    what: str
    worker: int = -1
    ripe: bool = False
    how: str = ""
    down: float = 0.0


def draw(
    seed: str, length: float, *, freezes: int = 0, restarts: Sequence[tuple[str, float]] = ()
) -> list[Blow]:
    """Draw the blows of a storm; *restarts* are (how, down)."""
    chance = random.Random(seed)
    frozen = chance.randrange(WORKERS)
    blows = []
    at = CALM
    while (at := at + chance.uniform(*PAUSES)) < length:
        others = [worker for worker in range(WORKERS) if not freezes or worker != frozen]
        blows.append(Blow(at, "kill", chance.choice(others), ripe=chance.random() < 0.6))
    # One worker is frozen again and again, and the others are killed: so it is there to thaw.
    for since in _spread(chance, length, [FREEZE] * freezes):
        blows += [Blow(since, "freeze", frozen, ripe=True), Blow(since + FREEZE, "thaw", frozen)]
    downs = [down for _, down in restarts]
    for since, (how, down) in zip(_spread(chance, length, downs), restarts, strict=True):
        blows.append(Blow(since, "restart", how=how, down=down))
    return sorted(blows)


def _spread(chance: random.Random, length: float, spans: Sequence[float]) -> list[float]:
    """Return when things that last that long begin, each in a part of its own of *length*."""
    part = length / max(len(spans), 1)
    return [part * number + chance.uniform(0.1, 0.9) * (part - span) for number, span in enumerate(spans)]
