"""What the server offers, as OpenAPI: made from the table of routes and the types of their bodies and answers."""

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

import msgspec

from penstock import __version__
from penstock.dialects.ojs.format.names import MEDIA
from penstock.dialects.ojs.format.responses import ErrorAnswer
from penstock.http.access import ANYBODY, Role
from penstock.http.openapi_parameters import header, path_parameter, query_parameter, tenant
from penstock.http.routes import Reply, Request, Route

_REF: Final = "#/components/schemas/{name}"
_TENANT: Final = {"$ref": "#/components/parameters/tenant"}
_READS: Final = (400, 404, 405)
_WRITES: Final = (400, 404, 405, 409, 413, 422, 429)
_SECURED: Final = (401, 403)
_UNWELL: Final = 503
_NO_CONTENT: Final = 204
_PLAIN: Final = "application/json"
_HTML: Final = "text/html; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def document(routes: Sequence[Route], *, secured: bool) -> dict[str, Any]:
    """Return the OpenAPI document of *routes*."""
    kinds = [kind for route in routes for kind in (route.body, route.answer) if kind is not None]
    schemas, components = msgspec.json.schema_components([*kinds, ErrorAnswer], ref_template=_REF)
    of_kind = dict(zip(map(id, [*kinds, ErrorAnswer]), schemas, strict=True))
    writer = _Writer(of_kind, components, secured=secured)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = writer.operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "penstock",
            "version": __version__,
            "description": "Background jobs, no faster than you allow: the Open Job Spec over HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "parameters": {"tenant": tenant()},
            "responses": writer.errors(),
            **({"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if secured else {}),
        },
        "tags": [{"name": name} for name in sorted(dict.fromkeys(map(tag, routes)), key=_rank)],
    }


class _Writer:
    """Writes one operation after the other."""

    def __init__(
        self, schemas: dict[int, dict[str, Any]], components: dict[str, Any], *, secured: bool
    ) -> None:
        self._schemas = schemas
        self._components = components
        self._secured = secured

    def operation(self, route: Route) -> dict[str, Any]:
        """Return what a route takes and gives."""
        parameters = [path_parameter(name, route.path) for name in re.findall(r"{(\w+)}", route.path)]
        parameters += [query_parameter(name) for name in route.query]
        parameters += [header(name) for name in route.headers]
        if route.roles:
            parameters.append(_TENANT)
        written: dict[str, Any] = {
            "operationId": _operation(route),
            "summary": route.summary,
            "tags": [tag(route)],
            "parameters": parameters,
            "responses": self._responses(route),
        }
        if route.body is not None:
            written["requestBody"] = {
                "required": self._needs(route.body),
                "content": {MEDIA: {"schema": self._schemas[id(route.body)]}},
            }
        if self._secured and route.roles:
            roles = ", ".join(sorted(route.roles | {Role.OPERATOR}))
            written |= {"security": [{"token": []}], "description": f"For the roles: {roles}."}
        return written

    def _needs(self, body: object) -> bool:
        """Tell whether a body has fields that must be there."""
        name = self._schemas[id(body)].get("$ref", "").rpartition("/")[2]
        return bool(self._components.get(name, {}).get("required"))

    def errors(self) -> dict[str, Any]:
        """Return the errors that any operation may answer with; other dialects have their own words for them."""
        spec = {MEDIA: {"schema": self._schemas[id(ErrorAnswer)]}}
        return {
            f"{name}{status}": {"description": HTTPStatus(status).phrase, "content": content}
            for status in sorted({*_READS, *_WRITES, *_SECURED, _UNWELL})
            for name, content in (
                ("error", spec),
                ("plain", {**spec, _PLAIN: {"schema": {"type": "object"}}}),
            )
        }

    def _responses(self, route: Route) -> dict[str, Any]:
        good: dict[str, Any] = {"description": HTTPStatus(route.status).phrase}
        if route.status != _NO_CONTENT:
            schema = {} if route.answer is None else self._schemas[id(route.answer)]
            good["content"] = {route.media or MEDIA: {"schema": schema}}
        responses = {str(route.status): good}
        if route.status == HTTPStatus.CREATED:
            responses["200"] = {**good, "description": "Another stands for it already"}
        statuses = [*(_READS if route.method == "GET" else _WRITES), _UNWELL]
        if route.roles:
            statuses += _SECURED
        name = "plain" if route.media == _PLAIN else "error"
        for status in sorted(statuses):
            responses[str(status)] = {"$ref": f"#/components/responses/{name}{status}"}
        return responses


def tag(route: Route) -> str:
    """Return the part of the server that a route belongs to."""
    parts = [part for part in route.path.split("/") if part not in ("", "ojs", "v1")]
    if parts[:1] == ["admin"]:
        return f"admin {parts[1]}"
    return parts[0] if parts else "server"


def _rank(name: str) -> int:
    """Let jobs and workers go before what operators do, and that before what only our own workers say."""
    return 2 if name == "penstock" else int(name.startswith("admin"))


def _operation(route: Route) -> str:
    words = re.findall(r"\w+", route.path.replace("-", "_"))
    return "_".join([route.method.lower(), *words])


def routes(others: Iterable[Route], *, secured: bool) -> tuple[Route, ...]:
    """Return the routes that show the others."""
    text = b""

    async def show(_: Request) -> Reply:
        return Reply(text, media=_PLAIN, headers={"Cache-Control": "no-cache"})

    async def browse(_: Request) -> Reply:
        page = (files(__package__) / "docs.html").read_bytes()
        return Reply(
            page, media=_HTML, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
        )

    shown = (
        Route(
            "GET",
            "/openapi.json",
            show,
            ANYBODY,
            "What the server offers, for programs",
            media=_PLAIN,
        ),
        Route("GET", "/docs", browse, ANYBODY, "What the server offers, for people", media="text/html"),
    )
    text = msgspec.json.encode(document([*others, *shown], secured=secured))
    return shown
