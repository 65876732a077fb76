"""The handler `http_request`: one request to another server, within a step's limits.

"Too many" shuts the step's rate limit key for everyone and costs no attempt.  Errors of the other server and of the
network are retried as the step says; any other refusal is final.
"""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from penstock.clock import SECOND
from penstock.dialects.orch8.handlers.outcomes import StepFailed
from penstock.errors import InvalidError
from penstock.http.outbound_http import Answer, request
from penstock.lifecycle.nesting import is_deep
from penstock.worker import RateLimited

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
MOST_ANSWER: Final = 10 * 1024 * 1024  # bytes
MOST_JSON: Final = 1024 * 1024  # bytes of an answer that is also shown decoded
TIMEOUT_MS: Final = 10_000
LONGEST_MS: Final = 600_000
LONGEST_SHUT: Final = 86_400  # seconds, whatever the other server asks for
UNTOLD: Final = 10  # seconds, if it names no time
KEY: Final = "Idempotency-Key"
_TOO_MANY, _UNAVAILABLE, _REFUSED, _BROKEN = 429, 503, 400, 500
_LAST: Final = "\xff"  # of the characters that a header can hold
_OWN: Final = frozenset({"host", "content-length", "connection", "transfer-encoding"})


async def http_request(params: Mapping[str, Any], key: str, now: int, *, loopback: bool) -> dict[str, Any]:
    """Send a request, with *key* as its idempotency key unless it names one; return the answer."""
    try:
        method, url, headers, body, patience = _read(params)
        sent = {KEY: key, **headers} if KEY.lower() not in {name.lower() for name in headers} else headers
        async with asyncio.timeout(patience):
            answer = await request(method, url, body, sent, loopback=loopback, most=MOST_ANSWER)
    except InvalidError as error:
        raise StepFailed("InvalidRequest", str(error), final=True) from None
    except TimeoutError:
        raise StepFailed("Timeout", "no answer came in time", final=False) from None
    except OSError as error:
        raise StepFailed("NetworkError", str(error) or type(error).__name__, final=False) from None
    return _judged(answer, now)


def _judged(answer: Answer, now: int) -> dict[str, Any]:
    told = answer.headers.get("retry-after")
    if answer.status == _TOO_MANY or (answer.status == _UNAVAILABLE and told):
        raise RateLimited(_pause(told, now), reason=f"the server answered {answer.status}")
    if answer.status >= _REFUSED:
        text = answer.body[:500].decode("utf-8", "replace")
        message = f"the server answered {answer.status}: {text}".rstrip(": ")
        raise StepFailed(str(answer.status), message, final=answer.status < _BROKEN)
    return _shown(answer)


def _shown(answer: Answer) -> dict[str, Any]:
    shown: dict[str, Any] = {"status": answer.status, "body": answer.body.decode("utf-8", "replace")}
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if (kind == "application/json" or kind.endswith("+json")) and len(answer.body) <= MOST_JSON:
        try:
            shown["json"] = None if is_deep(answer.body) else msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            shown["json"] = None
    return shown


def _pause(told: str | None, now: int) -> float:
    """Return for how many seconds nothing may start, by what a Retry-After header says."""
    text = (told or "").strip()
    if text.isascii() and text.isdigit():
        return max(0.1, min(int(text[:9]), LONGEST_SHUT))
    try:
        date = parsedate_to_datetime(text)
        until = (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return UNTOLD
    present = datetime.fromtimestamp(now / SECOND, UTC).timestamp()
    return max(0.1, min(until - present, LONGEST_SHUT))


def _read(params: Mapping[str, Any]) -> tuple[str, str, dict[str, str], bytes, float]:
    """Return the method, the URL, the headers, the body and for how many seconds to wait."""
    url = params.get("url")
    if not isinstance(url, str):
        raise InvalidError("url", "is missing, or is no text")
    method = str(params.get("method") or "GET").upper()
    if method not in METHODS:
        raise InvalidError("method", f"{method[:20]!r} must be one of: {', '.join(METHODS)}")
    headers = _headers(params.get("headers") or {})
    body, kind = _body(params.get("body"))
    if kind and "content-type" not in {name.lower() for name in headers}:
        headers["Content-Type"] = kind
    wait = params.get("timeout_ms") or TIMEOUT_MS
    if not isinstance(wait, int) or isinstance(wait, bool) or not 1 <= wait <= LONGEST_MS:
        raise InvalidError("timeout_ms", f"must be a whole number from 1 to {LONGEST_MS}")
    return method, url, headers, body, wait / 1_000


def _headers(given: object) -> dict[str, str]:
    if not isinstance(given, dict):
        raise InvalidError("headers", "must be an object")
    headers = {}
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise InvalidError("headers", f"{name[:40]!r} cannot name a header")
        if not text.isprintable() or max(text, default="") > _LAST or name.lower() in _OWN:
            raise InvalidError(f"headers.{name[:40]}", "cannot be sent")
        headers[name] = text
    return headers


def _body(given: object) -> tuple[bytes, str]:
    """Return a body and its type: text as it is, all else as JSON."""
    if given is None:
        return b"", ""
    if isinstance(given, str):
        return given.encode(), "text/plain; charset=utf-8"
    return msgspec.json.encode(given), "application/json"
