"""Resource groups: what a job takes one of when it starts, and how they stand."""

from dataclasses import dataclass

from penstock.limits.groups import Resource, Strategy


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources of which a start takes one that has room; the *strategy* says which."""

    name: str
    strategy: Strategy = Strategy.ROUND_ROBIN
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class ResourceView:
    """A resource as people and programs see it: how many starts its present day has and allows (None: any number).

    So many attempts that took its key are *running*.  It *opens_at* that moment, None if only a release or a change
    opens it.
    """

    resource: Resource
    used: int
    cap: int | None
    running: int
    opens_at: int | None
