"""The desk: shows the form of an action, checks what was written there, and has the engine make the change."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

from penstock.acting import Actor
from penstock.engine import Engine
from penstock.errors import ConflictError, InvalidError, NotFoundError, PenstockError
from penstock.http.codec import encode
from penstock.http.errors import ForbiddenError, status_of
from penstock.job import Count
from penstock.monitor.actions import notices
from penstock.monitor.actions.action import Action, Order
from penstock.monitor.actions.fields import TENANT, Field
from penstock.monitor.actions.forms import Done, form_of, written_in
from penstock.monitor.actions.table import ACTIONS
from penstock.monitor.answers import JSON, Answer, led_to
from penstock.monitor.door import Door, safe_address
from penstock.monitor.front import Front
from penstock.monitor.operations import Operations
from penstock.monitor.requests import Asked, Query
from penstock.monitor.visitors import Visitor
from penstock.names import one_line

T = TypeVar("T")

THROUGH: Final = "monitor"
_LONGEST_NAME: Final = 200  # characters of who acts


class Run(Protocol):
    """Runs work on the engine in a thread."""

    def __call__(self, work: Callable[[Engine], T], /) -> Awaitable[T]: ...


class Desk:
    """Answers at the addresses of actions."""

    def __init__(self, front: Front, door: Door, operations: Operations, run: Run) -> None:
        self._front = front
        self._door = door
        self._operations = operations
        self._run = run

    def knows(self, path: str) -> bool:
        """Tell whether an address is that of an action."""
        return path in ACTIONS

    async def answer(self, asked: Asked, form: Query, visitor: Visitor) -> Answer:
        """Show the form of an action, or do what it says."""
        action = ACTIONS[asked.path]
        check_may(visitor)
        if action.for_all and visitor.tenant is not None:
            raise ForbiddenError("this belongs to no tenant; a token of one tenant may not change it")
        if asked.method == "POST":
            return await self._done(asked, action, form, visitor)
        return await self._form(asked, action, Query.read(asked.query_text), visitor)

    async def _form(self, asked: Asked, action: Action, query: Query, visitor: Visitor) -> Answer:
        fixed = _fixed(action, query, visitor)
        values = _named(action, fixed)
        start: Mapping[str, str] = {}
        touches = None
        if values is not None:
            touches, start = await self._run(
                lambda engine: _looked(action, self._order(engine, values, visitor))
            )
        fields = _asked_for(action, visitor)
        written = {**start, **written_in(fields, query)}
        record = form_of(action, fields, fixed, written, _back(query), touches=touches)
        return self._front.answer(asked, visitor, "action.html", record)

    async def _done(self, asked: Asked, action: Action, form: Query, visitor: Visitor) -> Answer:
        self._door.check_form(asked, form, visitor)
        _check_tenant(action, form, visitor)
        try:
            values = {field.name: field.value(form) for field in action.all_fields}
            if action.has_tenant and visitor.tenant is not None:
                values[TENANT.name] = visitor.tenant
            await self._run(lambda engine: _perform(action, self._order(engine, values, visitor)))
        except (InvalidError, ConflictError) as error:
            return await self._form_again(asked, action, form, visitor, error)
        if asked.wants_json:
            return Answer(encode(Done(action.path, action.done)), 200, JSON)
        answer = led_to(asked.root + _leads_to(action, form))
        answer.cookies.append(notices.cookie(asked, action))
        return answer

    async def _form_again(
        self, asked: Asked, action: Action, form: Query, visitor: Visitor, error: PenstockError
    ) -> Answer:
        """Show the form as it was filled in, with what is wrong."""
        if asked.wants_json:
            raise error
        fixed = _fixed(action, form, visitor) if form.text("fixed") else {}
        values = _named(action, fixed)
        touches = None
        if values is not None:
            touches = await self._run(lambda engine: action.touches(self._order(engine, values, visitor)))
        fields = _asked_for(action, visitor)
        record = form_of(
            action, fields, fixed, written_in(fields, form), _back(form), touches=touches, error=error
        )
        return self._front.answer(asked, visitor, "action.html", record, status=status_of(error))

    def _order(self, engine: Engine, values: Mapping[str, object], visitor: Visitor) -> Order:
        name = one_line(visitor.access.name)[:_LONGEST_NAME] or "a token without a name"
        who = Actor(name, THROUGH, str(values.get("reason") or ""))
        return Order(engine, values, engine.clock.now(), who, visitor.tenant, self._operations)


def check_may(visitor: Visitor) -> None:
    """Raise unless the visitor may change something."""
    if not visitor.operates:
        raise ForbiddenError("this monitor only shows; start it with --operate to change things here")
    if not visitor.may_operate:
        raise ForbiddenError("this needs the role operator")


def _perform(action: Action, order: Order) -> None:
    """Make the change as the visitor."""
    with order.engine.acting(order.actor):
        action.perform(order)


def _looked(action: Action, order: Order) -> tuple[Count, Mapping[str, str]]:
    return action.touches(order), action.start(order)


def _fixed(action: Action, query: Query, visitor: Visitor) -> dict[str, str]:
    """Return the names that a form is about, if the address says them."""
    _check_tenant(action, query, visitor)
    found = written_in(action.names, query)
    if any(field.needed and field.name not in found for field in action.names):
        return {}
    if found and action.has_tenant:
        found[TENANT.name] = visitor.tenant if visitor.tenant is not None else found.get(TENANT.name, "")
    return found


def _named(action: Action, fixed: Mapping[str, str]) -> dict[str, object] | None:
    """Return the values of the names of a form; None if they are yet to be written."""
    if action.names and not fixed:
        return None
    return {field.name: field.value(Query(fixed)) for field in action.names}


def _asked_for(action: Action, visitor: Visitor) -> tuple[Field, ...]:
    """Return the fields that a visitor sees: one of one tenant does not say which."""
    own = visitor.tenant is not None
    return tuple(field for field in action.all_fields if not (own and field is TENANT))


def _check_tenant(action: Action, form: Query, visitor: Visitor) -> None:
    """Raise if a visitor of one tenant names another: its things are not there for this visitor."""
    named = form.text(TENANT.name)
    if action.has_tenant and visitor.tenant is not None and named not in (None, visitor.tenant):
        raise NotFoundError(action.kind, ", ".join(written_in(action.names, form).values())[:200])


def _leads_to(action: Action, form: Query) -> str:
    """Return the page to show once it is done."""
    return action.page if action.leads_away else _back(form) or action.page


def _back(form: Query) -> str:
    wanted = form.text("back")
    return "" if wanted is None else safe_address(wanted)
