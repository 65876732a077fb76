"""Looking back: how much of the waiting was for what, how many start in a minute, and what is remembered of it."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar, cast

from msgspec import Struct

from penstock.clock import SECOND
from penstock.job import Past, WaitedFor
from penstock.monitor.requests import Query

T = TypeVar("T")

MINUTE: Final = 60 * SECOND
LAST: Final = ("hour", "day", "week")  # spans that are offered
LATELY: Final = 5  # whole minutes of which starts per minute are the mean
_KEPT: Final = 30 * SECOND
_MOST: Final = 64  # looks back that are remembered


class Remembered:
    """Remembers looks back at a day or a week for half a minute: a page that follows the store does not read on.

    Safe to call from any thread; two that miss the same at once both look.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[object, tuple[int, object]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: object, now: int, look: Callable[[], T]) -> T:
        """Return what *look* returned under a name a short while ago, or what it returns now."""
        with self._lock:
            at, found = self._found.get(name, (now - _KEPT, None))
        if 0 <= now - at < _KEPT:
            return cast("T", found)
        looked = look()
        with self._lock:
            self._found[name] = now, looked
            self._found.move_to_end(name)
            if len(self._found) > _MOST:
                self._found.popitem(last=False)
        return looked


class Part(Struct):
    """A part of the waiting: for a gate of a key, for `other gates`, or for `a free worker`; its *share* in percent."""

    title: str
    share: int
    waited: list[float]
    key: str = ""
    tenant: str = ""


def parts_of(waited: WaitedFor, steps: int = 0) -> list[Part]:
    """Return what jobs waited for, in all or in the last *steps*; the last two are other gates and a worker."""
    lines = [(each.key, each.kept, each.key, each.tenant) for each in waited.gates]
    lines += [("other gates", waited.others, "", ""), ("a free worker", waited.worker, "", "")]
    sums = [sum(values[-steps:]) for _, values, _, _ in lines]
    whole = sum(sums)
    return [
        Part(title, round(100 * part / whole) if whole else 0, values, key, tenant)
        for (title, values, key, tenant), part in zip(lines, sums, strict=True)
    ]


def per_minute(jobs: float, span: int) -> float:
    """Return how many there were in each minute of a span, which counts as a minute at least."""
    return jobs * MINUTE / max(span, MINUTE)


def pace(past: Past) -> float:
    """Return how many jobs started in each of the last minutes."""
    moments = past.moments[-LATELY - 1 :]
    return round(per_minute(sum(moment.started for moment in moments), past.until - moments[0].at), 1)


def span_of(query: Query) -> str:
    """Return the span of time that a page is asked to look back at: an hour unless another one is."""
    return query.choice("last", LAST) or LAST[0]
