"""Sessions: a cookie that stands for a token, and the word that the forms of its pages carry.

A session is kept nowhere.  The cookie says when it ends, sealed with the token: every server that knows the token
knows the session, and none does once the token is gone.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import Final

from penstock.clock import SECOND
from penstock.http.access import Access
from penstock.http.tokens import Keyring
from penstock.monitor.requests import Asked

LASTS: Final = 12 * 3_600 * SECOND
FORM_FIELD: Final = "form"  # the field of a form that holds its word
NOTED: Final = 4_000  # cookies of which something is noted
_LONGEST_PORT: Final = 5


def cookie_name(asked: Asked) -> str:
    """Return the name of the cookie.

    Browsers take no notice of ports, several servers may share a host, and one may be mounted below another.  A prefix
    keeps the host's other names, and its pages without TLS, from setting it.
    """
    _, _, port = asked.host.rpartition("]")[2].partition(":")
    parts = ["penstock"]
    if port.isascii() and port.isdigit() and len(port) <= _LONGEST_PORT:
        parts.append(port)
    if asked.root:
        parts.append(hashlib.sha256(asked.root.encode()).hexdigest()[:8])
    prefix = ("__Secure-" if asked.root else "__Host-") if asked.secure else ""
    return prefix + "-".join(parts)


def begun(keyring: Keyring, token: str, now: int) -> str | None:
    """Return the cookie of a new session; None if the token is not known."""
    text = f"{(now + LASTS) // SECOND}.{secrets.token_hex(16)}"
    seal = keyring.seal(token, _sealed_text(text))
    return None if seal is None else f"{text}.{seal}"


def lasts(cookie: str, now: int) -> bool:
    """Tell whether the session of a cookie, if it is one, is not over."""
    end = cookie.partition(".")[0]
    return end.isascii() and end.isdigit() and now < int(end[:20]) * SECOND <= now + LASTS + SECOND


def access(keyring: Keyring, cookie: str, now: int) -> Access | None:
    """Return what the session of a cookie allows; None if it is over, or never was one."""
    text, _, seal = cookie.rpartition(".")
    return keyring.sealed(_sealed_text(text), seal) if text and lasts(text, now) else None


def form_word(cookie: str) -> str:
    """Return the word that the forms of a session carry: no other site can know it."""
    return hashlib.sha256(f"form {cookie}".encode("utf-8", "surrogateescape")).hexdigest()


def is_form_word(cookie: str, word: str) -> bool:
    """Tell whether a form belongs to the session."""
    return hmac.compare_digest(form_word(cookie).encode(), word.encode("utf-8", "surrogateescape"))


def set_cookie(asked: Asked, value: str, lasts: int) -> str:
    """Return the header that sets the cookie of a session; none at all lasts no time."""
    parts = [
        f"{cookie_name(asked)}={value}", f"Path={asked.root or '/'}", f"Max-Age={lasts // SECOND}", "HttpOnly",
        "SameSite=Strict", *(["Secure"] if asked.secure else []),
    ]  # fmt: skip
    return "; ".join(parts)


class Noted:
    """The texts that were noted last; of each only a digest is kept."""

    def __init__(self) -> None:
        self._kept = OrderedDict[bytes, None]()

    def __contains__(self, text: str) -> bool:
        return _digest(text) in self._kept

    def note(self, text: str) -> None:
        """Note a text; the one that was noted longest ago may be forgotten."""
        digest = _digest(text)
        self._kept[digest] = None
        self._kept.move_to_end(digest)
        if len(self._kept) > NOTED:
            self._kept.popitem(last=False)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _sealed_text(text: str) -> str:
    return f"penstock monitor session {text}"
