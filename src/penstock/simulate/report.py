"""What a play comes to: throughput, waiting times, how much of each limit was used, and the bottleneck."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.clock import SECOND
from penstock.limits.durations import format_duration
from penstock.limits.rules import Numbers, Window
from penstock.simulate.play import Played
from penstock.simulate.watch import Group, Rule, SeenGate
from penstock.simulate.words import percent

WORKERS: Final = "workers"
# The line grows if more than this part of the jobs that came in the second half still waits at its end.
GROWTH: Final = 0.05
FEW: Final = 20  # too few jobs to tell


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the jobs of a group waited, in microseconds, and how many *still* do (None: no job started)."""

    name: str
    arrived: int
    started: int
    dropped: int
    still: int
    mean: float | None = None
    p50: int | None = None
    p90: int | None = None
    p95: int | None = None
    p99: int | None = None
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """How much of one rule was used, a part of 1: over all keys, and at the key with the most.

    *held* is its part of all the waiting, by what each job waited for last.
    """

    limit: str
    rule: str
    keys: int
    used: float
    busiest: float
    busiest_key: str
    held: float


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a play; *throughput* is in jobs done per second, over the time from 0 to *until*."""

    until: int
    arrived: int
    started: int
    done: int
    dropped: int
    running: int
    waiting: int
    throughput: float
    last_start: int
    growing: bool
    overall: Waits
    kinds: tuple[Waits, ...]
    keys: tuple[tuple[str, Waits], ...]  # with the name of the limit, the longest waits first
    uses: tuple[Use, ...]
    bottleneck: Use | None


def report(played: Played) -> Report:
    """Return what *played* comes to."""
    all_jobs = played.everything
    uses = (*(_use(played, rule) for rule in played.rules), _use_of_workers(played))
    return Report(
        until=played.until,
        arrived=len(all_jobs.arrivals),
        started=len(all_jobs.starts),
        done=all_jobs.done,
        dropped=len(all_jobs.drops),
        running=len(all_jobs.starts) - all_jobs.done,
        waiting=all_jobs.waiting,
        throughput=all_jobs.done * SECOND / played.until if played.until else 0.0,
        last_start=played.last_start,
        growing=_growing(all_jobs, played.until),
        overall=_waits(all_jobs),
        kinds=tuple(_waits(group) for group in played.kinds),
        keys=tuple(sorted(_keys(played.gates), key=_by_wait)),
        uses=uses,
        bottleneck=_bottleneck(uses),
    )


def verdict(found: Report) -> str:
    """Say what the bottleneck is."""
    use = found.bottleneck
    if use is None:
        return "No bottleneck: nothing had to wait."
    used = percent(use.used) if use.keys == 1 else f"at {use.busiest_key} {percent(use.busiest)}"
    held = f"{percent(use.held)} of the waiting was for it"
    return f"Bottleneck: {use.limit} ({use.rule}), {held}; {used} of it was used."


def rule_text(kind: str, numbers: Numbers) -> str:
    """Return a rule as it is written in a plan."""
    if numbers.slots is not None:
        return f"slots {numbers.slots}"
    window = numbers.rate or numbers.throttle
    return kind if window is None else f"{kind} {_window_text(window)}"


def _keys(gates: Iterable[SeenGate]) -> Iterable[tuple[str, Waits]]:
    return ((gate.limit.name, _waits(gate.group)) for gate in gates)


def _by_wait(pair: tuple[str, Waits]) -> tuple[float, int, str]:
    waits = pair[1]
    return -(waits.p90 or 0), -waits.still, waits.name


def _waits(group: Group) -> Waits:
    waits = sorted(group.waits)
    found = Waits(group.name, len(group.arrivals), len(waits), len(group.drops), group.waiting)
    if not waits:
        return found
    p50, p90, p95, p99 = (_percentile(waits, part) for part in (50, 90, 95, 99))
    mean = sum(waits) / len(waits)
    return replace(found, mean=mean, p50=p50, p90=p90, p95=p95, p99=p99, longest=waits[-1])


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the least of *ordered* that *percent* of them do not exceed."""
    return ordered[max(-(-len(ordered) * percent // 100), 1) - 1]


def _use(played: Played, rule: Rule) -> Use:
    gates = [gate for gate in played.gates if gate.limit.name == rule.limit]
    used = {gate.group.name: _used(gate, rule, played.until) for gate in gates}
    busiest = max(used, key=lambda key: used[key], default="")
    return Use(
        rule.limit,
        rule_text(rule.kind, rule.numbers),
        len(gates),
        sum(used.values()) / len(used) if used else 0.0,
        used.get(busiest, 0.0),
        busiest,
        _share(played, rule),
    )


def _use_of_workers(played: Played) -> Use:
    slots = played.workers
    used = slots.spent / (played.plan.concurrency * played.until) if played.until else 0.0
    rule = f"concurrency {played.plan.concurrency}"
    return Use(WORKERS, rule, 1, used, used, "", _share(played, played.crew))


def _used(gate: SeenGate, rule: Rule, until: int) -> float:
    """Return which part of what a rule allows was used at a gate."""
    numbers = rule.numbers
    if numbers.slots is not None:
        most = numbers.slots * until
        return gate.slots.spent / most if most else 0.0
    window = numbers.rate or numbers.throttle
    if window is None or not window.limit or not until:
        return 0.0
    if numbers.throttle is not None:
        window = Window(1, window.gap)
    # A window that has only begun allows as much as a whole one.
    return gate.started / (window.limit * -(-until // window.period))


def _share(played: Played, rule: Rule) -> float:
    total = played.crew.held + sum(each.held for each in played.rules)
    return rule.held / total if total else 0.0


def _bottleneck(uses: Sequence[Use]) -> Use | None:
    held = [use for use in uses if use.held]
    return max(held, key=lambda use: use.held, default=None)


def _growing(group: Group, until: int) -> bool:
    """Tell whether jobs come faster than they start, for as long as they come."""
    if len(group.arrivals) < FEW or group.arrivals[-1] < until // 2:
        return False
    middle = until // 2
    came = len(group.arrivals) - bisect_right(group.arrivals, middle)
    went = sum(len(times) - bisect_right(times, middle) for times in (group.starts, group.drops))
    return came >= FEW and came - went > GROWTH * came


def _window_text(window: Window) -> str:
    return f"{window.limit}/{format_duration(window.period)}"
