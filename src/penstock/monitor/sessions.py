"""Sessions: a cookie that stands for a token, and the word that the forms of its pages carry.

A session is kept nowhere.  The cookie says when it ends, sealed with the token: every server that knows the token
knows the session, and none does once the token is gone.
"""

import hashlib
import hmac
import secrets
from typing import Final

from penstock.clock import SECOND
from penstock.http.access import Access
from penstock.http.tokens import Keyring
from penstock.monitor.requests import Asked

LASTS: Final = 12 * 3_600 * SECOND
FORM_FIELD: Final = "form"  # the field of a form that holds its word


def cookie_name(asked: Asked) -> str:
    """Return the name of the cookie: browsers take no notice of ports, and several servers may share a host."""
    _, _, port = asked.host.rpartition("]")[2].partition(":")
    return f"penstock-{port}" if port.isdigit() else "penstock"


def begun(keyring: Keyring, token: str, now: int) -> str | None:
    """Return the cookie of a new session; None if the token is not known."""
    text = f"{(now + LASTS) // SECOND}.{secrets.token_hex(16)}"
    seal = keyring.seal(token, _sealed_text(text))
    return None if seal is None else f"{text}.{seal}"


def access(keyring: Keyring, cookie: str | None, now: int) -> Access | None:
    """Return what the session of a cookie allows; None if it is over, or never was one."""
    text, _, seal = (cookie or "").rpartition(".")
    end = text.partition(".")[0]
    if not end.isascii() or not end.isdigit() or not now < int(end[:20]) * SECOND <= now + LASTS + SECOND:
        return None
    return keyring.sealed(_sealed_text(text), seal)


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


def _sealed_text(text: str) -> str:
    return f"penstock monitor session {text}"
