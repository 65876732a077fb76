"""Settings: what operators decided, for every process."""

from penstock.engine import operating
from penstock.engine.transactions import Transactions
from penstock.store import settings as setting_rows
from penstock.store.session import Hold


class SettingVerbs(Transactions):
    def settings(self, prefix: str = "") -> dict[str, str]:
        """Return the settings whose names begin with *prefix*."""
        return self.store.read(lambda db: setting_rows.under(db, prefix))

    def set_setting(self, name: str, value: str | None) -> None:
        """Keep a setting, for every process; None forgets it."""
        self._write(lambda board: operating.set_setting(board, name, value), Hold.NOTHING)
