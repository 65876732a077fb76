"""A page: a function from a view of the engine and a query to a record, which is the JSON at the same address."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from penstock.engine import Engine
from penstock.monitor.operations import Operation
from penstock.monitor.requests import Query


@dataclass(frozen=True, slots=True)
class View:
    """What a page is made from: the engine, as one visitor sees it *now*.

    With a *tenant* only its keys and jobs; *operator* says whether secrets are shown too.
    """

    engine: Engine
    tenant: str | None
    now: int
    operator: bool = False
    operations: Sequence[Operation] = ()  # bulk operations of this process


@dataclass(frozen=True, slots=True)
class Page:
    """One page, at *path*.  *section* is the path of the entry of the sidebar under which it stands.

    One that is *for_all* shows what belongs to no tenant, and a token of one tenant does not see it.  One that
    *follows* is made again when the store changes.
    """

    path: str
    title: str
    show: Callable[[View, Query], Struct]
    template: str
    section: str
    for_all: bool = False
    follows: bool = True
