"""Play many histories, in several processes."""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.found import FOUND
from tests.simulation.history import STEPS, Failure, Played, failure_of, play
from tests.simulation.wounds import WOUNDS, wounded

AHEAD = 8  # histories that wait for each process
TRIED = 200  # random histories, after those that were found before


def play_all(seeds: Sequence[int], steps: int, processes: int) -> Iterator[Played | Failure]:
    """Play histories, and yield what became of each as it is known."""
    with _pool(processes) as pool:
        size = AHEAD * processes
        for begin in range(0, len(seeds), size):
            futures = [pool.submit(play, seed, steps) for seed in seeds[begin : begin + size]]
            yield from (future.result() for future in as_completed(futures))


def find_all(processes: int, steps: int) -> Iterator[tuple[str, int | None, str]]:
    """Wound the engine in every way, one after the other."""
    with _pool(processes) as pool:
        yield from pool.map(find, WOUNDS, [steps] * len(WOUNDS))


def find(name: str, steps: int = STEPS, most: int = TRIED) -> tuple[str, int | None, str]:
    """Return how many histories it took to notice a wound, and what was noticed; None if none of them did.

    Those that were found before come first, because they are short; then random ones, *most* of them.
    """
    with wounded(name):
        for number, (mode, _, history) in enumerate(FOUND.values(), 1):
            error = failure_of(mode, history)
            if error is not None:
                return name, number, error
        for seed in range(most):
            result = play(seed, steps)
            if isinstance(result, Failure):
                return name, len(FOUND) + seed + 1, result.error
    return name, None, "nothing"


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
