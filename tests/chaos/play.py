"""Play a storm from beginning to end."""

import os
import secrets

from tests.chaos.plan import draw
from tests.chaos.referee import Judge
from tests.chaos.rules import storm_rules
from tests.chaos.storm import Storm

SEED = "PENSTOCK_CHAOS_SEED"
ROUNDS, ROUND = 5, 5.0  # how often a storm that was too gentle goes on, and for how many seconds


def play(url, folder, length, *, patience=30.0, wounds=(), server=None, **blows):
    """Return what was wrong, where the storm was too gentle to tell, and figures.

    Prints the seed, with which the same blows can be had again.
    """
    seed = os.environ.get(SEED) or secrets.token_hex(4)
    print(f"{SEED}={seed}")
    with Storm(url, folder, seed, server=server, wounds=wounds) as storm:
        storm.rage(draw(seed, length, **blows), length)
        for more in range(ROUNDS):
            if not Judge(storm.story(), storm_rules()).gentle():
                break
            storm.rage(draw(f"{seed} {more}", ROUND), ROUND)
        storm.calm(patience)
        judge = Judge(storm.story(), storm_rules())
    complaints = storm.complaints + judge.complaints
    figures = judge.figures()
    for name, figure in figures.items():
        print(f"{name}: {figure}")
    return complaints, judge.gentle(), figures
