"""Sequences as the engine conducts them: parsed once, and kept while they are in use."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from penstock.errors import NotFoundError
from penstock.job import Command, EntryState
from penstock.sequences import Ended, Memory, Sequence
from penstock.store import sequences as rows
from penstock.store.session import Session

KEPT: Final = 256  # parsed sequences


class Conductor(Protocol):
    """Turns what has ended into commands: `penstock.sequences`, or what takes its place in a test."""

    def parse(self, definition: object) -> Sequence: ...
    def begin(self, sequence: Sequence, memory: Memory) -> list[Command]: ...
    def conduct(self, sequence: Sequence, memory: Memory, ended: Ended) -> list[Command]: ...
    def cancel(self, sequence: Sequence, memory: Memory) -> list[Command]: ...
    def forgotten(self, sequence: Sequence, states: Mapping[str, EntryState]) -> list[str]: ...
    def resume(self, sequence: Sequence, memory: Memory) -> list[Command]: ...


class Definitions:
    """The sequences that this engine has parsed, the last used last."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor
        self._parsed: OrderedDict[int, Sequence] = OrderedDict()

    def begin(self, db: Session, number: int, memory: Memory, *, again: bool) -> list[Command]:
        """Return what an instance of a sequence does first; *again* if it was retried."""
        begin = self.conductor.resume if again else self.conductor.begin
        return begin(self.of(db, number), memory)

    def conduct(self, db: Session, number: int, memory: Memory, ended: Ended) -> list[Command]:
        """Return what an instance of a sequence does after an end."""
        return self.conductor.conduct(self.of(db, number), memory, ended)

    def cancel(self, db: Session, number: int, memory: Memory) -> list[Command]:
        """Return what an instance of a sequence does to be cancelled."""
        return self.conductor.cancel(self.of(db, number), memory)

    def of(self, db: Session, number: int) -> Sequence:
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
