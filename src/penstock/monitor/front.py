"""The front: a record as JSON or as HTML, with the frame that stands around every page.

A page is made for all of a group, with marks where it names the visitor, and where it has the word of the session;
`signed` puts in what belongs there.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape
from msgspec import Struct

from penstock.clock import SystemClock
from penstock.errors import PenstockError
from penstock.http.codec import encode
from penstock.http.dialect import plain_error
from penstock.http.errors import RefusedError, status_of
from penstock.job import Count
from penstock.monitor import chart, drawing, sessions, words
from penstock.monitor.actions import notices
from penstock.monitor.actions.action import Action
from penstock.monitor.actions.bulk import chosen
from penstock.monitor.actions.table import ACTIONS
from penstock.monitor.answers import HTML, JSON, Answer
from penstock.monitor.page import Page
from penstock.monitor.requests import Asked, Query
from penstock.monitor.visitors import Visitor

THEMES: Final = ("light", "dark")
THEME_COOKIE: Final = "penstock-theme"
FIND: Final = "/find"  # the page that finds things
_NAME: Final = f"name-{secrets.token_hex(16)}"  # marks that nothing in a store can hold
_WORD: Final = f"word-{secrets.token_hex(16)}"
_TITLES: Final = {
    400: "This address says something wrong",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Not offered",
    429: "Too many tries",
    503: "The store cannot be read",
}


class Problem(Struct):
    """Why there is no page."""

    status: int
    title: str
    code: str
    message: str


class SignIn(Struct):
    """The page that asks for a token; *wanted* is where its reader wanted to go."""

    wanted: str
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around a page: the sidebar, and who looks."""

    asked: Asked
    query: Query
    entries: tuple[Page, ...]
    section: str
    now: int
    visitor: Visitor | None
    theme: str  # empty follows the system
    dated: bool  # whether the page shows how something was at a moment
    live: bool  # whether it is fetched again when the store changes
    finds: bool  # whether there is a page that finds things
    counts: Mapping[str, Count]  # of what is on pages, by their paths
    store: str  # what is looked at; empty for those who see only a part of it
    done: str = ""  # what was done just before

    @property
    def root(self) -> str:
        """The path under which the monitor is mounted."""
        return self.asked.root

    def to(self, path: str, **query: object) -> str:
        """Return the address of a page; what is None or empty is left out."""
        return f"{self.root}{path}{Query({}).changed(**query)}"

    def again(self, **changes: object) -> str:
        """Return the address of this page with other values in its query."""
        return f"{self.root}{self.asked.path}{self.query.changed(**changes)}"

    def offers(self, kind: str) -> list[Action]:
        """Return what the visitor may do with something of a *kind*."""
        visitor = self.visitor
        if visitor is None or not visitor.may_operate:
            return []
        own = visitor.tenant is not None
        return [action for action in ACTIONS.values() if action.kind == kind and not (own and action.for_all)]

    def form_of(self, action: Action, **facts: object) -> str:
        """Return the address of the form of an action, which leads back to this page."""
        return f"{self.root}{action.path}{Query({}).changed(**facts, back=self.asked.address)}"

    @property
    def form_field(self) -> str:
        """The name of the field that forms carry."""
        return sessions.FORM_FIELD

    @property
    def form_word(self) -> str:
        """What stands in that field, once the page is signed."""
        return _WORD


class Front:
    """Turns records into answers."""

    def __init__(
        self, pages: Sequence[Page], counts: Callable[[str | None], Mapping[str, Count]], store: str
    ) -> None:
        self._counts = counts
        self._store = store
        self._entries = tuple(page for page in pages if page.path == page.section)
        self._finds = any(page.path == FIND for page in pages)
        self._now = SystemClock().now
        self._templates = Environment(
            loader=PackageLoader("penstock.monitor"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters.update(words.FILTERS)
        self._templates.filters.update(drawing.FILTERS)
        self._templates.filters.update(chart.FILTERS)
        self._templates.filters["chosen"] = lambda job: chosen(job.id, job.tenant)

    def answer(
        self,
        asked: Asked,
        visitor: Visitor | None,
        template: str,
        record: Struct,
        *,
        page: Page | None = None,
        query: Query | None = None,
        status: int = 200,
    ) -> Answer:
        """Return a record as it was asked for."""
        if asked.wants_json:
            return Answer(encode(record), status, JSON)
        entries = self._seen_by(visitor)
        told = notices.told(asked) if page is not None else None
        seen_by = None if visitor is None else visitor.group.visitor(_NAME)
        frame = Frame(
            asked, query or Query({}), entries, page.section if page else "", self._now(), seen_by,
            self._theme(asked), dated=page is not None,
            live=page is not None and page.follows, finds=self._finds and bool(entries),
            counts=self._counts(visitor.tenant) if entries and visitor is not None else {},
            store=self._store if visitor is not None and visitor.tenant is None else "",
            done=told.done if told else "",
        )  # fmt: skip
        html = self._templates.get_template(template).render(page=record, frame=frame, query=frame.query)
        answer = Answer(html.encode("utf-8", "replace"), status)
        if told is not None:
            answer.cookies.append(notices.cookie(asked, None))
        return answer

    def signed(self, answer: Answer, visitor: Visitor | None) -> Answer:
        """Return an answer with the visitor's name and the word of the session in the places of their marks."""
        if answer.media != HTML:
            return answer
        name = "" if visitor is None else escape(words.name(visitor.access.name))
        word = sessions.form_word(visitor.cookie) if visitor is not None and visitor.cookie else ""
        body = answer.body.replace(_NAME.encode(), name.encode("utf-8", "replace"))
        return replace(answer, body=body.replace(_WORD.encode(), word.encode()))

    def preferences(self, asked: Asked) -> tuple[str, str]:
        """Return what of a request, besides its address, decides how a page looks: its theme, and what it tells."""
        told = notices.told(asked)
        return self._theme(asked), told.path if told else ""

    def problem(self, asked: Asked, visitor: Visitor | None, error: PenstockError) -> Answer:
        """Return the page that says what is wrong."""
        status, headers = status_of(error), error.headers if isinstance(error, RefusedError) else {}
        if asked.wants_json:
            return Answer(encode(plain_error(error, "").body), status, JSON, headers)
        code = error.reason if isinstance(error, RefusedError) else error.code
        record = Problem(status, _TITLES.get(status, "Something went wrong"), code, str(error))
        answer = self.answer(asked, visitor, "problem.html", record, status=status)
        answer.headers |= headers
        return answer

    def _seen_by(self, visitor: Visitor | None) -> tuple[Page, ...]:
        if visitor is None or not visitor.may_look:
            return ()
        return tuple(page for page in self._entries if not (page.for_all and visitor.tenant is not None))

    def _theme(self, asked: Asked) -> str:
        chosen = asked.cookie(THEME_COOKIE)
        return chosen if chosen in THEMES else ""
