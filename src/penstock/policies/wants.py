"""What a shared pool wants of its store: which calls stand in line there, and which of them were told to wait."""

from collections.abc import Hashable, Iterator
from itertools import islice

from penstock.policies.waiter import WAITING, Waiter


class Wants:
    """Wants without a final answer, each brought by one who waits; a want is known by the number of that one.

    Where a pool does not serve in the order of coming, one may be served with what another asked for; then its own
    want stands for that other one.  So there are as many wants as calls wait, not always of the same ones.
    """

    def __init__(self) -> None:
        self._brought: dict[int, Waiter] = {}
        self._of_key: dict[Hashable, dict[int, Waiter]] = {}
        self._told: dict[Hashable, set[int]] = {}

    def __contains__(self, want: int) -> bool:
        return want in self._brought

    def add(self, waiter: Waiter) -> None:
        """Take note of what *waiter* wants."""
        self._brought[waiter.seq] = waiter
        self._of_key.setdefault(waiter.key, {})[waiter.seq] = waiter

    def pop(self, want: int) -> Waiter | None:
        """Forget a want; return who brought it."""
        waiter = self._brought.pop(want, None)
        if waiter is None:
            return None
        _drop(self._of_key, waiter.key, want)
        _drop(self._told, waiter.key, want)
        return waiter

    def brought_by(self, want: int) -> Waiter:
        """Return who brought a want."""
        return self._brought[want]

    def count(self, key: Hashable) -> int:
        """Return how many there are for *key*."""
        return len(self._of_key.get(key, ()))

    def told(self, key: Hashable) -> set[int]:
        """Return those for *key* that were told to wait."""
        return self._told.get(key, set())

    def tell(self, want: int) -> None:
        """Take note that a want was told to wait."""
        self._told.setdefault(self._brought[want].key, set()).add(want)

    def vain(self, key: Hashable, most: int) -> list[int]:
        """Return up to *most* wants for *key* whose bringers wait no longer."""
        return list(islice(self._not_waiting(key), most))

    def _not_waiting(self, key: Hashable) -> Iterator[int]:
        return (want for want, waiter in self._of_key.get(key, {}).items() if waiter.state != WAITING)


def _drop(
    of_key: dict[Hashable, dict[int, Waiter]] | dict[Hashable, set[int]], key: Hashable, want: int
) -> None:
    found = of_key.get(key)
    if found is None:
        return
    if isinstance(found, set):
        found.discard(want)
    else:
        found.pop(want, None)
    if not found:
        del of_key[key]
