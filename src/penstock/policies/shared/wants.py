"""The wants of a shared slot pool that have no final answer yet.

A want is what one waiting call asks of the store; it has the number of the waiter that brought it.
"""

from collections.abc import Hashable, Iterator
from itertools import islice

from penstock.policies.waiter import WAITING, Waiter


class Wants:
    """Which wants are at the store, and which of them were told to wait.

    A pool that does not serve first come, first served may give a waiter what another one asked for.  The want of the
    first then stands for the other.  So there are as many wants as waiting calls, not always of the same calls.
    """

    def __init__(self) -> None:
        self._brought: dict[int, Waiter] = {}
        self._of_key: dict[Hashable, dict[int, Waiter]] = {}
        self._told: dict[Hashable, set[int]] = {}

    def __contains__(self, want: int) -> bool:
        return want in self._brought

    def add(self, waiter: Waiter) -> None:
        """Add the want of *waiter*."""
        self._brought[waiter.seq] = waiter
        self._of_key.setdefault(waiter.key, {})[waiter.seq] = waiter

    def pop(self, want: int) -> Waiter | None:
        """Forget a want; return the waiter that brought it."""
        waiter = self._brought.pop(want, None)
        if waiter is None:
            return None
        of_key = self._of_key[waiter.key]
        del of_key[want]
        if not of_key:
            del self._of_key[waiter.key]
        told = self._told.get(waiter.key, set())
        told.discard(want)
        if not told:
            self._told.pop(waiter.key, None)
        return waiter

    def brought_by(self, want: int) -> Waiter:
        """Return the waiter that brought a want."""
        return self._brought[want]

    def count(self, key: Hashable) -> int:
        """Return how many there are for *key*."""
        return len(self._of_key.get(key, ()))

    def told(self, key: Hashable) -> set[int]:
        """Return the wants for *key* that were told to wait."""
        return self._told.get(key, set())

    def tell(self, want: int) -> None:
        """Note that a want was told to wait."""
        self._told.setdefault(self._brought[want].key, set()).add(want)

    def vain(self, key: Hashable, most: int) -> list[int]:
        """Return up to *most* wants for *key* whose bringers wait no longer."""
        return list(islice(self._not_waiting(key), most))

    def _not_waiting(self, key: Hashable) -> Iterator[int]:
        return (want for want, waiter in self._of_key.get(key, {}).items() if waiter.state != WAITING)
