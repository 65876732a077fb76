"""Run workloads and report: `penstock bench`."""

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from penstock.bench import (
    blocked,
    cluster,
    drain,
    enqueue,
    instances,
    keys,
    pickup,
    policies,
    rate,
    sharing,
    throttle,
    unknown_tasks,
    workers,
)
from penstock.bench.figures import Figure, broken
from penstock.bench.machine import Machine
from penstock.bench.report import show_json, show_table
from penstock.bench.run_context import RunContext, prepared


def _web(context: RunContext) -> list[Figure]:
    from penstock.bench import web  # noqa: PLC0415 - not everybody has the server's packages

    return web.run(context)


def _silo(context: RunContext) -> list[Figure]:
    from penstock.bench import silo  # noqa: PLC0415 - the same

    return silo.run(context)


WORKLOADS: Final[dict[str, Callable[[RunContext], list[Figure]]]] = {
    "W1": enqueue.run,
    "W2": drain.run_free,
    "W3": drain.run_keyed,
    "W4": blocked.run,
    "W5": rate.run,
    "W6": pickup.run,
    "W7": keys.run,
    "W8": workers.run,
    "W9": _web,
    "W10": policies.run,
    "W11": sharing.run,
    "W12": _silo,
    "W13": throttle.run,
    "W14": unknown_tasks.run,
    "W15": instances.run,
    "W16": cluster.run,
    "MEM": drain.run_memory,
}
# Draining a million jobs takes minutes, and processes that share a file take turns: run by name only.
BY_NAME: Final = {"MEM", "W8", "W9", "W16"}
BY_NAME_ON_POSTGRES: Final = {"MEM", "W9", "W12"}
# Extras that workloads need, each with a module that it brings.
EXTRAS: Final = {"W9": ("server", "uvicorn"), "W12": ("silo", "grpc")}


def main(workloads: list[str], as_json: bool, quick: bool, store: str = "") -> int:
    """Run the named *workloads*; return 1 if a limit was broken, 2 if one cannot be run, else 0."""
    left_out = BY_NAME_ON_POSTGRES if store else BY_NAME
    names = [name.upper() for name in workloads] or [name for name in WORKLOADS if name not in left_out]
    missing = [name for name in names if name not in WORKLOADS]
    if missing:
        print(f"no workload {', '.join(missing)}; there are {', '.join(WORKLOADS)}", file=sys.stderr)
        return 2
    for extra, module in (EXTRAS[name] for name in names if name in EXTRAS):
        if find_spec(module) is None:
            needed = f"pip install 'penstock[{extra}]', or name other workloads"
            print(f"a workload needs more packages: {needed}", file=sys.stderr)
            return 2
    began = time.perf_counter()
    figures: list[Figure] = []
    with prepared(store, quick=quick) as context:
        machine = Machine(context.folder, context.stores)
        machine.look()
        for name in names:
            figures += WORKLOADS[name](context)
        machine.look()
    if as_json:
        show_json(figures, machine, seconds=time.perf_counter() - began)
    else:
        show_table(figures, machine)
    return int(broken(figures))
