"""The door: who asks, whether a page of another site sent it, and signing in.

Where neither tokens nor a hook say who asks, only requests to this machine's own names are answered; and where no
server has checked that only this machine can reach it, only those that this machine sends.

A try with a token or a session that is not known is held up.  One that was let in before is not: it is no guess, and
so the wrong tokens of others do not keep it out.
"""

import asyncio
import inspect
import secrets
from typing import Final

from penstock.clock import SECOND, SystemClock
from penstock.http.access import EVERYTHING, Access
from penstock.http.addresses import is_loopback, is_passed_on
from penstock.http.cross_site import Visitors
from penstock.http.errors import ForbiddenError, RefusedError
from penstock.http.tokens import Keyring
from penstock.monitor import sessions, static_files
from penstock.monitor.patience import Patience
from penstock.monitor.requests import Asked, Query, Scope
from penstock.monitor.visitors import Visitor, Who

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
_AT_ONCE: Final = 20  # tries that may be held up at the same time
_NOT_KNOWN: Final = (
    "this monitor does not know who asks, so it answers only what this machine itself sends, not through a proxy; "
    "give Monitor a hook that says who asks (who=...), or tokens (keyring=...)"
)


class Door:
    """Lets visitors in."""

    def __init__(
        self, keyring: Keyring, visitors: Visitors | None, who: Who | None, *, operates: bool
    ) -> None:
        self._keyring = keyring
        self._mounted = visitors is None  # in an application of which nothing is known
        self._visitors = visitors or Visitors()
        self._who = who
        self._operates = operates
        self._now = SystemClock().now
        self._patience = Patience()
        self._held_up = 0
        self._let_in = sessions.Noted()
        self._wrong = sessions.Noted()
        self._signed_out = sessions.Noted()

    @property
    def has_tokens(self) -> bool:
        """Whether visitors sign in here."""
        return self._who is None and not self._keyring.is_open

    def check_site(self, asked: Asked) -> None:
        """Raise if a page of another site, or another machine, may have sent it."""
        if self._who is not None or not self._keyring.is_open:
            return
        refusal = self._visitors.refusal(asked.headers, asked.arrived)
        if refusal is not None:
            raise RefusedError(403, *refusal)
        if self._mounted and (not is_loopback(asked.client) or is_passed_on(asked.headers)):
            raise RefusedError(403, "visitor_not_known", _NOT_KNOWN)

    def is_open_to_all(self, asked: Asked) -> bool:
        """Tell whether it does not matter here who asks: at the page that asks for a token, and for its style."""
        return self.has_tokens and (asked.path == SIGN_IN or asked.path.startswith(static_files.PATH))

    async def visitor(self, asked: Asked, scope: Scope) -> Visitor | None:
        """Return who asks; None if a token is needed."""
        if self._who is not None:
            found = self._who(scope)
            access = await found if inspect.isawaitable(found) else found
            if access is None:
                raise ForbiddenError("you may not look at this monitor")
            return self._without_token(asked, access)
        if self._keyring.is_open:
            return self._without_token(asked, EVERYTHING)
        # What is no token may be meant for a proxy before us.
        if (sent := asked.headers.get("authorization", "")).lower().startswith("bearer "):
            return await self._with_header(asked, sent)
        cookie = asked.cookie(sessions.cookie_name(asked))
        return None if cookie is None else await self._with_session(asked, cookie)

    def is_still_in(self, visitor: Visitor) -> bool:
        """Tell whether the session of a visitor who was let in goes on."""
        cookie = visitor.cookie if visitor.signed_in else None
        return cookie is None or (sessions.lasts(cookie, self._now()) and cookie not in self._signed_out)

    def sign_out(self, visitor: Visitor) -> None:
        """End the session of a visitor, on this server: its cookie is known no more."""
        if visitor.signed_in and visitor.cookie is not None:
            self._signed_out.note(visitor.cookie)

    async def sign_in(self, asked: Asked, form: Query) -> str | None:
        """Return the cookie of a new session; None if the token is not known."""
        _check_origin(asked)
        await self._be_patient(asked)
        now = self._now()
        cookie = sessions.begun(self._keyring, form.text("token") or "", now)
        if cookie is None:
            self._patience.note_wrong(asked.client, now)
        else:
            self._let_in.note(cookie)
        return cookie

    def check_form(self, asked: Asked, form: Query, visitor: Visitor) -> None:
        """Raise unless what would change something comes from a page of ours, made for this session."""
        if visitor.by_header:
            return
        _check_origin(asked)
        word = form.text(sessions.FORM_FIELD) or ""
        if visitor.cookie is None or not sessions.is_form_word(visitor.cookie, word):
            raise ForbiddenError("this form is not of your session; load the page again")

    def _without_token(self, asked: Asked, access: Access) -> Visitor:
        """Return a visitor whose session is only a cookie by which its forms are known."""
        if access.tenant == "":  # it would be that of every tenant where only one is meant
            raise ForbiddenError("a visitor is of a tenant with a name, or of None: all")
        cookie = asked.cookie(sessions.cookie_name(asked))
        made = cookie or secrets.token_urlsafe(32)
        return Visitor(access, made, fresh=cookie is None, operates=self._operates)

    async def _with_header(self, asked: Asked, sent: str) -> Visitor | None:
        if sent not in self._let_in:
            await self._be_patient(asked)
        access: Access | None = self._keyring.access(sent)
        if access is None:
            self._patience.note_wrong(asked.client, self._now())
            return None
        self._let_in.note(sent)
        return Visitor(access, by_header=True, operates=self._operates)

    async def _with_session(self, asked: Asked, cookie: str) -> Visitor | None:
        now = self._now()
        if not sessions.lasts(cookie, now) or cookie in self._signed_out or cookie in self._wrong:
            return None
        if cookie not in self._let_in:
            await self._be_patient(asked)
        access = sessions.access(self._keyring, cookie, now)
        if access is None:
            # The same again is no other try: a browser keeps a cookie whose token is gone.
            self._wrong.note(cookie)
            self._patience.note_wrong(asked.client, now)
            return None
        self._let_in.note(cookie)
        return Visitor(access, cookie, signed_in=True, operates=self._operates)

    async def _be_patient(self, asked: Asked) -> None:
        """Hold up a try while wrong tokens come; raise if this address has sent too many."""
        left = self._patience.refused_for(asked.client, self._now())
        pause = self._patience.pause(self._now())
        if left or (pause and self._held_up >= _AT_ONCE):
            seconds = -(-(left or pause) // SECOND)
            told = f"too many wrong tokens; try again in {seconds} s"
            raise RefusedError(429, "too_many_tries", told, {"Retry-After": str(seconds)})
        if pause:
            self._held_up += 1
            try:
                await asyncio.sleep(pause / SECOND)
            finally:
                self._held_up -= 1


def safe_address(wanted: str | None) -> str:
    """Return the address to go to after signing in: one below the monitor, whatever was *wanted*."""
    if not wanted or not wanted.startswith("/") or wanted[1:2] in ("/", "\\"):
        return "/"
    return wanted if wanted.isascii() and wanted.isprintable() and "\\" not in wanted else "/"


def _check_origin(asked: Asked) -> None:
    if not asked.is_of_own_page:
        raise ForbiddenError("only a page of this server may send this")
