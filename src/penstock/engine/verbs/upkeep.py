"""Do what is due, delete what is old, find what is wrong."""

from penstock.engine import doctor
from penstock.engine.board import Board
from penstock.engine.transactions import Transactions
from penstock.engine.upkeep import BATCH, bring_up_to_date, prune, sweep
from penstock.store import prune as prune_rows
from penstock.store.session import Hold


class UpkeepVerbs(Transactions):
    def upkeep(self) -> dict[str, int]:
        """Rescue, expire, wake and sweep what is due, a bounded amount; claims do the first three too."""

        def work(board: Board) -> dict[str, int]:
            board.now += self._time.follow(board.db)
            return bring_up_to_date(board)

        done = self._write(work, keep=False)
        self._swept, swept = self._write(lambda board: sweep(board, self._swept), keep=False)
        return done | swept

    def prune(self, older_than: int, most: int | None = None) -> int:
        """Delete jobs that ended before then, in small batches; return how many."""
        total = 0
        while True:
            step = self._write(lambda board: prune(board, older_than, BATCH), Hold.NOTHING)
            total += step
            if step < BATCH or (most is not None and total >= most):
                return total

    def reset(self) -> None:
        """Delete everything: for tests."""
        self._write(lambda board: prune_rows.everything(board.db), Hold.RULES)
        self._gated = self._swept = 0

    def doctor(self) -> list[str]:
        """Recompute every counter; return what is not as it should be.

        Raises `StoreDamagedError` if the database itself is damaged: what is counted in it then says nothing.
        """
        self.store.examine()
        return self._read(doctor.examine)

    def advice(self) -> list[str]:
        """Return what somebody should look after in the database, though nothing is wrong with the jobs."""
        return self.store.advice()
