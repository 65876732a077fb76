"""MEM: how much memory does a worker take that has a million jobs before it?"""

from penstock.bench.drain import free_jobs
from penstock.bench.figures import Figure, at_most
from penstock.bench.ground import Ground, fill
from penstock.bench.hands import drained

BOUND = 150


def run(ground: Ground) -> list[Figure]:
    """Drain a million no-op jobs and read the peak of the worker's resident memory."""
    count = ground.size(1_000_000, 100_000)
    ground.say(f"MEM enqueue {count:,} jobs")
    path = ground.path("memory")
    fill(path, free_jobs(count))
    ground.say(f"MEM drain {count:,} jobs")
    sight = drained(path, "noop")
    ground.clear("memory")
    peak = sight.peak_megabytes
    return [
        Figure(
            "MEM", f"peak of a worker draining {count:,} jobs", peak, "MB", at_most(peak, BOUND, f"< {BOUND}")
        ),
        Figure("MEM", "drain", count / sight.seconds, "jobs/s"),
    ]
