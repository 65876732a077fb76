"""Ask the monitor without a server, as a browser or as a program would."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import unquote, urlencode

HOST = "localhost:8080"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back."""

    status: int
    body: bytes
    headers: list[tuple[str, str]]

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def cookies(self):
        """What each cookie that it sets is, with all that is said of it."""
        return [value for name, value in self.headers if name == "set-cookie"]

    def header(self, name):
        return dict(self.headers).get(name)


def look(monitor, path, **options):
    """Ask for a page; with a *form* send that.  A header that is None is not sent."""
    return asyncio.run(looked(monitor, path, **options))


async def looked(monitor, path, **options):
    """Ask for a page in a loop that runs already."""
    return await _asked(monitor, *_scope(path, **options))


@asynccontextmanager
async def listening(monitor, **options):
    """Open a page's stream of events; give a queue of what each tells."""
    scope, content = _scope("/live", **options)
    told = asyncio.Queue()

    async def send(message):
        for line in message.get("body", b"").decode().splitlines():
            if line.startswith("data: "):
                told.put_nowait(line.removeprefix("data: "))

    task = asyncio.ensure_future(monitor(scope, _receiving(content), send))
    try:
        yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _scope(
    path,
    *,
    json=False,
    form=None,
    method=None,
    root="",
    scheme="http",
    client="127.0.0.1",
    **headers,
):
    path, _, query = path.partition("?")
    content = b"" if form is None else urlencode(form).encode()
    sent = {"host": HOST, "accept": "application/json" if json else BROWSER}
    if form is not None:
        sent["content-length"] = str(len(content))
        sent |= {"content-type": "application/x-www-form-urlencoded", "origin": f"{scheme}://{HOST}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http",
        "method": method or ("GET" if form is None else "POST"),
        "scheme": scheme,
        "path": root + unquote(path),
        "raw_path": (root + path).encode(),
        "root_path": root,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items() if value is not None],
        "server": ("127.0.0.1", 8080),
        "client": (client, 50_000),
    }
    return scope, content


def _receiving(content):
    incoming = iter([{"type": "http.request", "body": content, "more_body": False}])

    async def receive():
        if (message := next(incoming, None)) is not None:
            return message
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return receive


async def _asked(monitor, scope, content):
    messages = []

    async def send(message):
        messages.append(message)

    await monitor(scope, _receiving(content), send)
    head = [(name.decode(), value.decode("latin-1")) for name, value in messages[0]["headers"]]
    return Seen(messages[0]["status"], b"".join(message.get("body", b"") for message in messages[1:]), head)
