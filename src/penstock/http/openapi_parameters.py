"""What may stand in a path, a query or a header."""

from typing import Any, Final

from penstock.dialects.ojs.format.patterns import ID, KEY, MOMENT, QUEUE, TYPE

WORKER: Final = {"minLength": 1, "maxLength": 200, "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]*$"}
TENANT: Final = {**KEY, "maxLength": 100, "examples": ["acme"]}
STATES: Final = [
    "scheduled",
    "available",
    "pending",
    "active",
    "completed",
    "retryable",
    "cancelled",
    "discarded",
]


def _text(spelled: dict[str, Any]) -> dict[str, Any]:
    return {"type": "string", **spelled}


_QUERY: Final[dict[str, dict[str, Any]]] = {
    "page": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000, "default": 1},
    "per_page": {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 20},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1_000},
    "offset": {"type": "integer", "minimum": 0, "maximum": 1_000_000_000, "default": 0},
    "state": {"type": "string", "enum": STATES},
    "queue": _text(QUEUE),
    "type": _text(TYPE),
    "since": _text(MOMENT),
    "until": _text(MOMENT),
}


def path_parameter(name: str, path: str) -> dict[str, Any]:
    """Return what may stand in a path."""
    if name == "key":
        schema = KEY
    elif name == "type":
        schema = TYPE
    elif name in ("name", "queue"):
        schema = QUEUE
    elif "/workers/" in path:
        schema = WORKER
    elif "/tenants/" in path:
        schema = TENANT
    else:
        schema = ID
    return {"name": name, "in": "path", "required": True, "schema": _text(schema)}


def query_parameter(name: str) -> dict[str, Any]:
    """Return what may stand in a query."""
    return {"name": name, "in": "query", "schema": _QUERY.get(name, {"type": "string"})}


def header(name: str) -> dict[str, Any]:
    """Return what may stand in a header."""
    return {"name": name, "in": "header", "schema": {"type": "string"}}


def tenant() -> dict[str, Any]:
    """Return the header that says for whom a request speaks."""
    described = {"description": "for which tenant the request speaks"}
    return {"name": "X-OJS-Tenant", "in": "header", "schema": _text(TENANT), **described}
