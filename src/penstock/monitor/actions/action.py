"""An action: a change that an operator makes from a page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.acting import Actor
from penstock.engine import Engine
from penstock.job import Count
from penstock.monitor.actions.fields import REASON, TENANT, Field, Values
from penstock.monitor.operations import Operations


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done, *now*: the *values* of the fields, for an *actor* who is perhaps bound to a tenant, *own*."""

    engine: Engine
    values: Values
    now: int
    actor: Actor
    own: str | None
    operations: Operations

    @property
    def tenant(self) -> str:
        """Whose things are changed; empty for those of no tenant."""
        return str(self.values.get("tenant") or "")

    @property
    def reason(self) -> str:
        """Why."""
        return str(self.values["reason"])


def one_job(_: Order) -> Count:
    """Say that one job is touched."""
    return Count(1)


def no_job(_: Order) -> Count:
    """Say that no job is touched at once."""
    return Count()


@dataclass(frozen=True, slots=True)
class Action:
    """One change, at the address *path*, of what *names* say, which is of a *kind*.

    *says* is a sentence on what it brings about, *done* what its reader is told afterwards.  *start* gives what stands
    in its fields at first.  One that is *for_all* changes what belongs to no tenant.
    """

    path: str
    kind: str
    button: str
    title: str
    says: str
    done: str
    page: str  # where it leads back to, if the form does not say
    perform: Callable[[Order], None]
    names: tuple[Field, ...] = ()
    fields: tuple[Field, ...] = ()
    touches: Callable[[Order], Count] = one_job
    start: Callable[[Order], Mapping[str, str]] = field(default=lambda _: {})
    for_all: bool = False
    grave: bool = False  # whether it cannot be taken back
    leads_away: bool = False  # whether there is no page to go back to

    @property
    def has_tenant(self) -> bool:
        """Whether what it changes belongs to a tenant, or to none."""
        return TENANT in self.names

    @property
    def all_fields(self) -> tuple[Field, ...]:
        """Every field, in the order of the form."""
        return (*self.names, *self.fields, REASON)
