"""A monitor that is served over real HTTP in this process, and visitors that use it as browsers and programs do."""

import asyncio
import atexit
import http.client
import json
import re
import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from typing import ClassVar
from urllib.parse import urlencode

from penstock.http.access import Access, Role
from penstock.http.tokens import Keyring
from penstock.http.uvicorn_server import Server, Settings, listening
from penstock.monitor import Monitor

PATIENCE = 60.0
OPERATOR, VIEWER, TENANT = "operator-0123456789", "viewer-0123456789ab", "tenant-0123456789ab"
BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back."""

    status: int
    text: str
    headers: list[tuple[str, str]]

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def shown(self):
        """The text of the page, without its tags."""
        return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", self.text)))

    def header(self, name):
        return dict(self.headers).get(name)

    @property
    def fields(self):
        """What stands in the fields of the form, as a browser would send them."""
        main = self.text.partition("<main")[2]
        found = {
            field["name"]: field.get("value", "")
            for field in (dict(_ATTRIBUTE.findall(tag)) for tag in re.findall(r"<input ([^>]*)>", main))
        }
        found |= {name: text.strip("\n") for name, text in _AREA.findall(main)}
        return {name: unescape(value) for name, value in found.items()}


_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_AREA = re.compile(r'<textarea[^>]* name="(\w+)"[^>]*>(.*?)</textarea>', re.DOTALL)


class Site:
    """A monitor at a port of this machine."""

    def __init__(self, port):
        self.port = port

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, **headers):
        """Send a request; a header that is None is not sent."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            found = [(name.lower(), value) for name, value in answer.getheaders()]
            return Seen(answer.status, answer.read().decode(), found)
        finally:
            connection.close()

    def program(self, token, path, body=None):
        """Ask as a program does: with a token in each request, in JSON."""
        content = None if body is None else json.dumps(body)
        return self.ask(
            "GET" if body is None else "POST", path, content, accept="application/json",
            authorization=f"Bearer {token}", content_type="application/json",
        )  # fmt: skip

    def browser(self, token=None):
        """Return a browser, signed in with a *token* if there is one."""
        made = Visit(self)
        if token is not None:
            assert 303 == made.post("/sign-in", token=token).status
        return made


class Visit:
    """A browser without script: it keeps cookies, fills in forms and follows where it is led."""

    def __init__(self, site):
        self.site = site
        self.cookies = {}
        self.at = "/"

    def get(self, path, **headers):
        self.at = path
        return self._ask("GET", path, None, accept=BROWSER, **headers)

    def post(self, path, *, origin="", **fields):
        """Send a form; an empty origin is that of the site."""
        own = origin if origin != "" else self.site.url
        return self._ask("POST", path, urlencode(fields), accept=BROWSER, content_type=FORM, origin=own)

    def send(self, path, **changes):
        """Open the form at an address, fill it in and send it."""
        form = self.get(path)
        assert 200 == form.status, form.shown
        return self.post(path.partition("?")[0], **{**form.fields, **changes})

    def follow(self, answer):
        """Go where an answer leads."""
        assert 303 == answer.status, answer.shown
        return self.get(answer.header("location"))

    def _ask(self, method, path, body, **headers):
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items()) or None
        answer = self.site.ask(method, path, body, cookie=cookie, **headers)
        for name, value in answer.headers:
            if name == "set-cookie":
                key, _, rest = value.partition("=")
                self.cookies[key] = rest.partition(";")[0]
                if "Max-Age=0" in rest:
                    del self.cookies[key]
        return answer


def keyring():
    """Return tokens of an operator, of one who only looks, and of an operator of the tenant acme."""
    made = Keyring()
    made.add(OPERATOR, Access("anna", frozenset(Role)))
    made.add(VIEWER, Access("screen", frozenset({Role.VIEWER})))
    made.add(TENANT, Access("acme-desk", frozenset(Role), "acme"))
    return made


class Stage:
    """A server of whatever monitor is there.  It outlives monitors: a server takes a third of a second to end."""

    spare: ClassVar[dict[tuple[str, ...], list["Stage"]]] = defaultdict(list)  # by the proxies they trust

    def __init__(self, proxies):
        self.monitor = None
        settings = Settings(port=0, proxies=proxies)
        listener = listening(settings)
        self.port = listener.getsockname()[1]
        self._server = Server(self, settings, lambda _: None, lambda: None)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        atexit.register(self._end)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
        elif self.monitor is not None:
            await self.monitor(scope, receive, send)
        else:
            await send({"type": "http.response.start", "status": 503})
            await send({"type": "http.response.body"})

    def _end(self):
        self._server.should_exit = True
        self._thread.join(PATIENCE)


@contextmanager
def monitored(engine, *, operate=True, proxies=(), **options):
    """Serve a monitor of *engine*."""
    spare = Stage.spare[tuple(proxies)]
    stage = spare.pop() if spare else Stage(proxies)
    stage.monitor = Monitor(engine, operate=operate, **options)
    try:
        yield Site(stage.port)
    finally:
        monitor, stage.monitor = stage.monitor, None
        asyncio.run(_ended(monitor))
        spare.append(stage)


async def _ended(monitor):
    """Tell it that its server ends."""
    steps = iter(("startup", "shutdown"))

    async def receive():
        return {"type": f"lifespan.{next(steps)}"}

    async def send(_):
        pass

    await monitor({"type": "lifespan"}, receive, send)
