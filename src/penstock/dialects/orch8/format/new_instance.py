"""Read a request for an instance."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from penstock.dialects.orch8.format.errors import TooLargeError
from penstock.dialects.orch8.format.values import DEFAULT_NAMESPACE, check_name, moment, tenant_in
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.http.codec import encode
from penstock.http.routes import Request
from penstock.job import NewInstance, SequenceView
from penstock.lifecycle.unique import Unique
from penstock.limits.durations import parse_duration
from penstock.limits.rules import Limit, Numbers
from penstock.sequences.context import Context
from penstock.sequences.gate_keys import slot_key
from penstock.sequences.reading import is_zone

MOST_CONTEXT: Final = 256 * 1024  # bytes of JSON, also of metadata
WINDOW: Final = "24h"
OWN: Final = "orch8"  # in the meta of an instance: what its request said that the engine need not know
PRIORITIES: Final = {"low": -1, "normal": 0, "high": 1, "critical": 2}
_HIGHEST: Final = 100


Version = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class InstanceBody(Struct, forbid_unknown_fields=True):
    """An instance to create, of a sequence by its name and version, or by its id."""

    sequence_name: str | None = None
    version: Version | None = None
    sequence_id: str | None = None
    tenant_id: str | None = None
    namespace: str | None = None
    context: dict[str, Any] = {}
    concurrency_key: str | None = None
    max_concurrency: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    idempotency_key: str | None = None
    idempotency_window: str | None = None
    priority: int | str | None = None
    timezone: str | None = None
    metadata: dict[str, Any] = {}
    next_fire_at: str | None = None


class SequenceFinder:
    """The sequences that one request names, each looked up once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[object, SequenceView] = {}

    def of(self, body: InstanceBody, tenant: str, at: str = "") -> SequenceView:
        """Return the sequence that *body*, which stands *at* that place, names."""
        if (body.sequence_id is None) == (body.sequence_name is None):
            raise InvalidError(f"{at}sequence_name", "give either a sequence_name or a sequence_id")
        for field in ("sequence_name", "sequence_id", "namespace"):
            if (name := getattr(body, field)) is not None:
                check_name(name, f"{at}{field}")
        namespace = body.namespace if body.namespace is not None else DEFAULT_NAMESPACE
        place = (tenant, body.sequence_id, namespace, body.sequence_name, body.version)
        if place not in self._known:
            self._known[place] = self._found(body, tenant, namespace)
        return self._known[place]

    def _found(self, body: InstanceBody, tenant: str, namespace: str) -> SequenceView:
        if body.sequence_id is not None:
            return self._engine.sequence_with_id(body.sequence_id, tenant)
        name = body.sequence_name or ""
        return self._engine.sequence(name, body.version, tenant=tenant, namespace=namespace)


def new_instance(request: Request, finder: SequenceFinder, body: InstanceBody, at: str = "") -> NewInstance:
    """Return the instance that *body*, which stands *at* that place, asks for."""
    tenant = tenant_in(request, body.tenant_id) or ""
    limits, unique = _limits(body, at), _unique(body, at)
    context = _context(body, at)
    due = None if body.next_fire_at is None else moment(body.next_fire_at, f"{at}next_fire_at")
    priority = _priority(body.priority, f"{at}priority")
    found = finder.of(body, tenant, at)
    return NewInstance(
        found.name, context, sequence=found.number, tenant=tenant, priority=priority, limits=limits,
        unique=unique, due=due, meta=_meta(body, at),
    )  # fmt: skip


def _limits(body: InstanceBody, at: str) -> tuple[Limit, ...]:
    if body.concurrency_key is None:
        if body.max_concurrency is not None:
            raise InvalidError(f"{at}max_concurrency", "needs a concurrency_key")
        return ()
    key = slot_key(check_name(body.concurrency_key, f"{at}concurrency_key"))
    return (Limit(key, Numbers(slots=body.max_concurrency or 1)),)


def _unique(body: InstanceBody, at: str) -> Unique | None:
    if body.idempotency_key is None:
        if body.idempotency_window is not None:
            raise InvalidError(f"{at}idempotency_window", "needs an idempotency_key")
        return None
    key = check_name(body.idempotency_key, f"{at}idempotency_key")
    window = WINDOW if body.idempotency_window is None else body.idempotency_window
    return Unique(key, window=parse_duration(window, f"{at}idempotency_window"))


def _context(body: InstanceBody, at: str) -> str:
    given: dict[str, Any] = body.context
    if body.timezone is not None:
        if not is_zone(body.timezone):
            raise InvalidError(f"{at}timezone", f"{body.timezone[:40]!r} is no time zone")
        context = Context(given)
        given = {**context.sections, "runtime": {**context.section("runtime"), "timezone": body.timezone}}
    text = encode(given)
    if len(text) > MOST_CONTEXT:
        raise TooLargeError(f"{at}context", len(text), MOST_CONTEXT)
    return text.decode()


def _priority(given: int | str | None, field: str) -> int:
    if isinstance(given, int) and -_HIGHEST <= given <= _HIGHEST:
        return given
    if given is None:
        return 0
    if isinstance(given, str) and given.lower() in PRIORITIES:
        return PRIORITIES[given.lower()]
    names = ", ".join(PRIORITIES)
    raise InvalidError(field, f"must be one of {names}, or a number from {-_HIGHEST} to {_HIGHEST}")


def _meta(body: InstanceBody, at: str) -> str:
    own: dict[str, Any] = {}
    if body.idempotency_key is not None:
        own["idempotency_key"] = body.idempotency_key
    if body.metadata:
        size = len(encode(body.metadata))
        if size > MOST_CONTEXT:
            raise TooLargeError(f"{at}metadata", size, MOST_CONTEXT)
        own["metadata"] = body.metadata
    return encode({OWN: own}).decode() if own else "{}"
