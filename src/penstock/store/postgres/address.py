"""The address of a schema in a PostgreSQL database."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from penstock.errors import InvalidError

SCHEMES: Final = ("postgresql", "postgres")
DEFAULT_SCHEMA: Final = "penstock"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the tables are, and how to connect.  *shown* is safe to print: it has no password."""

    connect: str
    listen: str
    schema: str
    shown: str


def address(url: str) -> Address:
    """Read a URL such as `postgresql://user:password@host/database?schema=penstock`.

    Besides what libpq knows it takes `schema`, and `listen`: the host and port of the server itself,
    where the rest of the URL names a pooler that passes no notifications on.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise InvalidError("store", f"{parts.scheme}:// is not PostgreSQL; use postgresql://host/database")
    ours = {"schema": DEFAULT_SCHEMA, "listen": ""}
    theirs = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in ours:
            ours[name] = value
        else:
            theirs.append((name, value))
    if not _NAME.fullmatch(ours["schema"]):
        raise InvalidError(
            "store", f"schema={ours['schema']!r} must be letters, digits and underscores, at most 63 of them"
        )
    theirs += (
        [] if any(name == "application_name" for name, _ in theirs) else [("application_name", "penstock")]
    )
    query = urlencode(theirs, quote_via=quote)  # libpq takes a plus sign for what it is
    connect = urlunsplit(("postgresql", parts.netloc, parts.path, query, ""))
    direct = parts.netloc
    if ours["listen"]:
        user, at, _ = parts.netloc.rpartition("@")
        direct = f"{user}{at}{ours['listen']}"
    listen = urlunsplit(("postgresql", direct, parts.path, query, ""))
    _check(connect, parts.password)
    place = f"{parts.netloc.rpartition('@')[2] or 'localhost'}{parts.path}"
    return Address(connect, listen, ours["schema"], f"PostgreSQL at {place} (schema {ours['schema']})")


def _check(url: str, password: str | None) -> None:
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # It may quote the password.
        text = str(error).strip().replace(password or "\0", "...")
        raise InvalidError("store", f"the address is not understood: {text}") from None
