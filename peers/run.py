"""One run: who is measured when."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from peers.adapter import adapter_for
from peers.catalogue import Peer
from peers.environments import NotInstalledError
from peers.ours import NotMeasuredError, measure_on_sqlite, measure_ours, measure_together
from peers.results import OURS, Result, Results
from peers.stores import Stores
from peers.workloads import FIRST_MEASURES, Bench, measure

ROUNDS: Final = 3
# What is compared closely is measured in turns, in neighbouring minutes; penstock's W3 needs its W2.
IN_ROUNDS: Final = (("W2", "W3"), ("W1",), ("W6",), ("W16",))
ONCE: Final = (("W4",), ("W5",), ("W7",), ("W8",), ("W9",), ("W15",))
# Seconds after which a peer that is no rival is in no further round.
ALLOWANCE: Final = 5.0


class Run:
    """A run over chosen peers and workloads; a *quick* one is one round of the best."""

    def __init__(
        self, stores: Stores, peers: Sequence[Peer], workloads: Sequence[str], *, ours: bool, quick: bool
    ) -> None:
        self.results = Results()
        self._stores = stores
        self._workloads = workloads
        self._ours_too = ours
        self._quick = quick
        self._began = time.monotonic()
        self._spent: dict[tuple[str, str], float] = {}
        taking_part = (peer for peer in peers if set(peer.workloads) & set(workloads))
        self._benches = [bench for peer in taking_part if (bench := self._bench(peer))]

    def all(self) -> None:
        """Measure everybody."""
        rounds = 1 if self._quick else ROUNDS
        for turn in range(rounds):
            self._say(f"round {turn + 1} of {rounds}")
            for group in IN_ROUNDS:
                self._take_turns(group)
        for group in ONCE:
            self._take_turns(group)

    def _take_turns(self, group: Sequence[str]) -> None:
        wanted = [workload for workload in group if workload in self._workloads]
        if wanted and self._ours_too:
            self._ours(wanted)
        for workload in wanted:
            for bench in self._benches if workload in FIRST_MEASURES else []:
                spent = self._spent.get((bench.peer.name, workload), 0)
                if workload not in bench.peer.workloads:
                    continue
                if workload in bench.peer.rival or (spent < ALLOWANCE and not self._quick):
                    began = time.monotonic()
                    self._theirs(bench, workload)
                    self._spent[bench.peer.name, workload] = spent + time.monotonic() - began

    def _bench(self, peer: Peer) -> Bench | None:
        try:
            return Bench(peer, adapter_for(peer), self._stores, self._quick)
        except NotInstalledError as error:
            self._keep(
                _not_run(peer, workload, error) for workload in self._workloads if workload in peer.workloads
            )
            return None

    def _ours(self, workloads: Sequence[str]) -> None:
        by_command = [workload for workload in workloads if workload != "W16"]
        if by_command:
            self._mine(" ".join(by_command), lambda: measure_ours(self._stores, by_command))
        if "W3" in workloads:
            self._mine("W3 on SQLite", measure_on_sqlite)
        if "W16" in workloads:
            self._mine("W16", lambda: measure_together(self._stores, quick=self._quick))

    def _mine(self, name: str, measured: Callable[[], list[Result]]) -> None:
        self._say(f"{name} {OURS}")
        try:
            self._keep(measured())
        except NotMeasuredError as error:
            self._say(f"{OURS} was not measured: {error}")

    def _theirs(self, bench: Bench, workload: str) -> None:
        self._say(f"{workload} {bench.peer.name}")
        try:
            self._keep(measure(bench, workload))
        except NotInstalledError as error:
            self._keep([_not_run(bench.peer, workload, error)])

    def _keep(self, found: Iterable[Result]) -> None:
        for result in found:
            self.results.add(result)

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:5.0f} s  {text}", file=sys.stderr, flush=True)


def _not_run(peer: Peer, workload: str, error: Exception) -> Result:
    name, unit = FIRST_MEASURES.get(workload, ("", ""))
    return Result(peer.name, workload, name, unit, note=f"not run: {error}")
