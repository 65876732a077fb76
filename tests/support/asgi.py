"""Ask the server's application without a server: what happens in between can be made to fail."""

import asyncio
import json
from contextlib import asynccontextmanager
from urllib.parse import unquote

from penstock.dialects.served import SERVED
from penstock.http.app import app_for


@asynccontextmanager
async def serving(engine, **options):
    """Give the application around *engine*, as it is while it runs."""
    site = app_for(engine, SERVED, **options)
    site.service.begin()
    try:
        yield site
    finally:
        await settled(site.service)
        site.service.close()


async def settled(service):
    """Wait until everything that was claimed in vain is given back."""
    while service._taking_back:
        await asyncio.gather(*service._taking_back, return_exceptions=True)


async def ask(site, path, body=None, method="POST", send=None, **headers):
    """Send a request; return the status and the plain values of the answer.

    *send* is called with each message.  A header that is None is not sent.
    """
    content = b"" if body is None else json.dumps(body).encode()
    sent = {"host": "localhost:8080", "content-type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {name: value for name, value in sent.items() if value is not None}
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "server": ("127.0.0.1", 8080),
    }
    incoming = iter([{"type": "http.request", "body": content, "more_body": False}])
    answer = {"body": b""}

    async def receive():
        if (message := next(incoming, None)) is not None:
            return message
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def note(message):
        if send is not None:
            send(message)
        answer["status"] = message.get("status", answer.get("status"))
        answer["body"] += message.get("body", b"")

    await site(scope, receive, note)
    is_json = answer["body"][:1] in b"{["
    return answer["status"], json.loads(answer["body"] or b"null") if is_json else answer["body"]
