"""MEM: how much memory does a worker take that has a million jobs before it?"""

from typing import Final

from penstock.bench.drain import empty, free_jobs
from penstock.bench.figures import Figure, at_most
from penstock.bench.run_context import RunContext

BOUND: Final = 150


def run(context: RunContext) -> list[Figure]:
    """Drain a million no-op jobs and read the peak of the worker's resident memory."""
    count = context.size(1_000_000, 100_000)
    sight = empty(context, "MEM", free_jobs(count))
    peak = sight.peak_megabytes
    return [
        Figure(
            "MEM", f"peak of a worker draining {count:,} jobs", peak, "MB", at_most(peak, BOUND, f"< {BOUND}")
        ),
        Figure("MEM", "drain", count / sight.seconds, "jobs/s"),
    ]
