"""How much time and memory a query may still use."""

from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.dialects.silo.query_tree import Value
from penstock.errors import InvalidError

MAX_HELD: Final = 64 * 1024 * 1024  # bytes of groups, sorted rows and answers, as they are estimated
MAX_TEXT: Final = 16 * 1024 * 1024  # characters of one text
LONG: Final = 50_000  # characters of a text that takes so long to look at that the clock is looked at too
_EACH: Final = 64  # bytes that a value takes beside its characters

NARROWER: Final = (
    "name ids or a status_kind (Running, Waiting and Scheduled look only at jobs that have not ended), "
    "ask for fewer columns, add a LIMIT without ORDER BY, or count in tenant_counts or queue_counts"
)


class Meter:
    """Raises once a query has taken longer than *span* microseconds, or holds too much."""

    def __init__(self, span: int) -> None:
        self._span = span
        self._end = monotonic() + span
        self._held = 0

    @property
    def left(self) -> int:
        """The microseconds that are left."""
        return max(self._end - monotonic(), 1)

    def check(self) -> None:
        """Raise if the time is over."""
        if monotonic() > self._end:
            raise self.too_long()

    def too_long(self) -> InvalidError:
        """Return what to raise when the time is over."""
        return InvalidError(
            "sql", f"the query took longer than {self._span / SECOND:g} s; to narrow it, {NARROWER}"
        )

    def hold(self, size: int) -> None:
        """Count what is kept until the end of the query; less than nothing is given back."""
        self._held += size
        if self._held > MAX_HELD:
            problem = f"the query must keep more than {MAX_HELD >> 20} MiB at once; to narrow it, {NARROWER}"
            raise InvalidError("sql", problem)

    def look(self, text: str) -> None:
        """Look at the clock before a *text* is gone through, if it is long."""
        if len(text) > LONG:
            self.check()


def size_of(values: tuple[Value, ...]) -> int:
    """Estimate the bytes that a row takes."""
    size = _EACH
    for value in values:
        size += _EACH
        if isinstance(value, str):
            size += 2 * len(value)
        elif isinstance(value, dict):
            size += sum(2 * _EACH + 2 * len(key) + 2 * len(text) for key, text in value.items())
        elif isinstance(value, list):
            size += sum(_EACH + 2 * len(text) for text in value)
    return size
