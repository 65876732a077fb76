"""How a verb is answered: read, done once however often it is sent, and stamped with the time of its arrival."""

from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.json import Decoder

from penstock.client.errors import to_wire
from penstock.client.verbs import Repeat, Verb
from penstock.client.wire import KEY, NOW, PATH, ErrorReport, Problem, encode
from penstock.clock import monotonic
from penstock.dialects.native.idempotency import AnswerMemory, KeptAnswer
from penstock.dialects.native.tenancy import only_for_all, own_arguments
from penstock.errors import InvalidError, PenstockError
from penstock.http.access import Role
from penstock.http.errors import RefusedError, status_of
from penstock.http.routes import Reply, Request, Route, invalid

P = ParamSpec("P")
B = TypeVar("B", bound=Struct)
A = TypeVar("A")

MEDIA: Final = "application/json"
_MOST_KEY: Final = 200

Answer = Callable[[Request, B], Awaitable[A | KeptAnswer]]


def endpoint(verb: Verb[P, B, A], answer: Answer[B, A] | None = None, *, for_all: str = "") -> Route:
    """Return the route of *verb*.

    Without an *answer* the engine's verb of that name is called.  *for_all* says what it does for all tenants, so that
    a token of one tenant may not ask for it.
    """
    decoder: Decoder[B] = Decoder(cast("type[B]", verb.body))

    async def handle(request: Request) -> Reply:
        began = monotonic()
        clock = request.service.engine.clock
        arrived = clock.now()
        try:
            body = read(decoder, request.body)
            if for_all:
                only_for_all(request, for_all)
            made = await _made(request, verb, lambda: _answered(request, verb, body, answer))
            request.claims = made
            reply = Reply(made.body, media=MEDIA)
        except PenstockError as error:
            reply = error_reply(error, request.id)
        # If the clock was set meanwhile, the client goes by the later time: that is safe.
        reply.headers[NOW] = str(max(arrived, clock.now() - (monotonic() - began)))
        return reply

    roles = frozenset(map(Role, verb.roles))
    shown = None if verb.answer is type(None) else verb.answer
    return Route("POST", PATH + verb.name, handle, roles, verb.summary, shown, verb.body, media=MEDIA)


def error_reply(error: PenstockError, _: str) -> Reply:
    """Return an error the way `client/errors` reads it."""
    if isinstance(error, RefusedError):
        sent = ErrorReport(Problem(error.reason, str(error)))
        return Reply(encode(sent), error.status, error.headers, MEDIA)
    return Reply(encode(to_wire(error)), status_of(error), media=MEDIA)


def read(decoder: "Decoder[B]", body: bytes) -> B:
    """Return what was sent, or raise an error that names the field."""
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError("body", f"is not JSON: {error}") from None


async def _answered(
    request: Request, verb: Verb[P, B, A], body: B, answer: Answer[B, A] | None
) -> KeptAnswer:
    found: object = await (_of_engine(request, verb, body) if answer is None else answer(request, body))
    made = found if isinstance(found, KeptAnswer) else KeptAnswer(encode(found))
    # Before the answer is kept: a request that asks for it again must not hear of jobs that were given back.
    request.claims = made
    return made


async def _of_engine(request: Request, verb: Verb[P, B, A], body: B) -> object:
    """Call the engine's verb with the fields of *body*, in a thread."""
    arguments = own_arguments(request, body)
    return await request.service.run(lambda engine: getattr(engine, verb.name)(**arguments))


async def _made(
    request: Request, verb: Verb[P, B, A], make: Callable[[], Awaitable[KeptAnswer]]
) -> KeptAnswer:
    key = request.headers.get(KEY, "")
    if verb.repeat is not Repeat.REMEMBERED or not key or len(key) > _MOST_KEY:
        return await make()
    place = (verb.name, request.access.name, request.owner, key)
    return await request.service.part(AnswerMemory).once(place, make)
