"""The player: reads the form, has its plans played, and shows what came of them."""

from collections.abc import Hashable, Mapping
from typing import Final

from penstock.errors import InvalidError, PenstockError
from penstock.http.errors import RefusedError, status_of
from penstock.limits.rules import Numbers
from penstock.monitor.actions.forms import written_in
from penstock.monitor.answers import Answer
from penstock.monitor.door import Door
from penstock.monitor.front import Front
from penstock.monitor.page import Page
from penstock.monitor.pages.plan import WORDS, Plan, filled, played
from penstock.monitor.plans.asked import SIDES, fields, numbers_of, plans_in
from penstock.monitor.plans.plays import Plays
from penstock.monitor.requests import Asked, Query
from penstock.monitor.visitors import Visitor
from penstock.simulate.apart import Outcome

PATH: Final = "/plan"
_WRITE_OUT: Final = "write-out"  # what the button says that makes two plans in words of the fields


class Player:
    """Answers to those who send the form; it changes nothing, so those who may look may play."""

    def __init__(self, front: Front, door: Door, page: Page) -> None:
        self._front = front
        self._door = door
        self._page = page
        self._plays = Plays()

    def close(self) -> None:
        """End what is being played."""
        self._plays.close()

    async def answer(self, asked: Asked, form: Query, visitor: Visitor) -> Answer:
        """Play the plans of a form."""
        self._door.check_form(asked, form, visitor)
        text = form.choice("as", (WORDS,)) is not None
        record = filled(
            form.text("key") or "", form.text("tenant") or "", _values(form, text=text), text=text
        )
        try:
            plans = plans_in(form, text=text)
            if form.text("do") == _WRITE_OUT:
                values = dict(zip(SIDES, plans, strict=False))
                return self._shown(asked, visitor, filled("", "", values, text=True))
            outcome = await self._plays.play(_who(visitor), plans)
            _check(outcome, text=text)
        except (InvalidError, RefusedError) as error:
            if asked.wants_json:
                raise
            return self._again(asked, visitor, record, error)
        return self._shown(asked, visitor, played(record, outcome.sides, _numbers(form, text=text)))

    def _again(self, asked: Asked, visitor: Visitor, record: Plan, error: PenstockError) -> Answer:
        """Show the form as it was filled in, with what is wrong."""
        values = {field.name: field.value for field in record.fields}
        wrong = filled(record.key, record.tenant, values, text=record.text, error=error)
        answer = self._front.answer(
            asked, visitor, self._page.template, wrong, page=self._page, status=status_of(error)
        )
        if isinstance(error, RefusedError):
            answer.headers |= error.headers
        return answer

    def _shown(self, asked: Asked, visitor: Visitor, record: Plan) -> Answer:
        return self._front.answer(asked, visitor, self._page.template, record, page=self._page)


def _values(form: Query, *, text: bool) -> Mapping[str, str]:
    return written_in(fields(text=text), form)


def _numbers(form: Query, *, text: bool) -> list[Numbers]:
    """Return the numbers of each side; plans in words have more than these."""
    if text:
        return []
    values = {field.name: field.value(form) for field in fields(text=False)}
    return [numbers_of(side, values) for side in SIDES]


def _check(outcome: Outcome, *, text: bool) -> None:
    """Raise if a plan turned out to be wrong while it was played."""
    if outcome.wrong is not None:
        raise InvalidError(SIDES[outcome.wrong] if text else "plan", outcome.problem)


def _who(visitor: Visitor) -> Hashable:
    """Return by what a visitor is known: a token, or the cookie of the session where there is none."""
    if visitor.signed_in or visitor.by_header:
        return (visitor.access.name, visitor.access.tenant)
    return visitor.cookie
