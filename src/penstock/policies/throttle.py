"""So many starts per time: spread out, or counted in any window."""

from abc import ABC, abstractmethod
from typing import Any

from penstock.limits.durations import Duration
from penstock.limits.rules import Window
from penstock.policies import moment
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.events import Listeners
from penstock.policies.forms import Limit
from penstock.policies.keys import Key
from penstock.policies.options import Order, options, whole
from penstock.policies.pace import Pace, Spaced, Windowed
from penstock.policies.spelling import spelled


class _Paced(Limit, ABC):
    """What `Throttle` and `Rate` share."""

    def __init__(
        self,
        limit: int,
        per: Duration = 1,
        *,
        burst: int | None = None,
        mode: str = "delay",
        max_queue: int | None = None,
        max_wait: Duration | None = None,
        key: Key | None = None,
        max_keys: int | None = None,
        order: Order = "fifo",
        aging: Duration = 1,
        shed: str | bool | None = None,
        target: Duration | None = None,
        weight: int = 1,
        name: str | None = None,
        on_event: Listeners = None,
        **names: Any,
    ) -> None:
        super().__init__()
        given = spelled(names, max_queue=max_queue, max_keys=max_keys, name=name)
        asked = options(
            type(self).__name__.lower(),
            mode=mode,
            max_wait=max_wait,
            key=key,
            order=order,
            aging=aging,
            shed=shed,
            target=target,
            on_event=on_event,
            max_queue=given["max_queue"],
            max_keys=given["max_keys"],
            name=given["name"],
            scope=given.get("scope", "step"),
        )
        window = Window(whole("limit", limit), moment.span(per, "per"))
        self.key = key
        self.weight = whole("weight", weight)
        self.pool = self._pace(window, 1 if burst is None else whole("burst", burst), asked)

    @staticmethod
    @abstractmethod
    def _pace(window: Window, burst: int, asked: Any) -> Pace:
        """Return what remembers the starts."""


class Throttle(_Paced):
    """Starts at least *per* / *limit* apart, after a first *burst* of so many at once (1 unless told otherwise)."""

    @staticmethod
    def _pace(window: Window, burst: int, asked: Any) -> Pace:
        return Spaced(window, burst, asked)


class Rate(_Paced):
    """At most *limit* starts in any window as long as *per*, wherever it begins."""

    @staticmethod
    def _pace(window: Window, burst: int, asked: Any) -> Pace:
        if burst != 1:
            raise InvalidPolicyError("burst", "a rate lets all its starts go at once; a throttle has a burst")
        return Windowed(window, asked)
