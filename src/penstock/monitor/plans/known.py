"""What the store knows of a gate: its numbers in force, and how many jobs came and how long they took lately."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from penstock.clock import MILLISECOND, SECOND
from penstock.job import GateLook, TimedAttempt
from penstock.lifecycle.outcomes import Ending
from penstock.limits.durations import format_duration
from penstock.limits.rules import Numbers, Window
from penstock.monitor.actions.fields import window_text
from penstock.monitor.page import View
from penstock.monitor.plans.asked import EXAMPLE, written_numbers
from penstock.monitor.plans.plays import JOBS
from penstock.monitor.words import DAY, HOUR, MINUTE

HOURS: Final = 6  # that are looked at, unless others are asked for
MOST_HOURS: Final = 168
LOOKED_AT: Final = 800  # attempts, of all keys, the latest
_HEARD: Final = 60 * SECOND  # a worker not heard from for so long is not counted
_SPANS: Final = (10 * SECOND, MINUTE, 5 * MINUTE, 20 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, DAY)
_SEEN: Final = 100  # jobs that come while it is played, where none is in line
_FEW: Final = 5  # in so short a time that a longer one tells more
_RAN: Final = (Ending.DONE, Ending.FAILED)


class Known(Struct):
    """What is known of a gate; *since* is how far back, *came* and *ended* are the attempts it is known from."""

    key: str
    tenant: str
    numbers: Numbers
    hours: int
    since: int
    came: int
    ended: int


def known(view: View, key: str, tenant: str, hours: int) -> tuple[Known, dict[str, str]]:
    """Return what is known of a gate, and the form filled in with it."""
    gate = view.engine.gate_detail(key, tenant=tenant).gate
    asked = max(0, view.now - hours * HOUR)
    page = view.engine.timeline(asked, view.now, by="key", name=key, tenant=tenant, most=LOOKED_AT)
    since = max(asked, page.reached)
    attempts = [each for each in page.attempts if key in each.keys]
    came = sum(each.since >= since for each in attempts) + _came_and_wait(gate, since, view.now)
    took = sorted(_took(attempts))
    found = Known(key, tenant, gate.numbers, hours, since, came, len(took))
    rate = came / max(view.now - since, 1)
    values = {
        **_arrivals(gate, rate, took), **_durations(took), "workers": str(_hands(view, gate)),
        **written_numbers("a", gate.numbers), **written_numbers("b", _others(gate)),
    }  # fmt: skip
    return found, values


def _took(attempts: Iterable[TimedAttempt]) -> Iterator[int]:
    """Return how long each attempt that ran to an end kept its slot."""
    for each in attempts:
        if each.outcome in _RAN and each.claimed is not None and each.ended is not None:
            yield each.ended - each.claimed


def _came_and_wait(gate: GateLook, since: int, now: int) -> int:
    """Return about how many of those that wait came since then, as if they had come evenly."""
    oldest = since if gate.since is None else gate.since
    return round(gate.waiting.number * min(1.0, (now - since) / max(now - oldest, 1)))


def _arrivals(gate: GateLook, rate: float, took: Sequence[int]) -> dict[str, str]:
    """Return how many wait and come, and how long to play: until the line is through, and as long again."""
    waiting = min(gate.waiting.number, JOBS // 2)
    if not rate and not waiting:
        return {name: EXAMPLE[name] for name in ("line", "come", "span")}
    found = {"line": str(waiting) if waiting else ""}
    if rate:
        period = next((each for each in (SECOND, MINUTE, HOUR) if rate * each >= _FEW), DAY)
        found["come"] = window_text(Window(max(round(rate * period), 1), period))
    left = _capacity(gate.numbers, took) - rate
    wanted = 2 * HOUR if left <= 0 else 2 * waiting / left if waiting else _SEEN / rate
    short = [each for each in _SPANS if rate * each <= JOBS / 4] or [_SPANS[0]]
    return {**found, "span": format_duration(next((each for each in short if each >= wanted), short[-1]))}


def _capacity(numbers: Numbers, took: Sequence[int]) -> float:
    """Return about how many may start in a microsecond."""
    found = [
        window.limit / window.period for window in (numbers.rate, numbers.throttle) if window is not None
    ]
    if numbers.slots is not None and took:
        found.append(numbers.slots * len(took) / max(sum(took), 1))
    return min(found, default=1.0)


def _durations(took: Sequence[int]) -> dict[str, str]:
    if not took:
        return {name: EXAMPLE[name] for name in ("median", "p95")}
    median, p95 = (took[max(-(-len(took) * part // 100), 1) - 1] for part in (50, 95))
    return {"median": _rounded(median), "p95": _rounded(p95)}


def _rounded(span: int) -> str:
    """Write a span to the millisecond, or to a hundredth of itself where that is longer."""
    unit = next((each for each in (MINUTE, SECOND, 10 * MILLISECOND) if span >= 100 * each), MILLISECOND)
    return format_duration(max(round(span / unit), 1) * unit)


def _hands(view: View, gate: GateLook) -> int:
    """Return how many handlers the workers that are heard from run at once; if they do not tell, as many as seen."""
    reports = [each.report for each in view.engine.workers(view.tenant) if each.heard > view.now - _HEARD]
    return sum(report.hands or 0 for report in reports) or max(gate.running, int(EXAMPLE["workers"]))


def _others(gate: GateLook) -> Numbers:
    """Return other numbers to try: those that an override hides, or twice as many."""
    if gate.override is not None:
        hidden = gate.configured or gate.own
        if hidden.text and hidden.text != gate.numbers.text:
            return hidden
    numbers = gate.numbers
    slots = None if numbers.slots is None else max(numbers.slots * 2, 1)
    return Numbers(slots, _doubled(numbers.rate), _doubled(numbers.throttle))


def _doubled(window: Window | None) -> Window | None:
    return None if window is None else Window(max(window.limit * 2, 1), window.period, window.burst)
