"""The nouns of lending: what a process asks of the engine, and the answer.  Plain data.

All times are spans in microseconds: the borrower measures them by its own clock, from before its request.
"""

from msgspec import Struct

from penstock.limits.rules import Numbers


class Want(Struct, frozen=True):
    """One call that wants *slots* of a key, all of them at once; up to *most* are welcome.

    If it cannot have them now it waits in line, unless it does not want to *stay*.
    """

    id: int
    key: str
    numbers: Numbers
    slots: int = 1
    most: int = 1
    stay: bool = True


class Lending(Struct, frozen=True):
    """What a process gives back, no longer wants, and wants, in this order; *holder* is 0 the first time.

    With *look* it is told what it got since, and with *audit* of all that it has.
    """

    holder: int
    lease: int
    name: str = ""
    returned: tuple[tuple[int, int], ...] = ()  # (gate, slots)
    withdrawn: tuple[int, ...] = ()
    wanted: tuple[Want, ...] = ()
    renew: bool = False
    look: bool = False
    audit: bool = False


class Loan(Struct, frozen=True):
    """What a want got.  Where starts are remembered its call must begin within *grace* (0: any time)."""

    want: int
    gate: int
    slots: int
    grace: int = 0


class Audit(Struct, frozen=True):
    """All slots that a holder has, by gate, and its wants that stand in line."""

    held: dict[int, int]
    asking: frozenset[int]


class Lent(Struct, frozen=True):
    """The answer; *holder* is 0 if the lease had run out, and with it all that was held or asked for."""

    holder: int
    loans: tuple[Loan, ...] = ()
    refused: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()  # those of the wants that stand in line now
    audit: Audit | None = None
