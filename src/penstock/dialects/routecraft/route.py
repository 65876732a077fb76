"""A pipeline: a source, steps, a destination; with policies around the whole of it, or around one step.

What is said before the source is about the route, in one order however it is written, outside first:
error, throttle, breaker, retry, timeout, concurrency.  What is said after it is about the next step only, outside
first as written.  Each route has slots of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import count
from typing import Any, Final, Self

from penstock.dialects.routecraft.endpoints import items, step
from penstock.dialects.routecraft.errors import InvalidRouteError, coded
from penstock.dialects.routecraft.events import Place, RouteListener
from penstock.limits.durations import Duration
from penstock.policies import Breaker, Bulkhead, RateLimiter, Retrying, Throttler, Timeout
from penstock.policies.bulkhead import Number
from penstock.policies.call_limit import CallLimit
from penstock.policies.events import work_id
from penstock.policies.retrying import On

_numbers: Final = count(1)
_RANKS: Final = ("error", "throttle", "breaker", "retry", "timeout", "concurrency")
_ONCE: Final = {"error", "breaker", "retry", "timeout"}
_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Exchange:
    """A body with its headers; each step makes a new one, with the same id."""

    body: Any = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"exchange-{next(_numbers)}")

    def with_body(self, body: Any) -> Self:
        """Return the same exchange with another body."""
        return replace(self, body=body)


class Dropped(Exception):  # noqa: N818 - it is not an error
    """Raised by a step that ends an exchange without a result."""


Step = Callable[[Exchange], Awaitable[Exchange]]
Wrap = Callable[[Step], Step]
PickKey = Callable[[Exchange], Hashable]


class Route:
    """Builds and runs a pipeline named *name*."""

    def __init__(self, name: str) -> None:
        if not name:
            raise InvalidRouteError("name", f"{name!r} must be text")
        self.name = name
        self._source: Any = None
        self._around: list[tuple[int, Wrap]] = []
        self._staged: list[tuple[Wrap, Place | None]] = []
        self._steps: list[Step] = []
        self._places: list[Place] = []
        self._listeners: list[tuple[str, RouteListener]] = []
        self._whole: Step | None = None

    @property
    def limits(self) -> list[CallLimit]:
        """The limits of the route and of its steps."""
        return [place.limit for place in self._places]

    def source(self, source: Any) -> Self:
        """Take bodies from an iterable, an async iterable, a function that returns one, or `Jobs`."""
        if self._source is not None:
            raise InvalidRouteError("source", "a route has one source")
        self._source = source
        if hasattr(source, "attach"):
            source.attach(self.send)
        return self

    from_ = source

    def concurrency(
        self,
        limit: Bulkhead | Number | None = None,
        *,
        max: Number | None = None,  # noqa: A002 - Routecraft's word
        mode: str = "queue",
        maxQueue: int | None = None,
        key: PickKey | None = None,
        maxKeys: int | None = None,
        label: str | None = None,
    ) -> Self:
        """Let so many exchanges run at once; or put a ready `Bulkhead` around them."""
        if isinstance(limit, Bulkhead):
            return self._limit("concurrency", limit)
        if maxQueue == 0:
            raise InvalidRouteError(
                "maxQueue", '0 must be at least 1; to let no exchange wait, write mode="reject"'
            )
        number: Any = max if limit is None else limit
        with coded():
            limit = Bulkhead(number, mode=mode, max_queue=maxQueue, key=key, max_keys=maxKeys, name=label)
        return self._limit("concurrency", limit)

    def throttle(
        self,
        rate: Throttler | RateLimiter | int,
        per: Duration = 1,
        *,
        burst: int = 1,
        mode: str = "delay",
        key: PickKey | None = None,
        maxKeys: int | None = None,
        label: str | None = None,
    ) -> Self:
        """Let exchanges start *per* / *rate* apart; or put a ready `Throttler` or `RateLimiter` around them."""
        if isinstance(rate, CallLimit):
            return self._limit("throttle", rate)
        with coded():
            limit = Throttler(rate, per, burst=burst, mode=mode, key=key, max_keys=maxKeys, name=label)
        return self._limit("throttle", limit)

    def retry(
        self,
        policy: Retrying | int | None = None,
        *,
        maxAttempts: int = 3,
        backoffMs: float = 1000,
        maxBackoffMs: float | None = None,
        factor: float = 1,
        jitter: bool = False,
        on: On = Exception,
    ) -> Self:
        """Make up to so many attempts, *backoffMs* apart; or put a ready `Retrying` around them."""
        if isinstance(policy, Retrying):
            return self._wrap("retry", policy)
        longest: dict[str, Any] = {} if maxBackoffMs is None else {"max_backoff": maxBackoffMs / 1000}
        attempts = maxAttempts if policy is None else policy
        with coded():
            retrying = Retrying(
                attempts, backoff=backoffMs / 1000, factor=factor, jitter=jitter, on=on, **longest
            )
        return self._wrap("retry", retrying)

    def timeout(self, seconds: Duration) -> Self:
        """Let an attempt take so long at most."""
        with coded():
            policy = Timeout(seconds)
        return self._wrap("timeout", policy)

    def breaker(
        self, failures: Breaker | int = 5, *, window: Duration = 60, cooldown: Duration = 30, probes: int = 1
    ) -> Self:
        """Stop calling what keeps failing, for a while; or put a ready `Breaker` around it."""
        if isinstance(failures, Breaker):
            return self._wrap("breaker", failures)
        with coded():
            policy = Breaker(failures, window=window, cooldown=cooldown, probes=probes)
        return self._wrap("breaker", policy)

    def error(self, handler: Callable[[Any], Any]) -> Self:
        """Let *handler* give a body in place of an error; of the route it is the last word, of a step it goes on."""
        return self._wrap("error", _recovering(handler))

    def to(self, destination: Any) -> Self:
        """Send the body to a function, to `http(...)`, or to a task's queue; what comes back is the next body."""
        function = step(destination)

        async def send(exchange: Exchange) -> Exchange:
            return exchange.with_body(await _result(function(exchange.body)))

        return self._step(send, getattr(function, "__name__", "to"))

    transform = to
    step = to

    def filter(self, wanted: Callable[[Any], Any]) -> Self:
        """Drop what is not *wanted*."""

        async def sift(exchange: Exchange) -> Exchange:
            if not await _result(wanted(exchange.body)):
                raise Dropped
            return exchange

        return self._step(sift, "filter")

    def on(self, pattern: str, listener: RouteListener) -> Self:
        """Tell *listener* of the events whose names fit, as in "route:concurrency:*"."""
        self._listeners.append((pattern, listener))
        for place in self._places:
            place.limit.listen(place.listener(pattern, listener))
        return self

    async def send(self, body: Any, headers: dict[str, Any] | None = None) -> Any:
        """Send one body along the route and return the last body; None if it was dropped."""
        whole = self._whole or self._built()
        exchange = Exchange(body, headers or {})
        token = work_id.set(exchange.id)
        try:
            return (await whole(exchange)).body
        except Dropped:
            return None
        finally:
            work_id.reset(token)

    async def run(self, *, at_once: int = _AT_ONCE) -> list[Any]:
        """Send all there is in the source, *at_once* at a time; return the last body of each that was not dropped."""
        self._built()
        if hasattr(self._source, "drain"):
            await self._source.drain()
            return []
        room = asyncio.Semaphore(at_once)
        sent: list[asyncio.Task[Any]] = []
        try:
            async with asyncio.TaskGroup() as group:
                async for item in items(self._source):
                    await room.acquire()
                    sent.append(group.create_task(self.send(item)))
                    sent[-1].add_done_callback(lambda _: room.release())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [answer for task in sent if (answer := task.result()) is not None]

    def __call__(self, body: Any) -> Awaitable[Any]:
        return self.send(body)

    def _limit(self, kind: str, limit: CallLimit) -> Self:
        place = Place(self.name, limit, "route" if self._source is None else "step")
        self._places.append(place)
        for pattern, listener in self._listeners:
            limit.listen(place.listener(pattern, listener))
        return self._wrap(kind, limit.bound, place)

    def _wrap(self, kind: str, wrap: Wrap, place: Place | None = None) -> Self:
        self._whole = None
        if self._source is None:
            rank = _RANKS.index(kind)
            if kind in _ONCE and any(each == rank for each, _ in self._around):
                raise InvalidRouteError(kind, f"a route has one {kind}; nest another around a step")
            self._around.append((rank, _coding(wrap)))
        else:
            self._staged.append((_coding(wrap), place))
        return self

    def _step(self, call: Step, label: str) -> Self:
        if self._source is None:
            raise InvalidRouteError(
                "source", f"say where {self.name} takes things from before its first step"
            )
        for wrap, place in reversed(self._staged):
            call = wrap(call)
            if place is not None:
                place.step = label
        self._staged.clear()
        self._steps.append(call)
        self._whole = None
        return self

    def _built(self) -> Step:
        if self._staged:
            raise InvalidRouteError("step", f"RC2001: {self.name} ends with a policy that no step follows")
        steps = tuple(self._steps)

        async def whole(exchange: Exchange) -> Exchange:
            for each in steps:
                exchange = await each(exchange)
            return exchange

        call: Step = whole
        # The last declared of one kind is the innermost, and innermost goes on first.
        for _, wrap in sorted(enumerate(self._around), key=lambda each: (each[1][0], each[0]), reverse=True):
            call = wrap[1](call)
        self._whole = call
        return call


def _coding(wrap: Wrap) -> Wrap:
    """Return *wrap* such that errors of its policy have Routecraft's codes."""

    def outer(call: Step) -> Step:
        wrapped = wrap(call)

        @wraps(wrapped)
        async def run(exchange: Exchange) -> Exchange:
            with coded():
                return await wrapped(exchange)

        return run

    return outer


async def _result(value: Any) -> Any:
    return await value if hasattr(value, "__await__") else value


def _recovering(handler: Callable[[Any], Any]) -> Wrap:
    def wrap(call: Step) -> Step:
        async def recovered(exchange: Exchange) -> Exchange:
            try:
                return await call(exchange)
            except Dropped:
                raise
            except Exception as error:  # noqa: BLE001 - it is the handler's business
                return exchange.with_body(await _result(handler(error)))

        return recovered

    return wrap
