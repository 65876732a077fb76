"""What penstock wants to reach, beside its peers and by itself, and whether it did."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from peers.catalogue import PEERS, Peer
from peers.results import Result, Results
from peers.workloads import FLOW_STEPS
from penstock.bench.cluster import MANY
from penstock.bench.pickup import CASES, Case

LOCAL_QUEUE: Final = "graphile-worker, local queue"
LATER: Final = 1.1  # times as long as the best peer's may the way to the handler be


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target, and whether it was *met*."""

    workload: str
    text: str
    wanted: str
    found: float | None
    met: bool

    @property
    def word(self) -> str:
        if self.found is None:
            return "not measured"
        return "ok" if self.met else "missed"

    @property
    def plain(self) -> dict[str, Any]:
        return {
            "workload": self.workload,
            "target": self.text,
            "wanted": self.wanted,
            "found": self.found,
            "verdict": self.word,
        }


def verdicts(results: Results, workloads: Sequence[str]) -> list[Verdict]:
    """Judge the *workloads* that were run."""
    judged = [
        _at_least(results, "W1", "one by one", "peer", 1.3),
        _at_least(results, "W1", "in bulk", "peer", 1.3),
        _at_least(results, "W2", "drain", "Python peer", 1.5),
        _reached("W2", f"drain / {LOCAL_QUEUE}", results.ratio("W2", "drain", LOCAL_QUEUE), 1.0),
        _at_least(results, "W3", "keyed", "peer", 4.0),
        *(_no_later(results, case) for case in CASES),
        *(_at_least(results, "W15", measure, "Python peer", 2.0) for measure in FLOW_STEPS.values()),
        _at_least(results, "W16", MANY.name, "peer", 4.0),
        *(_own(result) for result in results if result.wanted),
    ]
    judged.sort(key=lambda verdict: int(verdict.workload.removeprefix("W")))
    return [verdict for verdict in judged if verdict.workload in workloads]


# Huey and dramatiq keep their jobs elsewhere and promise less, so they set no target.
GROUPS: Final[dict[str, Callable[[Peer], bool]]] = {
    "peer": lambda peer: peer.store == "postgres",
    "Python peer": lambda peer: peer.store == "postgres" and peer.python,
}


def _at_least(results: Results, workload: str, measure: str, group: str, bound: float) -> Verdict:
    fit = _fit(results, workload, measure, group)
    best = max(fit, key=lambda result: result.value, default=None)
    found = results.ratio(workload, measure, best.who) if best else None
    return _reached(workload, _text(measure, group, best), found, bound)


def _reached(workload: str, text: str, found: float | None, bound: float) -> Verdict:
    return Verdict(workload, text, f">= {bound:g}", found, bool(found and found >= bound))


def _no_later(results: Results, case: Case) -> Verdict:
    measure = f"p50, {case.name}"
    best = min(_fit(results, "W6", measure, "peer"), key=lambda result: result.value, default=None)
    found = results.ratio("W6", measure, best.who) if best else None
    return Verdict("W6", _text(measure, "peer", best), f"<= {LATER:g}", found, bool(found and found <= LATER))


def _own(result: Result) -> Verdict:
    met = all(result.met) if result.promise else sum(result.met) > len(result.met) / 2
    return Verdict(result.workload, result.own_name, result.wanted, result.value, met)


def _fit(results: Results, workload: str, measure: str, group: str) -> list[Result]:
    """Return what those of *group* did that broke no limit, also those that were stopped: their rate is slow."""
    names = {peer.name for peer in PEERS if GROUPS[group](peer)}
    return [
        result
        for result in results.of(workload, measure)
        if result.who in names and result.runs and not result.broken
    ]


def _text(measure: str, group: str, best: Result | None) -> str:
    return f"{measure} / best {group} on PostgreSQL{f' ({best.who})' if best else ''}"
