"""Tokens, and what each allows.

A token may be bound to a tenant and to roles.  In a file each stands on a line of its own, `TOKEN` or
`TOKEN roles=worker,producer tenant=acme name=reports`; empty lines and those that begin with # do not count.  What a
line cannot hold of a tenant's name is percent-encoded.
"""

import hashlib
import hmac
import os
import stat
from pathlib import Path
from typing import Final

from penstock.errors import InvalidError
from penstock.http.access import EVERYTHING, Access, Role
from penstock.http.tenancy import unquoted_tenant

FIELD: Final = "--token-file"
LEAST: Final = 16  # characters of a token
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_ROOT: Final = 0


def token_lines(file: Path) -> list[tuple[int, list[str]]]:
    """Return the number and the words of each line of *file* that is neither empty nor a comment."""
    try:
        with file.open() as opened:
            _check_private(file, os.fstat(opened.fileno()))
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(FIELD, f"{file} cannot be read: {error}") from None
    split = [(number, line.split()) for number, line in enumerate(lines, 1)]
    return [(number, words) for number, words in split if words and not words[0].startswith("#")]


def _check_private(file: Path, found: os.stat_result) -> None:
    # A pipe has no name by which others could open it; Windows has no such modes.
    if not stat.S_ISREG(found.st_mode) or os.name != "posix":
        return
    # Root hands a secret to another user by its group, as where a container has one mounted.
    allowed = stat.S_IRGRP if found.st_uid == _ROOT else 0
    if found.st_mode & _OTHERS & ~allowed:
        mode = stat.S_IMODE(found.st_mode)
        raise InvalidError(
            FIELD,
            f"others can use {file} (its mode is {mode:04o}), so its tokens are no secret: chmod 600 {file}",
        )


class Keyring:
    """Knows what each token allows.  While it has none, every request may do everything."""

    def __init__(self) -> None:
        self._known: dict[bytes, Access] = {}

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return not self._known

    def add(self, token: str, access: Access) -> None:
        """Give requests with *token* this *access*."""
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
        return self._found(_digest(token.strip()))

    def seal(self, token: str, text: str) -> str | None:
        """Return a seal under *text* that only a process which knows *token* can make; None if this one does not."""
        digest = _digest(token)
        return None if self._found(digest) is None else _seal(digest, text)

    def sealed(self, text: str, seal: str) -> Access | None:
        """Return what the token allows whose *seal* is under *text*; None if it is of none that is known."""
        found = None
        for digest, access in self._known.items():
            if hmac.compare_digest(_seal(digest, text).encode(), seal.encode("utf-8", "surrogateescape")):
                found = access
        return found

    def _found(self, sent: bytes) -> Access | None:
        found = None
        for digest, access in self._known.items():
            if hmac.compare_digest(digest, sent):
                found = access
        return found


def _seal(digest: bytes, text: str) -> str:
    return hmac.digest(digest, text.encode("utf-8", "surrogateescape"), "sha256").hex()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _access(words: list[str], name: str) -> Access:
    roles, tenant = frozenset(Role), None
    for word in words:
        field, found, value = word.partition("=")
        if field == "roles" and found:
            roles = frozenset(_role(each) for each in value.split(","))
        elif field == "tenant" and found:
            tenant = unquoted_tenant(value)
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
