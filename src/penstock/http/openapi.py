"""What the server offers, as OpenAPI: made from the table of routes and the types of their bodies and answers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

import msgspec

from penstock import __version__
from penstock.http.access import PUBLIC, Role
from penstock.http.dialect import JSON, Dialect
from penstock.http.router import REST
from penstock.http.routes import Handler, Reply, Request, Route
from penstock.http.tenancy import LONGEST, PATTERN, check_tenant

_SCHEMAS: Final = "#/components/schemas/"
_READS: Final = (400, 404, 405)
_WRITES: Final = (400, 404, 405, 409, 413, 422, 429)
_SECURED: Final = (401, 403)
_UNWELL: Final = 503
_NO_CONTENT: Final = 204
_HTML: Final = "text/html; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def document(dialects: Sequence[Dialect], *, secured: bool) -> dict[str, Any]:
    """Return the OpenAPI document of all that *dialects* offer."""
    paths: dict[str, dict[str, Any]] = {}
    components: dict[str, dict[str, Any]] = {"schemas": {}, "parameters": {}, "responses": {}}
    tags: dict[str, int] = {}
    for n, dialect in enumerate(dialects):
        # Two dialects may have different things of the same name.
        writer = _Writer(dialect, f"{dialect.name}." if n else "", secured=secured)
        for route in dialect.routes:
            paths.setdefault(_shown_path(route), {})[route.method.lower()] = writer.operation(route)
            tags[_tag(dialect, route)] = _rank(dialect, route)
        for kind, found in writer.components().items():
            components[kind] |= found
    if secured:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    spoken = " and ".join(dialect.title for dialect in dialects if dialect.title)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "penstock",
            "version": __version__,
            "description": f"Background jobs, no faster than you allow: {spoken} over HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": components,
        "tags": [{"name": name} for name in sorted(tags, key=tags.__getitem__)],
    }


class _Writer:
    """Writes the operations of one dialect; its schemas are called by their names with *prefix* before them."""

    def __init__(self, dialect: Dialect, prefix: str, *, secured: bool) -> None:
        kinds = [kind for route in dialect.routes for kind in (route.body, route.answer) if kind is not None]
        kinds.append(dialect.error_shape)
        found, components = msgspec.json.schema_components(kinds, ref_template=f"{_SCHEMAS}{prefix}{{name}}")
        self._dialect = dialect
        self._secured = secured
        self._schemas = dict(zip(map(id, kinds), found, strict=True))
        self._components = {f"{prefix}{name}": schema for name, schema in components.items()}

    def operation(self, route: Route) -> dict[str, Any]:
        """Return what a route takes and gives."""
        written: dict[str, Any] = {
            "operationId": _operation(route),
            "summary": route.summary,
            "tags": [_tag(self._dialect, route)],
            "parameters": self._parameters(route),
            "responses": self._responses(route),
        }
        if route.body is not None:
            written["requestBody"] = {
                "required": self._needs(route.body),
                "content": {self._dialect.media: {"schema": self._schemas[id(route.body)]}},
            }
        if self._secured and route.roles:
            roles = ", ".join(sorted(route.roles | {Role.OPERATOR}))
            written |= {"security": [{"token": []}], "description": f"For the roles: {roles}."}
        return written

    def _parameters(self, route: Route) -> list[dict[str, Any]]:
        dialect, text = self._dialect, {"type": "string"}
        found: list[dict[str, Any]] = [
            {"name": name, "in": "path", "required": True, "schema": dialect.path_schema(name, route.path)}
            for name in re.findall(r"{(\w+)}", _shown_path(route))
        ]
        found += [
            {"name": name, "in": "query", "schema": dialect.query_schemas.get(name, text)}
            for name in route.query
        ]
        found += [{"name": name, "in": "header", "schema": text} for name in route.headers]
        if route.roles:
            found.append({"$ref": f"#/components/parameters/{dialect.name}Tenant"})
        return found

    def _needs(self, body: object) -> bool:
        """Tell whether a body has fields that must be there."""
        name = self._schemas[id(body)].get("$ref", "").removeprefix(_SCHEMAS)
        return bool(self._components.get(name, {}).get("required"))

    def _responses(self, route: Route) -> dict[str, Any]:
        good: dict[str, Any] = {"description": HTTPStatus(route.status).phrase}
        if route.status != _NO_CONTENT:
            schema = {} if route.answer is None else self._schemas[id(route.answer)]
            good["content"] = {route.media or self._dialect.media: {"schema": schema}}
        responses = {str(route.status): good}
        if route.status == HTTPStatus.CREATED:
            responses["200"] = {**good, "description": "Another stands for it already"}
        statuses = [*(_READS if route.method == "GET" else _WRITES), _UNWELL]
        if route.roles:
            statuses += _SECURED
        for status in sorted(statuses):
            responses[str(status)] = {"$ref": f"#/components/responses/{self._dialect.name}{status}"}
        return responses

    def components(self) -> dict[str, dict[str, Any]]:
        """Return what operations refer to: schemas, the tenant's header, and the errors that any may answer with."""
        dialect = self._dialect
        content = {dialect.media: {"schema": self._schemas[id(dialect.error_shape)]}}
        return {
            "schemas": self._components,
            "parameters": {f"{dialect.name}Tenant": _tenant(dialect)},
            "responses": {
                f"{dialect.name}{status}": {"description": HTTPStatus(status).phrase, "content": content}
                for status in sorted({*_READS, *_WRITES, *_SECURED, _UNWELL})
            },
        }


