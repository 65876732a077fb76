"""A route: a typed request and its answer."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from penstock.errors import InvalidError
from penstock.http.access import Access, Role
from penstock.http.codec import decode
from penstock.http.engine_service import Claims, EngineService
from penstock.http.errors import BadBodyError

T = TypeVar("T")

EVENT_STREAM: Final = "text/event-stream"
_MOST_PER_PAGE: Final = 1_000

log = logging.getLogger("penstock.server")


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """One HTTP request whose token and route are known.  It is never shown: its headers hold the token."""

    service: EngineService
    access: Access
    _: KW_ONLY
    id: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    tenant: str | None
    claims: Claims = field(default_factory=Claims)

    @property
    def now(self) -> int:
        """The time, by the clock of the engine."""
        return self.service.engine.clock.now()

    @property
    def owner(self) -> str:
        """The name of the tenant, empty for none."""
        return self.tenant or ""

    def json(self) -> Any:  # noqa: ANN401 - anything may have been sent
        """Return the plain values of the body."""
        try:
            return decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadBodyError("body", f"is not JSON: {error}") from None

    def fields(self) -> dict[str, Any]:
        """Return the body as an object; without a body, an empty one."""
        if not self.body:
            return {}
        plain = self.json()
        if not isinstance(plain, dict):
            raise InvalidError("body", "must be a JSON object")
        return plain

    def read(self, kind: type[T]) -> T:
        """Return the body as *kind*."""
        return converted(self.fields(), kind)

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number from the query."""
        text = self.query.get(name)
        if text is None or text == "":
            return default
        if (
            not text.isascii()
            or not text.isdigit()
            or len(text) > len(str(most))
            or not least <= int(text) <= most
        ):
            raise InvalidError(name, f"{text[:40]!r} must be a whole number from {least} to {most}")
        return int(text)

    def page(self, per_page: int = 20) -> tuple[int, int]:
        """Return the number of the page, from 1, and how many items are on one."""
        return (self.number("page", 1, 1, 10**9), self.number("per_page", per_page, 1, _MOST_PER_PAGE))


@dataclass(slots=True)
class Reply:
    """An answer.  *body* becomes JSON unless it is bytes already; *claims* are the jobs that it hands out."""

    body: object = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    media: str | None = None
    claims: Claims | None = None


@dataclass(slots=True)
class Stream:
    """An answer that goes on: server-sent events."""

    chunks: AsyncIterator[bytes]
    headers: dict[str, str] = field(default_factory=dict)
    media: str = EVENT_STREAM


Handler = Callable[[Request], Awaitable[Reply | Stream]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, for one of *roles*; *answer* and *body* are the types that the OpenAPI page shows."""

    method: str
    path: str
    handler: Handler
    roles: frozenset[Role]
    summary: str
    answer: Any = None
    body: Any = None
    status: int = 200
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    media: str | None = None  # of an answer that is not of its dialect's own type


def converted(plain: object, kind: type[T]) -> T:
    """Return plain values as *kind*, or raise an error that names the field."""
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise invalid(error) from None


def invalid(error: msgspec.ValidationError) -> InvalidError:
    """Return the error that names the field which does not fit, or is missing."""
    problem, _, path = str(error).partition(" - at ")
    name = path.strip("`").removeprefix("$").removeprefix(".") or "body"
    if problem.startswith("Object missing required field"):
        missing = problem.split("`")[1]
        name = missing if name == "body" else f"{name}.{missing}"
        problem = "is missing"
    return InvalidError(name, problem[:1].lower() + problem[1:])


async def if_possible(work: Awaitable[T], otherwise: T) -> T:
    """Return the result of *work*, which only describes something done; if it fails, *otherwise*."""
    try:
        return await work
    except Exception:
        log.exception("an answer is sent without all its details")
        return otherwise
