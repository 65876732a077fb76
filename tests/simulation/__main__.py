"""Play histories by the thousand: `python -m tests.simulation --help`."""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator

from tests.simulation.history import STEPS, Failure, Played, play, told, trace
from tests.simulation.wounds import WOUNDS, wounded

AT_A_TIME = 4
TRIED = 200  # seeds, after which a wound is not found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one only, and shrink it if it fails")
    parser.add_argument("--trace", action="store_true", help="with --seed: print all that happens")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100_000, help="how many seeds")
    parser.add_argument("--steps", type=int, default=STEPS, help="operations in each history")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mutants", action="store_true", help="wound the engine, and see that it is noticed")
    options = parser.parse_args()
    if options.mutants:
        return _find_wounds(options.processes, options.steps)
    if options.seed is None:
        return _play_all(
            range(options.first, options.first + options.count), options.steps, options.processes
        )
    if options.trace:
        print(trace(options.seed, options.steps))
    return _tell(play(options.seed, options.steps))


def play_all(seeds: Iterable[int], steps: int, processes: int) -> Iterator[Played | Failure]:
    """Play histories in several processes, and yield what became of each as it is known."""
    work = ((seed, steps) for seed in seeds)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_play, work, AT_A_TIME)


def _play(work: tuple[int, int]) -> Played | Failure:
    return play(*work)


def _play_all(seeds: range, steps: int, processes: int) -> int:
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
    print(f"{'wound':44} seeds  what was noticed")
    missed = 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for name, seeds, error in pool.imap(_find, [(name, steps) for name in WOUNDS]):
            missed += seeds is None
            print(f"{name:44} {seeds or f'> {TRIED}':>5}  {error[:100]}", flush=True)
    print(f"{len(WOUNDS) - missed} of {len(WOUNDS)} wounds were found")
    return missed


def _find(work: tuple[str, int]) -> tuple[str, int | None, str]:
    return find(*work)


def find(name: str, steps: int = STEPS, most: int = TRIED) -> tuple[str, int | None, str]:
    """Return how many seeds it took to notice a wound, and what was noticed; None if *most* did not do."""
    with wounded(name):
        for seed in range(most):
            result = play(seed, steps)
            if isinstance(result, Failure):
                return name, seed + 1, result.error
    return name, None, "nothing"


if __name__ == "__main__":
    sys.exit(main())
