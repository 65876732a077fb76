"""A pipeline: a source, steps, a destination; with limits around the whole of it, or around one step.

What is said before the source is about the route, in one order however it is written, outside first:
error, throttle, breaker, retry, timeout, concurrency.  What is said after it is about the next step only, outside
first as written.  Each route has slots of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Self

from penstock.limits.durations import Duration
from penstock.policies.breaker import Breaker
from penstock.policies.bulkhead import Bulkhead
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.exchange import Dropped, Exchange, current
from penstock.policies.forms import Limit
from penstock.policies.keys import Key
from penstock.policies.ports import items, step
from penstock.policies.retry import Retry
from penstock.policies.route_events import RouteListener, heard
from penstock.policies.throttle import Throttle
from penstock.policies.timeout import Timeout

Call = Callable[[Exchange], Awaitable[Exchange]]
Wrap = Callable[[Call], Call]

_RANKS: Final = ("error", "throttle", "breaker", "retry", "timeout", "concurrency")
_ONCE: Final = {"error", "breaker", "retry", "timeout"}
_AT_ONCE: Final = 100


class Route:
    """Builds and runs a pipeline named *name*."""

    def __init__(self, name: str) -> None:
        if not name:
            raise InvalidPolicyError("name", f"{name!r} must be text")
        self.name = name
        self.limits: list[Limit] = []
        self._source: Any = None
        self._around: list[tuple[int, Wrap]] = []
        self._staged: list[tuple[Wrap, Callable[[str], object]]] = []
        self._steps: list[Call] = []
        self._listeners: list[tuple[str, RouteListener]] = []
        self._whole: Call | None = None

    def source(self, source: Any) -> Self:
        """Take bodies from an iterable, an async iterable, a function that returns one, or `Jobs`."""
        if self._source is not None:
            raise InvalidPolicyError("source", "a route has one source")
        self._source = source
        if hasattr(source, "attach"):
            source.attach(self.send)
        return self

    from_ = source

    def concurrency(self, max_concurrent: Any = None, **options: Any) -> Self:
        """Let so many be inside at once; options as for `Bulkhead`, with a key that takes the exchange."""
        return self._limit("concurrency", Bulkhead, max_concurrent, options)

    def throttle(self, rate: int, per: Duration = 1, **options: Any) -> Self:
        """Let starts be *per* / *rate* apart; options as for `Throttle`, with a key that takes the exchange."""
        return self._limit("throttle", Throttle, rate, {"per": per, **options})

    def retry(self, attempts: Any = None, **options: Any) -> Self:
        """Try again; options as for `Retry`."""
        policy = attempts if isinstance(attempts, Retry) else Retry(*_given(attempts), **options)
        return self._wrap("retry", policy)

    def timeout(self, seconds: Duration) -> Self:
        """Let an attempt take so long at most."""
        return self._wrap("timeout", Timeout(seconds))

    def breaker(self, failures: int = 5, **options: Any) -> Self:
        """Stop calling what keeps failing; options as for `Breaker`."""
        return self._wrap("breaker", Breaker(failures, **options))

    def error(self, handler: Callable[[BaseException], Any]) -> Self:
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
        for limit in self.limits:
            limit.listen(heard(self.name, limit, pattern, listener))
        return self

    async def send(self, body: Any, headers: dict[str, Any] | None = None) -> Any:
        """Send one body along the route, and return what becomes of it; None if it was dropped."""
        whole = self._whole or self._built()
        exchange = Exchange(body, headers or {})
        token = current.set(exchange)
        try:
            return (await whole(exchange)).body
        except Dropped:
            return None
        finally:
            current.reset(token)

    async def run(self, *, at_once: int = _AT_ONCE) -> list[Any]:
        """Send all there is in the source, *at_once* at a time; return what became of each that was not dropped."""
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

    def _limit(self, kind: str, make: Any, number: Any, options: dict[str, Any]) -> Self:
        if isinstance(number, Limit):
            return self._wrap(kind, number)
        key: Key | None = options.get("key")
        if callable(key):
            options["key"] = _of_exchange(key)
        scope = "route" if self._source is None else "step"
        limit: Limit = make(*_given(number), scope=scope, **options)
        limit.pool.ledger.step = "route"
        return self._wrap(kind, limit)

    def _wrap(self, kind: str, policy: Any) -> Self:
        wrap: Wrap = policy.bound if isinstance(policy, Limit) else policy
        self._whole = None
        if isinstance(policy, Limit):
            self.limits.append(policy)
            for pattern, listener in self._listeners:
                policy.listen(heard(self.name, policy, pattern, listener))
        if self._source is None:
            rank = _RANKS.index(kind)
            if kind in _ONCE and any(each == rank for each, _ in self._around):
                raise InvalidPolicyError(kind, f"a route has one {kind}; nest another around a step")
            self._around.append((rank, wrap))
        else:
            self._staged.append((wrap, _labels(policy)))
        return self

    def _step(self, call: Call, label: str) -> Self:
        if self._source is None:
            raise InvalidPolicyError(
                "source", f"say where {self.name} takes things from before its first step"
            )
        for wrap, name in reversed(self._staged):
            call = wrap(call)
            name(label)
        self._staged.clear()
        self._steps.append(call)
        self._whole = None
        return self

    def _built(self) -> Call:
        if self._staged:
            raise InvalidPolicyError("step", f"RC2001: {self.name} ends with a policy that no step follows")
        steps = tuple(self._steps)

        async def whole(exchange: Exchange) -> Exchange:
            for each in steps:
                exchange = await each(exchange)
            return exchange

        call: Call = whole
        # The last declared of one kind is the innermost, and innermost goes on first.
        for _, wrap in sorted(enumerate(self._around), key=lambda each: (each[1][0], each[0]), reverse=True):
            call = wrap[1](call)
        self._whole = call
        return call


def _given(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


def _of_exchange(key: Callable[..., Any]) -> Callable[..., Any]:
    def pick(exchange: Exchange) -> Any:
        return key(exchange)

    pick.__qualname__ = getattr(key, "__qualname__", "key")
    return pick


def _labels(policy: Any) -> Callable[[str], object]:
    def name(label: str) -> None:
        if isinstance(policy, Limit):
            policy.pool.ledger.step = label

    return name


async def _result(value: Any) -> Any:
    return await value if hasattr(value, "__await__") else value


def _recovering(handler: Callable[[BaseException], Any]) -> Wrap:
    def wrap(call: Call) -> Call:
        async def recovered(exchange: Exchange) -> Exchange:
            try:
                return await call(exchange)
            except Dropped:
                raise
            except Exception as error:  # noqa: BLE001 - it is the handler's business
                return exchange.with_body(await _result(handler(error)))

        return recovered

    return wrap