def _tenant(dialect: Dialect) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "examples": ["acme"]}
    if dialect.read_tenant is check_tenant:
        schema |= {"pattern": f"^{PATTERN}$", "maxLength": LONGEST}
    described = "for which tenant the request speaks"
    return {"name": dialect.tenant_header, "in": "header", "schema": schema, "description": described}


def _tag(dialect: Dialect, route: Route) -> str:
    """Return the part of the server that a route belongs to."""
    if dialect.tag:
        return dialect.tag
    parts = [part for part in route.path.split("/") if part not in ("", dialect.name, "v1")]
    if parts[:1] == ["admin"]:
        return f"admin {parts[1]}"
    return parts[0] if parts else "server"


def _rank(dialect: Dialect, route: Route) -> int:
    """Order headings: jobs and workers, then what is for operators, then dialects under one heading."""
    return 2 if dialect.tag else int(_tag(dialect, route).startswith("admin"))


def _shown_path(route: Route) -> str:
    """Return the path as OpenAPI writes it, which knows no parameters that may hold slashes."""
    return route.path.replace(REST, "{")


def _operation(route: Route) -> str:
    words = re.findall(r"\w+", route.path.replace("-", "_"))
    return "_".join([route.method.lower(), *words])


def documented(dialects: Sequence[Dialect], *, secured: bool) -> list[Dialect]:
    """Return the *dialects*; the last of them also has routes that describe all."""

    @cache
    def text() -> bytes:
        # Written when it is asked for the first time: a server that starts need not wait for it.
        return msgspec.json.encode(document(found, secured=secured))

    async def show(_: Request) -> Reply:
        return Reply(text(), headers={"Cache-Control": "no-cache"})

    *others, last = dialects
    pages = (
        Route("GET", "/openapi.json", show, PUBLIC, "What the server offers, for programs", media=JSON),
        Route(
            "GET",
            "/docs",
            _file("docs.html", _HTML),
            PUBLIC,
            "What the server offers, for people",
            media="text/html",
        ),
    )
    found = [*others, replace(last, routes=(*last.routes, *pages))]
    parts = (
        Route("GET", "/docs.css", _file("docs.css", "text/css"), PUBLIC, "How that page looks"),
        Route("GET", "/docs.js", _file("docs.js", "text/javascript"), PUBLIC, "What that page does"),
    )
    return [*others, replace(found[-1], routes=(*found[-1].routes, *parts))]


def _file(name: str, media: str) -> Handler:
    """Return a handler that answers with a file of this package."""

    async def answer(_: Request) -> Reply:
        headers = {
            "Content-Security-Policy": _POLICY,
            "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff",
        }
        return Reply((files(__package__) / name).read_bytes(), media=media, headers=headers)

    return answer
