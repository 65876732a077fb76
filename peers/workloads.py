"""The workloads, for any peer: the same jobs, keys and pauses for all, counted in the same way."""

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from peers.adapter import Adapter, PeerFailedError, Process, answer, await_word, close_input, let_go
from peers.catalogue import Peer
from peers.results import Result
from peers.stores import Stores
from penstock.bench import cluster
from penstock.bench.pickup import CASES, WARM_UP, Case
from penstock.bench.rate import worst_window

SINGLES: Final = 2_000
BULK: Final = 20_000
CALLERS: Final = 16
TOGETHER: Final = 4_000
DRAIN: Final = 20_000
KEYED: Final = 5_000
KEYS: Final = 100
FREE: Final = 1_000
DEPTHS: Final = (0, 10_000, 100_000)
RATE: Final = 200
BACKLOG: Final = 4_000
SECONDS: Final = 10

# Seconds that a worker may take: the slowest peers are stopped, and their rate is that of the time they had.
ENQUEUE_BOUND: Final = 120.0
DRAIN_BOUND: Final = 20.0
KEYED_BOUND: Final = 15.0
BLOCKED_BOUND: Final = 30.0
TOO_LONG: Final = 5.0  # behind ten times as many it would not end within the bound
PICKUP_BOUND: Final = 60.0
TOGETHER_BOUND: Final = 10.0
FLOWS: Final = 1_000
FLOW_BOUND: Final = 60.0
FLOW_STEPS: Final = {1: "workflows in Python, 1 step", 5: "workflows in Python, 5 steps"}

_SECOND: Final = 1_000_000_000
_HANDLERS: Final = {"keys": KEYS, "milliseconds": 1, "together": False}


@dataclass(frozen=True, slots=True)
class Bench:
    """One peer, ready to be measured."""

    peer: Peer
    adapter: Adapter
    stores: Stores
    quick: bool = False

    def result(self, workload: str, measure: str, value: float | None, unit: str, **more: Any) -> Result:
        runs = [] if value is None else [value]
        return Result(self.peer.name, workload, measure, unit, runs, **more)

    @contextmanager
    def room(self, workload: str) -> Iterator["Room"]:
        """Install the peer in a fresh store."""
        with self.stores.fresh(self.peer.store) as url:
            room = Room(self, {"url": url, "settings": self.peer.settings_for(workload)})
            room.ask("install")
            yield room


class Room(NamedTuple):
    """A fresh store, and the way to give orders there."""

    bench: Bench
    common: dict[str, Any]

    def ask(self, verb: str, bound: float = ENQUEUE_BOUND, **order: Any) -> dict[str, Any]:
        """Give an order and wait for the answer."""
        return self.bench.adapter.ask(verb=verb, bound=bound, **self.common, **order)

    def fill(self, *jobs: list[Any]) -> None:
        """Enqueue *jobs*, each a kind and its numbers, as fast as the peer can."""
        self.ask("enqueue", jobs=jobs, callers=1, bulk=True)
        self.bench.stores.look_over(self.bench.peer.store, self.common["url"])

    def work(self, bound: float, kinds: list[str], until: int = 0, seconds: int = 0) -> dict[str, Any]:
        """Let one worker process do *until* so many jobs, or for so many *seconds*; return what its handlers saw."""
        return self.ask("work", bound, kinds=kinds, until=until, seconds=seconds, **_HANDLERS)

    def at_work(self, bound: float, kinds: list[str], **order: Any) -> AbstractContextManager[Process]:
        """Let a worker run beside other orders, until it has no more input and nothing is left to do."""
        whole = {
            "verb": "work",
            "bound": bound,
            "kinds": kinds,
            "until": 0,
            "seconds": 0,
            **_HANDLERS,
            **order,
        }
        return self.bench.adapter.at_work(**whole, **self.common)


