"""The monitor as an ASGI application: finds the page, and answers with HTML or with JSON."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from urllib.parse import quote

from msgspec import Struct

from penstock.engine import Engine
from penstock.errors import NotFoundError, PenstockError
from penstock.http.cross_site import Visitors
from penstock.http.errors import ForbiddenError, GoneError, RefusedError
from penstock.http.reading import Receive, received
from penstock.http.routes import EVENT_STREAM
from penstock.http.tokens import Keyring
from penstock.http.writing import Send
from penstock.monitor import door, sessions, static_files
from penstock.monitor.actions.desk import Desk
from penstock.monitor.answers import Answer, Sender, Stream, led_to
from penstock.monitor.door import Door
from penstock.monitor.front import Front, SignIn
from penstock.monitor.live import STREAMS, Live
from penstock.monitor.operations import Operations
from penstock.monitor.page import Page, View
from penstock.monitor.pages.table import PAGES
from penstock.monitor.plans import player
from penstock.monitor.plans.player import Player
from penstock.monitor.requests import Asked, Query, Scope
from penstock.monitor.shared import Shared
from penstock.monitor.source import Source
from penstock.monitor.tallies import Tallies
from penstock.monitor.visitors import Visitor, Who

T = TypeVar("T")

THREADS: Final = 4  # that read from the store: a page beyond these waits
MOST_BYTES: Final = 64 * 1024  # of a form
MOST_WANTED: Final = 4_000  # characters of an address that is gone back to after signing in
LIVE: Final = "/live"
HEARD: Final = "penstock-change"  # the header in which a page says of which change it was told
_METHODS: Final = ("GET", "HEAD", "POST")

log = logging.getLogger("penstock.monitor")


class Monitor:
    """Shows what an engine does to those whom a token, or the hook *who*, lets in.

    It changes nothing unless it may *operate*.  *engine* may be a function that opens one: until it succeeds every
    page says why not.  *framed_by* are the sites whose pages may show it in a frame; *store* is what pages say they
    are about, such as "jobs on postgres-1".
    """

    def __init__(
        self,
        engine: Engine | Callable[[], Engine],
        *,
        who: Who | None = None,
        operate: bool = False,
        framed_by: Sequence[str] = (),
        store: str = "",
        keyring: Keyring | None = None,
        visitors: Visitors | None = None,
    ) -> None:
        self._source = Source(engine)
        self._door = Door(keyring or Keyring(), visitors, who, operates=operate)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock-monitor")
        self._live = Live(lambda: self._run(lambda engine: engine.changes()))
        self._sender = Sender(framed_by)
        self._tallies = Tallies()
        self._front = Front(PAGES, self._tallies.counts, store)
        self._operations = Operations(self._source.run)
        self._desk = Desk(self._front, self._door, self._operations, self._run)
        self._shared = Shared()
        self._static = static_files.StaticFiles()
        self._pages = {page.path: page for page in PAGES}
        self._player = Player(self._front, self._door, self._pages[player.PATH])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        match scope["type"]:
            case "http":
                await self._http(Asked.of(scope), scope, receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 4404})
            case _:
                await self._lifespan(receive, send)

    def end_streams(self) -> None:
        """Let open pages hear nothing more."""
        self._live.close()

    def close(self) -> None:
        """End everything; an engine that was given stays open."""
        self.end_streams()
        self._operations.close()
        self._player.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._source.close()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, asked: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        visitor = None
        try:
            self._check(asked)
            form = await _form(asked, receive)
            if not self._door.is_open_to_all(asked):
                visitor = await self._door.visitor(asked, scope)
            answer = await self._answer(asked, form, visitor)
        except GoneError:
            return
        except PenstockError as error:
            answer = self._front.problem(asked, visitor, error)
        except Exception:
            log.exception("%s %s failed", asked.method, quote(asked.path[:200]))
            mistake = RefusedError(500, "internal_error", "the monitor made a mistake")
            answer = self._front.problem(asked, visitor, mistake)
        if isinstance(answer, Stream):
            await self._sender.stream(answer, receive, send)
        else:
            await self._sender.send(self._front.signed(answer, visitor), asked.method, send)

    def _check(self, asked: Asked) -> None:
        self._door.check_site(asked)
        if asked.method not in _METHODS:
            text = f"{asked.method[:40]!r} is not offered here; GET and POST are"
            raise RefusedError(405, "method_not_allowed", text, {"Allow": ", ".join(_METHODS)})

    async def _answer(self, asked: Asked, form: Query, visitor: Visitor | None) -> Answer | Stream:
        if asked.path.startswith(static_files.PATH):
            return self._static.answer(asked)
        if asked.path == door.SIGN_IN and self._door.has_tokens:
            return await self._sign_in(asked, form)
        if visitor is None:
            return _led_to_sign_in(asked)
        if not visitor.may_look:
            raise ForbiddenError("this needs the role viewer")
        return await self._answer_to(visitor, asked, form)

    async def _answer_to(self, visitor: Visitor, asked: Asked, form: Query) -> Answer | Stream:
        if self._desk.knows(asked.path):
            answer = await self._desk.answer(asked, form, visitor)
            if asked.method == "POST":
                self._shared.clear()
            return _with_cookie(answer, asked, visitor)
        if asked.method == "POST" and asked.path == player.PATH:
            return await self._player.answer(asked, form, visitor)
        if asked.method == "POST":
            return self._post(asked, form, visitor)
        if asked.path == LIVE:
            return self._events(asked, visitor)
        return await self._page(asked, visitor)

    def _events(self, asked: Asked, visitor: Visitor) -> Answer | Stream:
        if asked.method == "HEAD":
            return Answer(media=EVENT_STREAM)
        listener = (visitor.tenant, visitor.access.name)
        if not self._live.has_room(listener):
            text = f"{STREAMS} open pages follow the store for this token already"
            raise RefusedError(429, "too_many_streams", text)
        return Stream(self._live.events(listener, lambda: self._door.is_still_in(visitor)))

    async def _sign_in(self, asked: Asked, form: Query) -> Answer:
        if asked.method != "POST":
            wanted = Query.read(asked.query_text).text("next") or "/"
            return self._front.answer(asked, None, "sign_in.html", SignIn(door.safe_address(wanted)))
        wanted = door.safe_address(form.text("next"))
        cookie = await self._door.sign_in(asked, form)
        if cookie is None:
            return self._front.answer(asked, None, "sign_in.html", SignIn(wanted, wrong=True), status=403)
        answer = led_to(asked.root + wanted)
        answer.cookies.append(sessions.set_cookie(asked, cookie, sessions.LASTS))
        return answer

    def _post(self, asked: Asked, form: Query, visitor: Visitor) -> Answer:
        if asked.path != door.SIGN_OUT:
            raise NotFoundError("page", asked.path[:200])
        self._door.check_form(asked, form, visitor)
        self._door.sign_out(visitor)
        answer = led_to(f"{asked.root}{door.SIGN_IN if self._door.has_tokens else '/'}")
        answer.cookies.append(sessions.set_cookie(asked, "", 0))
        return answer

    async def _page(self, asked: Asked, visitor: Visitor) -> Answer:
        page = self._pages.get(asked.path)
        if page is None or (page.for_all and visitor.tenant is not None):
            raise NotFoundError("page", asked.path[:200])
        if asked.method != "GET" or not self._live.has_told(asked.headers.get(HEARD, "")):
            return _with_cookie(await self._made(asked, page, visitor), asked, visitor)
        key = (visitor.group, asked.root, asked.address, asked.wants_json, self._front.preferences(asked))
        seen_by = visitor.group.visitor("")
        answer = await self._shared.answer(key, self._live.number, lambda: self._made(asked, page, seen_by))
        return _with_cookie(answer, asked, visitor)

    async def _made(self, asked: Asked, page: Page, visitor: Visitor) -> Answer:
        query = Query.read(asked.query_text)

        def shown(engine: Engine) -> Struct:
            if not asked.wants_json:
                self._tallies.refresh(engine, visitor.tenant)
            return self._shown(engine, page, query, visitor)

        record = await self._run(shown)
        return self._front.answer(asked, visitor, page.template, record, page=page, query=query)

    def _shown(self, engine: Engine, page: Page, query: Query, visitor: Visitor) -> Struct:
        operations = self._operations.of(visitor.tenant)
        view = View(
            engine, visitor.tenant, engine.clock.now(), operator=visitor.sees_secrets, operations=operations
        )
        return page.show(view, query)

    async def _run(self, work: Callable[[Engine], T]) -> T:
        """Run *work*, which blocks, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._source.run, work)


