"""Schedules: what to enqueue again and again."""

from penstock.engine import schedules
from penstock.engine.transactions import Transactions
from penstock.job import Schedule
from penstock.store.session import Hold


class ScheduleVerbs(Transactions):
    def set_schedule(self, schedule: Schedule) -> Schedule:
        """Add a schedule, or replace the one of its name; return it with its next moment."""
        wanted = schedules.checked(schedule)
        return self._write(lambda board: schedules.put(board, wanted), Hold.NOTHING)

    def schedules(
        self, tenant: str | None = None, offset: int = 0, limit: int = 50
    ) -> tuple[list[Schedule], int]:
        """Return a page of schedules by name, of one tenant or of all, and how many there are."""
        return self.store.read(lambda db: schedules.page(db, tenant, offset, limit))

    def schedule(self, name: str, tenant: str = "") -> Schedule:
        """Return one schedule."""
        return self.store.read(lambda db: schedules.get(db, name, tenant))

    def pause_schedule(self, name: str, tenant: str = "") -> Schedule:
        """Let a schedule fire no more."""
        return self._write(lambda board: schedules.pause(board, name, tenant), Hold.NOTHING)

    def resume_schedule(self, name: str, tenant: str = "") -> Schedule:
        """Let a schedule fire again, from its next moment on."""
        return self._write(lambda board: schedules.resume(board, name, tenant), Hold.NOTHING)

    def delete_schedule(self, name: str, tenant: str = "") -> None:
        """Delete a schedule; its jobs stay."""
        self._write(lambda board: schedules.delete(board, name, tenant), Hold.NOTHING)