def measure(bench: Bench, workload: str) -> list[Result]:
    """Run *workload* once; a peer that cannot, or fails, says why."""
    reason = bench.peer.cannot.get(workload)
    if reason:
        return [_without(bench, workload, reason)]
    try:
        return _WORKLOADS[workload](bench)
    except PeerFailedError as error:
        return [_without(bench, workload, str(error))]


def _without(bench: Bench, workload: str, reason: str) -> Result:
    measure, unit = FIRST_MEASURES[workload]
    return bench.result(workload, measure, None, unit, note=reason)


def keys(count: int) -> list[int]:
    """Draw the keys that penstock's own benchmark draws."""
    chance = random.Random(7)
    return [chance.randrange(KEYS) for _ in range(count)]


def _enqueue(bench: Bench) -> list[Result]:
    found = []
    for name, count, callers, bulk in (
        ("one by one", SINGLES, 1, False),
        ("in bulk", BULK, 1, True),
        (f"{CALLERS} callers", TOGETHER, CALLERS, False),
    ):
        if reason := bench.peer.cannot.get(f"W1 {name}"):
            found.append(bench.result("W1", name, None, "jobs/s", note=reason))
            continue
        with bench.room("W1") as room:
            spent = room.ask("enqueue", jobs=[["noop", [0] * count]], callers=callers, bulk=bulk)["seconds"]
        found.append(bench.result("W1", name, count / spent, "jobs/s"))
    return found


def _drain(bench: Bench) -> list[Result]:
    with bench.room("W2") as room:
        room.fill(["noop", [0] * DRAIN])
        sight = room.work(DRAIN_BOUND, kinds=["noop"], until=DRAIN)
    return [bench.result("W2", "drain", _rate(sight), "jobs/s", note=_stopped(sight, DRAIN, DRAIN_BOUND))]


def _keyed(bench: Bench) -> list[Result]:
    with bench.room("W3") as room:
        room.fill(["keyed", keys(KEYED)])
        sight = room.work(KEYED_BOUND, kinds=["keyed"], until=KEYED)
    note = _stopped(sight, KEYED, KEYED_BOUND)
    return [bench.result("W3", "keyed", _rate(sight), "jobs/s", broken=sight["overlaps"], note=note)]


def _blocked(bench: Bench) -> list[Result]:
    found, seconds = [], 0.0
    for depth in DEPTHS:
        measure = f"{depth:,} blocked"
        if seconds > TOO_LONG:
            note = f"not tried after {seconds:.0f} s behind fewer"
            found.append(bench.result("W4", measure, None, "s", note=note))
            break
        with bench.room("W4") as room:
            room.fill(["busy", [0] * (depth + 1)], ["noop", list(range(FREE))])
            sight = room.work(BLOCKED_BOUND, kinds=["busy", "noop"], until=FREE)
        seconds = (sight["ended"] - sight["began"]) / _SECOND
        note = _stopped(sight, FREE, BLOCKED_BOUND)
        value = None if note else seconds
        found.append(bench.result("W4", measure, value, "s", broken=sight["overlaps"], note=note))
    return found


def _limited(bench: Bench) -> list[Result]:
    with bench.room("W5") as room:
        room.fill(["limited", [0] * BACKLOG])
        sight = room.work(SECONDS + 10.0, kinds=["limited"], seconds=SECONDS + 1)
    starts = sorted(at for _, at in sight["starts"])
    if not starts:
        raise PeerFailedError("no job began")
    worst = worst_window(starts)
    used = bisect_left(starts, starts[0] + SECONDS * _SECOND) / (RATE * SECONDS)
    return [
        bench.result("W5", "worst second", worst, "starts", broken=max(worst - RATE, 0)),
        bench.result("W5", "use of the limit", 100 * used, "%"),
    ]


def _pickup(bench: Bench) -> list[Result]:
    return [result for case in CASES for result in _picked_up(bench, case)]


