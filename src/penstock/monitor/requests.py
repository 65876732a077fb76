"""What was asked for: a request as the monitor sees it, and what its query says."""

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from penstock.errors import InvalidError
from penstock.http.addresses import root_address
from penstock.http.negotiation import prefers_html

Scope = MutableMapping[str, Any]

LONGEST: Final = 16 * 1024  # characters of a value in a query
_MOST_FIELDS: Final = 80
_SHOWN: Final = 40  # characters of a value that is wrong
_LATEST: Final = 2**63 - 1


class Query:
    """The fields of a query, or of a form.  An empty value is none."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name: value for name, value in values.items() if value}

    @classmethod
    def read(cls, text: str) -> "Query":
        """Read what follows the question mark of an address."""
        try:
            fields = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            raise InvalidError("query", f"must have at most {_MOST_FIELDS} fields") from None
        return cls(_checked(fields))

    @classmethod
    def of_form(cls, body: bytes) -> "Query":
        """Read the body of a form."""
        try:
            return cls.read(body.decode())
        except UnicodeDecodeError:
            raise InvalidError("body", "must be text in UTF-8") from None

    @classmethod
    def of_json(cls, body: bytes) -> "Query":
        """Read the body of a program's request: an object of texts and numbers."""
        try:
            found = msgspec.json.decode(body, type=dict[str, str | int | None])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidError("body", f"must be a JSON object of texts and whole numbers: {error}") from None
        if len(found) > _MOST_FIELDS:
            raise InvalidError("body", f"must have at most {_MOST_FIELDS} fields")
        return cls(_checked([(name, str(value)) for name, value in found.items() if value is not None]))

    def text(self, name: str) -> str | None:
        """Return a value; None if there is none."""
        return self._values.get(name)

    def needed(self, name: str) -> str:
        """Return a value that must be there."""
        value = self.text(name)
        if value is None:
            raise InvalidError(name, "is missing")
        return value

    def choice(self, name: str, among: tuple[str, ...]) -> str | None:
        """Return a value that is one of a few."""
        value = self.text(name)
        if value is not None and value not in among:
            raise InvalidError(name, f"{value[:_SHOWN]!r} must be one of: {', '.join(among)}")
        return value

    def number(self, name: str, least: int = 0, most: int = _LATEST) -> int | None:
        """Return a whole number."""
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > len(str(most)):
            raise InvalidError(name, f"{text[:_SHOWN]!r} must be a whole number from {least} to {most}")
        if not least <= int(text) <= most:
            raise InvalidError(name, f"{text[:_SHOWN]!r} must be a whole number from {least} to {most}")
        return int(text)

    def changed(self, **changes: object) -> str:
        """Return this query with other values, as it stands in an address; None takes a field out."""
        values: dict[str, object] = {**self._values, **changes}
        found = urlencode({name: value for name, value in values.items() if value not in (None, "")})
        return f"?{found}" if found else ""


def _checked(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return fields by name, several values of one with spaces between; raise if a value cannot be kept."""
    found: dict[str, str] = {}
    for name, value in fields:
        found[name] = f"{found[name]} {value}" if found.get(name) else value
    for name, value in found.items():
        if "\0" in value or "\ufffd" in value:
            raise InvalidError(name[:_SHOWN], "must be text in UTF-8 without the character NUL")
        if len(value) > LONGEST:
            raise InvalidError(name[:_SHOWN], f"must have at most {LONGEST} characters")
    return found


@dataclass(frozen=True, slots=True, repr=False)
class Asked:
    """One request.  It is never shown: its headers hold the token, or the cookie.

    *root* is the path under which the monitor is mounted, as it stands in addresses; *path* what follows it.
    """

    method: str
    root: str
    path: str
    query_text: str
    headers: Mapping[str, str]
    scheme: str
    client: str  # the address that sent it
    arrived: str  # the address at which it arrived

    @classmethod
    def of(cls, scope: Scope) -> "Asked":
        """Return the request of an ASGI *scope*."""
        path, root = str(scope["path"]), str(scope.get("root_path") or "").rstrip("/")
        below = path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path
        return cls(
            scope["method"],
            root_address(root),
            below or "/",
            scope["query_string"].decode("latin-1"),
            {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
            scope.get("scheme", "http"),
            (scope.get("client") or ("",))[0],
            (scope.get("server") or ("",))[0] or "",
        )

    @property
    def host(self) -> str:
        """The name and port by which the server was asked."""
        return self.headers.get("host", "").lower()

    @property
    def secure(self) -> bool:
        """Whether it came over TLS."""
        return self.scheme == "https"

    @property
    def address(self) -> str:
        """The path and query, as a browser would ask for them again."""
        return self.path + (f"?{self.query_text}" if self.query_text else "")

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie; of several with one name the first, which browsers say is the nearest."""
        # Cookies of other servers of this host may be written in any way.
        pairs = (pair.partition("=") for pair in self.headers.get("cookie", "").split(";"))
        return next((value.strip() for key, _, value in pairs if key.strip() == name), None)

    @property
    def wants_json(self) -> bool:
        """Whether plain data is wanted: the query says so, or no page is preferred."""
        asked = dict(parse_qsl(self.query_text)).get("format") if "format=" in self.query_text else None
        return asked == "json" or not prefers_html(self.headers.get("accept", ""))

    @property
    def is_of_own_page(self) -> bool:
        """Whether a page of this server sent it."""
        origin = self.headers.get("origin", "").lower()
        schemes = ("https",) if self.secure else ("http", "https")  # a proxy may have ended TLS
        return bool(self.host) and origin in [f"{scheme}://{self.host}" for scheme in schemes]
