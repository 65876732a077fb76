"""Sequences: stored under a name and a version, looked at, deprecated and deleted."""

from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from penstock import sequences
from penstock.dialects.orch8.format.errors import TooLargeError
from penstock.dialects.orch8.format.values import (
    DEFAULT_NAMESPACE,
    PAGE,
    check_name,
    page_of,
    tenant_in,
    tenant_of,
    written,
)
from penstock.dialects.orch8.handlers.server_worker import ServerWorker
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.http.access import JOBS, PRODUCERS
from penstock.http.codec import decode, encode
from penstock.http.routes import Reply, Request, Route
from penstock.job import SequenceView

MOST_DEFINITION: Final = 2 * 1024 * 1024  # bytes of JSON


class SequenceBody(Struct):
    """A sequence; without a version it gets the next, and without an id a new one."""

    name: str
    blocks: list[dict[str, Any]]
    version: int | None = None
    id: str | None = None
    tenant_id: str | None = None
    namespace: str | None = None


class SequenceShape(Struct):
    id: str
    tenant_id: str
    namespace: str
    name: str
    version: int
    deprecated: bool
    created_at: str
    blocks: list[dict[str, Any]]


class SequencesShape(Struct):
    items: list[SequenceShape]
    has_more: bool


async def create(request: Request) -> Reply:
    """Store a sequence; 409 if its version is taken."""
    plain = request.fields()
    text = encode(plain)
    if len(text) > MOST_DEFINITION:
        raise TooLargeError("sequence", len(text), MOST_DEFINITION)

    def work(engine: Engine) -> dict[str, Any]:
        read = sequences.parse(plain)
        tenant = tenant_in(request, _text(plain, "tenant_id")) or ""
        namespace = _text(plain, "namespace")
        stored = engine.put_sequence(
            read.name,
            text.decode(),
            version=plain.get("version"),
            tenant=tenant,
            namespace=DEFAULT_NAMESPACE if namespace is None else namespace,
            id_=_text(plain, "id"),
        )
        return {**_shown(stored), "warnings": list(read.warnings)}

    answer = await request.service.run(work)
    request.service.part(ServerWorker).begin()
    return Reply(answer, 201, {"Location": f"/sequences/{quote(answer['id'], safe='')}"})


async def listing(request: Request) -> Reply:
    """Return a page of sequences, newest first."""
    tenant, (offset, limit) = tenant_of(request), page_of(request, 200)
    namespace = request.query.get("namespace")
    found = await request.service.run(
        lambda engine: engine.sequences(tenant, offset, limit + 1, namespace=namespace)
    )
    return Reply({"items": [_shown(each) for each in found[:limit]], "has_more": len(found) > limit})


async def look(request: Request) -> Reply:
    """Return the sequence with this id."""
    id_, tenant = request.params["id"], tenant_of(request)
    return Reply(_shown(await request.service.run(lambda engine: engine.sequence_with_id(id_, tenant))))


async def by_name(request: Request) -> Reply:
    """Return a version of a sequence; without one the latest that is not deprecated."""
    name, namespace, tenant = _named(request)
    version = request.number("version", -1, 0, 2**31 - 1)
    found = await request.service.run(
        lambda engine: engine.sequence(
            name, None if version < 0 else version, tenant=tenant, namespace=namespace
        )
    )
    return Reply(_shown(found))


async def versions(request: Request) -> Reply:
    """Return the versions of a sequence, newest first."""
    name, namespace, tenant = _named(request)
    offset, limit = page_of(request, 1_000)
    found = await request.service.run(
        lambda engine: engine.sequences(tenant, offset, limit, namespace=namespace, name=name)
    )
    return Reply([_shown(each) for each in found])


async def deprecate(request: Request) -> Reply:
    """Let a version no longer be found as the latest; instances of it go on."""
    id_, tenant = request.params["id"], tenant_of(request)
    await request.service.run(
        lambda engine: engine.deprecate_sequence(engine.sequence_with_id(id_, tenant).number)
    )
    return Reply(status=204)


async def delete(request: Request) -> Reply:
    """Delete a version of which no instance is live."""
    id_, tenant = request.params["id"], tenant_of(request)

    def work(engine: Engine) -> None:
        engine.delete_sequence(engine.sequence_with_id(id_, tenant).number)

    await request.service.run(work)
    return Reply(status=204)


def _text(plain: dict[str, Any], field: str) -> str | None:
    value = plain.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidError(field, "must be text")
    return check_name(value, field)


def _named(request: Request) -> tuple[str, str, str]:
    if "name" not in request.query:
        raise InvalidError("name", "is missing")
    return (
        request.query["name"],
        request.query.get("namespace", DEFAULT_NAMESPACE),
        tenant_of(request) or "",
    )


def _shown(view: SequenceView) -> dict[str, Any]:
    return {
        **decode(view.definition),
        "id": view.id,
        "tenant_id": view.tenant,
        "namespace": view.namespace,
        "name": view.name,
        "version": view.version,
        "deprecated": view.deprecated,
        "created_at": written(view.created),
    }


_ONE: Final = "/sequences/{id}"
_NAMED: Final = ("tenant_id", "namespace", "name")
_TENANT: Final = ("tenant_id",)
ROUTES: Final = (
    Route("POST", "/sequences", create, PRODUCERS, "Store a sequence", SequenceShape, SequenceBody, 201),
    Route("GET", "/sequences", listing, JOBS, "List sequences", SequencesShape, query=(*PAGE, "namespace")),
    Route("GET", "/sequences/by-name", by_name, JOBS, "Look at a sequence by its name", SequenceShape,
          query=(*_NAMED, "version")),
    Route("GET", "/sequences/versions", versions, JOBS, "List the versions of a sequence", list[SequenceShape],
          query=(*_NAMED, "limit", "offset")),
    Route("GET", _ONE, look, JOBS, "Look at a sequence", SequenceShape, query=_TENANT),
    Route("POST", f"{_ONE}/deprecate", deprecate, PRODUCERS, "Deprecate a version", status=204, query=_TENANT),
    Route("DELETE", _ONE, delete, PRODUCERS, "Delete a version", status=204, query=_TENANT),
)  # fmt: skip