def _picked_up(bench: Bench, case: Case) -> list[Result]:
    with bench.room("W6") as room, ExitStack() as stack:
        workers = [
            stack.enter_context(room.at_work(PICKUP_BOUND, kinds=["stamped"])) for _ in range(case.workers)
        ]
        for worker in workers:
            await_word(worker)
        before = room.ask("send", PICKUP_BOUND, pauses=case.pauses())["before"]
        sights = [answer(worker, PICKUP_BOUND) for worker in workers]
    starts = {number: at for sight in sights for number, at in sight["starts"]}
    waits = [(starts[number] - at) / 1e6 for number, at in enumerate(before) if number in starts][WARM_UP:]
    if len(waits) < case.jobs:
        raise PeerFailedError(f"only {len(waits)} of {case.jobs} were picked up within {PICKUP_BOUND:.0f} s")
    return [bench.result("W6", name, value, "ms") for name, value in case.figures(waits).items()]


def _cluster(bench: Bench) -> list[Result]:
    return [_together(bench, case) for case in (*cluster.SHORT, cluster.LONG)]


def _together(bench: Bench, case: cluster.Case) -> Result:
    count = (cluster.QUICK_SHARE if bench.quick else cluster.SHARE) * case.processes
    order = {"keys": cluster.KEYS, "milliseconds": case.milliseconds, "together": True}
    with bench.room("W16") as room, ExitStack() as stack:
        room.fill(["keyed", [number % cluster.KEYS for number in range(count)]])
        workers = [
            stack.enter_context(room.at_work(ENQUEUE_BOUND, kinds=["keyed"], **order))
            for _ in range(case.processes)
        ]
        for word in (await_word, let_go):
            for worker in workers:
                word(worker)
        whole = room.ask("watch", TOGETHER_BOUND)["whole"]
        for worker in workers:
            close_input(worker)
        sights = [answer(worker, TOGETHER_BOUND) for worker in workers]
    spans = [(key, began, ended) for sight in sights for key, began, ended in sight["spans"]]
    if not spans:
        raise PeerFailedError("no job was done")
    note = "" if whole else f"{len(spans):,} of {count:,} done when stopped after {TOGETHER_BOUND:.0f} s"
    rate, broken = cluster.rate(spans), cluster.overlaps(spans)
    return bench.result("W16", case.name, rate, "jobs/s", broken=broken, note=note)


def _flows(bench: Bench) -> list[Result]:
    found = []
    for steps, measure in FLOW_STEPS.items():
        with bench.room("W15") as room:
            sight = room.work(FLOW_BOUND, kinds=[f"flow {steps}"], until=FLOWS)
        note = _stopped(sight, FLOWS, FLOW_BOUND)
        found.append(bench.result("W15", measure, _rate(sight), "/s", note=note))
    return found


def _rate(sight: dict[str, Any]) -> float | None:
    """Return jobs per second from the first start until all is written down."""
    if not sight["begun"]:
        return None
    return sight["begun"] / ((sight["ended"] - sight["first"]) / _SECOND)


def _stopped(sight: dict[str, Any], wanted: int, bound: float) -> str:
    return (
        "" if sight["whole"] else f"{sight['begun']:,} of {wanted:,} begun when stopped after {bound:.0f} s"
    )


_WORKLOADS: Final[dict[str, Callable[[Bench], list[Result]]]] = {
    "W1": _enqueue,
    "W2": _drain,
    "W3": _keyed,
    "W4": _blocked,
    "W5": _limited,
    "W6": _pickup,
    "W15": _flows,
    "W16": _cluster,
}

# Where a peer's reason for having no figures at all is written.
FIRST_MEASURES: Final = {
    "W1": ("one by one", "jobs/s"),
    "W2": ("drain", "jobs/s"),
    "W3": ("keyed", "jobs/s"),
    "W4": ("0 blocked", "s"),
    "W5": ("worst second", "starts"),
    "W6": (f"p50, {CASES[0].name}", "ms"),
    "W15": (FLOW_STEPS[1], "/s"),
    "W16": (cluster.SHORT[0].name, "jobs/s"),
}
