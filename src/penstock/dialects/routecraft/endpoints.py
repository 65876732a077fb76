"""Sources and destinations of routes."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from penstock.dialects.routecraft.errors import InvalidRouteError

Send = Callable[[Any], Awaitable[Any]]

_AGAIN: Final = {408, 425, 429, 500, 502, 503, 504}


class HttpFailed(Exception):  # noqa: N818 - the name by which it is known
    """The server answered with an error; *retryable* if another attempt may help."""

    def __init__(self, url: str, status: int, retry_after: float | None) -> None:
        super().__init__(f"{url} answered {status}")
        self.status = status
        self.retryable = status in _AGAIN
        self.retry_after = retry_after


def http(
    url: str, *, method: str = "POST", headers: Mapping[str, str] | None = None, seconds: float = 30
) -> Callable[[Any], Awaitable[Any]]:
    """Return a destination that sends the body as JSON and returns the answer."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise InvalidRouteError("url", f"{url!r} must begin with http:// or https://")

    async def send(body: Any) -> Any:
        return await asyncio.to_thread(_ask, url, method, dict(headers or {}), body, seconds)

    send.__name__ = f"{method} {url}"
    return send


class Jobs:
    """The jobs of one task of an app, as a source: each is done when its exchange has passed the route."""

    def __init__(self, app: "Works", name: str, **options: Any) -> None:
        self._app = app
        self._name = name
        self._options = options
        self.task: Any = None

    def attach(self, send: Send) -> Any:
        """Send every job along a route; return the task, so that jobs can be enqueued."""
        if self.task is None:

            async def pass_on(body: Any = None) -> Any:
                return await send(body)

            self.task = self._app.task(pass_on, name=self._name, **self._options)
        return self.task

    async def drain(self) -> None:
        """Work until no job is left that can start."""
        await self._app.awork(until_idle=True)


class Works(Protocol):
    """The part of an app that `Jobs` uses."""

    def task(self, function: Any, /, **options: Any) -> Any: ...
    async def awork(self, *, until_idle: bool) -> Any: ...


async def items(source: Any) -> AsyncIterator[Any]:
    """Yield what *source* gives: an iterable, an async iterable, or a function that returns either."""
    if callable(source):
        source = source()
    if hasattr(source, "__await__"):
        source = await source
    if hasattr(source, "__aiter__"):
        async for item in source:
            yield item
        return
    for item in source:
        yield item


def step(destination: Any) -> Callable[[Any], Any]:
    """Return what a step calls with a body: a function, or a task whose jobs are enqueued."""
    enqueue = getattr(destination, "aenqueue", None)
    if enqueue is not None:

        async def feed(body: Any) -> Any:
            return await enqueue(body)

        feed.__name__ = f"enqueue {getattr(destination, 'name', '')}".strip()
        return feed
    if not callable(destination):
        raise InvalidRouteError("to", f"{destination!r} must be a function, a task, or http(...)")
    function: Callable[[Any], Any] = destination
    return function


def _ask(url: str, method: str, headers: dict[str, str], body: Any, seconds: float) -> Any:
    data = None if body is None or method in {"GET", "HEAD"} else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json", **headers}, method=method)  # noqa: S310 - checked
    try:
        with urlopen(request, timeout=seconds) as answer:  # noqa: S310 - checked
            text = answer.read().decode()
            return json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text
    except HTTPError as error:
        after = error.headers.get("Retry-After", "")
        error.close()
        raise HttpFailed(url, error.code, float(after) if after.isdigit() else None) from None
