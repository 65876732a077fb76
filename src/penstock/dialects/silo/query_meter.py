"""How much time and memory a query may still use."""

from collections.abc import Iterable
from typing import Final

from penstock.clock import SECOND, monotonic
from penstock.dialects.silo.query_tree import Value
from penstock.errors import InvalidError

MAX_HELD: Final = 64 * 1024 * 1024  # bytes of groups, sorted rows and answers, as they are estimated
MAX_TEXT: Final = 16 * 1024 * 1024  # characters of one text
STEPS: Final = 50_000  # a few milliseconds of work at most, after which the clock is looked at
_EACH: Final = 64  # bytes that a value takes beside its characters
_PER_CHARACTER: Final = 2  # bytes of a character, in memory and as it is sent
_PER_WIDE_CHARACTER: Final = 8  # of one in a text that is not ASCII

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
        self._steps = 0

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

    def spend(self, steps: int) -> None:
        """Count work before it is done, a step for each part of the query or character; raise if the time is over."""
        self._steps += steps
        if self._steps > STEPS:
            self._steps = 0
            self.check()

    def keep(self, values: Iterable[Value]) -> tuple[tuple[Value, ...], int]:
        """Return *values* that are made one after the other, and the bytes that were counted for them."""
        kept: list[Value] = []
        size = 0
        for value in values:
            each = size_of(value)
            self.hold(each)
            size += each
            kept.append(value)
        return tuple(kept), size


def size_of(value: Value) -> int:
    """Estimate the bytes that a value takes."""
    if isinstance(value, str):
        return _EACH + len(value) * (_PER_CHARACTER if value.isascii() else _PER_WIDE_CHARACTER)
    if isinstance(value, dict):
        return _EACH + sum(size_of(key) + size_of(text) for key, text in value.items())
    if isinstance(value, list):
        return _EACH + sum(map(size_of, value))
    return _EACH
