"""A report as programs read it: plain values, times in seconds.  The same plan and seed give the same text."""

from dataclasses import asdict

from penstock.clock import SECOND
from penstock.simulate.play import Played
from penstock.simulate.report import Report, Use, Waits


def document(played: Played, found: Report) -> dict[str, object]:
    """Return a report as plain values for JSON."""
    return {
        "title": played.plan.title,
        "seed": played.seed,
        "complete": played.whole,
        "seconds": found.until / SECOND,
        "jobs": {
            "arrived": found.arrived,
            "started": found.started,
            "done": found.done,
            "dropped": found.dropped,
            "running": found.running,
            "waiting": found.waiting,
        },
        "throughput_per_second": _rounded(found.throughput),
        "last_start": found.last_start / SECOND,
        "growing": found.growing,
        "waiting": _waits(found.overall),
        "kinds": [_waits(waits) for waits in found.kinds],
        "keys": [{"limit": limit, **_waits(waits)} for limit, waits in found.keys],
        "limits": [_use(use) for use in found.uses],
        "bottleneck": None if found.bottleneck is None else _use(found.bottleneck),
    }


def _waits(waits: Waits) -> dict[str, object]:
    plain = asdict(waits)
    for name in ("mean", "p50", "p90", "p95", "p99", "longest"):
        if plain[name] is not None:
            plain[name] = _rounded(plain[name] / SECOND)
    return plain


def _use(use: Use) -> dict[str, object]:
    return {
        name: _rounded(value) if isinstance(value, float) else value for name, value in asdict(use).items()
    }


def _rounded(value: float) -> float:
    return round(value, 6)
