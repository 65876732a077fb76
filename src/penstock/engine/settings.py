"""Settings: what operators decided, for every process; and maintenance, during which nothing starts."""

from typing import Final

import msgspec

from penstock.engine import audit
from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidError
from penstock.job import Maintenance, Topic
from penstock.store import settings as setting_rows
from penstock.store.session import Locks, Session

MAX_NAME: Final = 512
_MAINTENANCE: Final = "maintenance"  # as the snapshot of a claim names it


class SettingVerbs(Transactions):
    def settings(self, prefix: str = "") -> dict[str, str]:
        """Return the settings whose names begin with *prefix*."""
        return self.store.read(lambda db: setting_rows.under(db, prefix))

    def set_setting(self, name: str, value: str | None) -> None:
        """Store a setting, for every process; None deletes it."""
        if not name or len(name) > MAX_NAME or "\0" in name or "\0" in (value or ""):
            raise InvalidError("name", f"must be 1 to {MAX_NAME} characters without NUL")

        def work(board: Board) -> None:
            before = setting_rows.under(board.db, name).get(name)
            if value is None:
                setting_rows.delete(board.db, name)
            else:
                setting_rows.put(board.db, name, value, board.now)
            if before != value:  # which may be a secret
                verb = "setting.delete" if value is None else "setting.put"
                audit.note(board, verb, "setting", name)

        self._write(work, Locks.NONE)

    def maintenance(self) -> Maintenance | None:
        """Return since when nothing starts, and why; None if jobs may start."""
        return self.store.read(maintenance)

    def set_maintenance(self, wanted: Maintenance | None) -> None:
        """Let nothing start, from any queue and for any worker, once this returns; None ends that.

        Jobs are still added, and those that run go on.
        """

        def work(board: Board) -> None:
            before, after = ({"maintenance": each is not None} for each in (maintenance(board.db), wanted))
            reason = "" if wanted is None else wanted.reason
            audit.note(
                board, "maintenance", "setting", _MAINTENANCE, before=before, after=after, reason=reason
            )
            if wanted is None:
                setting_rows.delete(board.db, _MAINTENANCE)
                board.db.tell(Topic.WORK)
            else:
                text = msgspec.json.encode(wanted).decode()
                setting_rows.put(board.db, _MAINTENANCE, text, board.now)

        self._write(work, Locks.RULES)


def maintenance(db: Session) -> Maintenance | None:
    """Return since when nothing starts, and why; None if jobs may start."""
    text = setting_rows.under(db, _MAINTENANCE).get(_MAINTENANCE)
    return None if text is None else msgspec.json.decode(text, type=Maintenance)
