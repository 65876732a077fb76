"""Play histories by the thousand: `python -m tests.simulation --help`."""

import argparse
import os
import sys
import time

from tests.simulation.history import STEPS, Failure, Played, play, told, trace
from tests.simulation.many import find_all, play_all
from tests.simulation.wounds import WOUNDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one only, and shrink it if it fails")
    parser.add_argument("--trace", action="store_true", help="with --seed: print all that happens")
    parser.add_argument("--first", type=int, help="the first seed; a new range each time unless told")
    parser.add_argument("--count", type=int, default=100_000, help="how many seeds")
    parser.add_argument("--steps", type=int, default=STEPS, help="operations in each history")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mutants", action="store_true", help="wound the engine, and see that it is noticed")
    options = parser.parse_args()
    if options.mutants:
        return _find_wounds(options.processes, options.steps)
    if options.seed is None:
        first = fresh_range(time.time_ns()) if options.first is None else options.first
        return _play_all(range(first, first + options.count), options.steps, options.processes)
    if options.trace:
        print(trace(options.seed, options.steps))
    return _tell(play(options.seed, options.steps))


def fresh_range(now: int) -> int:
    """Return a first seed that no run before *now*, in nanoseconds, has reached: seeds pass more slowly than time."""
    return now // 1_000_000


def _play_all(seeds: range, steps: int, processes: int) -> int:
    print(f"playing seeds {seeds.start} to {seeds.stop - 1}", file=sys.stderr, flush=True)
    begun, shown, operations = time.monotonic(), 0.0, 0
    for number, result in enumerate(play_all(seeds, steps, processes), 1):
        if isinstance(result, Failure):
            return _tell(result)
        operations += result.steps
        passed = time.monotonic() - begun
        if passed - shown > 2 or number == len(seeds):
            shown = passed
            left = passed / number * (len(seeds) - number)
            print(
                f"\r{number:,} of {len(seeds):,} histories, {operations:,} operations, "
                f"{operations / passed:,.0f} a second, {left / 60:,.0f} min left ",
                end="",
                file=sys.stderr,
                flush=True,
            )
    print("\nall clean", file=sys.stderr)
    return 0


def _tell(result: Played | Failure) -> int:
    if isinstance(result, Failure):
        print(f"\n{told(result)}")
        return 1
    print(f"clean: {result.steps} operations, {result.digest}")
    return 0


def _find_wounds(processes: int, steps: int) -> int:
    print(f"{'wound':44} tried  what was noticed")
    missed = 0
    for name, seeds, error in find_all(processes, steps):
        missed += seeds is None
        print(f"{name:44} {seeds or 'all':>5}  {error[:100]}", flush=True)
    print(f"{len(WOUNDS) - missed} of {len(WOUNDS)} wounds were found")
    return missed


if __name__ == "__main__":
    sys.exit(main())
