"""Which events a reader or a webhook wants."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from penstock.dialects.ojs.events.event_format import Shown
from penstock.dialects.ojs.format.names import check_queue, check_type
from penstock.errors import InvalidError

_PATTERN: Final = re.compile(r"\*|[a-z_]+(?:\.[a-z_]+)*(?:\.\*)?")
MOST: Final = 100  # names in one filter


class Wanted(Struct, frozen=True):
    """Events of these types, queues and job types, each None for any; of one *tenant*, or of all if that is None."""

    types: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    job_types: frozenset[str] | None = None
    tenant: str | None = None

    def takes(self, event: Shown) -> bool:
        """Tell whether an event is wanted."""
        return (
            (self.tenant is None or event.tenant == self.tenant)
            and (self.queues is None or event.queue in self.queues)
            and (self.job_types is None or event.job_type in self.job_types)
            and (self.types is None or _matches(event.name, self.types))
        )


def _matches(name: str, patterns: frozenset[str]) -> bool:
    return name in patterns or "*" in patterns or f"{name.partition('.')[0]}.*" in patterns


def checked(
    types: Iterable[str] | None,
    queues: Iterable[str] | None,
    job_types: Iterable[str] | None,
    tenant: str | None,
    at: str = "",
) -> Wanted:
    """Return a filter; *at* is the place of its fields in the request, for errors."""
    return Wanted(
        _set(types, f"{at}types", _check_pattern),
        _set(queues, f"{at}queues", check_queue),
        _set(job_types, f"{at}job_types", check_type),
        tenant,
    )


def words(text: str | None) -> list[str] | None:
    """Return the words of a comma-separated list; None if there is no list."""
    found = [word.strip() for word in (text or "").split(",") if word.strip()]
    return found or None


def _check_pattern(name: str, field: str) -> str:
    if not _PATTERN.fullmatch(name):
        raise InvalidError(field, f"{name[:60]!r} must be a type of event such as job.completed, job.* or *")
    return name


def _set(names: Iterable[str] | None, field: str, check: Callable[[str, str], str]) -> frozenset[str] | None:
    if names is None:
        return None
    found = frozenset(check(name, field) for name in names)
    if len(found) > MOST:
        raise InvalidError(field, f"at most {MOST} names are allowed")
    return found or None
