"""Tokens: who has which, and what each allows.

A token may be bound to a tenant and to roles.  In a file each stands on a line of its own, `TOKEN` or
`TOKEN roles=worker,producer tenant=acme name=reports`; empty lines and those that begin with # do not count.
"""

import hashlib
import hmac
from pathlib import Path
from typing import Final

from penstock.dialects.ojs.names import check_tenant
from penstock.edge.access import EVERYTHING, Access, Role
from penstock.edge.tokens import FIELD, token_lines
from penstock.errors import InvalidError

LEAST: Final = 16  # characters of a token


class Keyring:
    """Tells who sends a token.  Without any token everybody may do everything."""

    def __init__(self) -> None:
        self._known: dict[bytes, Access] = {}

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return not self._known

    def add(self, token: str, access: Access) -> None:
        """Let whoever sends *token* have *access*."""
        if len(token) < LEAST or not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidError("token", f"must be at least {LEAST} printable characters without spaces")
        digest = _digest(token)
        if digest in self._known:
            raise InvalidError("token", f"is given twice (the second as {access.name!r})")
        self._known[digest] = access

    def read(self, path: Path) -> None:
        """Add the tokens of a file that only its owner can read."""
        for number, (token, *allowed) in token_lines(path):
            try:
                self.add(token, _access(allowed, f"line {number}"))
            except InvalidError as error:
                raise InvalidError(FIELD, f"{path}, line {number}: {error.problem}") from None

    def access(self, authorization: str | None) -> Access | None:
        """Return what the header of a request allows; None if it names no token that is known."""
        if self.is_open:
            return EVERYTHING
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        sent = _digest(token.strip())
        found = None
        for digest, access in self._known.items():
            if hmac.compare_digest(digest, sent):
                found = access
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _access(words: list[str], name: str) -> Access:
    roles, tenant = frozenset(Role), None
    for word in words:
        field, found, value = word.partition("=")
        if field == "roles" and found:
            roles = frozenset(_role(each) for each in value.split(","))
        elif field == "tenant" and found:
            tenant = check_tenant(value)
        elif field == "name" and found:
            name = value
        else:
            raise InvalidError("token", f"{word!r} is not known; write roles=…, tenant=… or name=…")
    return Access(name, roles, tenant)


def _role(name: str) -> Role:
    try:
        return Role(name)
    except ValueError:
        raise InvalidError("roles", f"{name!r} must be one of: {', '.join(Role)}") from None
