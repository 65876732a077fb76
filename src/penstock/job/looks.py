"""What a person sees who looks at a store: counts that stop somewhere, and lists that go on by cursor."""

from msgspec import Struct


class Count(Struct, frozen=True):
    """How many there are; with *more* at least so many."""

    number: int = 0
    more: bool = False

    def __add__(self, other: "Count") -> "Count":
        return Count(self.number + other.number, self.more or other.more)


class Totals(Struct, frozen=True):
    """How many jobs have not ended."""

    running: Count
    waiting: Count
    scheduled: Count
