"""Settings: what operators decided, for every process."""

from typing import Final

from penstock.engine.admission.board import Board
from penstock.engine.transactions import Transactions
from penstock.errors import InvalidError
from penstock.store import settings as setting_rows
from penstock.store.session import Locks

MAX_NAME: Final = 512


class SettingVerbs(Transactions):
    def settings(self, prefix: str = "") -> dict[str, str]:
        """Return the settings whose names begin with *prefix*."""
        return self.store.read(lambda db: setting_rows.under(db, prefix))

    def set_setting(self, name: str, value: str | None) -> None:
        """Store a setting, for every process; None deletes it."""
        if not name or len(name) > MAX_NAME or "\0" in name or "\0" in (value or ""):
            raise InvalidError("name", f"must be 1 to {MAX_NAME} characters without NUL")

        def work(board: Board) -> None:
            if value is None:
                setting_rows.delete(board.db, name)
            else:
                setting_rows.put(board.db, name, value, board.now)

        self._write(work, Locks.NONE)
