"""What apps and commands ask of an engine, be it a database's or one behind a server."""

import os
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from penstock.client import RemoteEngine
from penstock.client.address import is_server
from penstock.engine import open_engine
from penstock.errors import InvalidError
from penstock.job import (
    LEASE,
    START_GRACE,
    Claim,
    Enqueued,
    Failure,
    FloatingView,
    GateView,
    JobView,
    Listener,
    NewJob,
    Topic,
    Why,
)
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers
from penstock.worker.backend import Backend

URL: Final = "PENSTOCK_URL"


class AnyEngine(Backend, Protocol):
    """The verbs that `Engine` and `RemoteEngine` share; each blocks, and any thread may call it."""

    def enqueue(self, jobs: Sequence[NewJob], *, connection: object = None) -> list[Enqueued]: ...

    def claim(
        self,
        queues: Sequence[str],
        count: int,
        *,
        worker: str,
        lease: int = LEASE,
        grace: int = START_GRACE,
        tenant: str | None = None,
    ) -> Claim: ...

    def cancel(self, job_id: str, reason: str = "cancelled on request") -> State: ...

    def retry(self, job_id: str) -> None: ...

    def pause(self, queue: str, *, tenant: str = "") -> None: ...

    def resume(self, queue: str, *, tenant: str = "") -> None: ...

    def configure(self, scope: str, name: str, numbers: Numbers | None, *, tenant: str = "") -> None: ...

    def override(self, key: str, numbers: Numbers, *, until: int | None = None, tenant: str = "") -> None: ...

    def clear_override(self, key: str, *, tenant: str = "") -> None: ...

    def shut(self, key: str, until: int, *, tenant: str = "", reason: str = "") -> None: ...

    def job(self, job_id: str) -> JobView: ...

    def failures(self, job_id: str) -> list[Failure]: ...

    def jobs(
        self,
        *,
        state: State | None = None,
        queue: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        key: str | None = None,
        before: int | None = None,
        begins: str | None = None,
        limit: int = 50,
    ) -> list[JobView]: ...

    def count(
        self, *, queue: str | None = None, task: str | None = None, tenant: str | None = None
    ) -> dict[State, int]: ...

    def gate(self, key: str, tenant: str = "") -> GateView: ...

    def gates(self, *, prefix: str = "", offset: int = 0, limit: int = 50) -> tuple[list[GateView], int]: ...

    def queues(self) -> list[dict[str, object]]: ...

    def why(self, job_id: str) -> Why: ...

    def doctor(self) -> list[str]: ...

    def advice(self) -> list[str]: ...

    def floating(self, key: str, tenant: str = "") -> FloatingView: ...

    def set_floating(
        self,
        key: str,
        *,
        value: int | None = None,
        every: int | None = None,
        metadata: str | None = None,
        tenant: str = "",
    ) -> None: ...

    def delete_floating(self, key: str, *, tenant: str = "") -> None: ...

    def listen(self, listener: Listener) -> Callable[[], None]: ...

    def revision(self, topic: Topic = Topic.WORK) -> int: ...

    def wait(self, revision: int, timeout: float, topic: Topic = Topic.WORK) -> int: ...

    def close(self) -> None: ...


def open_backend(url: str, *, token: str | None = None, migrate: bool = True) -> AnyEngine:
    """Open what *url* names: a database, or a server such as `http://host:8080`, to which *token* is sent."""
    if is_server(url):
        return RemoteEngine(url, token=token)
    return open_engine(url, migrate=migrate)


def named_url(example: str) -> str:
    """Return what PENSTOCK_URL names; if that is nothing, raise an error that shows an *example*."""
    url = os.environ.get(URL)
    if not url:
        raise InvalidError("url", f"no store was named: write {example}, or set {URL}")
    return url
