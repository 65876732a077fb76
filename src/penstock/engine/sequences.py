"""Sequences: workflows that are written as JSON, stored under a name and a version."""

import msgspec

from penstock.engine.admission.board import Board
from penstock.engine.instances import InstanceVerbs
from penstock.errors import ConflictError, InvalidError, NotFoundError
from penstock.ids import new_id
from penstock.job import SequenceView
from penstock.lifecycle.checks import check_tenant, check_whole
from penstock.names import name_problem
from penstock.store import sequences as rows
from penstock.store.session import Locks, Session

MAX_VERSION = 2**31 - 1


class SequenceVerbs(InstanceVerbs):
    def put_sequence(
        self,
        name: str,
        definition: str,
        *,
        version: int | None = None,
        tenant: str = "",
        namespace: str = "default",
        id_: str | None = None,
    ) -> SequenceView:
        """Store a sequence, which is JSON text, under its name and a version that is not taken.

        Without a *version* it gets the next, and without an *id_* a new one.
        """
        check_tenant(tenant)
        id_ = new_id() if id_ is None else id_
        for field, text in (("name", name), ("namespace", namespace), ("id", id_)):
            if (problem := name_problem(text)) is not None:
                raise InvalidError(field, problem)
        if version is not None:
            check_whole("version", version, 1, MAX_VERSION)
        try:
            decoded = msgspec.json.decode(definition)
        except msgspec.MsgspecError as error:
            raise InvalidError("definition", f"must be JSON: {error}") from None
        self._definitions.conductor.parse(decoded)

        def work(board: Board) -> SequenceView:
            db = board.db
            db.lock([f"sequence\x1f{tenant}\x1f{namespace}\x1f{name}"])
            given = version or rows.latest_version(db, tenant, namespace, name) + 1
            if rows.of_name(db, tenant, namespace, name, given) is not None:
                raise ConflictError(f"sequence {name!r} has a version {given} already")
            db.lock([f"sequence\x1f{tenant}\x1f{id_}"])
            if rows.of_id(db, id_, tenant):
                raise ConflictError(f"there is a sequence with the id {id_!r} already")
            (number,) = db.numbers(1)
            rows.add(db, (number, tenant, namespace, name, given, definition, board.now, id_))
            return SequenceView(
                number, tenant, namespace, name, given, definition, board.now, deprecated=False, id=id_
            )

        return self._write(work, Locks.NONE)

    def sequence(
        self, name: str, version: int | None = None, *, tenant: str = "", namespace: str = "default"
    ) -> SequenceView:
        """Return a version of a sequence; without one the latest that is not deprecated."""
        found = self.store.read(lambda db: rows.of_name(db, tenant, namespace, name, version))
        if found is None:
            raise NotFoundError("sequence", name if version is None else f"{name} version {version}")
        return found

    def sequence_of(self, number: int) -> SequenceView:
        """Return the sequence with this number."""
        found = self.store.read(lambda db: rows.of_number(db, number))
        if found is None:
            raise NotFoundError("sequence", str(number))
        return found

    def sequence_with_id(self, id_: str, tenant: str | None = None) -> SequenceView:
        """Return the sequence with this id: of a tenant, or the only one."""
        found = self.store.read(lambda db: rows.of_id(db, id_, tenant))
        if not found:
            raise NotFoundError("sequence", id_)
        if len(found) > 1:
            raise InvalidError("tenant", f"sequences of several tenants have the id {id_!r}; name one")
        return found[0]

    def sequences(
        self,
        tenant: str | None = None,
        offset: int = 0,
        limit: int = 50,
        *,
        namespace: str | None = None,
        name: str | None = None,
    ) -> list[SequenceView]:
        """Return a page of sequences, newest first."""
        return self.store.read(lambda db: rows.page(db, tenant, namespace, name, offset, limit))

    def deprecate_sequence(self, number: int) -> None:
        """Let a version of a sequence no longer be found as the latest; instances of it go on."""

        def work(board: Board) -> None:
            if not rows.deprecate(board.db, number):
                raise NotFoundError("sequence", str(number))

        self._write(work, Locks.NONE)

    def delete_sequence(self, number: int) -> None:
        """Delete a version of a sequence of which no instance is live."""
        # Instances with limits are created under the gates; one without, that is created meanwhile, fails by itself.
        self._write(lambda board: _delete(board.db, number))


def _delete(db: Session, number: int) -> None:
    if rows.is_in_use(db, number):
        raise ConflictError(f"sequence number {number} has instances that have not ended")
    if not rows.delete(db, number):
        raise NotFoundError("sequence", str(number))