def _with_cookie(answer: Answer, asked: Asked, visitor: Visitor) -> Answer:
    """Return an answer that gives a new visitor the cookie by which its forms are known."""
    if visitor.fresh and visitor.cookie is not None:
        answer.cookies.append(sessions.set_cookie(asked, visitor.cookie, sessions.LASTS))
    return answer


async def _form(asked: Asked, receive: Receive) -> Query:
    if asked.method != "POST":
        return Query({})
    body = await received(asked.headers, receive, MOST_BYTES)
    match asked.headers.get("content-type", "").partition(";")[0].strip().lower():
        case "application/json":
            return Query.of_json(body)
        case "application/x-www-form-urlencoded":
            return Query.of_form(body)
        case kind if body:
            text = f"{kind[:80]!r} is not taken; send a form or JSON, and say so in Content-Type"
            raise RefusedError(415, "unsupported_media_type", text)
        case _:
            return Query({})


def _led_to_sign_in(asked: Asked) -> Answer:
    if asked.wants_json or asked.method == "POST":
        raise RefusedError(401, "unauthorized", "a token is needed", {"WWW-Authenticate": "Bearer"})
    wanted = quote(asked.address, safe="")
    answer = led_to(asked.root + door.SIGN_IN + (f"?next={wanted}" if len(wanted) <= MOST_WANTED else ""))
    if asked.cookie(sessions.cookie_name(asked)) is not None:  # it is over, or was never one
        answer.cookies.append(sessions.set_cookie(asked, "", 0))
    return answer
