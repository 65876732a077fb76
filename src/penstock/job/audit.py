"""What operators changed, as it is written down."""

from msgspec import Struct


class AuditEntry(Struct, frozen=True):
    """A change: *who* made it *through* what, the *verb*, and its *subject*, which is one of a *kind*.

    What it was *before* and *after* are JSON texts, of what can be said in a few words and is no secret.  A bulk
    operation is one entry, with how many it has *touched*.
    """

    number: int
    at: int
    who: str
    through: str
    verb: str
    kind: str
    tenant: str
    subject: str
    before: str | None
    after: str | None
    reason: str
    touched: int = 1


class AuditFilter(Struct, frozen=True):
    """Which changes are meant; what is None does not matter."""

    kind: str | None = None
    subject: str | None = None
    verb: str | None = None
    who: str | None = None
    through: str | None = None
    tenant: str | None = None
    since: int | None = None
    until: int | None = None
