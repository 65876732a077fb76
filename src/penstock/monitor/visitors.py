"""Who asks, and what they may see and do."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.http.access import OPERATORS, VIEWERS, Access, Role
from penstock.monitor.requests import Scope

# A hook of the application that the monitor is part of; it may be a coroutine function.  None refuses the request.
Who = Callable[[Scope], Access | Awaitable[Access | None] | None]


class Group(NamedTuple):
    """Those who are shown the same: all that decides what a visitor is shown."""

    tenant: str | None
    roles: frozenset[Role]
    signed_in: bool
    operates: bool

    def visitor(self, name: str) -> "Visitor":
        """Return a visitor of the group of whom nothing else is known."""
        access = Access(name, self.roles, self.tenant)
        return Visitor(access, signed_in=self.signed_in, operates=self.operates)


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person or a program that asks.  *cookie* is that of the session; one that is *fresh* is yet to be set."""

    access: Access
    cookie: str | None = None
    fresh: bool = False
    signed_in: bool = False  # with a token, so that there is something to sign out of
    by_header: bool = False  # with a token in each request: no other site can make a browser send that
    operates: bool = False  # whether this monitor changes anything

    @property
    def group(self) -> Group:
        """Those who are shown the same as this visitor."""
        return Group(self.access.tenant, self.access.roles, self.signed_in, self.operates)

    @property
    def tenant(self) -> str | None:
        """The tenant whose things are shown; None for those of all."""
        return self.access.tenant

    @property
    def may_look(self) -> bool:
        """Whether the pages are for this visitor at all."""
        return self.access.allows(VIEWERS)

    @property
    def may_operate(self) -> bool:
        """Whether this visitor may change anything here."""
        return self.operates and self.access.allows(OPERATORS)

    @property
    def sees_secrets(self) -> bool:
        """Whether arguments and results that a task marks as secret are shown."""
        return self.access.allows(OPERATORS)
