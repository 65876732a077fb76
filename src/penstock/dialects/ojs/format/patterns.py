"""How names and moments are written, as the OpenAPI page shows it; `names` checks the same patterns."""

from typing import Annotated, Any, Final

from msgspec import Meta

from penstock.dialects.ojs.format.states import USED_STATES

QUEUE: Final[dict[str, Any]] = {"pattern": "^[a-z0-9][a-z0-9.-]*$", "maxLength": 100, "examples": ["default"]}
KEY: Final[dict[str, Any]] = {
    "pattern": "^[a-zA-Z0-9][a-zA-Z0-9._:-]*$",
    "maxLength": 256,
    "examples": ["api:mail"],
}
TYPE: Final[dict[str, Any]] = {
    "pattern": r"^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$",
    "maxLength": 255,
    "examples": ["email.send"],
}
ID: Final[dict[str, Any]] = {
    "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
    "maxLength": 36,
    "examples": ["0197a0d2-5f7c-7c3e-9d3a-2b1f0c4d5e6f"],
}
SPAN: Final[dict[str, Any]] = {"pattern": r"^PT[0-9]{1,3}M[0-9]{1,5}S$", "examples": ["PT1M30S"]}
MOMENT: Final[dict[str, Any]] = {
    "pattern": (
        r"^(\+PT[0-9]{1,6}S|20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
        r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z)$"
    ),
    "examples": ["2026-02-13T12:00:00Z", "+PT2S"],
}

# A type, or a pattern: one * stands for any text.
TYPES: Final[dict[str, Any]] = {
    "pattern": r"^[a-z0-9_.-]*\*?[a-z0-9_.-]*$",
    "minLength": 1,
    "maxLength": 255,
    "examples": ["email.*"],
}
Type = Annotated[str, Meta(extra_json_schema=TYPE)]
TypePattern = Annotated[str, Meta(extra_json_schema=TYPES)]
Queue = Annotated[str, Meta(extra_json_schema=QUEUE)]
Key = Annotated[str, Meta(extra_json_schema=KEY)]
Id = Annotated[str, Meta(extra_json_schema=ID)]
Span = Annotated[str, Meta(extra_json_schema=SPAN)]
Moment = Annotated[str, Meta(extra_json_schema=MOMENT)]
Dimension = Annotated[str, Meta(extra_json_schema={"enum": ["type", "queue", "args", "meta"]})]
StateName = Annotated[str, Meta(extra_json_schema={"enum": USED_STATES})]

_MANY = "([*]|[1-9])"  # which hour, day and month
EXPRESSION: Final[dict[str, Any]] = {
    "pattern": f"^(@hourly|@daily|@weekly|@monthly|([*]|[1-5]?[0-9]) {_MANY} {_MANY} {_MANY} [*])$",
    "maxLength": 255,
    "examples": ["*/5 * * * *", "@daily"],
}
# Some of those that are known.
ZONES: Final[dict[str, Any]] = {"enum": ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]}

Expression = Annotated[str, Meta(max_length=255, extra_json_schema=EXPRESSION)]
Zone = Annotated[str, Meta(max_length=100, extra_json_schema=ZONES)]
