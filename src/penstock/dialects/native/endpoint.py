"""How a verb is answered: read, done once however often it is sent, and stamped with the time of its arrival."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec

from penstock.client.errors import to_wire
from penstock.client.wire import KEY, NOW, PATH, encode
from penstock.clock import monotonic
from penstock.dialects.native.idempotency import AnswerMemory, KeptAnswer
from penstock.dialects.ojs.tenancy import ForbiddenError
from penstock.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    PenstockError,
    QueueFullError,
    StoreError,
)
from penstock.http.access import Role
from penstock.http.routes import Reply, Request, Route

B = TypeVar("B")

MEDIA: Final = "application/json"
_MOST_KEY: Final = 200

Answer = Callable[[Request, B], Awaitable[object]]


def verb(
    name: str,
    kind: type[B],
    answer: Answer[B],
    roles: frozenset[Role],
    summary: str,
    shape: Any = None,  # noqa: ANN401 - any type
    *,
    once: bool = False,
) -> Route:
    """Return the route of a verb with a body of *kind*; *once*: sent again with the same key, it is not done again."""
    decoder = msgspec.json.Decoder(kind)

    async def handle(request: Request) -> Reply:
        began = monotonic()
        clock = request.service.engine.clock
        arrived = clock.now()
        try:
            body = read(decoder, request.body)
            made = await _made(request, name if once else "", lambda: _answered(request, body, answer))
            request.claims = made
            reply = Reply(made.body, media=MEDIA)
        except ForbiddenError:
            raise
        except PenstockError as error:
            reply = Reply(encode(to_wire(error)), _status(error), media=MEDIA)
        # If somebody set the clock meanwhile, whoever asked goes by the later time: that is safe.
        reply.headers[NOW] = str(max(arrived, clock.now() - (monotonic() - began)))
        return reply

    return Route("POST", PATH + name, handle, roles, summary, kind, shape, media=MEDIA)


def read(decoder: msgspec.json.Decoder[B], body: bytes) -> B:
    """Return what was sent, or raise an error that names the field."""
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError("body", f"is not JSON: {error}") from None


def invalid(error: msgspec.ValidationError) -> InvalidError:
    """Return what does not fit as an error that names the field."""
    problem, _, path = str(error).partition(" - at ")
    return InvalidError(path.strip("`").removeprefix("$").removeprefix(".") or "body", problem)


async def _answered(request: Request, body: B, answer: Answer[B]) -> KeptAnswer:
    found = await answer(request, body)
    made = found if isinstance(found, KeptAnswer) else KeptAnswer(encode(found))
    # Before the answer is kept: a request that asks for it again must not hear of jobs that were given back.
    request.claims = made
    return made


async def _made(request: Request, name: str, make: Callable[[], Awaitable[KeptAnswer]]) -> KeptAnswer:
    key = request.headers.get(KEY, "")
    if not name or not key or len(key) > _MOST_KEY:
        return await make()
    place = (name, request.access.name, request.tenant or "", key)
    return await request.service.part(AnswerMemory).once(place, make)


def _status(error: PenstockError) -> int:
    match error:
        case InvalidError():
            return 400
        case NotFoundError():
            return 404
        case QueueFullError():
            return 429
        case ConflictError():
            return 409
        case StoreError():
            return 503
        case _:
            return 500
