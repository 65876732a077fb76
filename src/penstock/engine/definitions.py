"""Sequences as the engine conducts them: parsed once, and kept while they are in use."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from penstock.errors import InvalidError, NotFoundError
from penstock.job import Command, Entry, EntryState
from penstock.store import sequences as rows
from penstock.store.session import Session

KEPT: Final = 256  # parsed sequences


class Ended(NamedTuple):
    """Something of an instance that ended."""

    key: str
    state: EntryState
    result: str | None
    error: str | None


class Memory(Protocol):
    """What a conductor may look at."""

    @property
    def instance(self) -> str: ...
    @property
    def now(self) -> int: ...
    @property
    def context(self) -> Mapping[str, object]: ...
    def entry(self, key: str) -> Entry | None: ...


class Conductor:
    """Turns what has ended into commands.  Pure."""

    def parse(self, definition: object) -> object:
        """Read a sequence."""
        raise InvalidError("sequence", f"nothing can read it: {definition!r}")

    def begin(self, sequence: object, memory: Memory) -> list[Command]:
        """Return what an instance does first."""
        raise NotImplementedError

    def conduct(self, sequence: object, memory: Memory, ended: Ended) -> list[Command]:
        """Return what follows from an end."""
        raise NotImplementedError


class Definitions:
    """The sequences that this engine has parsed, the last used last."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor
        self._parsed: OrderedDict[int, object] = OrderedDict()

    def commands(self, db: Session, number: int, memory: Memory, ended: Ended | None) -> list[Command]:
        """Return what an instance of a sequence does first, or after an end."""
        sequence = self.of(db, number)
        if ended is None:
            return self.conductor.begin(sequence, memory)
        return self.conductor.conduct(sequence, memory, ended)

    def of(self, db: Session, number: int) -> object:
        """Return a sequence, which never changes under its number."""
        found = self._parsed.get(number)
        if found is None:
            text = rows.definition(db, number)
            if text is None:
                raise NotFoundError("sequence", str(number))
            found = self._parsed[number] = self.conductor.parse(msgspec.json.decode(text))
            while len(self._parsed) > KEPT:
                self._parsed.popitem(last=False)
        else:
            self._parsed.move_to_end(number)
        return found
