"""Resource groups: what a job takes one of when it starts, and how they stand."""

from dataclasses import dataclass, field

from penstock.limits.groups import Resource, Strategy


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """So many resources, its *size*, of which a start takes one that has room; the *strategy* says which.

    It was put at the moments *created* and *updated*, first and last.
    """

    name: str
    strategy: Strategy = Strategy.ROUND_ROBIN
    tenant: str = ""
    created: int = field(default=0, compare=False)
    updated: int = field(default=0, compare=False)
    size: int = field(default=0, compare=False)


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
    created: int = 0
    updated: int = 0
