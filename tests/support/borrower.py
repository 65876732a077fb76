"""A process that borrows slots, as the engine sees it: calls by name."""

from collections import Counter

from penstock.engine import Engine
from penstock.job import Lending, Lent, Want
from penstock.limits.rules import Numbers
from tests.support.desk import LEASE


class Borrower:
    """Knows which of its calls were lent their slots, by what it was told."""

    def __init__(self, engine: Engine, lease: int = LEASE) -> None:
        self.engine = engine
        self.lease = lease
        self.holder = 0
        self.names: dict[int, str] = {}
        self.loans: dict[str, tuple[int, int]] = {}  # gate and slots by name
        self.lost = False

    @property
    def running(self) -> str:
        return " ".join(self.loans)

    def ask(
        self, names: str, key: str, count: int = 1, *, slots: int = 1, most: int = 1, stay: bool = True
    ) -> str:
        """Ask for slots of a key for each name; return the names of those that were lent theirs."""
        wanted = []
        for name in names.split():
            number = len(self.names) + 1
            self.names[number] = name
            wanted.append(Want(number, key, Numbers(slots=count), slots, max(most, slots), stay))
        return self._told(Lending(self.holder, self.lease, wanted=tuple(wanted)))

    def give(self, names: str, *, slots: int | None = None) -> str:
        """Give back what these have."""
        back: Counter[int] = Counter()
        for name in names.split():
            gate, has = self.loans.pop(name)
            back[gate] += has if slots is None else slots
        return self._told(Lending(self.holder, self.lease, returned=tuple(back.items())))

    def withdraw(self, names: str) -> str:
        """Ask no longer for these."""
        numbers = tuple(number for number, name in self.names.items() if name in names.split())
        return self._told(Lending(self.holder, self.lease, withdrawn=numbers))

    def look(self) -> str:
        """Look what there is."""
        return self._told(Lending(self.holder, self.lease, look=True))

    def renew(self) -> str:
        return self._told(Lending(self.holder, self.lease, renew=True))

    def audit(self) -> tuple[dict[int, int], set[str]]:
        """Return what the store says we have, and who of us waits there."""
        lent = self.engine.lend(Lending(self.holder, self.lease, audit=True))
        assert lent.audit is not None
        return lent.audit.held, {self.names[want] for want in lent.audit.asking}

    def _told(self, asked: Lending) -> str:
        lent: Lent = self.engine.lend(asked)
        self.holder = lent.holder
        self.lost = not lent.holder
        got = []
        for loan in lent.loans:
            name = self.names[loan.want]
            self.loans[name] = (loan.gate, loan.slots)
            got.append(name)
        return " ".join(got)
