"""What may stand in a path or a query, for the OpenAPI page."""

from typing import Any, Final

from penstock.dialects.ojs.format.patterns import ID, KEY, MOMENT, QUEUE, TYPE
from penstock.dialects.ojs.format.states import SPEC_STATES
from penstock.http.tenancy import LONGEST

WORKER: Final = {"minLength": 1, "maxLength": 200, "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]*$"}
TENANT: Final = {**KEY, "maxLength": LONGEST, "examples": ["acme"]}


def _text(spelled: dict[str, Any]) -> dict[str, Any]:
    return {"type": "string", **spelled}


QUERY_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "page": {"type": "integer", "minimum": 1, "maximum": 1_000_000_000, "default": 1},
    "per_page": {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 20},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1_000},
    "offset": {"type": "integer", "minimum": 0, "maximum": 1_000_000_000, "default": 0},
    "state": {"type": "string", "enum": SPEC_STATES},
    "queue": _text(QUEUE),
    "type": _text(TYPE),
    "since": _text(MOMENT),
    "until": _text(MOMENT),
}


def path_schema(name: str, path: str) -> dict[str, Any]:
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
    return _text(schema)
